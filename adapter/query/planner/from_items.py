"""What stands in FROM and JOIN."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from ..errors import QueryError
from ..frontend import hints
from ..plan.base import Operator
from ..sql.dialect import sql
from ..sql.nodes import every


@dataclass(frozen=True)
class FromItem:
    """A relation in FROM or JOIN: its operator, or None where it reads no stream."""

    alias: str
    node: exp.Expr
    join: exp.Join | None
    operator: Operator | None

    @property
    def streamed(self) -> Operator:
        """The operator of one that stands alone in FROM.

        Raises:
            QueryError: it reads no stream.
        """
        if self.operator is None:
            raise QueryError("The query reads no stream.")
        return self.operator


def check_relation(node: exp.Expr, join: exp.Join | None, changes: bool = True) -> None:
    """Passes a stream or query in FROM that stands there as it is; `changes`: whether its rows may be retracted."""
    # UNPIVOT makes rows of a row, and TABLESAMPLE (… PERCENT) asks each row.
    more = [name for name in ("joins", "laterals", "version", "when") if node.args.get(name)]
    more += [each for each in node.args.get("pivots") or () if changes or not each.args.get("unpivot")]
    more += ["sample"] if changes and node.args.get("sample") else []
    if more or (join is not None and join.args.get("method")):
        raise QueryError(
            f"'{sql(join or node)[:80]}' over a stream is not supported; write it with JOIN … ON, GROUP BY or WHERE."
        )


def filter_below(node: exp.Expr, alias: str, tests: Sequence[exp.Expr]) -> None:
    """Puts a query in the place of a relation in FROM: the relation's rows that pass tests. Changes the tree.

    Args:
        node: the relation.
        alias: what it is called, and the query then.
        tests: over its columns; they are copied.
    """
    star = exp.Column(this=exp.Star(), table=exp.to_identifier(alias, quoted=True))
    made = exp.Select(expressions=[star]).from_(node.copy()).where(exp.and_(*tests, copy=True))
    node.replace(exp.Subquery(this=made, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True))))


def table_of(name: str, alias: str) -> exp.Table:
    """A relation of generated SQL, in FROM."""
    return exp.Table(
        this=exp.to_identifier(name), alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
    )


def reads_stream(node: exp.Expr) -> bool:
    """Whether there is a stream in something, or the operator of one."""
    return any(map(hints.is_streamed, every(node, exp.Table)))


def times_of(streams: Sequence[FromItem]) -> dict[str, dict[str, int]]:
    """By alias (lower case) the columns of relations that carry event time, as of `Relation.times`."""
    return {each.alias.lower(): each.operator.relation.times for each in streams if each.operator}
