"""Plans temporal joins: each row with the version of a key that was valid at the row's event time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from ..errors import EVENT_TIME_IN_YAML, QueryError
from ..frontend import hints, select_numbers
from ..frontend.hints import VersionsAsOf
from ..normalize import as_of_joins
from ..normalize.static_sides import nest_first_relations
from ..plan.operator import Operator, inputs_first
from ..plan.operators.source import Source
from ..plan.operators.temporal_join import TemporalJoin, arrive_as_streams
from ..plan.relation import Relation
from ..plan.state.buffered_rows import ROW
from ..sql.clauses import conjuncts, relations
from ..sql.dialect import canonical, sql
from ..sql.maps import orderable_sql
from ..sql.names import digest
from ..sql.nodes import every
from .closing import count_late_rows
from .context import Planner
from .from_items import FromItem
from .inputs import with_numbered_inputs
from .projections import short_label
from .sources import growth_of_replaced, plan_versions

_AS_WRITTEN = "time_as_written"


@dataclass(frozen=True)
class _AsOf:
    """A temporal join in FROM."""

    rows: FromItem
    """The relation whose rows look for versions."""
    item: FromItem
    """The relation with the versions."""
    versions: VersionsAsOf


def index_of_versions(read: Sequence[FromItem]) -> int | None:
    """Returns the index of the first relation in FROM that is read as of a time; None if there is none."""
    return next((n for n, each in enumerate(read) if hints.versions_as_of(each.node) is not None), None)


def plan_temporal_join(
    planner: Planner, select: exp.Select, read: Sequence[FromItem], place: int, inner: Sequence[exp.Query]
) -> Operator:
    """Plans a SELECT that joins versions as of a time.

    Args:
        planner: planner of the tree.
        select: SELECT without GROUP BY and OVER. If it joins more than one relation with versions, it is changed.
        read: relations in FROM.
        place: index of the versions.
        inner: its subqueries over streams outside FROM.

    Raises:
        QueryError: it isn't supported over streams.
    """
    node = read[place].node
    versions = hints.versions_as_of(node)
    assert versions is not None
    if len(read) > 2 or inner or select.args.get("laterals"):
        count = place if place > 1 else 2
        node.meta.setdefault(_AS_WRITTEN, versions.time.copy())
        if nest_first_relations(select, count):
            (below, *_) = relations(select)
            select_numbers.copy_number(below.this, select)
            return planner.select(select)
        raise QueryError(
            f"'{hints.excerpt(select)}' has more than a temporal join, and doesn't say which relation each column "
            "belongs to: write the relation's name before each, as in t.column, or put the join into a separate query."
        )
    found = _AsOf(read[0], read[1], versions)
    _check_rows(found)
    source = _source_of_versions(planner, versions)
    assert found.rows.operator is not None
    rows = _with_late_rows_counted(planner, found.rows.operator)
    template, inputs = with_numbered_inputs(
        planner, select, [replace(found.rows, operator=rows), replace(found.item, operator=source)]
    )
    (made_join,) = template.args["joins"]
    as_of_joins.add_validity_condition(template, made_join, found.item.alias, versions)
    text = canonical(template)
    sought = _key_values(found)
    growth = None
    if not source.changelog:  # a changelog's table bounds the keys
        stays = f"config 'state_ttl' forgets what was idle, but a version of {versions.relation} is valid until the next one"
        growth = growth_of_replaced(planner, versions.key, "a version", stays)
    made = TemporalJoin(
        name=f"temporal_{digest(text, *(each.name for each in inputs))}",
        inputs=inputs,
        query=template,
        label=short_label(select),
        alias=found.rows.alias,
        time=versions.time.name.lower(),
        version_time=versions.version_time.name,
        version_key=versions.key,
        keys=tuple(value for value, _ in sought),
        compared_by=tuple(compared_by for _, compared_by in sought),
        ordered=ROW if versions.row is None else orderable_sql(ROW, versions.row),
        growth=growth,
    )
    operator = planner.add(made)
    if made.rows_arrive_in_order:
        return operator
    written = node.meta.get(_AS_WRITTEN, versions.time)
    return planner.record_dropped_rows(operator, select, written.name.lower(), written.table)


def _with_late_rows_counted(planner: Planner, rows: Operator) -> Operator:
    """Returns the rows, with late ones counted where they arrive unless the temporal join compares them itself."""
    return rows if arrive_as_streams(rows) else count_late_rows(planner, rows, exp.Select(), "")


def _source_of_versions(planner: Planner, versions: VersionsAsOf) -> Source:
    """Returns the operator of the versions.

    Raises:
        QueryError: their changelog has another key, or the watermark isn't measured on their time.
    """
    known = planner.streams.known(versions.table.name)
    if known.changes:
        as_of_joins.changelog_key(versions, known)
    source = plan_versions(planner, versions.table)
    assert isinstance(source, Source)
    if source.relation.event_time is None:
        raise QueryError(
            f"as_of() over {versions.relation} needs the watermark of {versions.version_time.name}, and windows over the "
            "same stream have another time column; put the windows into a separate model."
        )
    return source


def _check_rows(found: _AsOf) -> None:
    """Raises unless the rows are append-only, and the time at which versions are looked for is their event time.

    Raises:
        QueryError: they aren't, or it isn't.
    """
    of, rows = found.versions.relation, found.rows.operator
    if rows is None:
        raise QueryError(
            f"as_of() over {of} is joined to a table that is no stream; read that as a stream: {{{{ stream(…) }}}}."
        )
    if rows.relation.changes:
        raise QueryError(
            f"as_of() over {of} is joined to an updating input, whose rows are retracted after they have got their "
            "version; join the stream that it is made from."
        )
    time = found.versions.time
    if (
        not isinstance(time, exp.Column)
        or time.table.lower() != found.rows.alias.lower()
        or time.name.lower() not in _times_ahead_of_watermark(rows.relation)
    ):
        raise QueryError(
            f"as_of() over {of} looks for versions at {sql(time)}, which isn't the event time of the rows; "
            f"{_advice_on_time(found.rows.alias, rows)}."
        )


def _advice_on_time(alias: str, rows: Operator) -> str:
    """Returns the end of a sentence that says which time to look for versions at."""
    times = sorted(_times_ahead_of_watermark(rows.relation))
    if times:
        return f"write as_of(…, '{alias}.{rows.relation.event_time or times[0]}')"
    if any(isinstance(each, Source) and each.relation.event_time for each in inputs_first(rows)):
        return "join the versions to the stream itself, and put its joins, windows or groups above that"
    return f"give the stream {EVENT_TIME_IN_YAML}"


def _times_ahead_of_watermark(relation: Relation) -> set[str]:
    """Returns the columns (lower case) whose times are after the watermark when a row that isn't late arrives."""
    return {name for name, delay in relation.times.items() if not delay}


def _key_values(found: _AsOf) -> list[tuple[str, str]]:
    """Returns for each key column of the versions the SQL that ON compares it with, over the joined rows, and the
    operator: ``=`` or ``<=>``.

    Raises:
        QueryError: ON compares a key column with nothing.
    """
    alias, join = found.item.alias.lower(), found.item.join
    assert join is not None
    values: dict[str, tuple[str, str]] = {}
    unclear: list[str] = []
    for test in conjuncts(join.args.get("on")):
        if not isinstance(test, exp.EQ | exp.NullSafeEQ):
            continue
        columns = [*every(test, exp.Column)]
        unclear += [column.name for column in columns if len(column.parts) == 1]
        for one, other in ((test.this, test.expression), (test.expression, test.this)):
            whose = {
                column.parts[0].name.lower() if len(column.parts) > 1 else ""
                for column in every(other, exp.Column)
            }
            if (
                isinstance(one, exp.Column)
                and one.table.lower() == alias
                and whose <= {found.rows.alias.lower()}
                and other.find(exp.Query) is None
            ):
                compared_by = "=" if isinstance(test, exp.EQ) else "<=>"
                values.setdefault(one.name.lower(), (sql(other), compared_by))
    missing = [name for name in found.versions.key if name.lower() not in values]
    if missing and unclear:
        raise QueryError(
            f"as_of() over {found.versions.relation}: ON doesn't say whose column {unclear[0]} is; write the relation's "
            f"name before each column, as in {found.item.alias}.{missing[0]}."
        )
    if missing:
        raise QueryError(
            f"as_of() over {found.versions.relation} has a version for each value of "
            f"{', '.join(found.versions.key)}, and ON doesn't say which: add {found.item.alias}.{missing[0]} = …, with "
            "columns of the other side or a constant."
        )
    return [values[name.lower()] for name in found.versions.key]
