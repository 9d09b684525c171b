"""Plans queries without an operator of their own kind: recomputed for the affected keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from ..errors import QueryError
from ..frontend import hints
from ..normalize import conditions
from ..normalize.compared_types import compares_mixed_types
from ..plan import column_origins
from ..plan.operator import Operator, UnboundedState, inputs_first
from ..plan.operators.recompute import Recompute
from ..plan.relation import Relation
from ..sql.dialect import canonical
from ..sql.names import digest
from ..sql.nodes import holds
from .context import Planner


def window_ends_among_keys(
    partitions: Sequence[Sequence[exp.Expr]], aliases: Sequence[str], relations: Sequence[Relation]
) -> tuple[str, ...]:
    """Returns the window end columns of relations, if these are among the partition keys of all; empty
    otherwise."""
    ends = [relation.ends for relation in relations]
    if None in ends or len(partitions) != len(relations):
        return ()
    for place in range(min(map(len, partitions))):
        if all(
            column_origins.value_of_column(keys[place], alias, {str(end): "end"})
            for keys, alias, end in zip(partitions, aliases, ends, strict=True)
        ):
            return tuple(map(str, ends))
    return ()


def refuse_nondeterministic(
    select: exp.Select,
    key: frozenset[str] | None,
    why: Callable[[bool], str | None],
    before: str = "",
    after: str = "",
) -> None:
    """Raises unless values are the same when they are computed again. Values in the model's result may differ
    in the last digit if its rows have a key.

    Args:
        select: the query.
        key: columns that identify its rows; None if nothing does.
        why: returns why values differ, to the last digit or not; None if they don't.
        before: text before the reason in the message.
        after: text after the reason.
    """
    is_result = select.parent is None and key is not None
    if chance := why(not is_result):
        raise QueryError(f"'{hints.excerpt(select)}': {before}{chance}{after}.")


def refuse_static_tables(select: exp.Select, template: exp.Expr) -> None:
    """Raises `QueryError` if a query reads a static table in addition to its inputs: a changed table gives
    other values than those to retract."""
    if conditions.reads_tables(template):
        raise QueryError(
            f"'{hints.excerpt(select)}' reads a table, and is computed again when its rows change: with the table as it is "
            "then, not as it was. Join the table to the rows in a subquery in FROM, as in (SELECT s.*, t.x FROM … AS s "
            "CROSS JOIN (SELECT … AS x FROM …) AS t): then the value that a row got is kept."
        )


def plan_recomputed(planner: Planner, select: exp.Select, made: Recompute) -> Operator:
    """Plans a SELECT that is recomputed for the affected keys.

    Args:
        planner: planner of the tree.
        select: the query, for messages.
        made: its operator. The name and what follows from the query and its inputs are set here: with which windows
            its rows expire, and what its state grows with, if that isn't said.

    Raises:
        QueryError: an input isn't deterministic.
    """
    inputs, template, growth = made.inputs, made.query, made.growth
    if any(not each.relation.repeatable and each.relation.changes for each in inputs):
        raise QueryError(
            f"'{hints.excerpt(select)}' reads non-deterministic values; compute these in a separate model."
        )
    ends = window_ends_among_keys(made.keys, made.aliases, [each.relation for each in inputs])
    if ends or made.until:
        growth = None
    elif growth is None and made.top is None and not all(each.relation.bounded for each in inputs):
        growth = UnboundedState("every row", None)
    first = () if made.top is None else (made.top.rows,)
    told = ["mixed types"] if compares_mixed_types(template) else []
    return planner.add(
        replace(
            made,
            name=f"recompute_{digest(canonical(template), *first, *told, *(each.name for each in inputs))}",
            growth=growth,
            ends=() if made.until else ends,
            asks_for_rows=any(conditions.inner_queries(template, ("expressions",)))
            or holds(template, exp.Lateral),
        )
    )


def is_repeatable(template: exp.Select, inputs: Sequence[Operator]) -> bool:
    """Whether a query and everything below it is deterministic."""
    below = [each for operator in inputs for each in inputs_first(operator)]
    return conditions.is_repeatable(template) and all(each.relation.repeatable for each in below)


def check_repeatable(select: exp.Select, template: exp.Select, inputs: Sequence[Operator], does: str) -> None:
    """Raises unless a query and everything below it is deterministic. `does`: the verb phrase for the message.

    Raises:
        QueryError: it isn't.
    """
    if not is_repeatable(template, inputs):
        raise QueryError(
            f"'{hints.excerpt(select)}' {does} and calls a non-deterministic function; compute it in a "
            "subquery in FROM."
        )
