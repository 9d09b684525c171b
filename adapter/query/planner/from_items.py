"""Relations in FROM and JOIN."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from ..errors import QueryError
from ..frontend import hints
from ..plan.operator import Operator
from ..sql.dialect import sql


@dataclass(frozen=True)
class FromItem:
    """A relation in FROM or JOIN, with its operator; None if it reads no stream."""

    alias: str
    node: exp.Expr
    join: exp.Join | None
    operator: Operator | None

    @property
    def changes(self) -> bool:
        """Whether it has other rows in later micro-batches: it reads a stream, or versions as of a time."""
        return self.operator is not None or hints.versions_as_of(self.node) is not None

    @property
    def stream_operator(self) -> Operator:
        """Returns the operator of the only relation in FROM.

        Raises:
            QueryError: it reads no stream.
        """
        if self.operator is None:
            raise QueryError("The query reads no stream.")
        return self.operator


def check_relation(node: exp.Expr, join: exp.Join | None, changes: bool = True) -> None:
    """Raises `QueryError` unless a stream or query is in FROM without modifiers that can't be planned.
    `changes`: whether its rows may be retracted."""
    # UNPIVOT and TABLESAMPLE (… PERCENT) work row by row.
    more = [name for name in ("joins", "laterals", "version", "when") if node.args.get(name)]
    more += [each for each in node.args.get("pivots") or () if changes or not each.args.get("unpivot")]
    more += ["sample"] if changes and node.args.get("sample") else []
    if more or (join is not None and join.args.get("method")):
        raise QueryError(
            f"'{sql(join or node)[:80]}' over a stream is not supported; write it with JOIN … ON, GROUP BY or WHERE."
        )


def filter_relation(node: exp.Expr, alias: str, tests: Sequence[exp.Expr]) -> None:
    """Replaces a relation in FROM by a query that filters its rows. Changes the tree.

    Args:
        node: the relation.
        alias: alias of the relation, and then of the query.
        tests: conditions over its columns; they are copied.
    """
    star = exp.Column(this=exp.Star(), table=exp.to_identifier(alias, quoted=True))
    made = exp.Select(expressions=[star]).from_(node.copy()).where(exp.and_(*tests, copy=True))
    node.replace(exp.Subquery(this=made, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True))))


def table_with_alias(name: str, alias: str) -> exp.Table:
    """Returns a relation of generated SQL, for use in FROM.

    >>> from ..sql.dialect import sql
    >>> sql(table_with_alias("__input_0", "my orders"))
    '__input_0 AS `my orders`'
    """
    return exp.Table(
        this=exp.to_identifier(name), alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
    )


def event_times_by_alias(streams: Sequence[FromItem]) -> dict[str, dict[str, int]]:
    """Returns by alias (lower case) the columns of relations with event time, as in `Relation.times`."""
    return {each.alias.lower(): each.operator.relation.times for each in streams if each.operator}
