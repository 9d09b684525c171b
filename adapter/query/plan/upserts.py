"""An operator that is the result: its rows replace each other by their key, so it puts them out, and retracts nothing.

Elsewhere in a tree an operator says what it takes away, for what stands above it has to. Above the root stands the table,
which finds the rows of a group or of a ranking by itself. So these are read once more after the commit of their state, those
that the micro-batch touched; no old row is computed, and what comes out isn't a part of the state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from ...util.quoting import quote
from ..program import Lookup, Upsert
from ..sql.clauses import aggregate, conjuncts, filters, joined, only_asks, relations
from ..sql.dialect import parse
from ..sql.nodes import every
from . import lookup_keys
from .base import (
    GIVEN_BY,
    Dataflow,
    GroupAggregate,
    MaterializedProject,
    Operator,
    Project,
    Recompute,
    TopN,
    input_name,
    over,
)
from .column_origins import outputs
from .identity import makes_several
from .operators.group_state import identity_columns
from .plan import LookupTable
from .relation import WEIGHT


@dataclass(frozen=True)
class Replaced:
    """What is the result."""

    operator: GroupAggregate | TopN | Recompute
    path: tuple[Project | MaterializedProject, ...]
    """What is done with it row by row, the first step first. Nothing of it is kept: what it gave isn't taken away by it."""
    key: tuple[str, ...] | None
    """The columns that tell the result's rows apart; None: rows are put out once, and stay."""
    scope: tuple[str, ...]
    """Those that say which group, or which ranking, a row is of."""
    certain: bool = True
    """Whether the key is known to tell rows apart: a table that is joined may make several of one."""

    def over(self, rows: str) -> Iterator[tuple[Project | MaterializedProject, str]]:
        """The steps of the path, each with the query that it is over; the last one with the result.

        Args:
            rows: the relation with what was touched, each row with a weight.
        """
        text = f"select * from {rows}"
        if self.key is None:
            text = f"select * except ({WEIGHT}) from {rows}"
        for each in self.path:
            if isinstance(each, MaterializedProject):
                text = f"select * except ({WEIGHT}), true as {GIVEN_BY} from (\n{text}\n)"
            yield each, text
            text = over(each.sql, [text])
            if isinstance(each, MaterializedProject):
                text = f"select * except ({GIVEN_BY}), 1L as {WEIGHT} from (\n{text}\n)"

    def output(self, rows: str) -> str:
        """The result, from the rows of what was touched, each with a weight."""
        text = f"select * except ({WEIGHT}) from {rows}"
        for each, below in self.over(rows):
            text = over(each.sql, [below])
            hidden = GIVEN_BY if isinstance(each, MaterializedProject) else WEIGHT
            text = text if self.key is None else f"select * except ({hidden}) from (\n{text}\n)"
        return text

    def lookups(self, rows: str, tables: Sequence[LookupTable]) -> tuple[Lookup, ...]:
        """What tables outside are asked for before it."""
        asked = [
            (view, f"select * from (\n{over(query, [below])}\n)")
            for each, below in self.over(rows)
            for view, query in lookup_keys.queries(each.sql, tables)
        ]
        return lookup_keys.ordered(asked, tables)

    def upsert(self, touched: str, columns: tuple[str, ...]) -> Upsert | None:
        """How it replaces what the table has of what was touched.

        Args:
            touched: a relation.
            columns: of that, in the order of `scope`.
        """
        if self.key is None:
            return None
        scope = " and ".join(
            f"old.{quote(name)} <=> fired.{own}" for name, own in zip(self.scope, columns, strict=True)
        )
        listed = ", ".join(columns) or "true as anything"
        own = dict(zip(self.scope, columns, strict=True)) if isinstance(self.operator, GroupAggregate) else {}
        carried = {name: own[name].strip("`") for name in self.key if name in own}
        return Upsert(
            self.key, f"select {listed} from {touched}", scope or "true", None, self.certain, carried=carried
        )


def replaced(flow: Dataflow) -> Replaced | None:
    """The operator that is the result, where nothing else reads it; None: it is one that can't put it out so."""
    path: list[Project | MaterializedProject] = []
    below = flow.root
    while isinstance(below, Project | MaterializedProject) and len(below.inputs) == 1:
        path.insert(0, below)
        (below,) = below.inputs
    if not isinstance(below, GroupAggregate | TopN | Recompute):
        return None
    uses = [each.name for operator in flow.operators for each in operator.inputs]
    if any(uses.count(each) > 1 for each in (below.name, *(step.name for step in path))):
        return None
    if isinstance(below, TopN) and below.final:
        return Replaced(below, tuple(path), None, ())
    selects = [_select(each) for each in path]
    told = _told(below)
    if told is None or any(map(_makes_several, selects)):
        return None
    shown = {what: name for name, what in reversed(list(_carried(told, selects).items()))}
    names = {name for each in below.relation.keys for name in each}
    carried = _carried({name: name for name in names}, selects)
    first = {what: name for name, what in reversed(list(carried.items()))}
    key = next((each for each in below.relation.keys if each <= first.keys()), None)
    if not shown.keys() >= {*told.values()} or key is None:
        return None
    scope = tuple(shown[each] for each in _in_order(below))
    certain = not any(select.args.get("joins") for select in selects)
    if not certain and not key:
        return None  # one row alone has no columns that a table's rows could be found by
    return Replaced(below, tuple(path), tuple(sorted(first[name] for name in key)), scope, certain)


def takes_back(flow: Dataflow, group: GroupAggregate) -> bool:
    """Whether what stands above groups needs the rows that these gave as they were. Of the result the table finds them by
    their key, and a ranking finds its members by theirs, unless a condition on values stands between."""
    root = replaced(flow)
    if root is not None and root.operator is group:
        return False
    above = [each for each in flow.operators if any(below.name == group.name for below in each.inputs)]
    while len(above) == 1 and isinstance(above[0], Project) and not _select(above[0]).args.get("where"):
        (step,) = above
        above = [each for each in flow.operators if any(below.name == step.name for below in each.inputs)]
    return not (
        len(above) == 1
        and isinstance(above[0], TopN)
        and above[0].inputs[0].relation.changes
        # Which ranking a group is in is told by its keys.
        and above[0].of_groups is not None
        and not parse(above[0].sql).args.get("where")
    )


def kept_root(flow: Dataflow) -> Operator:
    """The topmost operator that the state depends on: what an operator that is the result puts out is made after it."""
    found = replaced(flow)
    return flow.root if found is None else found.operator


def _told(operator: Operator) -> Mapping[str, str] | None:
    """By column of an operator, in lower case, what it says of which group or ranking a row is; None: they don't all say
    so."""
    if isinstance(operator, GroupAggregate):
        return {name.lower(): name for name in identity_columns(operator.stage)}
    assert isinstance(operator, TopN | Recompute)
    if operator.shown is None or None in operator.shown:
        return None
    # One column may be written twice.
    return {str(name): f"{operator.shown.index(name)}" for name in operator.shown}


def _in_order(operator: GroupAggregate | TopN | Recompute) -> tuple[str, ...]:
    if isinstance(operator, GroupAggregate):
        return identity_columns(operator.stage)
    shown = operator.shown or ()
    return tuple(f"{shown.index(name)}" for name in shown)


def _select(step: Project | MaterializedProject) -> exp.Select:
    select = parse(step.sql)
    assert isinstance(select, exp.Select)
    return select


def _makes_several(select: exp.Select) -> bool:
    """Whether one row becomes several whatever tables have, or each row of a table without a key, or comes beside rows of a
    table alone."""
    if makes_several(select):
        return True
    read = joined(select)
    if any(join is not None and join.side in ("RIGHT", "FULL") for _, join in read):
        return True
    tests = [*filters(select), *(test for _, join in read if join for test in conjuncts(join.args.get("on")))]
    return not all(
        node.name == input_name(0)
        or (join is not None and (only_asks(join) or join.args.get("using")))
        or _is_one_row(node)
        or any(_picks(test, node.alias_or_name) for test in tests)
        for node, join in read
    )


def _is_one_row(node: exp.Expr) -> bool:
    """Whether a query in FROM is an aggregate of all its rows."""
    query = node.unnest()
    return isinstance(query, exp.Select) and aggregate(query) is not None and not query.args.get("group")


def _picks(test: exp.Expr, alias: str) -> bool:
    """Whether a condition equates an expression over one relation with something else: a key of it, as far as is known."""
    if not isinstance(test, exp.EQ | exp.NullSafeEQ):
        return False
    of = [{column.table.lower() for column in every(side, exp.Column)} for side in test.iter_expressions()]
    own = alias.lower()
    return any(own in side or "" in side for side in of) and not all(side == {own} for side in of)


def _carried(columns: Mapping[str, str], selects: Sequence[exp.Select]) -> dict[str, str]:
    """Columns under the names that they are handed on by."""
    found = dict(columns)
    for select in selects:
        found = outputs(select, relations(select)[0].alias_or_name).carry(found)
    return found
