"""The rules that normalize a model's query, in order. Each rule simplifies the tree, or stores facts in the metadata of its
nodes for later rules and the planner.

>>> [rule.__name__ for rule in RULES][:3]
['inline_ctes', 'remove_brackets', 'inline_named_windows']
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from sqlglot import exp

from ..aggregates.grouping import check_items_are_keys
from ..aggregates.types import find_types as types_of_tree
from ..frontend import hints, session_zone
from ..frontend.streams import is_printed_by_macro
from ..sql import functions
from ..sql.dialect import parse, sql
from ..sql.functions import QueryRunner
from ..sql.nodes import every
from ..sql.tie_breaking import break_ties, break_ties_of_extremes
from . import as_of_joins, brackets, compared_types, lateral_joins, plain_values, relations
from .names import ctes, natural_joins, qualified, result_names, same_names, stars
from .rankings import qualify, rank_filters, ranks


@dataclass
class NormalizedQuery:
    """A model's query while it is normalized, and what the rules found out."""

    tree: exp.Query
    ask: QueryRunner | None = None
    """Runs a query in a session; None without one."""
    unknown_functions: tuple[str, ...] = ()
    """Functions that may be aggregates, which only a session knows."""
    unclear_columns: tuple[str, ...] = ()
    """Columns whose relation or type only a session knows."""
    nameless: str | None = None
    """A column of the result whose name in Spark is unknown."""
    star: exp.Expr | None = None
    """A call with a '*' whose columns are unknown."""
    _renamed: Collection[str] = ()

    @property
    def selects(self) -> list[exp.Select]:
        """Returns the author's SELECTs over streams, each before those below it."""
        over = hints.selects_over_streams(self.tree)
        return [
            each for each in every(self.tree, exp.Select) if id(each) in over and _is_written_by_author(each)
        ]


def normalize(tree: exp.Query, ask: QueryRunner | None = None) -> NormalizedQuery:
    """Applies all rules to a query. Changes the tree.

    Raises:
        QueryError: the query has something that isn't supported over streams.
    """
    query = NormalizedQuery(tree, ask)
    for rule in RULES:
        rule(query)
    return query


def inline_ctes(query: NormalizedQuery) -> None:
    """Replaces each use of a CTE by its query.

    >>> after_rule(inline_ctes, "with a as (select 1 as x) select x from a")
    'SELECT x FROM (SELECT 1 AS x) AS a'
    """
    query.tree = ctes.inline_ctes(query.tree)


def remove_brackets(query: NormalizedQuery) -> None:
    """Removes brackets around relations in FROM.

    >>> after_rule(remove_brackets, "select a.k from (t as a join u as b on a.k = b.k)")
    'SELECT a.k FROM t AS a JOIN u AS b ON a.k = b.k'
    """
    brackets.remove_brackets(query.tree)


def inline_named_windows(query: NormalizedQuery) -> None:
    """Replaces each use of a named window by its definition.

    >>> after_rule(inline_named_windows, "select lag(a) over w as b from t window w as (order by c)")
    'SELECT LAG(a) OVER (ORDER BY c) AS b FROM t'
    """
    query.tree = ranks.inline_named_windows(query.tree)


def rewrite_qualify(query: NormalizedQuery) -> None:
    """Rewrites QUALIFY as WHERE over a subquery.

    >>> after_rule(rewrite_qualify, "select a, rank() over (order by a) as r from t qualify r < 3")
    'SELECT a, r FROM (SELECT a, RANK() OVER (ORDER BY a) AS r FROM t) AS _t WHERE r < 3'
    """
    query.tree = qualify.rewrite_qualify(query.tree)


def check_relation_names(query: NormalizedQuery) -> None:
    """Refuses relations whose names differ only in case."""
    relations.check_name_case(query.tree)


def note_rankings(query: NormalizedQuery) -> None:
    """Notes the text of each ranking for messages."""
    ranks.note_ranking_texts(query.tree)


def mark_functions(query: NormalizedQuery) -> None:
    """Marks calls of aggregates and of non-deterministic functions that aren't built into Spark."""
    asked = None if query.ask is None else functions.session_functions(query.ask)
    query.unknown_functions = functions.mark_functions(query.tree, asked)


def push_down_rank_filters(query: NormalizedQuery) -> None:
    """Adds an upper bound of a rank to the query directly above the ranking.

    >>> ranked = "select a, row_number() over (order by a) as r from (select /*+ STREAM */ * from t)"
    >>> after_rule(push_down_rank_filters, f"select a from (select * from ({ranked})) where r < 3").partition(" AS r ")[2]
    'FROM (SELECT /*+ STREAM */ * FROM t)) WHERE `r` <= 2)) WHERE r < 3'
    """
    query.tree = rank_filters.push_down_bounds(query.tree)


def mark_streams(query: NormalizedQuery) -> None:
    """Marks the relations that are read as streams."""
    hints.mark_streams(query.tree)


def rewrite_natural_joins(query: NormalizedQuery) -> None:
    """Rewrites NATURAL joins with USING, where the columns of both sides are known."""
    natural_joins.rewrite_natural_joins(query.selects, query.ask)


def check_relations(query: NormalizedQuery) -> None:
    """Refuses clauses other than GROUP BY, joins and rankings that combine rows of a stream, and windows whose time column
    doesn't exist."""
    brackets.check_streams_in_brackets(query.tree)
    relations.check_stream_relations(query.tree)
    relations.check_times_of_windows(query.tree)


def check_group_items(query: NormalizedQuery) -> None:
    """Refuses positions in GROUP BY that name no column."""
    for select in query.selects:
        check_items_are_keys(select)


def name_results(query: NormalizedQuery) -> None:
    """Names the unnamed columns of the result as Spark does.

    >>> after_rule(name_results, "select upper(a) from t")
    'SELECT UPPER(a) AS `upper(a)` FROM t'
    """
    nameless = result_names.name_columns(query.tree)
    query.nameless = None if nameless is None else hints.excerpt(nameless)


def inline_plain_values(query: NormalizedQuery) -> None:
    """Replaces each scalar subquery without FROM by its value.

    >>> after_rule(inline_plain_values, "select (select a + 1) as b from (select /*+ STREAM */ * from t)")
    'SELECT (a + 1) AS b FROM (SELECT /*+ STREAM */ * FROM t)'
    """
    plain_values.inline_values(query.selects)


def qualify_columns(query: NormalizedQuery) -> None:
    """Qualifies columns with their relation where a query reads several streams, and notes the types that are compared."""
    written = (each for each in every(query.tree, exp.Select) if _is_written_by_author(each))
    query.unclear_columns = qualified.qualify_columns(query.tree, written, hints.reads_stream, query.ask)
    compared = [each for each in query.selects if qualified.depends_on_owners(each, hints.reads_stream)]
    query.unclear_columns += compared_types.note_compared_types(compared, query.ask)


def nest_temporal_joins(query: NormalizedQuery) -> None:
    """Moves temporal joins of subqueries in expressions into FROM."""
    as_of_joins.nest_in_expressions(query.selects)


def rewrite_lateral_joins(query: NormalizedQuery) -> None:
    """Rewrites LATERAL queries as joins."""
    while lateral_joins.rewrite_as_join(query.tree, hints.reads_stream):
        compared_types.note_compared_types(query.selects, query.ask)


def rename_duplicate_columns(query: NormalizedQuery) -> None:
    """Renames columns of subqueries that have the same name."""
    query._renamed = same_names.rename_duplicates(query.tree, query.selects, query.ask)


def expand_stars(query: NormalizedQuery) -> None:
    """Replaces each '*' in a call by its columns, where they are known."""
    star = stars.expand_stars(query.tree, _expands_to_stream_columns, query.ask, query._renamed)
    # Without a session a plan is only displayed.
    query.star = None if query.ask is None else star


def find_types(query: NormalizedQuery) -> None:
    """Notes the types of summed values and of rankings' columns, and the intervals that a clock change may lengthen."""
    if query.ask is not None:
        types_of_tree(query.tree, query.ask)
        session_zone.mark_clock_slack(query.tree, query.ask)


def break_ties_of_tables(query: NormalizedQuery) -> None:
    """Breaks ties of rankings and of MIN_BY and MAX_BY over tables, as in batch. Over streams, the planner breaks ties.

    >>> ranked = "select k, row_number() over (order by v) as r from d"
    >>> after_rule(break_ties_of_tables, f"select r from (select /*+ STREAM */ * from t) join ({ranked}) using (k)")[51:]
    '(SELECT k, ROW_NUMBER() OVER (ORDER BY v, STRUCT(k)) AS r FROM d) USING (k)'
    """
    over_streams = hints.selects_over_streams(query.tree)
    for select in every(query.tree, exp.Select):
        if id(select) not in over_streams:
            break_ties(select)
            break_ties_of_extremes(select)


RULES: tuple[Callable[[NormalizedQuery], None], ...] = (
    inline_ctes,
    remove_brackets,
    inline_named_windows,
    rewrite_qualify,
    check_relation_names,
    note_rankings,
    mark_functions,
    push_down_rank_filters,
    mark_streams,
    rewrite_natural_joins,
    check_relations,
    check_group_items,
    name_results,
    inline_plain_values,
    qualify_columns,
    nest_temporal_joins,
    rewrite_lateral_joins,
    rename_duplicate_columns,
    expand_stars,
    find_types,
    break_ties_of_tables,
)
"""All rules, in the order in which they are applied."""


def after_rule(rule: Callable[[NormalizedQuery], None], text: str) -> str:
    """Returns a query after one rule."""
    query = NormalizedQuery(parse(text))
    hints.mark_streams(query.tree)
    rule(query)
    return sql(query.tree)


def _expands_to_stream_columns(star: exp.Expr) -> bool:
    """Whether a '*' was written by the author and expands to columns of streams."""
    select = star.find_ancestor(exp.Select)
    return select is not None and _is_written_by_author(select) and hints.reads_stream(select)


def _is_written_by_author(select: exp.Select) -> bool:
    """Whether a SELECT was written by the author, not printed by a window macro."""
    return hints.window_of(select) is None and not is_printed_by_macro(select)
