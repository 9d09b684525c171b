"""Which project a command is for is said before or after it, or by the environment."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from dbt.adapters.spark_streaming.cli.commands import main
from dbt.adapters.spark_streaming.cli.project import DbtProject


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


def test_environment_variables_name_the_project_unless_an_option_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[DbtProject] = []

    def note(project: DbtProject, _: object) -> list[object]:
        found.append(project)
        return []

    monkeypatch.setattr("dbt.adapters.spark_streaming.cli.status.collect", note)
    for arguments in (["status"], ["status", "--project-dir", "/tmp"]):
        CliRunner().invoke(main, arguments, env={"DBT_PROJECT_DIR": "/usr"})
    assert [str(each.folder) for each in found] == ["/usr", "/tmp"]
