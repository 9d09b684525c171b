"""COUNT(DISTINCT …) in two levels: values are counted per bucket of their hash, and the buckets are added up.

No single task counts all values of a key with very many. Several distinct arguments are several kinds of
rows, distinguished by GROUPING; aggregates without DISTINCT are another kind.

>>> from ..sql.dialect import parse, sql
>>> tree = parse("select city, sum(amount) as s, count(distinct u) as users from t group by city")
>>> print(sql(split_distinct(tree, 64), pretty=True))
WITH split_rows AS (
  /* 1. The rows. */
  SELECT
    city,
    amount,
    u
  FROM t
), split_values AS (
  /* 2. Each u once for each city, with its bucket; and one row for each city with the other aggregates. */
  SELECT
    city,
    u,
    PMOD(HASH(u), 64) AS bucket,
    GROUPING(u) = 1 AS is_group,
    SUM(amount) AS sum_amount
  FROM split_rows
  GROUP BY
    city,
    GROUPING SETS (
      (u),
      ()
    )
), split_buckets AS (
  /* 3. The values of each bucket, counted. */
  SELECT
    city,
    bucket,
    MAX(sum_amount) FILTER(WHERE is_group) AS sum_amount,
    COUNT(u) AS count_distinct_u
  FROM split_values
  GROUP BY
    city,
    bucket
)
/* 4. The buckets, put together. */
SELECT
  city AS city,
  MAX(sum_amount) AS s,
  SUM(count_distinct_u) AS users
FROM split_buckets
GROUP BY
  city
"""

from __future__ import annotations

from sqlglot import exp

from ..aggregates.aggregates import KEPT
from ..errors import QueryError
from ..sql.dialect import sql
from ..sql.names import Names
from . import refusals
from .buckets import check_buckets
from .each_select import rewrite_each
from .grouped import Call, GroupedSelect, grouping_sets, has_distinct
from .steps import NamedQuery, add_ctes, column, conjunction, named_item, parse_expression

FUNCTIONS = frozenset({"count"})
BUCKETS = 1024
NOTHING = "There is no COUNT(DISTINCT …) in this query to split; leave the rewrite out."

_ZERO, _EMPTY = "0", "array()"
_RESULT_OVER_NO_ROWS: dict[str, str | None] = {
    **dict.fromkeys(KEPT),
    **dict.fromkeys(
        """any approx_percentile corr covar_pop covar_samp first first_value kurtosis last last_value listagg median mode
        percentile percentile_approx percentile_cont percentile_disc regr_avgx regr_avgy regr_intercept regr_r2 regr_slope
        regr_sxx regr_sxy regr_syy skewness string_agg try_avg try_sum""".split()
    ),
    **dict.fromkeys(("count", "count_if", "approx_count_distinct", "regr_count"), _ZERO),
    **dict.fromkeys(("collect_list", "collect_set", "array_agg"), _EMPTY),
}
"""Result of an aggregate over no rows, as SQL; None for NULL."""


def split_distinct(tree: exp.Query, buckets: int = BUCKETS) -> exp.Query:
    """Returns a query with the same rows that counts distinct values in two levels. Changes the tree.

    Args:
        buckets: number of buckets per key.
    """
    check_buckets(buckets)
    return rewrite_each(
        tree,
        lambda select: has_distinct(select, FUNCTIONS),
        lambda select, names: _SplitDistinct(select, names, buckets).rewritten_query(),
        NOTHING,
    )


class _SplitDistinct:
    def __init__(self, select: exp.Select, names: Names, buckets: int) -> None:
        refusals.check_repeatable(select)
        refusals.check_steps(refusals.windows_read(select))
        self.grouped = GroupedSelect(select, names, FUNCTIONS)
        self.buckets = buckets
        self._check_grouping_sets()
        self._check_results_over_no_rows()
        self.sets = self.grouped.distinct_sets
        self.values = [name for members in self.sets for name in members]
        self.rows, self.distinct = names.new("split_rows"), names.new("split_values")
        self.parts = names.new("split_buckets")
        self.bucket, self.is_group = names.new("bucket"), names.new("is_group")
        self.flags = list(self.grouped.flags.values())

    def rewritten_query(self) -> exp.Select:
        counted = ", and each ".join(" and ".join(members) for members in self.sets)
        keys = ", ".join(key.name for key in self.grouped.keys)
        others = f"; and one row{f' for each {keys}' if keys else ''} with the other aggregates"
        steps = [
            NamedQuery(self.rows, "The rows.", self.grouped.rows()),
            NamedQuery(
                self.distinct,
                f"Each {counted} once{f' for each {keys}' if keys else ''}, with its bucket"
                f"{others if self.grouped.other_calls else ''}.",
                self._select_distinct_values(),
            ),
            NamedQuery(self.parts, "The values of each bucket, counted.", self._select_buckets()),
        ]
        final = self.grouped.query_over_results(self, having="having").from_(self.parts)
        if keys:
            final.set("group", exp.Group(expressions=self._keys()))
        return add_ctes(final, steps, "The buckets, put together.")

    def _check_grouping_sets(self) -> None:
        sets = [frozenset(members) for members in self.grouped.sets or ()]
        for members in sets:
            if sets.count(members) > 1:
                raise QueryError(
                    f"The grouping set ({', '.join(sorted(members))}) is listed twice, and its rows would be merged; "
                    "write it once."
                )

    def _check_results_over_no_rows(self) -> None:
        for call in self.grouped.other_calls if not self.grouped.keys else ():
            if call.function not in _RESULT_OVER_NO_ROWS:
                raise QueryError(
                    f"What {call.function}() returns for no rows is not known here, and a query without GROUP BY has a "
                    "row even then; compute it in a separate query."
                )

    # -- the steps ---------------------------------------------------------------------------------

    def _keys(self) -> list[exp.Expr]:
        return [*self.grouped.key_columns(), *map(column, self.flags)]

    def _select_distinct_values(self) -> exp.Select:
        filters = list(dict.fromkeys(call.filter for call in self.grouped.distinct if call.filter))
        bucket = parse_expression(
            f"pmod(hash({', '.join(sql(column(name)) for name in self.values)}), {self.buckets})"
        )
        items = [
            *self.grouped.key_columns(),
            *self.grouped.flag_items(),
            *map(column, self.values),
            named_item(bucket, self.bucket),
            *(named_item(parse_expression(f"bool_or({sql(column(name))})"), name) for name in filters),
        ]
        sets: list[tuple[str, ...]] = list(self.sets)
        if self.grouped.other_calls:
            blank = [parse_expression(f"grouping({sql(column(members[0]))}) = 1") for members in self.sets]
            items.append(named_item(conjunction(blank), self.is_group))
            items += [named_item(call.text.copy(), call.name) for call in self.grouped.other_calls]
            sets.append(())
        kinds: list[exp.Expr] = [*map(column, sets[0])] if len(sets) == 1 else [grouping_sets(sets)]
        made = exp.Select(expressions=items).from_(self.rows)
        made.set("group", self.grouped.group_by(*kinds))
        return made

    def _select_buckets(self) -> exp.Select:
        plain = [
            named_item(
                parse_expression(f"max({sql(column(c.name))}) filter (where {sql(column(self.is_group))})"),
                c.name,
            )
            for c in self.grouped.other_calls
        ]
        counts = [named_item(self._count_distinct_sql(call), call.name) for call in self.grouped.distinct]
        made = exp.Select(expressions=[*self._keys(), column(self.bucket), *plain, *counts]).from_(
            self.distinct
        )
        made.set("group", exp.Group(expressions=[*self._keys(), column(self.bucket)]))
        return made

    def _count_distinct_sql(self, call: Call) -> exp.Expr:
        """Returns a count of distinct values. Rows of other kinds have NULL in these columns, so they aren't
        counted."""
        assert call.distinct is not None
        where = f" filter (where {sql(column(call.filter))})" if call.filter else ""
        return parse_expression(f"count({', '.join(sql(column(name)) for name in call.distinct)}){where}")

    # -- the outer SELECT --------------------------------------------------------------------------

    def key(self, name: str) -> exp.Expr:
        """Returns the column of a group key, or of a flag of grouping sets."""
        return column(name)

    def call(self, call: Call) -> exp.Expr:
        """Returns an aggregate over the buckets. There may be no bucket if the query has no GROUP BY."""
        name = sql(column(call.name))
        text = f"max({name})" if call.distinct is None else f"sum({name})"
        nothing = _ZERO if call.distinct is not None else _RESULT_OVER_NO_ROWS.get(call.function)
        return parse_expression(
            text if self.grouped.keys or nothing is None else f"coalesce({text}, {nothing})"
        )
