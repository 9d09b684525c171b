"""ORDER BY … LIMIT N over a stream, written as a filter on ROW_NUMBER().

>>> from ..text.dialect import parse, sql
>>> tree = parse("select a, b as c from t order by c desc limit 3")
>>> sql(as_rank(tree))
'SELECT a, c FROM (SELECT a, b AS c, ROW_NUMBER() OVER (ORDER BY b DESC) AS __rank FROM t) AS ranked WHERE __rank <= 3'
>>> sql(as_rank(parse("select b + 1 from t order by b limit 3")))
'SELECT * EXCEPT (__rank) FROM (SELECT b + 1, ROW_NUMBER() OVER (ORDER BY b) AS __rank FROM t) AS ranked WHERE __rank <= 3'
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from ..errors import QueryError
from ..text import hints
from ..text.dialect import canonical, relation_names, relations_around, sql
from ..text.nodes import every

RANK = "__rank"


def write_as_ranks(tree: exp.Query, concerned: Callable[[exp.Select], bool]) -> exp.Query:
    """A tree with every LIMIT of the SELECTs concerned written as a rank. Changes the tree it is given.

    Raises:
        QueryError: one has no order, or counts something else than rows.
    """
    for select in reversed(list(every(tree, exp.Select))):
        # What a LATERAL reads for each row is refused, as it was written.
        if select.find_ancestor(exp.Lateral) is not None:
            continue
        if any(select.args.get(name) for name in ("limit", "offset", "fetch")) and concerned(select):
            if _is_needless(select):
                for clause in ("limit", "fetch", "order"):
                    select.set(clause, None)
                continue
            if (column := _of_around(select)) is not None:
                raise QueryError(
                    f"'{hints.quoted(select)}' cuts off rows of a query that is asked for each row around it, whose "
                    f"{sql(column)} it reads. Rank them in a query of their own, with row_number() over (partition by what "
                    "is compared with that order by …) and a filter on the place, and join it."
                )
            made = as_rank(select.copy())
            if select is tree:
                tree = made
            else:
                select.replace(made)
    return tree


def _is_needless(select: exp.Select) -> bool:
    """Whether it is only asked whether there are rows, and the limit leaves one."""
    limit = select.args.get("limit") or select.args.get("fetch")
    cut = None if limit is None or select.args.get("offset") else _number(limit)
    return isinstance(select.parent, exp.Exists) and cut is not None and cut > 0


def _of_around(select: exp.Select) -> exp.Column | None:
    """A column that a query reads of one around it, by its relation's name."""
    own = set().union(*map(relation_names, every(select, exp.Select)))
    others = relations_around(select) - own
    columns = (each for each in every(select, exp.Column) if each.table.lower() in others)
    return next(columns, None)


def as_rank(select: exp.Select) -> exp.Select:
    """One SELECT with LIMIT as a rank. Changes the tree it is given."""
    limit: exp.Expr | None = select.args.get("limit")
    offset: exp.Expr | None = select.args.get("offset")
    order = select.args.get("order")
    count = _number(limit) if limit is not None else None
    skipped = 0 if offset is None else _number(offset)
    if count is None or skipped is None:
        found = " ".join(sql(clause).strip() for clause in (limit, offset) if clause is not None)
        raise QueryError(f"'{found}' over a stream sets no upper bound; write LIMIT and a number.")
    if order is None:
        raise QueryError(
            f"'{sql(limit or select).strip()}' over a stream without ORDER BY: any rows could be the first; say which."
        )
    order = _of_all(order, select)
    for clause in ("limit", "offset", "fetch", "order"):
        select.set(clause, None)
    if select.args.get("distinct"):
        select, order = _over_distinct(select, order)
    by_name = {item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)}
    ordered = []
    for each in order.expressions:
        copy = each.copy()
        if isinstance(copy.this, exp.Literal) and copy.this.is_int:
            copy.set("this", select.expressions[int(copy.this.name) - 1].unalias().copy())
        for column in list(every(copy, exp.Column)):
            if not column.table and column.name.lower() in by_name:
                column.replace(by_name[column.name.lower()].copy())
        ordered.append(copy)
    names = [item.output_name for item in select.expressions]
    rank = exp.Window(this=exp.RowNumber(), order=exp.Order(expressions=ordered))
    select.append("expressions", exp.alias_(rank, RANK))
    if select.is_star or not all(names):
        # What Spark calls an item without a name, it says.
        columns: list[exp.Expr] = [exp.Star(except_=[exp.to_identifier(RANK)])]
    else:
        columns = [exp.column(name, quoted=not name.isidentifier()) for name in names]
    outer = exp.Select(expressions=columns).from_(
        exp.Subquery(this=select, alias=exp.TableAlias(this=exp.to_identifier("ranked")))
    )
    outer = outer.where(f"{RANK} <= {count + skipped}")
    return outer.where(f"{RANK} > {skipped}") if skipped else outer


def _of_all(order: exp.Expr, select: exp.Select) -> exp.Expr:
    """ORDER BY ALL written out: by each column of the select list."""
    first = order.expressions[0]
    if not isinstance(first.this, exp.Var) or first.name.upper() != "ALL":
        return order
    if any(item.is_star for item in select.expressions):
        raise QueryError("ORDER BY ALL … LIMIT over a stream beside '*'; name the columns to order by.")
    copies = [first.copy() for _ in select.expressions]
    for copy, item in zip(copies, select.expressions, strict=True):
        copy.set("this", item.unalias().copy())
    return exp.Order(expressions=copies)


def _over_distinct(select: exp.Select, order: exp.Expr) -> tuple[exp.Select, exp.Expr]:
    """A SELECT from one with DISTINCT, whose rows are ranked once duplicates are gone, and the order over its columns."""
    by_text = {canonical(item.unalias()): item.output_name for item in select.expressions if not item.is_star}
    copy = order.copy()
    for each in copy.expressions:
        if (name := by_text.get(canonical(each.this))) is not None:
            each.set("this", exp.column(name, quoted=True))
        for column in every(each, exp.Column):
            column.set("table", None)
    items = [exp.column(item.output_name, quoted=True) for item in select.expressions]
    alias = exp.TableAlias(this=exp.to_identifier("different"))
    made = exp.Select(expressions=[exp.Star()] if select.is_star else items)
    return made.from_(exp.Subquery(this=select, alias=alias)), copy


def _number(node: exp.Expr) -> int | None:
    value = node.args.get("expression") or node.args.get("count")
    return int(value.name) if isinstance(value, exp.Literal) and value.is_int else None
