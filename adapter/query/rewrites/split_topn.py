"""The first N of each group in two levels: the first N of each bucket, then the first N overall.

A row that isn't among the first N of its bucket isn't among the first N of its group. So the final ranking
sorts at most N rows per bucket.

>>> from ..sql.dialect import parse, sql
>>> tree = parse('''
...     select * from (select *, row_number() over (partition by c order by v desc) as rn from t) where rn <= 3
... ''')
>>> print(sql(split_topn(tree, 16), pretty=True))
WITH topn_rows AS (
  /* 1. The rows. */
  SELECT
    *
  FROM t
), topn_buckets AS (
  /* 2. Their places among the rows of their group and bucket. */
  SELECT
    *,
    ROW_NUMBER() OVER (PARTITION BY c, PMOD(HASH(*), 16) ORDER BY v DESC, STRUCT(*)) AS bucket_place
  FROM topn_rows
), topn_ranked AS (
  /* 3. The ranking over the first 3 of each bucket. */
  SELECT
    *
    EXCEPT (bucket_place),
    ROW_NUMBER() OVER (PARTITION BY c ORDER BY v DESC, STRUCT(*)) AS rn
  FROM topn_buckets
  WHERE
    bucket_place <= 3
)
/* 4. The first of all. */
SELECT
  *
FROM topn_ranked
WHERE
  rn <= 3
"""

from __future__ import annotations

from sqlglot import exp

from ..errors import QueryError
from ..normalize.rankings import ranks
from ..sql.clauses import output_name
from ..sql.dialect import canonical, from_clause, function_name, relation_names, sql, unambiguous_names
from ..sql.names import Names
from ..sql.nodes import every
from . import refusals
from .buckets import check_buckets
from .each_select import rewrite_each
from .steps import NamedQuery, add_ctes, column, named_item, parse_expression

BUCKETS = 128
NOTHING = (
    "There is no filter on a ROW_NUMBER(), RANK() or DENSE_RANK() in this query; write SELECT * FROM (SELECT *, "
    "ROW_NUMBER() OVER (PARTITION BY … ORDER BY …) AS rn FROM …) WHERE rn <= N, or leave the rewrite out."
)


def split_topn(tree: exp.Query, buckets: int = BUCKETS) -> exp.Query:
    """Returns a query with the same rows that computes rankings in two levels. Changes the tree.

    Args:
        buckets: number of buckets per group.
    """
    check_buckets(buckets)
    _inline_ranking_ctes(tree)
    return rewrite_each(
        tree,
        lambda select: _ranking_below(select) is not None,
        lambda select, names: _SplitTopN(select, names, buckets).rewritten_query(),
        NOTHING,
    )


def _ranking_below(select: exp.Select) -> exp.Select | None:
    """Returns the SELECT directly below this one, if it ranks rows and this one filters them; None otherwise."""
    source = from_clause(select)
    below = source.this.this if source and isinstance(source.this, exp.Subquery) else None
    fits = isinstance(below, exp.Select) and ranks.rankings(below) and select.args.get("where")
    return below if fits else None


def _inline_ranking_ctes(tree: exp.Query) -> None:
    """Inlines CTEs that rank rows. Changes the tree."""
    for clause in list(every(tree, exp.With)):
        for cte in list(clause.expressions):
            body = cte.this
            if not isinstance(body, exp.Select) or not ranks.rankings(body) or cte.alias_column_names:
                continue
            name, tables = cte.alias.lower(), every(clause.parent or tree, exp.Table)
            read = [table for table in tables if not table.db and table.name.lower() == name]
            filtered = [table for table in read if _is_filtered(table)]
            for table in filtered:
                alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name))
                table.replace(exp.Subquery(this=body.copy(), alias=alias.copy()))
            if len(filtered) == len(read):
                cte.pop()
        if not clause.expressions:
            clause.pop()


def _is_filtered(table: exp.Table) -> bool:
    select = table.parent.parent if isinstance(table.parent, exp.From) else None
    return isinstance(select, exp.Select) and bool(select.args.get("where"))


class _SplitTopN:
    def __init__(self, select: exp.Select, names: Names, buckets: int) -> None:
        below = _ranking_below(select)
        assert below is not None
        refusals.check_repeatable(below)
        refusals.check_steps(refusals.windows_read(below))
        self.select, self.below, self.names, self.buckets = select, below, names, buckets
        self._check_ranking()
        ((self.rank_name, self.most),) = ranks.greatest_ranks(select).items()
        (self.position,) = [
            at for at, item in enumerate(below.expressions) if item.alias_or_name.lower() == self.rank_name
        ]
        self.rank: exp.Window = below.expressions[self.position].unalias()
        self.items = [item for item in below.expressions if not item.find(exp.Window)]
        self.has_star = any(item.is_star for item in self.items)
        self._check_items()
        self.rows, self.parts = names.new("topn_rows"), names.new("topn_buckets")
        self.ranked, self.place = names.new("topn_ranked"), names.new("bucket_place")
        self.unqualified = unambiguous_names(below)
        self.hidden: dict[str, tuple[exp.Expr, str]] = {}

    def rewritten_query(self) -> exp.Select:
        partition = [self._column_of_row(key, "part") for key in self.rank.args.get("partition_by") or ()]
        order = [self._order_item(each) for each in self.rank.args["order"].expressions]
        hashed: list[exp.Expr] = [each.this for each in order]
        row: list[exp.Expr] = (
            [exp.Star()] if self.has_star else [column(self._column_name(item)) for item in self.items]
        )
        if isinstance(self.rank.this, exp.RowNumber):
            # Ties are broken by all columns, as everywhere (`tie_breaking`).
            hashed = row
            struct = exp.Anonymous(this="STRUCT", expressions=[each.copy() for each in row])
            order.append(exp.Ordered(this=struct, nulls_first=True))
        bucket = parse_expression(f"pmod(hash({', '.join(map(sql, hashed))}), {self.buckets})")
        steps = [
            NamedQuery(self.rows, "The rows.", self._select_rows()),
            NamedQuery(
                self.parts,
                "Their places among the rows of their group and bucket.",
                exp.Select(
                    expressions=[
                        exp.Star(),
                        named_item(self._rank_over([*partition, bucket], order), self.place),
                    ]
                ).from_(self.rows),
            ),
            NamedQuery(
                self.ranked,
                f"The ranking over the first {self.most} of each bucket.",
                self._select_ranked(self._rank_over(partition, order)),
            ),
        ]
        final = self.select.copy()
        source = from_clause(final)
        assert source is not None
        alias = source.this.args.get("alias")
        table = exp.to_table(self.ranked)
        if alias:
            table.set("alias", alias.copy())
        source.this.replace(table)
        return add_ctes(final, steps, "The first of all.")

    # -- checks ------------------------------------------------------------------------------------

    def _check_ranking(self) -> None:
        if self.below.args.get("windows"):
            raise QueryError(
                f"The ranking's window has a name, '{sql(self.below.args['windows'][0])}'; write its PARTITION BY and "
                "ORDER BY into OVER (…)."
            )
        ranks.check_rankings(self.below)
        ranks.check_rankings(self.select)
        windows = list(every(self.below, exp.Window))
        own = [window for window in windows if window.parent_select is self.below]
        if len(own) > 1:
            other = next((each for each in own if not isinstance(each.this, ranks.RANKS)), own[1])
            raise QueryError(
                f"'{sql(other)}' is next to the ranking and needs all rows of its group, not only the first of each "
                "bucket; compute it in a subquery in FROM."
            )
        if not ranks.greatest_ranks(self.select):
            rank = next(iter(ranks.rankings(self.below)))
            raise QueryError(f"No filter sets an upper bound to the rank {rank}; add {rank} <= N.")
        for clause in ("distinct", "limit", "offset", "fetch"):
            if value := self.below.args.get(clause):
                raise QueryError(
                    f"'{sql(value).strip()}' is next to the ranking and would see fewer rows; move it into a subquery in "
                    "FROM, or around the filter."
                )

    def _check_items(self) -> None:
        seen: set[str] = set()
        for item in self.items:
            name = self._column_name(item).lower()
            if not item.is_star and name in seen:
                raise QueryError(f"Two columns next to the ranking are called {name}; give one another name.")
            seen.add(name)
        if self.has_star and 0 < self.position < len(self.items):
            raise QueryError(
                f"The rank {self.rank_name} is between '*' and other columns; put it first or last."
            )

    @staticmethod
    def _column_name(item: exp.Expr) -> str:
        return output_name(item) or sql(item)

    # -- the steps ---------------------------------------------------------------------------------

    def _select_rows(self) -> exp.Select:
        rows = self.below.copy()
        rows.set("order", None)
        items = [
            item.copy()
            if item.is_star or output_name(item)
            else named_item(item.copy(), self._column_name(item))
            for item in self.items
        ]
        rows.set(
            "expressions", [*items, *(named_item(node.copy(), name) for node, name in self.hidden.values())]
        )
        return rows

    def _select_ranked(self, rank: exp.Expr) -> exp.Select:
        ranked = named_item(rank, self.below.expressions[self.position].alias_or_name)
        if self.has_star:
            left_out = [*(name for _, name in self.hidden.values()), self.place]
            items: list[exp.Expr] = [exp.Star(except_=[column(name).this for name in left_out])]
            items.insert(0 if self.position == 0 else 1, ranked)
        else:
            items = [column(self._column_name(item)) for item in self.items]
            items.insert(self.position, ranked)
        made = exp.Select(expressions=items).from_(self.parts)
        return made.where(parse_expression(f"{sql(column(self.place))} <= {self.most}"))

    def _rank_over(self, partition: list[exp.Expr], order: list[exp.Expr]) -> exp.Expr:
        made = self.rank.copy()
        made.set("partition_by", [key.copy() for key in partition])
        made.set("order", exp.Order(expressions=[each.copy() for each in order]))
        return made

    def _order_item(self, ordered: exp.Expr) -> exp.Expr:
        copy = ordered.copy()
        copy.set("this", self._column_of_row(ordered.this, "order"))
        return copy

    def _column_of_row(self, node: exp.Expr, role: str) -> exp.Expr:
        """Returns an expression of the ranking over the rows: one of their columns, or a hidden column added
        for it."""
        text = canonical(node, self.unqualified)
        for item in self.items:
            if not item.is_star and canonical(item.unalias(), self.unqualified) == text:
                return column(self._column_name(item))
        if isinstance(node, exp.Column) and self._has_column(node):
            return exp.column(node.this.copy())
        if text not in self.hidden:
            self.hidden[text] = (node, self.names.new(f"{role} {node.name or function_name(node)}"))
        return column(self.hidden[text][1])

    def _has_column(self, node: exp.Column) -> bool:
        """Whether a bare '*' of one relation includes this column under an unambiguous name."""
        lone = not any(self.below.args.get(clause) for clause in ("joins", "laterals", "group"))
        known = not node.table or node.table.lower() in relation_names(self.below)
        return lone and known and len(self.items) == 1 and isinstance(self.items[0], exp.Star)
