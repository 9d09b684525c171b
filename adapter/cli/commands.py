"""``dbt-stream``: runs streaming models and maintains them. It reads the same project and profile as dbt."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from ..__version__ import version
from ..util.redaction import without_secrets
from .interrupts import end_now, interrupts, without_trace
from .multi_word_option import MultiWordOption
from .project import DbtProject, ProjectError, Selection
from .project_options import Main

Command = Callable[..., None]


def _takes_selection(command: Command) -> Command:
    """Decorates a command with dbt's ``--select`` and ``--exclude``, which take several words."""

    def with_selection(
        project: DbtProject, select: Sequence[str], exclude: Sequence[str], **others: Any
    ) -> None:
        command(project, Selection(tuple(select), tuple(exclude)), **others)

    with_selection.__name__, with_selection.__doc__ = command.__name__, command.__doc__
    for names, what in (
        (("--exclude",), "What to leave out, as in dbt."),
        (("--select", "-s"), "dbt's node selection. Default: all streaming models."),
    ):
        option = click.option(*names, cls=MultiWordOption, help=what)
        with_selection = option(with_selection)
    return with_selection


def _takes_models(command: Command) -> Command:
    """Decorates a command with an argument MODEL, or ``--select`` and ``--exclude`` instead.

    The command gets the names of the models, and whether they were selected.
    """

    def with_names(
        project: DbtProject, model: str | None, select: Sequence[str], exclude: Sequence[str], **others: Any
    ) -> None:
        is_selected = bool(select or exclude)
        if is_selected == (model is not None):
            raise click.UsageError("Name one model, or select models with --select.")
        names = [str(model)]
        if is_selected:
            with _sentences():
                names = project.selected(Selection(tuple(select), tuple(exclude)))
        command(project, names, is_selected, **others)

    with_names.__name__, with_names.__doc__ = command.__name__, command.__doc__
    for option, what in (
        (("--exclude",), "What to leave out, as in dbt."),
        (("--select", "-s"), "dbt's node selection, instead of MODEL."),
    ):
        with_names = click.option(*option, cls=MultiWordOption, help=what)(with_names)
    return click.argument("model", required=False)(with_names)


@click.group(cls=Main, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version, package_name="dbt-spark-streaming")
def main() -> None:
    """Run the streaming models of a dbt project, and maintain them."""


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--sql/--no-sql", default=True, show_default=True, help="Print the SQL of a micro-batch, too.")
@click.pass_obj
@_takes_models
def explain(project: DbtProject, names: Sequence[str], is_selected: bool, as_json: bool, sql: bool) -> None:
    """Show the plan of MODEL: its tree of operators, their state, and the SQL of a micro-batch."""
    from .explain import as_json as plan_as_json
    from .explain import print_plan

    with _sentences():
        compiled = [project.compiled_with_known(name) for name in names]
        if as_json:
            found = [plan_as_json(*each) for each in compiled]
            _print_json(found if is_selected else found[0])
        else:
            for node, known in compiled:
                print_plan(node, known, sql)


@main.command()
@click.option(
    "--state", "by_part", is_flag=True, help="Also what the last micro-batch did with each part of the state."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
@_takes_selection
def status(project: DbtProject, selection: Selection, by_part: bool, as_json: bool) -> None:
    """Show the last progress of each model: batches, rows, watermark, lag, state."""
    from .status import collect, print_state, print_table

    with _sentences():
        found = collect(project, selection)
        if as_json:
            _print_json(found)
        else:
            print_table(found, selection)
            if by_part:
                print_state(found)


@main.command()
@click.option(
    "--every",
    default="1 second",
    show_default=True,
    help="Interval between micro-batches of models whose trigger is 'available_now'.",
)
@click.option(
    "--max-restarts",
    type=click.IntRange(min=0),
    help="Give up on a model after so many failures in a row. Default: never.",
)
@click.option("--fail-fast", "-x", is_flag=True, help="End all models when the first one fails for good.")
@click.pass_obj
@_takes_selection
def run(
    project: DbtProject, selection: Selection, every: str, max_restarts: int | None, fail_fast: bool
) -> None:
    """Keep the selected models up to date until Ctrl-C. Each is started and restarted on its own."""
    with _sentences(), interrupts() as signals:
        # The import takes seconds on a busy machine; a signal in that time ends the process at once.
        imported = threading.Thread(target=import_module, args=(f"{__package__}.run",), daemon=True)
        imported.start()
        while imported.is_alive():
            if signals:
                click.echo("stopped: before any model was up.")
                end_now(0)
            imported.join(0.05)
        from ..service.restart_policy import RestartPolicy
        from .run import run_models

        policy = RestartPolicy(max_restarts=max_restarts)
        if not run_models(
            project=project,
            selection=selection,
            every=every,
            policy=policy,
            fail_fast=fail_fast,
            signals=signals,
        ):
            sys.exit(1)


@main.command()
@click.option("--timeout", type=float, default=60, show_default=True, help="Seconds to wait for the end.")
@click.pass_obj
@_takes_models
def stop(project: DbtProject, names: Sequence[str], is_selected: bool, timeout: float) -> None:
    """Stop a run of MODEL in another process, after its current micro-batch."""
    from .stop import stop_model

    with _sentences():
        for name in names:
            click.echo(stop_model(project, name, timeout))


@main.command()
@click.argument("model")
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@click.pass_obj
def reset(project: DbtProject, model: str, yes: bool) -> None:
    """Forget MODEL: its table, its state, and how far it has read."""
    from .stop import reset_model

    with _sentences():
        if not yes:
            table = project.table_of(model)
            click.confirm(f"Drop {table}, the table of {model}, its state and its checkpoint?", abort=True)
        click.echo(reset_model(project, model))


@main.command()
@click.option(
    "--older-than",
    default="3 days",
    show_default=True,
    help="Minimum age of files in the folders of tables: another process may be writing to a model's table.",
)
@click.option(
    "--dropped", is_flag=True, help="Also list what is left of models whose table is gone; --yes removes it."
)
@click.option("--dry-run", is_flag=True, help="List what would be removed, and remove nothing.")
@click.option("--yes", "-y", is_flag=True, help="With --dropped: remove what is listed.")
@click.pass_obj
@_takes_selection
def clean(
    project: DbtProject, selection: Selection, older_than: str, dropped: bool, dry_run: bool, yes: bool
) -> None:
    """Remove files that killed runs have left behind. Models that are running are skipped."""
    from .clean import clean as clean_models

    with _sentences():
        for line in clean_models(
            project, selection, older_than=older_than, dropped=dropped, dry_run=dry_run, yes=yes
        ):
            click.echo(line)


@main.command()
@click.pass_obj
@_takes_models
def flush(project: DbtProject, names: Sequence[str], is_selected: bool) -> None:
    """Close all open windows of MODEL, as at the end of its input. Later rows for them are dropped as late."""
    from .flush import flush_model

    with _sentences():
        for name in names:
            click.echo(flush_model(project, name))


@main.command()
@click.argument("model")
@click.option("--start", type=click.DateTime(), required=True, help="The first instant, in UTC.")
@click.option("--end", type=click.DateTime(), required=True, help="The instant after the last one, in UTC.")
@click.pass_obj
def backfill(project: DbtProject, model: str, start: datetime, end: datetime) -> None:
    """Recompute closed windows of MODEL from its sources. Its state stays as it is."""
    from .backfill import backfill_model

    with _sentences():
        click.echo(backfill_model(project, model, start, end))


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
@_takes_models
def verify(project: DbtProject, names: Sequence[str], is_selected: bool, as_json: bool) -> None:
    """Compare the table of MODEL with a batch run of its text over the same input. Neither is touched."""
    from .verify import print_verified
    from .verify import verify as verify_model

    with _sentences():
        found = []
        for name in names:
            found.append(verify_model(project, name))
            if not as_json:
                print_verified(found[-1])
        if as_json:
            _print_json(found if is_selected else found[0])
    if not all(each["equal"] for each in found):
        sys.exit(1)


@main.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Overwrite files in FOLDER.")
def translate(file: Path, folder: Path | None, force: bool) -> None:
    """Write FILE, a script of Flink SQL, as a dbt project in FOLDER, and list what has no translation."""
    from .translate import translate_file

    with _sentences():
        for line in translate_file(file, folder, force):
            click.echo(line)


@main.group()
def state() -> None:
    """Inspect the state of a model, compare it with an edited query, save it, and restore it."""


@state.command("show")
@click.argument("model")
@click.option("--sample", type=click.IntRange(min=0), default=0, help="Rows to show of each part.")
@click.option(
    "--key", "keys", multiple=True, help="Only rows with this value: COLUMN=VALUE. May be repeated."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def show_state(project: DbtProject, model: str, sample: int, keys: Sequence[str], as_json: bool) -> None:
    """Show the state of MODEL: parts, columns, rows, bytes, files, age."""
    from .state import print_state, show

    with _sentences():
        found = show(project, model, sample, keys)
        if as_json:
            _print_json(found)
        else:
            print_state(found)


@state.command("diff")
@click.argument("model")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def diff_state(project: DbtProject, model: str, as_json: bool) -> None:
    """Show how the next run of MODEL would migrate its state: kept, new, removed, or why it would stop."""
    from .state import diff, print_diff

    with _sentences():
        found = diff(project, model)
        if as_json:
            _print_json(found)
        else:
            print_diff(found)


@state.command("savepoint")
@click.argument("model")
@click.argument("name", required=False)
@click.option("--list", "listing", is_flag=True, help="List the savepoints, as without a name.")
@click.option("--delete", "gone", metavar="NAME", help="Delete a savepoint.")
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
@click.pass_obj
def savepoint(
    project: DbtProject, model: str, name: str | None, listing: bool, gone: str | None, as_json: bool
) -> None:
    """Save MODEL under a NAME: state, table, changelog, and how far it has read."""
    from . import savepoints

    with _sentences():
        if sum((name is not None, listing, gone is not None)) > 1:
            raise ProjectError(
                "A name takes a savepoint, --list lists them, --delete NAME deletes one; give one of them."
            )
        if name is not None:
            click.echo(savepoints.savepoint(project, model, name))
        elif gone is not None:
            click.echo(savepoints.delete(project, model, gone))
        else:
            found = savepoints.savepoints(project, model)
            if as_json:
                _print_json(found)
            else:
                savepoints.print_savepoints(model, found)


@state.command("restore")
@click.argument("model")
@click.argument("name")
@click.pass_obj
def restore_state(project: DbtProject, model: str, name: str) -> None:
    """Restore MODEL from its savepoint NAME. The next run reads again what came since."""
    from .savepoints import restore

    with _sentences():
        click.echo(restore(project, model, name))


@state.command("clone")
@click.argument("model")
@click.option("--from", "original", metavar="MODEL", help="The model of the project to copy. Default: MODEL.")
@click.option(
    "--from-target", "target", help="The profile's target of the model to copy. Default: the current target."
)
@click.option("--savepoint", help="The savepoint to copy. Default: the current state.")
@click.pass_obj
def clone_state(
    project: DbtProject, model: str, original: str | None, target: str | None, savepoint: str | None
) -> None:
    """Start MODEL, which must be empty, from a copy of another model's state, rows and offsets."""
    from .clone import clone

    with _sentences():
        click.echo(clone(project, model, original, target, savepoint))


@state.command("bootstrap")
@click.argument("model")
@click.option(
    "--from", "table", required=True, help="An Iceberg table with the columns of the model's stream."
)
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@click.pass_obj
def bootstrap(project: DbtProject, model: str, table: str, yes: bool) -> None:
    """Rebuild MODEL from the rows of a table, and continue at the current offset of its source."""
    from .bootstrap import bootstrap as bootstrap_model

    with _sentences():
        if not yes:
            target = project.table_of(model)
            click.confirm(
                f"Drop {target}, the table of {model}, its state and its checkpoint first?", abort=True
            )
        click.echo(bootstrap_model(project, model, table))


@state.command("edit")
@click.argument("model")
@click.option(
    "--sql",
    "statement",
    help="DELETE, UPDATE or INSERT of rows of state; or a SELECT that gives all of its rows.",
)
@click.option(
    "--from",
    "source",
    help="A CSV or Parquet file or a relation, which --sql reads as new_rows. Without --sql its rows are added.",
)
@click.option("--dry-run", "dry", is_flag=True, help="Say what would change, and change nothing.")
@click.pass_obj
def edit_state(project: DbtProject, model: str, statement: str | None, source: str | None, dry: bool) -> None:
    """Change rows of the state of MODEL, in one commit that `state undo` reverts."""
    from .state_edit import edit

    with _sentences():
        click.echo(edit(project, model, statement, source, dry))


@state.command("undo")
@click.argument("model")
@click.pass_obj
def undo(project: DbtProject, model: str) -> None:
    """Revert the last edit, restore, or migration of the state of MODEL."""
    from .savepoints import restore

    with _sentences():
        click.echo(restore(project, model, None))


@main.group()
def deploy() -> None:
    """Build a new version of a model next to the old one, and swap them (blue/green)."""


@deploy.command("init")
@click.argument("model")
@click.option(
    "--full-refresh", "-f", "restart", is_flag=True, help="Rebuild the new version from the beginning."
)
@click.pass_obj
def deploy_init(project: DbtProject, model: str, restart: bool) -> None:
    """Build the new version of MODEL next to the old one, from its sources' beginning; or continue it."""
    from .deploy import init

    with _sentences():
        click.echo(init(project, model, restart))


@deploy.command("status")
@click.argument("model")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def deploy_status(project: DbtProject, model: str, as_json: bool) -> None:
    """Show the progress of the old and the new version of MODEL, and whether the new one has caught up."""
    from .deploy import status as status_of
    from .deploy import told

    with _sentences():
        found = status_of(project, model)
        if as_json:
            _print_json(found)
        else:
            click.echo(told(found))


@deploy.command("await")
@click.argument("model")
@click.pass_obj
def deploy_await(project: DbtProject, model: str) -> None:
    """Run the new version of MODEL until it has read all that the old one has."""
    from .deploy import wait

    with _sentences():
        click.echo(wait(project, model))


@deploy.command("promote")
@click.argument("model")
@click.option("--force", is_flag=True, help="Promote even if the old version has read more.")
@click.pass_obj
def deploy_promote(project: DbtProject, model: str, force: bool) -> None:
    """Give the new version the name of MODEL. The old one is kept until `deploy cleanup`."""
    from .deploy import promote

    with _sentences():
        click.echo(promote(project, model, force))


@deploy.command("rollback")
@click.argument("model")
@click.pass_obj
def deploy_rollback(project: DbtProject, model: str) -> None:
    """Give the old version of MODEL its name again, after `deploy promote`."""
    from .deploy import roll_back

    with _sentences():
        click.echo(roll_back(project, model))


@deploy.command("cleanup")
@click.argument("model")
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@click.pass_obj
def deploy_cleanup(project: DbtProject, model: str, yes: bool) -> None:
    """Drop the other version of MODEL: the old one after `deploy promote`, else the new one."""
    from .deploy import clean_up

    with _sentences():
        if not yes:
            click.confirm(
                f"Drop the other version of {project.table_of(model)}, the table of {model}, its state and its checkpoint?",
                abort=True,
            )
        click.echo(clean_up(project, model))


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, default=str))


@contextmanager
def _sentences() -> Iterator[None]:
    """Prints a `ProjectError` as a sentence and exits with code 2."""
    try:
        with without_trace():
            yield
    except ProjectError as problem:
        click.echo(f"Error: {without_secrets(problem)}", err=True)
        sys.exit(2)
