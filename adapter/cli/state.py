"""``dbt-stream state`` ``show``, ``diff``, ``edit`` and ``bootstrap``: a model's state, and what changes it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import yaml
from rich.console import Group, RenderableType

from ..project import stream_node
from ..project.model_names import versioned_name
from ..query import state_edit
from ..sources.stream_source import with_declared_names
from ..stream.lifecycle import editing
from ..stream.progress.state_metrics import Size
from ..stream.progress.watermark import to_text
from ..stream.run.evolve import Verdict, effect_of_edit
from ..stream.run.lock import check_free
from ..stream.state.inspect import Inspected, inspect_stored_state
from ..util.text import counted
from .planned import plan_next_run
from .project import DbtProject, ProjectError
from .status import bytes_text
from .terminal import terminal, text_table


def inspect_state(project: DbtProject, name: str, sample: int, keys: Sequence[str]) -> dict[str, Any]:
    """Returns the parts and columns of a model's state and a sample of its rows, as a JSON object."""
    node = project.streaming_model(name)
    values = {}
    for each in keys:
        column, equals, value = each.partition("=")
        if not equals or not column.strip():
            raise ProjectError(
                f"'{each}' is no key; write a column of the state and its value, as in item=42."
            )
        values[column.strip()] = value.strip()
    environment = project.environment()
    found = inspect_stored_state(
        environment.session(), stream_node.stream_model(node, environment), sample, values
    )
    if found is None:
        raise ProjectError(f"{name} has no state: it keeps none, or has not run yet.")
    return _state_as_json(name, found)


def _state_as_json(name: str, found: Inspected) -> dict[str, Any]:
    position = found.position
    return {
        "model": name,
        "state": found.table,
        "batch": position.batch if position else None,
        "watermark": to_text(position.after) if position else None,
        "seconds_since_written": round(max(0.0, time.time() - found.made / 1000), 1),
        "snapshots": found.snapshots,
        **asdict(sum(found.parts.values(), Size())),
        "parts": [{"name": name, **asdict(size)} for name, size in found.parts.items()],
        "columns": [asdict(column) for column in found.columns],
        "sample": found.rows,
    }


def state_diff(project: DbtProject, name: str) -> dict[str, Any]:
    """Returns how the next run of a model would migrate its state and its table, as a JSON object."""
    return _diff_as_json(name, effect_of_edit(*plan_next_run(project, name)))


def _diff_as_json(name: str, found: Verdict) -> dict[str, Any]:
    evolution = found.found
    if found.refused is not None:
        outcome = "refused"
    elif found.position is None:
        outcome = "no state yet" if found.is_stateful else "no state"
    else:
        outcome = "migrated" if evolution.is_migration or found.change is not None else "goes on"
    change = found.change
    return {
        "model": name,
        "verdict": outcome,
        "reason": None if found.refused is None else with_declared_names(found.refused),
        "kept": evolution.kept,
        "new": evolution.new,
        "removed": evolution.removed,
        "made_anew": evolution.rebuilt,
        "shortened": evolution.limited_rankings,
        "state": {
            "add": change.added if change else {},
            "drop": [*change.drop, *change.dropped_fields] if change else [],
            "rename": dict(change.rename) if change else {},
            "forget_parts": list(change.parts) if change else [],
        },
        "table": {"add": dict(found.add), "drop": list(found.drop)},
        "history": found.history,
        "undo": found.undo,
    }


_VERDICTS = {
    "refused": "[red]The next run stops[/red], and changes nothing.",
    "no state": "Its query keeps no state.",
    "no state yet": "There is no state yet: the next run begins it.",
    "migrated": "The state is migrated to the changed query: columns are added and dropped in one commit.",
    "goes on": "The state is kept as it is.",
}


def print_diff(found: Mapping[str, Any]) -> None:
    """Prints the result of `state_diff` on the terminal."""
    console = terminal()
    console.print(f"[bold]{found['model']}[/bold]  {_VERDICTS[found['verdict']]}")
    if found["reason"]:
        console.print(found["reason"], markup=False)
    fates = {
        "kept": "kept",
        "new": f"computed from {found['history']}" if found["history"] else "new, from the next row on",
        "removed": "removed",
        "made_anew": "rebuilt from the state, in a separate epoch",
        "shortened": "kept, and shortened",
    }
    if rows := [(text, fate) for key, fate in fates.items() for text in found[key]]:
        console.print(text_table(("", "becomes"), rows))
    for sentence in _change_sentences(found):
        console.print(sentence, markup=False)
    if found["undo"]:
        console.print(
            f"Before the last edit of the query, its state had more of this: `dbt-stream state undo {found['model']}` "
            f"restores it (savepoint {found['undo']}).",
            markup=False,
        )


def _change_sentences(found: Mapping[str, Any]) -> list[str]:
    """Returns sentences on the columns that a migration adds, drops and renames.

    >>> state = {"add": {"sum_v": "bigint"}, "drop": ["max_v"], "rename": {}, "forget_parts": ["groups"]}
    >>> _change_sentences({"state": state, "table": {"add": {}, "drop": []}})
    ['State gets sum_v bigint.', 'State loses max_v.', 'State forgets the rows of groups.']
    """
    state, table = found["state"], found["table"]
    lines = []
    for what, change in (("State", state), ("Table", table)):
        if change["add"]:
            lines.append(
                f"{what} gets {', '.join(f'{name} {kind}' for name, kind in change['add'].items())}."
            )
        if change["drop"]:
            lines.append(f"{what} loses {', '.join(change['drop'])}.")
    if state["rename"]:
        lines.append(f"State renames {', '.join(f'{was} to {now}' for was, now in state['rename'].items())}.")
    if state["forget_parts"]:
        lines.append(f"State forgets the rows of {', '.join(state['forget_parts'])}.")
    return lines


def print_state(found: Mapping[str, Any]) -> None:
    """Prints the result of `inspect_state` on the terminal."""
    terminal().print(Group(*_state_tables(found)))


def _state_tables(found: Mapping[str, Any]) -> list[RenderableType]:
    watermark = found["watermark"] or "none yet"
    items: list[RenderableType] = [
        f"[bold]{found['model']}[/bold]  {found['state']}",
        f"micro-batch {found['batch']}, watermark {watermark}; written {found['seconds_since_written']:,.0f} s ago, "
        f"{counted(found['snapshots'], 'snapshot')}",
    ]
    numbers = ("rows", "bytes", "files")
    parts = text_table(
        ("part", *numbers), [(part["name"], *_size_texts(part)) for part in found["parts"]], numbers=numbers
    )
    if len(found["parts"]) > 1:
        parts.add_section()
        parts.add_row("all", *_size_texts(found))
    for column in parts.columns:
        column.no_wrap = True
    columns = [(each["name"], each["type"], each["what"]) for each in found["columns"]]
    items += [parts, text_table(("column", "type", "holds"), columns)]
    for part, rows in found["sample"].items():
        names = list(dict.fromkeys(name for row in rows for name in row))
        items.append(text_table(names, [[str(row.get(name, "")) for name in names] for row in rows], part))
    return items


def _size_texts(size: Mapping[str, Any]) -> tuple[str, str, str]:
    return f"{size['rows']:,}", bytes_text(size["bytes"]), f"{size['files']:,}"


def bootstrap_model(project: DbtProject, name: str, table: str) -> str:
    """Rebuilds a model from the rows of a table; later runs continue at its source's current offset."""
    model = versioned_name(project.streaming_model(name))
    variables = {**project.parsed_variables(), "bootstrap": {model: table}}
    replace(project, variables=yaml.safe_dump(variables)).run([name], "--full-refresh")
    return f"{name}: begun with the rows of {table}; it continues from where its source is."


def edit_model_state(
    project: DbtProject, name: str, statement: str | None, source: str | None, dry: bool
) -> str:
    """Changes rows of a model's state, and returns sentences with the result."""
    if statement is None and source is None:
        raise ProjectError(
            'Say what to change: --sql "DELETE FROM state WHERE …", or --from with a file or a relation of rows to add.'
        )
    change = state_edit.parse_state_edit(statement or f"INSERT INTO state SELECT * FROM {editing.ROWS}")
    session, model, program = plan_next_run(project, name)
    check_free(model)
    if source is not None:
        editing.register_user_rows(session, model, source)
    done = editing.edit(session, model, program, change.rows, change.more, dry)
    if not done.removed and not done.added:
        return f"{name}: this changes no row of its state; nothing was written."
    lines = [f"{name}: rows of its state that {'would be' if dry else 'were'} removed and added:"]
    for part in sorted({*done.removed, *done.added}):
        lines.append(f"  {part}: {done.removed.get(part, 0)} removed, {done.added.get(part, 0)} added")
    if done.kept_as is not None:
        lines.append(
            f"What was there is savepoint '{done.kept_as}'; `dbt-stream state undo {name}` goes back to it."
        )
    return "\n".join(lines)
