"""Rewrites in a stream: requested by hints, which Spark ignores, and implemented by the operators.

In batch a rewrite changes the query; in a stream it changes what the state stores and how the result is
computed:

enum_distinct   a distinct set has one row for all values of a key, with a column per value
split_distinct  nothing: each distinct value is a row of the state, counted on its own
split_topn      rows are ranked in buckets first, and the first of these overall

>>> print(with_hints("split_topn", "select * from (select *, rank() over (order by a) r from t) where r < 9", 16))
SELECT /*+ SPLIT_TOPN(16) */
  *
FROM (
  SELECT
    *,
    RANK() OVER (ORDER BY a) AS r
  FROM t
)
WHERE
  r < 9
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import product
from math import prod

from sqlglot import exp

from ..aggregates.aggregate_builder import AggregateBuilder
from ..aggregates.grouping import grouping
from ..aggregates.model import Enumerated
from ..aggregates.types import types_query
from ..errors import QueryError, UnintendedQueryError
from ..frontend import hints
from ..normalize.rankings import qualify, ranks
from ..sql.dialect import parse, select_over_same_relations, sql
from ..sql.functions import QueryRunner
from ..sql.nodes import every
from . import enum_distinct, enumerable, split_distinct, split_topn
from .buckets import check_buckets
from .grouped import has_distinct

ENUM_DISTINCT, SPLIT_DISTINCT, SPLIT_TOPN = "enum_distinct", "split_distinct", "split_topn"
MOST_COLUMNS = 256

_BUCKETS = {SPLIT_DISTINCT: split_distinct.BUCKETS, SPLIT_TOPN: split_topn.BUCKETS}
_FITS: Mapping[str, tuple[Callable[[exp.Select], bool], str]] = {
    ENUM_DISTINCT: (lambda select: has_distinct(select, enum_distinct.FUNCTIONS), enum_distinct.NOTHING),
    SPLIT_DISTINCT: (lambda select: has_distinct(select, split_distinct.FUNCTIONS), split_distinct.NOTHING),
    SPLIT_TOPN: (lambda select: bool(ranks.greatest_ranks(select)), split_topn.NOTHING),
}


def with_hints(name: str, text: str, buckets: int | None = None) -> str:
    """Returns a streaming model's SELECT with the hint of a rewrite in each SELECT that it fits.

    Args:
        buckets: number of buckets, for rewrites that have them.

    Raises:
        QueryError: the rewrite fits no SELECT, or the number of buckets is invalid.
    """
    tree = qualify.rewrite_qualify(parse(text, f"What {name} rewrites"))
    fits, nothing = _FITS[name]
    found = [select for select in every(tree, exp.Select) if fits(select)]
    try:
        if buckets is not None:
            check_buckets(buckets)
        if not found:
            raise QueryError(nothing)
    except QueryError as problem:
        raise QueryError(f"{name}: {problem}") from problem
    for select in found:
        hint = select.args.get("hint") or exp.Hint(expressions=[])
        hint.append("expressions", _hint(name, buckets))
        select.set("hint", hint)
    return sql(tree, pretty=True)


def _hint(name: str, buckets: int | None) -> exp.Expr:
    if buckets is None:
        return exp.Var(this=name.upper())
    return exp.Anonymous(this=name.upper(), expressions=[exp.Literal.number(buckets)])


class Rewrites:
    """Rewrites that a query requests, and their outcome."""

    def __init__(self, tree: exp.Query, text: str) -> None:
        """Removes the hints from the tree of a text.

        Raises:
            QueryError: a hint has invalid arguments, or is in a place where it has no effect.
        """
        self.asked: dict[str, int | None] = {}
        """Rewrite → number of buckets."""
        self._done: dict[tuple[str, str], str | None] = {}
        """Rewrite and a description of its effect → the operator that has it; None for the query over the windows."""
        self._problems: dict[str, QueryError] = {}
        self._fitting: set[str] = set()
        """Rewrites whose hint is in a SELECT that they fit."""
        found = []
        for select, hint in hints.take_hints(tree, is_rewrite_hint):
            assert isinstance(hint, exp.Expr)
            name = hint.name.lower()
            self.asked[name] = select.meta[name] = _buckets_of_hint(name, hint)
            found.append(name)
            if isinstance(select, exp.Select) and _FITS[name][0](select):
                self._fitting.add(name)
        for name in _FITS:
            hint = sql(_hint(name, _BUCKETS.get(name)))
            hints.check_hint_places(name.upper(), hint, found.count(name), text)

    def effects(self, operators: Collection[str]) -> tuple[tuple[str, str], ...]:
        """Returns each rewrite that has an effect, with its description.

        Args:
            operators: names of the plan's operators and of their groups. Effects in operators that were planned and aren't
                in the plan are left out.
        """
        return tuple(
            each for each, operator in self._done.items() if operator is None or operator in operators
        )

    def enumerated_keys(
        self, select: exp.Select, operator: str, builder: AggregateBuilder, ttl: int | None = None
    ) -> Enumerated | None:
        """Returns the keys with few values for which a GROUP BY's distinct sets have columns; None if it
        doesn't request that or it isn't possible."""
        if ENUM_DISTINCT not in select.meta:
            return None
        try:
            found = _enumerated_distinct(select, builder, ttl)
        except QueryError as problem:
            self._problems[ENUM_DISTINCT] = problem
            return None
        values = ", ".join(name for members in builder.distinct_sets for name in members.columns)
        if found is None:
            self._add(
                ENUM_DISTINCT, operator, f"{operator} keeps each {values} once, with a column for each FILTER"
            )
        else:
            keys = ", ".join(found.keys)
            self._add(
                ENUM_DISTINCT,
                operator,
                f"{operator} keeps each {values} once for all {len(found.values)} values of {keys}, with a column for each",
            )
        return found

    def record_split_distinct(self, select: exp.Select, operator: str, builder: AggregateBuilder) -> None:
        """Records that the distinct sets of a GROUP BY are split without a change."""
        if SPLIT_DISTINCT not in select.meta:
            return
        if builder.distinct_sets:
            self._add(
                SPLIT_DISTINCT,
                operator,
                f"{operator} keeps each distinct value in its own row and counts it there, so no key's values meet in one "
                "place; the number of buckets changes nothing in a stream",
            )

    def record_stored_rows(self, select: exp.Select, reason: str) -> None:
        """Records that a GROUP BY has no distinct sets because its rows are buffered."""
        for name in (ENUM_DISTINCT, SPLIT_DISTINCT):
            if name in select.meta:
                self._problems[name] = QueryError(
                    f"The rows of this GROUP BY are kept as they are ({reason}), so there is no distinct set in the "
                    "state; leave the rewrite out."
                )

    @property
    def topn_buckets(self) -> int | None:
        """Returns the number of buckets for rankings; None if they aren't split."""
        return self.asked.get(SPLIT_TOPN)

    def record_split_ranking(self, operator: str | None) -> None:
        """Records that a ranking is split into buckets. `operator`: None for the query over the windows."""
        if self.topn_buckets is not None:
            who = operator or "the query over the windows"
            self._add(
                SPLIT_TOPN,
                operator,
                f"{who} ranks the rows of {self.topn_buckets} buckets, and the first of these",
            )

    def split_rankings_of_output(self, query: exp.Query) -> exp.Query:
        """Returns the query above the window operators, with its rankings split if that is requested."""
        if self.topn_buckets is None:
            return query
        try:
            made = split_topn.split_topn(query.copy(), self.topn_buckets)
        except QueryError as problem:
            self._problems[SPLIT_TOPN] = problem
            return query
        self.record_split_ranking(None)
        # Its text begins with WITH, and other text is put before it.
        return exp.select("*").from_(exp.Subquery(this=made))

    def no_effect_error(self, operators: Collection[str], in_operators: bool = False) -> QueryError | None:
        """Returns the error about the first requested rewrite that had no effect; None if all had one.

        Args:
            operators: see `effects`.
            in_operators: whether the query is planned as operators.
        """
        done = {name for name, _ in self.effects(operators)}
        for name in self.asked:
            if name not in done:
                problem = self._problems.get(name)
                if problem is None and in_operators and name in self._fitting:
                    return UnintendedQueryError(
                        f"{name}: the operators that compute this query make no use of it; leave the rewrite out."
                    )
                return QueryError(f"{name}: {problem or _FITS[name][1]}")
        return None

    def _add(self, name: str, operator: str | None, what: str) -> None:
        self._done.setdefault((name, what), operator)


def check_enumerated_texts(tree: exp.Query, ask: QueryRunner) -> None:
    """Raises unless each string that WHERE lists as a value of an `enum_distinct` key is written as Spark writes that value.
    Otherwise the counts and the rows would have different keys.

    Args:
        tree: a query whose streams and hints are marked.
    """
    selects = [select for select in every(tree, exp.Select) if ENUM_DISTINCT in select.meta]
    for select, key in [(each, key) for each in selects for key in grouping(each).keys]:
        texts = [
            each
            for each in enumerable.possible_values(select, key) or ()
            if enumerable.is_string_literal(each)
        ]
        try:
            kind = (
                str(*ask(types_query(select_over_same_relations(select), [f"ANY_VALUE({sql(key)})"])))
                if texts
                else "string"
            )
        except QueryError:
            continue  # correlated, or Spark rejects the query itself
        for text in map(sql, texts) if not kind.startswith("string") else ():
            shown, written = ask(f"SELECT CAST(CAST({text} AS {kind}) AS STRING), CAST({text} AS STRING)")
            if shown not in (None, written):
                raise QueryError(
                    f"{ENUM_DISTINCT}: {sql(key)} is a {kind.upper()}, and the text {text} is its value '{shown}'; write it "
                    "so, or as a value of that type."
                )


def is_rewrite_hint(hint: exp.Expr | str) -> bool:
    """Whether a hint requests a rewrite."""
    return isinstance(hint, exp.Expr) and hint.name.lower() in _FITS


def _buckets_of_hint(name: str, hint: exp.Expr) -> int | None:
    arguments = hint.expressions
    if name not in _BUCKETS:
        if arguments:
            raise QueryError(f"The hint {sql(hint)} takes no arguments; write {name.upper()}.")
        return None
    if not arguments:
        return _BUCKETS[name]
    number = arguments[0].name if len(arguments) == 1 and isinstance(arguments[0], exp.Literal) else ""
    if not number.isdigit():
        raise QueryError(
            f"The hint {sql(hint)} takes a number of buckets; write {name.upper()}({_BUCKETS[name]})."
        )
    check_buckets(int(number))
    return int(number)


def _enumerated_distinct(select: exp.Select, builder: AggregateBuilder, ttl: int | None) -> Enumerated | None:
    if builder.window is not None and builder.window.merges:
        raise QueryError(
            f"{builder.window.kind}() computes the bounds of a window from its rows, so values of a key may differ in "
            "their windows "
            "and can't share a distinct set; leave enum_distinct out."
        )
    if builder.grouping_sets is not None:
        raise QueryError(
            "GROUPING SETS, ROLLUP and CUBE have distinct sets of their own in a stream, one for each set of keys; leave "
            "enum_distinct out, or group by one set."
        )
    if builder.has_retractions:
        raise QueryError(
            "The stream's rows may be retracted, so the state counts each distinct value per key; leave enum_distinct out."
        )
    if ttl is not None:
        raise QueryError(
            "With state_ttl each group expires on its own, and with enum_distinct groups share their distinct values; leave "
            "enum_distinct or state_ttl out."
        )
    nodes = [(key.name, key.expression) for key in builder.keys]
    found: list[tuple[str, exp.Expr, Sequence[exp.Expr]]] = []
    for name, node in nodes:
        values = enumerable.possible_values(select, node)
        if values is not None and len(values) > 1:
            found.append((name, node, values))
    filters = max((len(set(members.filters)) for members in builder.distinct_sets), default=0)
    flags = max((len(members.flags) for members in builder.distinct_sets), default=0)
    if not found:
        if filters > 1:
            return None
        raise enumerable.no_values_error([node for _, node in nodes], select)
    size = prod(len(values) for *_, values in found)
    if size * flags > MOST_COLUMNS:
        raise QueryError(
            f"{size} values and {flags} distinct aggregates make {size * flags} columns of the state, more than the "
            f"{MOST_COLUMNS} that pay; list fewer values, or leave enum_distinct out."
        )
    number = builder.row_column(_combination_number(found), role="number")
    combined = product(*(map(sql, values) for *_, values in found))
    return Enumerated(tuple(name for name, *_ in found), number, tuple(combined))


def _combination_number(found: Sequence[tuple[str, exp.Expr, Sequence[exp.Expr]]]) -> exp.Expr:
    """Returns SQL that numbers the combinations of the keys' values, for the combination of a row."""
    first, *others = [
        (len(values), exp.paren(enumerable.number_of_value(node, values))) for _, node, values in found
    ]
    made: exp.Expr = first[1]
    for size, own in others:
        scaled = exp.Mul(this=exp.paren(made), expression=exp.Literal.number(size))
        made = exp.Add(this=scaled, expression=own)
    return made
