"""Plans SELECTs that work row by row, and temporal filters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from sqlglot import exp

from ..errors import QueryError
from ..normalize import conditions, event_clock
from ..plan.hidden_items import with_source_row, with_weight
from ..plan.operator import Operator, UnboundedState, inputs_first
from ..plan.operators.late_rows import LateRows
from ..plan.operators.local import Local
from ..plan.operators.materialized_project import MaterializedProject
from ..plan.operators.project import Project
from ..plan.operators.temporal_filter import ROW_TIME as TIME_OF_ROW
from ..plan.operators.temporal_filter import TemporalFilter
from ..plan.relation import WEIGHT
from ..sql import intervals
from ..sql.clauses import filters, hide_from_stars, set_filters
from ..sql.dialect import canonical, sql
from ..sql.names import digest, remove_marks
from ..sql.nodes import every, temporarily_replaced
from .context import Planner
from .from_items import FromItem
from .inputs import with_numbered_inputs

_LABEL = 100
"""Maximum number of characters of a label."""


def plan_temporal_filter(planner: Planner, select: exp.Select, test: exp.Expr) -> Operator:
    """Plans a predicate on event time and the current time, over a stream; everything else in the SELECT is
    done below it."""
    found = event_clock.lower_bound(test)
    assert found is not None
    column, _, length, included = found
    # At `ts = now - length` a row is still in the result for >=, and not for >.
    stays = length + included
    rows = select.copy()
    set_filters(rows, [each for each in filters(rows) if each != test])
    rows.append("expressions", exp.alias_(column.copy(), TIME_OF_ROW, quoted=True))
    below = planner.select(rows)
    if below.relation.changes:
        raise QueryError(
            f"'{sql(test)}' over an updating input is not supported; put it into the model that computes that input."
        )
    if any(isinstance(each, LateRows) for each in inputs_first(below)):
        # Late rows are counted when the watermark is known, after rows have arrived.
        raise QueryError(
            f"'{sql(test)}' over an interval join is not supported; put it on the streams below the join, or into a "
            "separate model that reads the joined one."
        )
    if planner.ttl is not None and planner.ttl < stays:
        raise QueryError(
            f"'{sql(test)}' keeps rows for longer than config 'state_ttl' does ({intervals.format(planner.ttl)}), and "
            "the operators above would forget them before they leave; make state_ttl at least as long."
        )
    return _add_temporal_filter(planner, below, stays, test.copy())


def _add_temporal_filter(planner: Planner, rows: Operator, stays: int, test: exp.Expr) -> Operator:
    """Adds a `TemporalFilter`.

    Args:
        planner: planner of the tree.
        rows: the rows to filter, each with its event time in a hidden column.
        stays: microseconds of event time for which a row stays in the result.
        test: the predicate, in no other tree.
    """
    return planner.add(
        TemporalFilter(
            name=f"recent_{digest(rows.name, str(stays))}",
            inputs=(rows,),
            lasts=stays,
            label=sql(test),
            test=test,
        )
    )


def _move_filter_above(
    planner: Planner, select: exp.Select, read: Sequence[FromItem], source: FromItem, below: TemporalFilter
) -> Operator:
    """Plans a row-by-row SELECT over a temporal filter as a temporal filter over the SELECT: computed values
    and columns of static tables are stored with the row, and less is stored."""
    (rows,) = below.inputs
    made = select.copy()
    hide_from_stars(made, [(source.alias, TIME_OF_ROW)])
    time = exp.column(TIME_OF_ROW, table=source.alias, quoted=True)
    made.append("expressions", exp.alias_(time, TIME_OF_ROW, quoted=True))
    instead = [replace(each, operator=rows) if each is source else each for each in read]
    return _add_temporal_filter(planner, plan_projection(planner, made, instead), below.lasts, below.test)


def plan_projection(planner: Planner, select: exp.Select, read: Sequence[FromItem]) -> Operator:
    """Plans a SELECT that works row by row over one stream, joined with static tables."""
    (source,) = (each for each in read if each.operator is not None)
    below = source.operator
    assert below is not None
    if isinstance(below, TemporalFilter):
        return _move_filter_above(planner, select, read, source, below)
    template, inputs = with_numbered_inputs(planner, select, read)
    relation = below.relation
    # VALUES are part of the query.
    if relation.changes and (conditions.reads_tables(template) or not conditions.is_repeatable(template)):
        ends = () if relation.ends is None else (relation.ends,)
        template = with_source_row(template, source.alias)
        return planner.add(
            MaterializedProject(
                name=f"given_{digest(below.name, canonical(template))}",
                inputs=inputs,
                query=template,
                label=short_label(select),
                growth=None if relation.bounded or ends else UnboundedState("every row", None),
                ends=ends,
            )
        )
    if relation.changes:
        template = with_weight(template, [(source.alias, WEIGHT)])
    return planner.add(
        Project(
            name=f"project_{digest(below.name, canonical(template))}",
            inputs=inputs,
            query=template,
            label=short_label(select),
        )
    )


def plan_local(
    planner: Planner,
    label: str,
    inputs: tuple[Operator, ...],
    query: exp.Select,
    unique: tuple[frozenset[str], ...] = (),
) -> Operator:
    """Plans a query that needs the rows of one micro-batch only, since all rows that it combines arrive
    together. See `Local` for the arguments."""
    name = f"local_{digest(label, sql(query), *(each.name for each in inputs))}"
    return planner.add(Local(name=name, inputs=inputs, query=query, label=label, unique=unique))


def short_label(select: exp.Select) -> str:
    """Returns the beginning of a query as a label; labels are part of the signatures of states. Nested
    queries that are too deep to be seen aren't printed: printing all would take quadratic time."""
    queries = defaultdict(list)
    for each in every(select, exp.Subquery):
        queries[_depth(each, select)].append(each.this)
    for depth in count(1):
        with temporarily_replaced([(query, exp.Var(this="…")) for query in queries[depth]]):
            text = remove_marks(sql(select))
        # '(…' in the text may also be the author's own.
        if not queries[depth] or not 0 <= text.find("(…") < _LABEL:
            break
    return text if len(text) <= _LABEL else f"{text[: _LABEL - 3]}…"


def _depth(query: exp.Expr, top: exp.Expr) -> int:
    """Returns the number of parenthesized queries around a query, including itself."""
    depth = 0
    while query is not top:
        depth += isinstance(query, exp.Subquery)
        assert query.parent is not None
        query = query.parent
    return depth
