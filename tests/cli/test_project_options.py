"""Which project a command is for is said before or after it, or by the environment."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from dbt.adapters.spark_streaming.cli import project as project_module
from dbt.adapters.spark_streaming.cli.commands import main
from dbt.adapters.spark_streaming.cli.project import DbtProject


def test_a_file_that_cannot_be_read_is_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as the progress of a model that another user has run."""

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/data/.spark/progress/m.json")

    monkeypatch.setattr("dbt.adapters.spark_streaming.cli.status.collect_status", refuse)
    done = CliRunner().invoke(main, ["status"])
    assert (done.exit_code, done.output) == (2, "Error: /data/.spark/progress/m.json: Permission denied.\n")


@pytest.fixture
def of_status(monkeypatch: pytest.MonkeyPatch) -> list[DbtProject]:
    """The project of each `dbt-stream status`, which shows nothing."""
    found: list[DbtProject] = []

    def note(project: DbtProject, _: object) -> list[object]:
        found.append(project)
        return []

    monkeypatch.setattr("dbt.adapters.spark_streaming.cli.status.collect_status", note)
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

    monkeypatch.setattr("dbt.adapters.spark_streaming.cli.status.collect_status", note)
    monkeypatch.setattr("dbt.adapters.spark_streaming.cli.state.inspect_state", note)
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
        project._invoke_dbt("run", (), None, quiet=False)
        project._invoke_dbt("parse", (), None, quiet=False)
        return []

    monkeypatch.setattr(project_module, "_dbt_runner", lambda *_: SimpleNamespace(invoke=invoke))
    monkeypatch.setattr("dbt.adapters.spark_streaming.cli.status.collect_status", collect)
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


@pytest.mark.parametrize("text", ["JSON", "Json"])
def test_the_log_format_is_in_any_case_as_for_dbt(text: str, of_status: list[DbtProject]) -> None:
    CliRunner().invoke(main, ["status"], env={"DBT_LOG_FORMAT": text})
    assert CliRunner().invoke(main, ["status", "--log-format", text]).exit_code == 0
    assert [each.logs_json for each in of_status] == [True, True]


def test_an_output_without_the_characters_of_a_text_gets_others(of_status: list[DbtProject]) -> None:
    """Such as that of a terminal in ISO-8859-1, which has no arrows."""
    done = CliRunner(charset="latin-1").invoke(main, ["status", "-s", "m→n"])
    assert (done.exit_code, "selected by --select m?n;" in done.output) == (0, True)


@pytest.mark.parametrize("arguments", [["status"], ["status", "--project-dir", "/tmp"]])
def test_a_deleted_folder_is_a_message(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (folder := tmp_path / "gone").mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert done.stderr.endswith(
        "Error: The current folder was deleted, and dbt needs one: go to another folder.\n"
    )


@pytest.mark.parametrize("command", [["state", "show"], ["deploy", "init"]])
def test_an_empty_selection_is_of_no_model(command: list[str]) -> None:
    """A script's variable may be empty, and a project may have one model."""
    done = CliRunner().invoke(main, [*command, "--select", " "])
    assert done.exit_code == 2
    assert done.stderr.endswith("Error: --select is empty; name a model, or select one.\n")


def test_environment_variables_name_the_project_unless_an_option_does(of_status: list[DbtProject]) -> None:
    for arguments in (["status"], ["status", "--project-dir", "/tmp"]):
        CliRunner().invoke(main, arguments, env={"DBT_PROJECT_DIR": "/usr"})
    assert [str(each.folder) for each in of_status] == ["/usr", "/tmp"]


@pytest.mark.parametrize("command", ["run", "status", "clean"])
def test_a_model_that_is_named_where_models_are_selected_is_refused_with_the_option(command: str) -> None:
    done = CliRunner().invoke(main, [command, "my_model"])
    assert done.exit_code == 2
    assert "Got unexpected extra argument (my_model). Select models with --select, as in dbt." in done.stderr


def test_the_project_is_that_of_the_nearest_folder(
    of_status: list[DbtProject], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "models" / "staging").mkdir(parents=True)
    (tmp_path / "dbt_project.yml").touch()
    monkeypatch.chdir(tmp_path / "models" / "staging")
    assert CliRunner().invoke(main, ["status"]).exit_code == 0
    assert [each.folder for each in of_status] == [tmp_path.resolve()]


def test_a_folder_without_a_project_is_said(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["status", "--project-dir", str(tmp_path)])
    assert (done.exit_code, done.stderr) == (
        2,
        f"Error: There is no dbt_project.yml in {tmp_path.resolve()}. Go to the folder of a dbt project, or name it with "
        "--project-dir.\n",
    )


@pytest.mark.parametrize("text", ["flush=true", "[1]", "{a: "])
def test_variables_that_are_no_mapping_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "dbt_project.yml").touch()
    done = CliRunner().invoke(main, ["status", "--project-dir", str(tmp_path), "--vars", text])
    assert (done.exit_code, done.stderr) == (
        2,
        f"Error: --vars: '{text}' is not a YAML mapping; write for example --vars '{{flush: true}}'.\n",
    )


def test_the_target_after_a_command_is_not_the_one_to_copy_from(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[tuple[str | None, str | None]] = []

    def note(project: DbtProject, name: str, original: str | None, target: str | None, **_: object) -> str:
        found.append((project.target, target))
        return ""

    monkeypatch.setattr("dbt.adapters.spark_streaming.cli.clone.clone_model", note)
    for words in (["--target", "dev"], ["-t", "dev"]):
        CliRunner().invoke(
            main, ["state", "clone", "m", "--from-target", "prod", *words], catch_exceptions=False
        )
    CliRunner().invoke(
        main, ["-t", "dev", "state", "clone", "m", "--from-target", "prod"], catch_exceptions=False
    )
    assert found == [("dev", "prod")] * 3
