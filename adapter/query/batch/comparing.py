"""Prepares the comparison of a table with its query in batch: reads views instead of tables, and selects final rows."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from ..aggregates.aggregate_builder import WINDOW_END, WINDOW_TIME
from ..errors import QueryError
from ..frontend.streams import RelationInfo
from ..normalize import event_clock
from ..plan.operators.source import Source
from ..plan.operators.window_close import WindowClose
from ..plan.operators.window_results import WindowResults
from ..plan.plan import Plan
from ..program import CHANGES
from ..sql.dialect import DIALECT, parse, sql
from ..sql.nodes import every
from ..windows.ranges import WindowEndColumns


def columns_of_final_rows(plan: Plan) -> WindowEndColumns | None:
    """Returns the columns that identify final rows of a planned query; None if none has the window's end."""
    windows = plan.dataflow.windows
    if windows is None or not windows.closed or not windows.specs:
        return None
    for kind in (WINDOW_END, WINDOW_TIME):
        columns = tuple(column for column, carries in windows.column_origins.items() if carries == kind)
        if columns:
            return WindowEndColumns(columns, kind == WINDOW_TIME)
    return None


def has_windows(plan: Plan) -> bool:
    """Whether a planned query emits windows when they close."""
    if plan.dataflow.windows is not None:
        return bool(plan.dataflow.windows.specs)
    return any(isinstance(each, WindowResults | WindowClose) for each in plan.dataflow.operators)


def check_same_in_batch(text: str, plan: Plan, known: Mapping[str, RelationInfo]) -> None:
    """Raises unless a query returns the same rows in batch as in a stream.

    Raises:
        QueryError: it reads the clock, or an upsert source.
    """
    clock = next((node for node in parse(text).walk() if event_clock.is_clock(node)), None)
    if clock is not None:
        raise QueryError(
            f"It can't be compared with a batch run: it reads {sql(clock)}, which in batch is the time of that run."
        )
    latest = {each.view for each in plan.dataflow.operators if isinstance(each, Source) and not each.versions}
    keyed = {name.lower() for name, each in known.items() if each.key}
    read = [each.relation for each in plan.streams if not each.feed and each.view in latest]
    replaced = [relation for relation in read if relation.lower() in keyed]
    if replaced:
        raise QueryError(
            f"It can't be compared with a batch run: {', '.join(replaced)} has a unique_key, so in a stream its rows "
            "replace those before them, and in batch each counts."
        )


def replace_tables_by_views(text: str, instead: Mapping[str, str]) -> str:
    """Returns a query that reads views instead of some tables, under the same aliases.

    Args:
        instead: name of a table or of its changelog, as `model_text.stream_relations` prints it, → view. The query may read
            the table, its changelog (`as_of()`), or both.

    Raises:
        QueryError: the query reads neither one of the tables nor its changelog.
    """
    tree = parse(text)
    views = {_name_parts(exp.to_table(relation, dialect=DIALECT)): view for relation, view in instead.items()}
    not_read = dict(zip(views, instead, strict=True))
    for table in list(every(tree, exp.Table)):
        relation = _name_parts(table)
        if relation not in views:
            continue
        not_read.pop(relation, None)
        not_read.pop((*relation[:-1], relation[-1].removesuffix(CHANGES)), None)
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
        table.set("this", exp.to_identifier(views[relation], quoted=True))
        table.set("db", None)
        table.set("catalog", None)
    not_read = {names: relation for names, relation in not_read.items() if not names[-1].endswith(CHANGES)}
    if not_read:
        raise QueryError(
            f"Its query in batch doesn't read {', '.join(not_read.values())}, so it can't be compared."
        )
    return sql(tree)


def _name_parts(table: exp.Table) -> tuple[str, ...]:
    return tuple(part.name.lower() for part in table.parts)
