"""Describes a query in a line: its SELECTs in the order in which they are evaluated, in the author's words."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from ..frontend import hints
from ..normalize.conditions import INPUT
from ..normalize.rankings import ranks
from ..sql.clauses import over_clauses, relations_with_joins
from ..sql.dialect import function_name
from ..sql.nodes import every
from .author_text import (
    Expressions,
    author_items,
    clauses_text,
    group_by_text,
    is_generated,
    is_grouped,
    joins_text,
    order_text,
    over_clauses_text,
    partition_key_texts,
    per_suffix,
    text_of,
    with_author_expressions,
)

WITHIN_WINDOWS = {
    "Join": "WindowJoin",
    "TopN": "WindowTopN",
    "Deduplicate": "WindowDeduplicate",
    "Aggregate": "WindowAggregate",
}
"""Name in a `Summary` → name of the operator within windows."""
ROW_BY_ROW = ("Project", "LookupJoin")
"""Names of operators that work row by row."""
ANY_QUERY = (
    *ROW_BY_ROW,
    *WITHIN_WINDOWS.values(),
    "OverAggregate",
    "SetOperation",
    "UnionAll",
    "WindowTableFunction",
)
"""Names of operators whose rows arrive together, so that they can run any query."""


@dataclass(frozen=True)
class Summary:
    """Describes queries.

    >>> from ..sql.dialect import parse
    >>> text = "select * from (select *, rank() over (partition by k order by v) as r from __input_0) where r <= 2"
    >>> Summary().describe(parse(text))
    ('TopN', 'first 2 places by v per k, ties included; WHERE r <= 2')
    """

    written: Expressions = field(default_factory=dict)
    """The author's expressions for columns of the first input."""
    inputs: Collection[str] = ()
    """Names of the streams and windows' results that a query reads, in addition to an operator's inputs."""
    time: str = ""
    """Column of the event time below rankings."""
    last: int | None = None
    """The last rank that the query above uses; None if only filters in the described query limit ranks."""
    windows: bool = False
    """Whether rankings are within windows."""

    def describe(self, query: exp.Expr) -> tuple[str, str]:
        """Returns an operator's name, which is that of the last SELECT that does more than a projection, and a description,
        which is empty if nothing is computed."""
        query = query.copy()
        for table in every(query, exp.Table):
            if table.name in self.inputs:
                table.set("this", exp.to_identifier(f"{INPUT}0"))
        found = [each for each in self._describe_selects(query) if each[1]]
        names = [name for name, _ in found if name != "Project"] or ["Project"]
        return names[-1], "; ".join(text for _, text in found)

    def _describe_selects(self, node: exp.Expr) -> list[tuple[str, str]]:
        """Returns the name and description of each SELECT, the innermost first."""
        node = node.unnest()
        if isinstance(node, exp.SetOperation):
            is_all = not node.args.get("distinct")
            name = "UnionAll" if is_all and isinstance(node, exp.Union) else "SetOperation"
            sides = [side.unnest() for side in (node.this, node.expression)]
            texts = [
                "; ".join(text for _, text in self._describe_selects(side) if text)
                or ", ".join(map(text_of, author_items(side)))
                for side in sides
            ]
            words = f"{node.key.upper()}{' ALL' if is_all else ''}"
            return [(name, f" {words} ".join(f"({each})" for each in texts))]
        if not isinstance(node, exp.Select):
            return []
        if window := hints.window_of(node):
            return [*self._describe_selects(hints.window_input(node)), ("WindowTableFunction", str(window))]
        found: list[tuple[str, str]] = []
        streams = [each for each, _ in relations_with_joins(node) if _reads_input(each)]
        for each in streams:
            alias = f"{each.alias}: " if len(streams) > 1 and not is_generated(each.alias) else ""
            found += [(name, f"{alias}{text}") for name, text in self._describe_selects(each) if text]
        return [*found, self._describe_select(node, len(streams) > 1)]

    def _describe_select(self, select: exp.Select, of_streams: bool) -> tuple[str, str]:
        """Returns the name and description of a single SELECT."""
        written, name, words = with_author_expressions(select, self.written), "Project", []
        if select.args.get("joins"):
            name, words = "Join" if of_streams else "LookupJoin", [joins_text(written)]
        if is_grouped(select):
            name, words = "Aggregate", [*words, group_by_text(written)]
        if calls := over_clauses(select):
            columns = [*ranks.rankings(select)]
            made = "OverAggregate", over_clauses_text(written)
            if len(calls) == len(columns) == 1:
                last = (
                    ranks.greatest_ranks_in_outer_select(select).get(columns[0])
                    if self.last is None
                    else self.last
                )
                made = describe_ranking(written, last, self.time, self.windows)
            name, words = made[0], [*words, made[1]]
        elif select.args.get("distinct"):
            name, words = "SetOperation", [*words, "DISTINCT"]
        rest = clauses_text(written)
        return name, ": ".join([*words, *([rest] if rest else [])])


def _reads_input(node: exp.Expr) -> bool:
    """Whether a relation reads an operator's input."""
    return any(table.name.startswith(INPUT) for table in every(node, exp.Table))


def tables_read_by(query: exp.Expr, inputs: Collection[str] = ()) -> tuple[str, ...]:
    """Returns the streams and tables that a query reads, without an operator's inputs and relations in `inputs`.

    >>> from ..sql.dialect import parse
    >>> tables_read_by(parse("select * from __input_0 join lake.dims as d on d.k = k"))
    ('lake.dims',)
    """
    read = [table.copy() for table in every(query, exp.Table) if not table.name.startswith(INPUT)]
    for table in read:
        table.set("alias", None)
    return tuple(dict.fromkeys(text_of(table) for table in read if table.name not in inputs))


def rows_suffix(query: exp.Query, inputs: Collection[str] = ()) -> str:
    """Returns the rows that an aggregation or a window reads, as a suffix of its description.

    >>> from ..sql.dialect import parse
    >>> texts = "select * from __input_0 where a > 1", "select a + 1 as b from __input_0"
    >>> [rows_suffix(parse(text)) for text in texts]
    [' WHERE a > 1', ' of a + 1 AS b']
    """
    _, text = Summary(inputs=inputs).describe(query)
    return f"{'' if text.startswith('WHERE') else ' of'} {text}" if text else ""


def describe_ranking(
    select: exp.Select, last: int | None, time: str = "", windows: bool = False
) -> tuple[str, str]:
    """Returns the name and description of a SELECT's only ranking: one that keeps only the first row by event time is
    a deduplication.

    Args:
        last: the last rank that is used; None if unknown.
        time: column of the event time below it.
        windows: whether the ranking is within windows.

    >>> from ..sql.dialect import parse
    >>> select = parse("select k, row_number() over (partition by k order by ts) as rn from orders")
    >>> describe_ranking(select, 1, time="ts"), describe_ranking(select, 3, time="ts")
    (('Deduplicate', 'keep first by ts per k'), ('TopN', 'first 3 by ts per k'))
    """
    (rank,) = ranks.rankings(select).values()
    within = partition_key_texts(rank)
    if windows:
        bounds = ("window_start", "window_end", "window_time")
        within = [*(key for key in within if key.rpartition(".")[2] not in bounds), "window"]
    order, function = order_text(rank), function_name(rank.this)
    words = order.lower().removesuffix(" nulls last").removesuffix(" nulls first").split()
    column = words[0].rpartition(".")[2] if words else ""
    is_first = function == "row_number" and last == 1
    if is_first and time and column in (time.lower(), "window_time") and words[1:] in ([], ["desc"], ["asc"]):
        keep = "last" if words[1:] == ["desc"] else "first"
        return "Deduplicate", f"keep {keep} by {words[0]}{per_suffix(within)}"
    return "TopN", ranking_text(function, last, order, within)


def ranking_text(function: str, last: int | None, order: str, within: Sequence[str]) -> str:
    """Returns a ranking in short.

    >>> ranking_text("row_number", 10, "n DESC", ["day"])
    'first 10 by n DESC per day'
    >>> ranking_text("rank", 1, "n", []), ranking_text("rank", None, "n", [])
    ('first place by n, ties included', 'places by n, ties included')
    """
    if function == "row_number":
        what = "rows" if last is None else "first" if last == 1 else f"first {last}"
        ties = ""
    else:
        what = "places" if last is None else "first place" if last == 1 else f"first {last} places"
        ties = ", ties included" if function == "rank" else ", equal rows sharing a place"
    return f"{what} by {order}{per_suffix(within)}{ties}"
