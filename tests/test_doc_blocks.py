"""The docs' other blocks: each command line is one that its program takes, each YAML is one that dbt and this adapter take.

Queries and their rows are tested by `test_docs.py`, the tutorial with all that it prints by
`functional/models/test_tutorial.py`.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner
from dbt.cli.main import cli as dbt
from jsonschema import Draft7Validator

from dbt.adapters.spark_streaming.cli.commands import main as dbt_stream
from dbt.adapters.spark_streaming.credentials import SparkStreamingCredentials
from dbt.adapters.spark_streaming.project import stream_config
from dbt.adapters.spark_streaming.project.model_configs import MATERIALIZATIONS
from dbt.adapters.spark_streaming.sources import profile_connections
from dbt.adapters.spark_streaming.sources.stream_source import DeclaredSource
from dbt.adapters.spark_streaming.stream.common.lookup_source import LookupSource
from tests.reference_pages import ROOT, SCHEMAS
from tests.test_docs import PAGES

BLOCK = re.compile(
    r'^(?P<indent> *)```(?P<language>\w*)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^ *```',
    re.DOTALL | re.MULTILINE,
)
LANGUAGES = {"", "bash", "ini", "json", "sql", "text", "yaml"}
OF_THE_SHELL = {"cd", "git", "mkdir", "pip", "python", "python3", ".", "./cluster"}
"""Programs whose command lines are only read by the shell here."""
ENV_VAR = re.compile(r"\{\{ *env_var\('\w+'\) *\}\}")


def blocks(language: str) -> list[Any]:
    found = []
    for page in PAGES:
        for number, block in enumerate(BLOCK.finditer(page.read_text()), 1):
            if block["language"] == language:
                name = f"{page.relative_to(ROOT)}-{number}"
                found.append(pytest.param(textwrap.dedent(block["text"]), id=name))
    return found


def test_each_block_is_of_a_language_that_a_test_reads() -> None:
    found = {block["language"] for page in PAGES for block in BLOCK.finditer(page.read_text())}
    assert found <= LANGUAGES


# Commands


def command_lines(script: str) -> Iterator[list[str]]:
    """Yields the commands of a script, as words."""
    for line in script.splitlines():
        words = shlex.split(line, comments=True)
        command: list[str] = []
        for word in words:
            if word in ("&&", "|", ";"):
                yield command
                command = []
            else:
                command.append(word)
        if command:
            yield command


def check_click(program: click.Command, words: Sequence[str]) -> None:
    """Has a program parse a command line, without running it."""
    context = program.make_context(program.name or "", [*words])
    while isinstance(program, click.Group):
        rest = [*context._protected_args, *context.args]
        name, found, rest = program.resolve_command(context, rest)
        assert found is not None and name is not None
        program, context = found, found.make_context(name, rest, parent=context)


def check_command(words: Sequence[str]) -> None:
    if ">" in words:
        words = words[: words.index(">")]
    program, *rest = words
    if program == "uv":
        assert rest.pop(0) == "run"
        if rest[0] == "--group":
            rest = rest[2:]
        check_command(["bench", *rest[1:]] if rest[0] == "python" else rest)
    elif program == "bench":
        code = (ROOT / rest[0]).read_text()
        if "from day import" in code:
            code += (ROOT / "bench/day.py").read_text()
        assert [each for each in rest if each.startswith("--") and f'"{each}"' not in code] == []
    elif program == "pytest":
        assert all((ROOT / each).exists() for each in rest)
    elif program == "dbt-stream":
        check_click(dbt_stream, rest)
    elif program == "dbt":
        check_click(dbt, rest)
    else:
        assert program in OF_THE_SHELL, program


@pytest.mark.parametrize("script", blocks("bash"))
def test_each_command_is_one_that_its_program_takes(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    (tmp_path / "spend.sql").touch()
    (tmp_path / "path/to/prod/target").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "profiles.yml").touch()  # without one, dbt asks for the folder ~/.dbt
    for words in command_lines(script):
        check_command(words)


def test_a_wrong_command_is_found() -> None:
    for line in (
        "dbt-stream status --stat",
        "dbt bild",
        "dbt-stream state shw m",
        "uv run python bench/start.py --tims 3",
    ):
        with pytest.raises((click.UsageError, AssertionError)):
            check_command(shlex.split(line))


# YAML


def schema_errors(schema: str, value: Any) -> list[str]:
    checked = Draft7Validator(json.loads((SCHEMAS / f"{schema}.json").read_text()))
    return [f"{error.json_path}: {error.message}" for error in checked.iter_errors(value)]


def check_table(source: str, table: Mapping[str, Any]) -> None:
    """Has the adapter read a table of a source."""
    config = table.get("config", {})
    meta = config.get("meta", {})
    name = f"{source}.{table['name']}"
    if "stream" in meta:
        DeclaredSource.from_config(name, name, meta["stream"], config.get("event_time"))
    if "lookup" in meta:
        LookupSource.from_config(name, name, meta["lookup"], table["name"])


def check_target(target: Mapping[str, Any]) -> None:
    """Has the adapter read a target of a profile, and dbt's own keys left out."""
    assert schema_errors("profiles", {"p": {"outputs": {"t": target}}}) == []
    own = {key: value for key, value in target.items() if key not in ("type", "threads")}
    SparkStreamingCredentials.validate(own)
    SparkStreamingCredentials.from_dict(own)


def check_yaml(found: Any) -> None:
    """Has the adapter read a block by what it is: a file of a project, or a part of one."""
    if isinstance(found, list):
        found = {"sources": [{"name": "raw", "tables": found}]}
    if "meta" in found:
        found = {"sources": [{"name": "raw", "tables": [{"name": "part", "config": found}]}]}
    kinds = {"models", "sources", "snapshots", "unit_tests"} & found.keys()
    if kinds:
        assert schema_errors("properties", found) == []
        for source in found.get("sources", ()):
            for table in source["tables"]:
                check_table(source["name"], table)
        for model in found.get("models", ()):
            config = {"materialized": "streaming_table", **model.get("config", {})}
            assert config.pop("materialized") in MATERIALIZATIONS
            stream_config.read_stream_config(config, frozenset())
    elif "profile" in found or "flags" in found:
        assert schema_errors("project", found) == []
    elif {"server_side_parameters", "storage_root", "packages"} & found.keys():
        check_target({"type": "spark_streaming", "schema": "s", **found})
    elif "jobs" in found:
        for job in found["jobs"].values():
            for step in filter(None, (each.get("run") for each in job["steps"])):
                for words in command_lines(step):
                    check_command(words)
    else:
        (profile,) = found.values()
        assert profile["target"] in profile["outputs"] if "target" in profile else True
        for target in profile["outputs"].values():
            check_target(target)


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connections that the pages name."""
    named = {"broker": {"kafka.security.protocol": "SASL_SSL"}, "crm": {"user": "shop"}}
    monkeypatch.setattr(profile_connections, "_connections", named)


@pytest.mark.usefixtures("connections")
@pytest.mark.parametrize("text", blocks("yaml"))
def test_each_yaml_is_one_that_is_taken(text: str) -> None:
    check_yaml(yaml.safe_load(ENV_VAR.sub("value", text)))


@pytest.mark.parametrize(
    "text",
    [
        "models: [{name: a, config: {watermrk: 1 minute}}]",
        "models: [{name: a, config: {changelog: maybe}}]",
        "sources: [{name: raw, tables: [{name: a, config: {meta: {stream: {format: xlsx}}}}]}]",
        "shop: {target: dev, outputs: {dev: {type: spark_streaming, schema: s, storage_rot: x}}}",
        "shop: {target: prod, outputs: {dev: {type: spark_streaming, schema: s}}}",
        "jobs: {dbt: {steps: [{run: dbt bild}]}}",
    ],
)
def test_a_wrong_yaml_is_found(text: str) -> None:
    with pytest.raises(Exception, match=r".+"):
        check_yaml(yaml.safe_load(text))


# What is printed


def test_explain_prints_what_the_reference_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lines that aren't left out (`…`), in their order."""
    page = (ROOT / "docs/reference/cli.md").read_text()
    shown = re.search(r"down to the streams:\n\n```\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("DBT_SEND_ANONYMOUS_USAGE_STATS", "false")
    done = CliRunner().invoke(
        dbt_stream, ["explain", "departures_since_midnight", "--project-dir", str(ROOT)]
    )
    assert done.exit_code == 0, done.output
    printed = iter(done.output.splitlines())
    for line in shown[1].splitlines():
        if line.strip() and "…" not in line:
            assert line.rstrip() in (each.rstrip() for each in printed), line
