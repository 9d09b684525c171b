"""``dbt-stream`` as the user of a test's project types it."""

from __future__ import annotations

from typing import Any

from click.testing import CliRunner

from dbt.adapters.spark_streaming.cli.commands import main


class Commands:
    """Commands of one group, all about the same where `about` says so."""

    group: str
    about: tuple[str, ...] = ()

    @staticmethod
    def options(project: Any) -> list[str]:
        """Which project is meant."""
        return ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]

    def command(self, project: Any, *arguments: str) -> Any:
        """What a command says, and its exit code."""
        return CliRunner().invoke(
            main, [*self.options(project), self.group, *arguments, *self.about], catch_exceptions=False
        )

    def done(self, project: Any, *arguments: str) -> str:
        """What a command says that does what it is asked."""
        done = self.command(project, *arguments)
        assert done.exit_code == 0, done.output
        return str(done.stdout)

    def refused(self, project: Any, *arguments: str) -> str:
        """What a command says that does not."""
        done = self.command(project, *arguments)
        assert done.exit_code == 2, done.output
        return str(done.stderr)
