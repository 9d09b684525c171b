"""Splits a SELECT over known relations into operators: join, group, rank, project.

The text is part of a plan: the author's, with subqueries replaced by the results of stages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from ..aggregates.model import Key
from ..frontend import hints
from ..normalize.rankings import ranks
from ..sql.clauses import filters, joined
from ..sql.dialect import function_name, parse
from ..sql.nodes import every
from . import text
from .node import APPEND, RETRACT, TABLE, UPSERT, Changelog, KeptMetric, Node, make


@dataclass(frozen=True)
class Read:
    """A relation that a text reads."""

    node: Node
    written: Mapping[str, str] = field(default_factory=dict)
    """For groups: the author's expression for each column."""
    keys: Sequence[Key] = ()
    """Keys of groups, in order."""
    rank: tuple[str, int] | None = None
    """For a ranking: its column, and the last rank it includes."""
    time: str = ""
    """Column of the event time, if its rows are rows of a stream."""


Resolve = Callable[[str], Read | None]


class Selects:
    """Reads texts.

    Args:
        resolve: returns the relation of a name in FROM; None for a static table.
        windows: whether rows belong to closed windows, so that joins, groups and rankings stay within one.
    """

    def __init__(self, resolve: Resolve, windows: bool = False) -> None:
        self.resolve, self.windows = resolve, windows

    def read(self, sql: str) -> Read:
        """Returns the operators of a text."""
        return self.relation(parse(sql))

    def relation(self, node: exp.Expr) -> Read:
        """Returns the operators of a query, or of an item in FROM."""
        while isinstance(node, exp.Subquery):
            node = node.this
        if isinstance(node, exp.Table) and (found := self.resolve(node.name)) is not None:
            return found
        if not self._moves(node):
            return Read(_table(node))
        if isinstance(node, exp.SetOperation):
            return Read(self._set_operation(node))
        assert isinstance(node, exp.Select)
        return self._select(node)

    def _moves(self, node: exp.Expr) -> bool:
        """Whether the query reads anything other than static tables."""
        found = (self.resolve(table.name) for table in every(node, exp.Table))
        return any(each is not None and each.node.changelog.kind != TABLE for each in found)

    def _set_operation(self, node: exp.SetOperation) -> Node:
        inputs = tuple(self.relation(side).node for side in (node.this, node.expression))
        if isinstance(node, exp.Union) and not node.args.get("distinct"):
            flat = tuple(
                inner
                for each in inputs
                for inner in (each.inputs if each.operator == "UnionAll" else (each,))
            )
            return make("UnionAll", f"of {len(flat)}", _together(flat), flat)
        words = f"{node.key.upper()}{'' if node.args.get('distinct') else ' ALL'}"
        return make("SetOperation", words, _together(inputs), inputs)

    # -- SELECT ------------------------------------------------------------------------------------

    def _select(self, select: exp.Select) -> Read:
        if window := hints.window_of(select):
            below = self.relation(hints.input_of(select)).node
            return Read(make("WindowTableFunction", str(window), below.changelog, (below,)))
        read = [self.relation(node) for node, _ in joined(select)]
        ended = ranks.ended(select)
        moving = [each for each in read if each.node.changelog.kind != TABLE]
        first = moving[0]
        if len(read) == 1 and _passes_on(select):
            return first
        if first.written and len(read) == 1:
            select = text.put_back(select, first.written, first.keys)
        rows = _without_end(filters(select), first.rank)
        if first.written and rows:
            # Conditions over a group's columns are the query around it, shown as HAVING.
            rows = [f"HAVING {' AND '.join(rows)}"]
        node = first.node
        if len(read) > 1:
            node = self._join(select, tuple(each.node for each in read), len(moving) > 1)
        grouped = text.is_grouped(select) and not first.written
        over = text.over(select)
        if grouped or over:
            node = _project(node, rows, text.laterals(select))
            rows = []
        if grouped:
            node = self._group(select, node)
            if having := select.args.get("having"):
                rows = [f"HAVING {text.shown(having.this)}"]
        elif having := select.args.get("having"):
            rows.append(f"HAVING {text.shown(having.this)}")
        rank = None
        if over:
            node, rank = self._over(select, over, node, ended, first.time)
        if select.args.get("distinct"):
            node = _project(node, rows, [], self._list(select))
            node = make("SetOperation", "DISTINCT", node.changelog, (node,))
        elif grouped and not rows and not _computes(select):
            pass
        else:
            laterals = [] if grouped or over else text.laterals(select)
            node = _project(node, rows, laterals, self._list(select), select)
        return Read(node, rank=rank, time=_passed(select, first.time))

    @staticmethod
    def _list(select: exp.Select) -> list[str]:
        """Returns the select list, if it has more than plain columns; an OVER in it is shown by its alias."""
        if text.hands_on(select):
            return []
        copy = select.copy()
        for item in copy.expressions:
            if isinstance(item, exp.Alias) and isinstance(item.this, exp.Window):
                item.replace(exp.column(item.alias))
        return [] if text.hands_on(copy) else text.listed(copy)

    def _join(self, select: exp.Select, inputs: tuple[Node, ...], of_streams: bool) -> Node:
        if not of_streams:
            moving = next(each for each in inputs if each.changelog.kind != TABLE)
            return make(
                "LookupJoin", text.joins(select), moving.changelog, inputs, event_time=moving.event_time
            )
        name = "WindowJoin" if self.windows else "RegularJoin"
        return make(name, text.joins(select), _together(inputs), inputs)

    def _group(self, select: exp.Select, below: Node) -> Node:
        metrics = tuple(
            KeptMetric(call, function, (), "computed from the rows below")
            for call, function in text.aggregates(select)
        )
        return make(
            "WindowAggregate" if self.windows else "GroupAggregate",
            text.grouped_by(select),
            _grouped(below, tuple(text.keys(select))),
            (below,),
            key=tuple(text.keys(select)),
            metrics=metrics,
        )

    def _over(
        self,
        select: exp.Select,
        over: Sequence[exp.Window],
        below: Node,
        ended: Mapping[str, int],
        time: str,
    ) -> tuple[Node, tuple[str, int] | None]:
        ranked = ranks.ranks(select)
        if len(over) == len(ranked) == 1:
            ((name, rank),) = ranked.items()
            made = ranking(select, rank, ended.get(name), self.windows, time)
            node = make(*made, below.changelog, (below,))
            return node, (name, ended[name]) if name in ended else None
        calls = ", ".join(text.over_text(each, select) for each in over)
        return make("OverAggregate", calls, below.changelog, (below,)), None


def _grouped(below: Node, key: tuple[str, ...]) -> Changelog:
    """Returns the changelog of a GROUP BY."""
    return below.changelog if below.changelog.kind == APPEND else Changelog(UPSERT, key)


def ranking(
    select: exp.Select,
    rank: exp.Window,
    last: int | None,
    windows: bool = False,
    time: str = "",
    operator: str = "RetractableTopN",
) -> tuple[str, str]:
    """Returns the name and description of a ranking. One that keeps only the first row by event time is a
    deduplication.

    Args:
        select: SELECT with the ranking.
        rank: the ranking, in its select list.
        last: the last rank that is used; None if unknown.
        windows: whether the ranking is within windows.
        time: column of the event time below it.
        operator: its name if it is neither a deduplication nor within windows.

    >>> from ..sql.dialect import parse
    >>> select = parse("select k, row_number() over (partition by k order by ts) as rn from orders")
    >>> rank = select.find(exp.Window)
    >>> ranking(select, rank, 1, time="ts")
    ('Deduplicate', 'keep first by ts per k')
    >>> ranking(select, rank, 3, time="ts")
    ('RetractableTopN', 'first 3 by ts per k')
    """
    within = [text.shown(key) for key in rank.args.get("partition_by") or ()]
    if windows:
        within = [
            key
            for key in within
            if key.rpartition(".")[2] not in ("window_start", "window_end", "window_time")
        ]
        within = [*within, "window"]
    order, function = text.ordered(rank, select), function_name(rank.this)
    of = "Window" if windows else ""
    words = order.lower().removesuffix(" nulls last").removesuffix(" nulls first").split()
    column = words[0].rpartition(".")[2] if words else ""
    is_first = function == "row_number" and last == 1
    if is_first and time and column in (time.lower(), "window_time") and words[1:] in ([], ["desc"], ["asc"]):
        keep = "last" if words[1:] == ["desc"] else "first"
        return f"{of}Deduplicate", f"keep {keep} by {words[0]}{text.per(within)}"
    return "WindowTopN" if windows else operator, text.first_rows(function, last, order, within)


def _without_end(tests: Sequence[exp.Expr], rank: tuple[str, int] | None) -> list[str]:
    """Returns conditions without the one that limits a ranking below."""
    return [text.shown(test) for test in tests if rank is None or not _ends(test, *rank)]


def _ends(test: exp.Expr, name: str, last: int) -> bool:
    """Whether a condition is ``name <= last`` in one of its forms."""
    column, value = test.this, test.expression
    greater = isinstance(test, exp.GT | exp.GTE)
    if greater:
        column, value = value, column
    if not isinstance(column, exp.Column) or not isinstance(value, exp.Literal):
        return False
    number = value.name
    if column.name.lower() != name.lower() or not number.isdigit():
        return False
    if isinstance(test, exp.LT | exp.GT):
        return int(number) == last + 1
    return (isinstance(test, exp.LTE | exp.GTE) and int(number) == last) or (
        isinstance(test, exp.EQ) and int(number) == last == 1
    )  # fmt: skip


def _project(
    below: Node,
    rows: Sequence[str],
    laterals: Sequence[str] = (),
    columns: Sequence[str] = (),
    select: exp.Select | None = None,
) -> Node:
    """Returns a node for filter, LATERAL VIEW and select list; the node below if there are none."""
    words = [*([", ".join(columns)] if columns else []), *laterals]
    wheres = [each for each in rows if not each.startswith("HAVING")]
    words += [f"WHERE {' AND '.join(wheres)}"] if wheres else []
    words += [each for each in rows if each.startswith("HAVING")]
    if not words:
        return below
    changelog, time = below.changelog, below.event_time
    if select is not None and changelog.kind == UPSERT:
        changelog = Changelog(UPSERT, tuple(_renamed(each, select) for each in changelog.key))
    return make("Project", " ".join(words), changelog, (below,), event_time=time)


def project(below: Node, select: exp.Select, tables: Sequence[Node] = ()) -> Node:
    """Returns a node for a SELECT over one input that joins static tables."""
    if tables:
        below = make(
            "LookupJoin", text.joins(select), below.changelog, (below, *tables), event_time=below.event_time
        )
    columns = [] if text.hands_on(select) else text.listed(select)
    return _project(below, text.conditions(select), text.laterals(select), columns, select)


def _renamed(key: str, select: exp.Select) -> str:
    """Returns a SELECT's alias for a column or expression; the text itself if it has none."""
    for item in select.expressions:
        if isinstance(item, exp.Alias) and text.shown(item.this).lower() == key.lower():
            return str(item.alias)
    return key


def _computes(select: exp.Select) -> bool:
    """Whether the select list of a GROUP BY has more than its keys and aggregates."""
    groups = {key.lower() for key in text.keys(select)}
    calls = {call.lower() for call, _ in text.aggregates(select)}
    return any(text.shown(item.unalias()).lower() not in {*groups, *calls} for item in text.items(select))


def _passes_on(select: exp.Select) -> bool:
    """Whether it is ``select * from relation``."""
    clauses = {name for name, value in select.args.items() if value}
    plain = (
        len(select.expressions) == 1 and text.hands_on(select) and isinstance(select.expressions[0], exp.Star)
    )
    return plain and clauses <= {"expressions", "from", "from_", "kind", "hint"}


def _passed(select: exp.Select, time: str) -> str:
    """Returns the name of a column after a SELECT; empty if the column isn't known to pass through."""
    for item in select.expressions:
        if item.is_star or (isinstance(item, exp.Column) and item.name.lower() == time.lower()):
            return time
        if (
            isinstance(item, exp.Alias)
            and isinstance(item.this, exp.Column)
            and item.this.name.lower() == time.lower()
        ):
            return str(item.alias)
    return ""


def _together(inputs: Sequence[Node]) -> Changelog:
    """Returns the changelog of several inputs combined."""
    modes = [each.changelog for each in inputs if each.changelog.kind != TABLE]
    if len(modes) == 1 or all(mode.kind == APPEND for mode in modes):
        return modes[0]
    if any(mode.kind == RETRACT for mode in modes):
        return Changelog(RETRACT)
    return Changelog(UPSERT, tuple(dict.fromkeys(key for mode in modes for key in mode.key)))


def _table(node: exp.Expr) -> Node:
    """Returns the node of a static table, or of a query over static tables."""
    what = node.copy()
    what.set("alias", None)
    if isinstance(node, exp.Values):
        return make("Table", "the values listed", Changelog(TABLE))
    return make("Table", text.shown(what), Changelog(TABLE), notes=("Read again in each micro-batch.",))
