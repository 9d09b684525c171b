"""The commands of ``dbt-stream`` for `dbt run-operation`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import yaml
from dbt.adapters.base import available
from dbt.adapters.base.meta import AdapterMeta
from dbt_common.exceptions import DbtRuntimeError

_MAIN = "from dbt.adapters.spark_streaming.cli.commands import main; main(prog_name='dbt-stream')"


class OperationMethods(metaclass=AdapterMeta):
    """Method of the adapter that macros/operations calls."""

    @available.parse(lambda *arguments, **named: "")
    def dbt_stream(self, command: str, arguments: Sequence[object] = ()) -> str:
        """Runs a command of ``dbt-stream`` for this project and target, and returns its output.

        It runs in a separate process, because it invokes dbt, and dbt can only run once at a time in a process."""
        config: Any = self.config  # type: ignore[attr-defined]
        variables = _dbt_flag(config.args, "vars")
        options = {
            "--project-dir": config.project_root,
            "--profiles-dir": _dbt_flag(config.args, "profiles_dir"),
            "--profile": config.profile_name,
            "--target": config.target_name,
            "--vars": yaml.safe_dump(variables) if variables else None,
            # Its messages become those of this process, which has its own format.
            "--log-format": "text",
        }
        given = [str(word) for name, value in options.items() if value for word in (name, value)]
        done = subprocess.run(
            [sys.executable, "-c", _MAIN, *given, command, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )
        if done.returncode != 0:
            # `verify` prints differences to stdout and exits with an error code.
            said = done.stderr.strip() or done.stdout.strip()
            problem = said.removeprefix("Error: ").removeprefix("Runtime Error").strip()
            raise DbtRuntimeError(problem or f"dbt-stream {command} failed.")
        return done.stdout.rstrip()


def _dbt_flag(arguments: Any, name: str) -> Any:
    return getattr(arguments, name.upper(), None) or getattr(arguments, name, None)
