"""The commands of `dbt-stream` for `dbt run-operation`: what each macro has the command line do."""

from __future__ import annotations

import re
import subprocess
from datetime import date
from types import SimpleNamespace
from typing import Any

import click
import pytest
import yaml
from dbt.tests.util import run_dbt, run_dbt_and_capture

from dbt.adapters.spark_streaming.cli.commands import main
from dbt.adapters.spark_streaming.methods import operations

CALLS = {
    "status()": "status",
    "status(select=['a', 'b'], exclude='c')": "status --select a b --exclude c",
    "clean()": "clean --older-than '3 days'",
    "clean('1 day', true, true, select='a')": "clean --older-than '1 day' --dropped --dry-run --select a",
    "flush('m')": "flush m",
    "verify('m')": "verify m",
    "stop('m')": "stop m --timeout 60",
    "reset('m')": "reset m --yes",
    "state_show('m')": "state show m --sample 0",
    "state_show('m', 2, ['k=1', 'l=2'])": "state show m --sample 2 --key k=1 --key l=2",
    "state_show('m', keys='k=1')": "state show m --sample 0 --key k=1",
    "state_diff('m')": "state diff m",
    "state_savepoint('m')": "state savepoint m",
    "state_savepoint('m', 'kept')": "state savepoint m kept",
    "state_savepoint('m', delete='kept')": "state savepoint m --delete kept",
    "state_restore('m', 'kept')": "state restore m kept",
    "state_undo('m')": "state undo m",
    "state_edit('m', 'delete from state', dry_run=true)": "state edit m --sql 'delete from state' --dry-run",
    "state_edit('m', source='more.csv')": "state edit m --from more.csv",
    "state_bootstrap('m', 'history')": "state bootstrap m --from history --yes",
    "state_clone('m', 'other')": "state clone m --from other",
    "state_clone('m', source_target='prod', savepoint='kept')": "state clone m --from-target prod --savepoint kept",
    "deploy_init('m')": "deploy init m",
    "deploy_init('m', full_refresh=true)": "deploy init m --full-refresh",
    "deploy_status('m')": "deploy status m",
    "deploy_await('m')": "deploy await m",
    "deploy_promote('m')": "deploy promote m",
    "deploy_promote('m', force=true)": "deploy promote m --force",
    "deploy_rollback('m')": "deploy rollback m",
    "deploy_cleanup('m')": "deploy cleanup m --yes",
}


class TestOperations:
    @pytest.fixture(scope="class")
    def macros(self) -> dict[str, str]:
        calls = "\n".join(f"{{{{ {call} }}}}" for call in CALLS)
        return {"all.sql": f"{{% macro all() %}}\n{calls}\n{{% endmacro %}}"}

    def test_each_is_a_command(self, project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[list[str]] = []

        def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
            asked.append(command[3:])
            return subprocess.CompletedProcess(command, 0, f"answer {len(asked)}.\n", "")

        # Others start processes too.
        monkeypatch.setattr(operations, "subprocess", SimpleNamespace(run=run, DEVNULL=subprocess.DEVNULL))
        _, output = run_dbt_and_capture(["run-operation", "all", "--vars", "{a: 1, day: 2026-03-01}"])
        assert re.findall(r"answer (\d+)\.", output) == [str(number + 1) for number in range(len(CALLS))]
        variables = [yaml.safe_load(each[each.index("--vars") + 1]) for each in asked]
        assert variables == [{"a": 1, "day": date(2026, 3, 1)}] * len(CALLS)
        assert {each[each.index("--log-format") + 1] for each in asked} == {"text"}
        assert [each[each.index("--project-dir") + 1] for each in asked] == [project.project_root] * len(
            CALLS
        )
        commands = [" ".join(f"'{word}'" if " " in word else word for word in of(each)) for each in asked]
        assert commands == list(CALLS.values())

    def test_what_goes_wrong_is_told(self, project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        failed = subprocess.CompletedProcess([], 2, "", "Error: There is no streaming model 'm'.\n")
        run = SimpleNamespace(run=lambda *_, **__: failed, DEVNULL=subprocess.DEVNULL)
        monkeypatch.setattr(operations, "subprocess", run)
        _, output = run_dbt_and_capture(["run-operation", "flush", "--args", "{model: m}"], expect_pass=False)
        assert "There is no streaming model 'm'." in output

    def test_what_verify_found_is_told(self, project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        differs = subprocess.CompletedProcess([], 1, "m: its table is not what a batch run gives.\n", "")
        run = SimpleNamespace(run=lambda *_, **__: differs, DEVNULL=subprocess.DEVNULL)
        monkeypatch.setattr(operations, "subprocess", run)
        arguments = ["run-operation", "verify", "--args", "{model: m}"]
        _, output = run_dbt_and_capture(arguments, expect_pass=False)
        assert "m: its table is not what a batch run gives." in output

    @pytest.mark.thorough
    def test_one_is_left_as_it_is(self, project: Any) -> None:
        run_dbt(["run-operation", "status"])


def of(given: list[str]) -> list[str]:
    """The words from the command on, which the command line takes as they are."""
    context = main.make_context("dbt-stream", list(given), resilient_parsing=False)
    words = [*context._protected_args, *context.args]
    group: click.Command = main
    rest = list(words)
    while isinstance(group, click.Group):
        group = group.commands[rest.pop(0)]
    group.make_context("command", rest)
    return words
