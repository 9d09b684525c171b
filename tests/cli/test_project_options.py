"""Which project a command is for is said before or after it, or by the environment."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from dbt.adapters.spark_streaming.cli import project as project_module
from dbt.adapters.spark_streaming.cli.commands import main
from dbt.adapters.spark_streaming.cli.project import DbtProject


@pytest.fixture
def of_status(monkeypatch: pytest.MonkeyPatch) -> list[DbtProject]:
    """The project of each `dbt-stream status`, which shows nothing."""
    found: list[DbtProject] = []

    def note(project: DbtProject, _: object) -> list[object]:
        found.append(project)
        return []

    monkeypatch.setattr("dbt.adapters.spark_streaming.cli.status.collect", note)
    return found


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        (["status"], (".", None, None, None)),
        (["--target", "a", "status"], (".", "a", None, None)),
        (["status", "--target", "b"], (".", "b", None, None)),
        (["-t", "a", "status", "-t", "b"], (".", "b", None, None)),
        (["status", "-s", "x", "y", "--vars", "{a: 1}", "--json"], (".", None, None, "{a: 1}")),
        (["--profile", "p", "status", "--project-dir", "/tmp"], ("/tmp", None, "p", None)),
        (["state", "--profile", "p", "show", "x", "-t", "b"], (".", "b", "p", None)),
    ],
)
def test_the_project_is_named_before_and_after_the_command(
    arguments: list[str],
    where: tuple[str, str | None, str | None, str | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[DbtProject] = []

    def note(project: DbtProject, *_: object) -> list[object]:
        found.append(project)
        return []

    monkeypatch.setattr("dbt.adapters.spark_streaming.cli.status.collect", note)
    monkeypatch.setattr("dbt.adapters.spark_streaming.cli.state.show", note)
    monkeypatch.setattr("dbt.adapters.spark_streaming.cli.state.print_state", lambda _: None)
    monkeypatch.delenv("DBT_PROJECT_DIR", raising=False)
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    (project,) = found
    assert (str(project.folder), project.target, project.profile, project.variables) == where


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        (["status"], []),
        (["status", "--threads", "3"], ["--threads", "3"]),
        (["--log-format", "json", "status", "-q"], ["--log-format", "json", "--quiet"]),
    ],
)
def test_what_a_run_of_dbt_gets(
    arguments: list[str], passed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[list[str]] = []

    def invoke(words: list[str]) -> SimpleNamespace:
        called.append(words)
        return SimpleNamespace(exception=None, success=True, result=[])

    def collect(project: DbtProject, *_: object) -> list[object]:
        project._invoke("run", (), None, quiet=False)
        project._invoke("parse", (), None, quiet=False)
        return []

    monkeypatch.setattr(project_module, "_runner", lambda *_: SimpleNamespace(invoke=invoke))
    monkeypatch.setattr("dbt.adapters.spark_streaming.cli.status.collect", collect)
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    run, parse = called
    assert [word for word in run if word in passed] == passed
    assert len(run) == 3 + len(passed)
    assert "--threads" not in parse


@pytest.mark.parametrize("prefix", ["DBT_", "DBT_ENGINE_"])
def test_the_environment_names_profile_target_and_output_as_for_dbt(
    prefix: str, of_status: list[DbtProject]
) -> None:
    values = {"PROFILE": "p", "TARGET": "prod", "LOG_FORMAT": "json", "QUIET": "1"}
    CliRunner().invoke(main, ["status"], env={f"{prefix}{name}": value for name, value in values.items()})
    (project,) = of_status
    assert (project.profile, project.target, project.log_format, project.quiet) == ("p", "prod", "json", True)


def test_environment_variables_name_the_project_unless_an_option_does(of_status: list[DbtProject]) -> None:
    for arguments in (["status"], ["status", "--project-dir", "/tmp"]):
        CliRunner().invoke(main, arguments, env={"DBT_PROJECT_DIR": "/usr"})
    assert [str(each.folder) for each in of_status] == ["/usr", "/tmp"]
