"""The options of all commands: which project they read, and how. As in dbt, they go before or after the command."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ..util.log_lines import log_line
from ..util.platforms import unsupported_system_message
from ..util.redaction import without_secrets
from .interrupts import exiting_without_trace
from .project import DbtProject, ProjectError, raising_project_errors

_FOLDER = click.Path(file_okay=False, path_type=Path)
_OPTIONS: tuple[tuple[str, str, Any, str | None, str], ...] = (
    (
        "--project-dir",
        "folder",
        _FOLDER,
        "PROJECT_DIR",
        "The folder with dbt_project.yml. Default: this one.",
    ),
    (
        "--profiles-dir",
        "profiles",
        _FOLDER,
        "PROFILES_DIR",
        "The folder with profiles.yml. Default: as dbt finds it.",
    ),
    ("--profile", "profile", str, "PROFILE", "The profile to use instead of the project's."),
    ("--target", "target", str, "TARGET", "The target of the profile."),
    ("--vars", "variables", str, None, "dbt's --vars: a YAML mapping."),
    (
        "--threads",
        "threads",
        click.IntRange(min=1),
        None,
        "Models that are built at once. Default: as in the profile.",
    ),
    (
        "--log-format",
        "log_format",
        click.Choice(("default", "text", "json", "debug"), case_sensitive=False),
        "LOG_FORMAT",
        "How lines of a run are printed, as in dbt.",
    ),
    ("--quiet", "quiet", bool, "QUIET", "Print results and errors only."),
)
"""Each option, its field of `DbtProject`, its type, its environment variable without dbt's prefix, and its help."""
_SHORT = {"--target": "-t", "--quiet": "-q"}
_METAVARS = {"--project-dir": "DIR", "--profiles-dir": "DIR", "--threads": "NUMBER"}
"""Names of values in help texts, where click's own name of the type says less."""
_PREFIXES = ("DBT_ENGINE_", "DBT_")


def _project_of_folder() -> DbtProject:
    """Returns the project of this folder, or of the nearest one above it, as dbt finds it."""
    try:
        folders = (Path("."), *Path.cwd().parents)
    except FileNotFoundError:
        raise click.UsageError(
            "The current folder was deleted, and dbt needs one: go to another folder."
        ) from None
    # Unlike `Path.is_file`, this doesn't raise for a folder that may not be read.
    found = next((each for each in folders if os.path.isfile(each / "dbt_project.yml")), Path("."))
    return DbtProject(found, None, None, None, None)


def _project_options(is_main: bool) -> Iterator[click.Option]:
    """Yields the options.

    Args:
        is_main: whether they are for ``dbt-stream`` itself, which shows them in its help and reads environment variables.
    """
    for name, field, kind, variable, text in _OPTIONS:

        def set_field(context: click.Context, _: click.Parameter, value: Any, field: str = field) -> None:
            if value is not None and value is not False:
                context.obj = replace(context.obj or _project_of_folder(), **{field: value})

        yield click.Option(
            # The prefix keeps it apart from a command's own: `state clone` has an option with the field `target`, too.
            [name, *([_SHORT[name]] if name in _SHORT else []), f"project_{field}"],
            type=kind,
            metavar=_METAVARS.get(name),
            is_flag=kind is bool,
            envvar=[f"{prefix}{variable}" for prefix in _PREFIXES] if is_main and variable else None,
            expose_value=False,
            callback=set_field,
            help=text,
            hidden=not is_main,
        )


class ProjectCommand(click.Command):
    """A command of ``dbt-stream``."""

    is_main = False

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.params += _project_options(self.is_main)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as problem:
            # Users often type the name of a model here.
            takes_none = not any(isinstance(each, click.Argument) for each in self.params)
            if takes_none and "unexpected extra argument" in problem.message and _has_select_option(self):
                message = f"{problem.message}. Select models with --select, as in dbt."
                raise click.UsageError(message, ctx) from None
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """See `click.Command.invoke`. Prints a `ProjectError` as a line and exits with code 2."""
        ctx.obj = ctx.obj or _project_of_folder()
        _accept_any_text()
        try:
            if why := unsupported_system_message():
                raise ProjectError(why)
            with raising_project_errors(), exiting_without_trace():
                return super().invoke(ctx)
        except ProjectError as problem:
            text = without_heading(without_secrets(problem))
            line = log_line(f"Error: {text}", ctx.obj.logs_json, "error")
            click.echo(line, err=True)
            sys.exit(2)


def _accept_any_text() -> None:
    """Makes the output replace characters that its encoding lacks, as ISO-8859-1 lacks arrows, where Python would raise."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def without_heading(text: str) -> str:
    """Returns a message without dbt's heading. A model and a file in the heading become the start of the sentence.

    >>> without_heading("Runtime Error\\n  it is wrong.")
    'it is wrong.'
    >>> without_heading("Compilation Error in model m (models/m.sql)\\n  'confg' is undefined.")
    "Model m (models/m.sql): 'confg' is undefined."
    >>> without_heading("Runtime Error\\n  Runtime Error in model m (models/m.sql)\\n  Model m: it is wrong.")
    'Model m (models/m.sql): it is wrong.'
    """
    heading = re.match(r"\w+ Error(?: in (\w+) (\S+) (\(.*\)))?\n\s*", text)
    if heading is None:
        return text
    rest = text[heading.end() :]
    kind, name, file = heading.groups()
    if name is None:
        return without_heading(rest)
    node = f"{kind.capitalize()} {name}"
    return f"{node} {file}: {rest.removeprefix(f'{node}: ')}"


def _has_select_option(command: click.Command) -> bool:
    return any("--select" in each.opts for each in command.params)


class ProjectGroup(ProjectCommand, click.Group):
    """Commands of ``dbt-stream`` under one name."""

    command_class = ProjectCommand


ProjectGroup.group_class = ProjectGroup


class Main(ProjectGroup):
    """``dbt-stream`` itself."""

    is_main = True
