"""``dbt-stream``: runs streaming models and maintains them. It reads the same project and profile as dbt."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial, wraps
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import Any

import click

from ..__version__ import version
from .interrupts import recording_signals, run_unless_stopped
from .multi_word_option import MultiWordOption
from .project import DbtProject, ProjectError, Selection
from .project_options import Main

Command = Callable[..., None]


class _Seconds(click.FloatRange):
    """A number of seconds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuses NaN, which is in no range and which `click.FloatRange` takes: no deadline would ever pass."""
        seconds = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"'{value}' is no number of seconds.", param, ctx)
        return seconds


def _add_selection_options(
    command: Command, what: str = "dbt's node selection. Default: all streaming models."
) -> Command:
    """Decorates a command with dbt's ``--select`` and ``--exclude``, which take several words."""

    @wraps(command)
    def with_selection(
        project: DbtProject, select: Sequence[str], exclude: Sequence[str], **others: Any
    ) -> None:
        command(project, Selection(tuple(select), tuple(exclude)), **others)

    excluding = click.option("--exclude", cls=MultiWordOption, help="What to leave out, as in dbt.")
    selecting = click.option("--select", "-s", cls=MultiWordOption, help=what)
    return click.pass_obj(selecting(excluding(with_selection)))


def _add_models_argument(command: Command) -> Command:
    """Decorates a command with arguments MODEL …, or ``--select`` and ``--exclude`` instead.

    The command gets the names of the models, and whether there may be several.
    """

    @wraps(command)
    def with_names(project: DbtProject, selection: Selection, models: Sequence[str], **others: Any) -> None:
        is_selected = selection != Selection()
        if is_selected == bool(models):
            raise click.UsageError("Name models, or select models with --select.")
        names = project.selected_names(selection) if is_selected else list(models)
        command(project, names, is_selected or len(names) > 1, **others)

    selecting = _add_selection_options(with_names, "dbt's node selection, instead of MODEL.")
    return click.argument("models", metavar="MODEL...", nargs=-1)(selecting)


def _for_each_model(command: Command) -> Command:
    """Decorates a command of one model with `_add_models_argument`. It runs for each of the models, once all are known."""

    @wraps(command)
    def run_all(project: DbtProject, names: Sequence[str], has_several: bool, **options: Any) -> None:
        project.check_models(names)
        for name in names:
            command(project, name, **options)

    return _add_models_argument(run_all)


def _model_argument(name: str | None = None, optional: bool = False) -> Callable[[Command], Command]:
    """Returns a decorator for a command with an argument MODEL, or ``--select`` of one model instead.

    Args:
        name: a second argument, if there is one.
        optional: whether the second argument may be left out.
    """
    arguments = ["model", *([name] if name else [])]

    def decorated(command: Command) -> Command:
        @wraps(command)
        def with_name(project: DbtProject, words: Sequence[str], select: str | None, **options: Any) -> None:
            values = list(words)
            if select is not None:
                if not select.strip():
                    raise click.UsageError("--select is empty; name a model, or select one.")
                names = project.selected_names(Selection((*select.split(),)))
                if len(names) > 1:
                    raise ProjectError(
                        f"{select} selects {len(names)} models, and this is for one at a time: {', '.join(names)}."
                    )
                values = [*names, *values]
            if not values:
                raise click.UsageError("Name a model, or select one with --select.")
            if len(values) < len(arguments) and not optional:
                raise click.UsageError(f"Missing argument '{arguments[-1].upper()}'.")
            if len(values) > len(arguments):
                raise click.UsageError(f"Got unexpected extra argument ({values[-1]}).")
            command(project, **dict(zip_longest(arguments, values)), **options)

        selecting = click.option("--select", "-s", help="dbt's node selection, instead of MODEL.")(with_name)
        second = f"[{name.upper()}]" if name and optional else (name or "").upper()
        return click.pass_obj(click.argument("words", metavar=f"MODEL {second}".strip(), nargs=-1)(selecting))

    return decorated


@click.group(cls=Main, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version, package_name="dbt-spark-streaming")
def main() -> None:
    """Run the streaming models of a dbt project, and maintain them."""


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--sql", is_flag=True, help="Print the SQL of a micro-batch, too.")
@_add_models_argument
def explain(project: DbtProject, names: Sequence[str], has_several: bool, as_json: bool, sql: bool) -> None:
    """Show the plan of MODEL: its operators and their state. Spark is not started."""
    from .explain import explain_node, plan_as_json, print_plan

    plans = (explain_node(*project.compile_with_relations(name)) for name in names)
    if as_json:
        found = [plan_as_json(each) for each in plans]
        _print_json(found if has_several else found[0])
    else:
        for each in plans:
            print_plan(each, sql)


@main.command()
@click.option(
    "--state", "by_part", is_flag=True, help="Also what the last micro-batch did with each part of the state."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_add_selection_options
def status(project: DbtProject, selection: Selection, by_part: bool, as_json: bool) -> None:
    """Show the state and the progress of each model. Spark is not started."""
    from .status import collect_status, print_state_activity, print_status

    found = collect_status(project, selection)
    if as_json:
        _print_json(found)
    else:
        print_status(found, selection)
        if by_part:
            print_state_activity(found)


@main.command()
@click.option(
    "--every",
    metavar="INTERVAL",
    default="1 second",
    show_default=True,
    help="Interval between micro-batches of models whose trigger is 'available_now'.",
)
@click.option(
    "--max-restarts",
    type=click.IntRange(min=0),
    metavar="NUMBER",
    help="Give up on a model after so many failures in a row. Default: never.",
)
@click.option("--fail-fast", "-x", is_flag=True, help="End all models when the first one fails for good.")
@_add_selection_options
def run(
    project: DbtProject, selection: Selection, every: str, max_restarts: int | None, fail_fast: bool
) -> None:
    """Keep models up to date until Ctrl-C. Each is started and restarted on its own."""
    with recording_signals() as signals:
        # The import takes seconds on a busy machine.
        imported = partial(import_module, f"{__package__}.run")
        run_unless_stopped(imported, signals, project.logs_json, project.quiet)
        from ..service.restart_policy import RestartPolicy
        from .run import run_models

        policy = RestartPolicy(max_restarts=max_restarts)
        if not run_models(project, selection, every, policy, fail_fast=fail_fast, signals=signals):
            sys.exit(1)


@main.command()
@click.option(
    "--timeout",
    type=_Seconds(min=0),
    metavar="SECONDS",
    default=60,
    show_default=True,
    help="Seconds to wait for the end.",
)
@_for_each_model
def stop(project: DbtProject, name: str, timeout: float) -> None:
    """Stop a run of MODEL in another process. It ends after its current micro-batch."""
    from .stop import stop_model

    click.echo(stop_model(project, name, timeout))


@main.command()
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@_for_each_model
def reset(project: DbtProject, model: str, yes: bool) -> None:
    """Delete table, state and offsets of MODEL. The next run starts from its sources' beginning."""
    from .stop import reset_model

    if not yes:
        table = project.table_of(model)
        click.confirm(f"Drop {table}, the table of {model}, its state and its checkpoint?", abort=True)
    click.echo(reset_model(project, model))


@main.command()
@click.option(
    "--older-than",
    metavar="INTERVAL",
    default="3 days",
    show_default=True,
    help="Minimum age of files in the folders of tables: another process may be writing to a model's table.",
)
@click.option(
    "--dropped", is_flag=True, help="Also list what is left of models whose table is gone; --yes removes it."
)
@click.option("--dry-run", is_flag=True, help="List what would be removed, and remove nothing.")
@click.option("--yes", "-y", is_flag=True, help="With --dropped: remove what is listed.")
@_add_selection_options
def clean(project: DbtProject, selection: Selection, **options: Any) -> None:
    """Remove files that killed runs have left. Models that are running are skipped."""
    from .clean import clean_models

    for line in clean_models(project, selection, **options):
        click.echo(line)


@main.command()
@_for_each_model
def flush(project: DbtProject, name: str) -> None:
    """Close all open windows of MODEL now. Their results are written; rows that come later for them are dropped as late."""
    from .flush import flush_model

    click.echo(flush_model(project, name))


@main.command()
@click.option(
    "--start", type=click.DateTime(), metavar="TIMESTAMP", required=True, help="The first instant, in UTC."
)
@click.option(
    "--end",
    type=click.DateTime(),
    metavar="TIMESTAMP",
    required=True,
    help="The instant after the last one, in UTC.",
)
@click.option("--yes", "-y", is_flag=True, help="Don't ask if streams that read MODEL would stop.")
@_for_each_model
def backfill(project: DbtProject, model: str, start: datetime, end: datetime, yes: bool) -> None:
    """Recompute closed windows of MODEL. It reads the sources again; the state stays as it is."""
    from .backfill import backfill_model, stopped_readers_sentence

    if not yes and (readers := stopped_readers_sentence(project, model)) is not None:
        click.confirm(f"{readers}\nBackfill {model}?", abort=True)
    click.echo(backfill_model(project, model, start, end))


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_add_models_argument
def verify(project: DbtProject, names: Sequence[str], has_several: bool, as_json: bool) -> None:
    """Compare the table of MODEL with a batch run. The batch run has the same query and input; nothing is changed."""
    from .verify import print_verified, verify_model

    found = []
    for name in names:
        found.append(verify_model(project, name))
        if not as_json:
            print_verified(found[-1])
    if as_json:
        _print_json(found if has_several else found[0])
    if not all(each["equal"] for each in found):
        sys.exit(1)


@main.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Overwrite files in FOLDER.")
def translate(file: Path, folder: Path | None, force: bool) -> None:
    """Write a script of Flink SQL as a dbt project. FILE is the script, FOLDER the project; what has no
    translation is listed.
    """
    from .translate import translate_file

    for line in translate_file(file, folder, force):
        click.echo(line)


@main.command()
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path), default="web_orders")
def demo(folder: Path) -> None:
    """Make a dbt project that runs, in DIR (web_orders)."""
    from .demo import make_demo

    click.echo(make_demo(folder))


@main.command()
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path), default="schemas")
def schemas(folder: Path) -> None:
    """Write JSON schemas for editors to DIR (schemas)."""
    from .schemas import write_schemas

    for line in write_schemas(folder):
        click.echo(line)


@main.group()
def state() -> None:
    """Show, compare, save, restore and edit the state of a model."""


@state.command("show")
@click.option(
    "--sample", type=click.IntRange(min=0), metavar="NUMBER", default=0, help="Rows to show of each part."
)
@click.option(
    "--key", "keys", multiple=True, help="Only rows with this value: COLUMN=VALUE. May be repeated."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_model_argument()
def show_state(project: DbtProject, model: str, sample: int, keys: Sequence[str], as_json: bool) -> None:
    """Show the parts of a state: columns, rows, bytes, files, age."""
    from .state import inspect_state, print_state

    found = inspect_state(project, model, sample, keys)
    _print_result(found, as_json, print_state)


@state.command("diff")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_model_argument()
def diff_state(project: DbtProject, model: str, as_json: bool) -> None:
    """Show what an edited query does to the state. What is kept, new and removed, or why the next
    run of MODEL would stop.
    """
    from .state import print_diff, state_diff

    found = state_diff(project, model)
    _print_result(found, as_json, print_diff)


@state.command("savepoint")
@click.option("--list", "listing", is_flag=True, help="List the savepoints, as without a name.")
@click.option("--delete", "gone", metavar="NAME", help="Delete a savepoint.")
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
@_model_argument("name", optional=True)
def savepoint(
    project: DbtProject, model: str, name: str | None, listing: bool, gone: str | None, as_json: bool
) -> None:
    """Save MODEL under a NAME, or list its savepoints. State, table, changelog, and how far it has read are kept."""
    from . import savepoints

    if sum((name is not None, listing, gone is not None)) > 1:
        raise ProjectError(
            "A name takes a savepoint, --list lists them, --delete NAME deletes one; give one of them."
        )
    if name is not None:
        click.echo(savepoints.take_savepoint(project, model, name))
    elif gone is not None:
        click.echo(savepoints.delete_savepoint(project, model, gone))
    else:
        found = savepoints.list_savepoints(project, model)
        _print_result(found, as_json, partial(savepoints.print_savepoints, model))


@state.command("restore")
@_model_argument("name")
def restore_state(project: DbtProject, model: str, name: str) -> None:
    """Restore MODEL from its savepoint NAME. The next run reads again what came since."""
    from .savepoints import restore_savepoint

    click.echo(restore_savepoint(project, model, name))


@state.command("clone")
@click.option("--from", "original", metavar="MODEL", help="The model of the project to copy. Default: MODEL.")
@click.option(
    "--from-target", "target", help="The profile's target of the model to copy. Default: the current target."
)
@click.option("--savepoint", help="The savepoint to copy. Default: the current state.")
@_model_argument()
def clone_state(project: DbtProject, model: str, **options: str | None) -> None:
    """Start MODEL from a copy of another model. State, rows and offsets are copied; MODEL must be empty."""
    from .clone import clone_model

    click.echo(clone_model(project, model, **options))


@state.command("bootstrap")
@click.option(
    "--from",
    "table",
    metavar="TABLE",
    required=True,
    help="An Iceberg table with the columns of the model's stream.",
)
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@_model_argument()
def bootstrap(project: DbtProject, model: str, table: str, yes: bool) -> None:
    """Rebuild MODEL from the rows of a table. It continues at the current offset of its source."""
    from .state import bootstrap_model

    if not yes:
        target = project.table_of(model)
        click.confirm(f"Drop {target}, the table of {model}, its state and its checkpoint first?", abort=True)
    click.echo(bootstrap_model(project, model, table))


@state.command("edit")
@click.option(
    "--sql",
    "statement",
    metavar="STATEMENT",
    help="DELETE, UPDATE or INSERT of rows of state; or a SELECT that gives all of its rows.",
)
@click.option(
    "--from",
    "source",
    metavar="FILE_OR_TABLE",
    help="A CSV or Parquet file or a relation, which --sql reads as new_rows. Without --sql its rows are added.",
)
@click.option("--dry-run", "dry", is_flag=True, help="Say what would change, and change nothing.")
@_model_argument()
def edit_state(project: DbtProject, model: str, statement: str | None, source: str | None, dry: bool) -> None:
    """Change rows of the state of MODEL. It is one commit, which `state undo` reverts."""
    from .state import edit_model_state

    click.echo(edit_model_state(project, model, statement, source, dry))


@state.command("undo")
@_model_argument()
def undo(project: DbtProject, model: str) -> None:
    """Revert the last edit, restore or migration of MODEL."""
    from .savepoints import restore_savepoint

    click.echo(restore_savepoint(project, model, None))


@main.group()
def deploy() -> None:
    """Build a new version of a model and swap it in (blue/green)."""


@deploy.command("init")
@click.option(
    "--full-refresh", "-f", "restart", is_flag=True, help="Rebuild the new version from the beginning."
)
@_model_argument()
def deploy_init(project: DbtProject, model: str, restart: bool) -> None:
    """Build a new version of MODEL, or continue it. It starts from its sources' beginning, next to the old one."""
    from .deploy import init_deployment

    click.echo(init_deployment(project, model, restart))


@deploy.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_model_argument()
def deploy_status(project: DbtProject, model: str, as_json: bool) -> None:
    """Show how far both versions of MODEL are."""
    from .deploy import deployment_status, progress_sentences

    found = deployment_status(project, model)
    _print_result(found, as_json, lambda each: click.echo(progress_sentences(each)))


@deploy.command("await")
@_model_argument()
def deploy_await(project: DbtProject, model: str) -> None:
    """Run the new version of MODEL until it has caught up. It has then read all that the old one has."""
    from .deploy import await_deployment

    click.echo(await_deployment(project, model))


@deploy.command("promote")
@click.option("--force", is_flag=True, help="Promote even if the old version has read more.")
@_model_argument()
def deploy_promote(project: DbtProject, model: str, force: bool) -> None:
    """Give the new version the name of MODEL. The old one is kept until `deploy cleanup`."""
    from .deploy import promote

    click.echo(promote(project, model, force))


@deploy.command("rollback")
@_model_argument()
def deploy_rollback(project: DbtProject, model: str) -> None:
    """Give the old version of MODEL its name again."""
    from .deploy import roll_back

    click.echo(roll_back(project, model))


@deploy.command("cleanup")
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@_model_argument()
def deploy_cleanup(project: DbtProject, model: str, yes: bool) -> None:
    """Drop the other version of MODEL. That is the old one after `deploy promote`, else the new one."""
    from .deploy import clean_up, table_of_other_version

    if not yes and (table := table_of_other_version(project, model)) is not None:
        click.confirm(
            f"Drop {table}, the other version of {model}, its state and its checkpoint?", abort=True
        )
    click.echo(clean_up(project, model))


def _print_result(found: Any, as_json: bool, show: Callable[[Any], None]) -> None:
    if as_json:
        _print_json(found)
    else:
        show(found)


def _print_json(value: Any) -> None:
    click.echo(json.dumps(_json_value(value), indent=2, default=str))


def _json_value(value: Any) -> Any:
    """Returns a value with text for what JSON lacks: NaN, Infinity, and names that aren't text."""
    if isinstance(value, Mapping):
        return {str(name): _json_value(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [*map(_json_value, value)]
    return json.dumps(value) if isinstance(value, float) and not math.isfinite(value) else value
