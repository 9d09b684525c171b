"""Expands `*` inside calls, as in ``to_json(struct(*))``, and next to GROUP BY ALL, because planning adds columns
that the author doesn't see.

>>> from ...sql.dialect import parse, sql
>>> tree = parse("select hash(*) as h, struct(g.* except (k)) as s from (select k, count(*) as N from t group by k) as g")
>>> expand_stars(tree)
>>> sql(tree.expressions[0]), sql(tree.expressions[1])
('HASH(`g`.`k`, `g`.`N`) AS h', 'STRUCT(`g`.`N`) AS s')
>>> tree = parse("select hash(*) as h from (select k, v from t) as a join (select v, k from u) as b using (k)")
>>> expand_stars(tree) or sql(tree.expressions[0])
'HASH(`a`.`k`, `a`.`v`, `b`.`v`) AS h'
>>> sql(expand_stars(parse("select struct(*) from t")))
'STRUCT(*)'
>>> tree = parse("select struct(*) as s from t")
>>> expand_stars(tree, ask=lambda query: ["struct<a:int,b:array<string>>"]) or sql(tree)
'SELECT STRUCT(`t`.`a`, `t`.`b`) AS s FROM t'
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from sqlglot import exp

from ....util import nested_types
from ...aggregates.types import types_query
from ...errors import QueryError
from ...sql.clauses import columns_left_out, is_semi_or_anti, passes_columns, relations_with_joins
from ...sql.functions import QueryRunner
from ...sql.nodes import copied, every


def expand_stars(
    tree: exp.Expr,
    concerned: Callable[[exp.Expr], bool] = lambda star: True,
    ask: QueryRunner | None = None,
    renamed: Collection[str] = (),
) -> exp.Expr | None:
    """Expands each `*` inside a call, or next to GROUP BY ALL. Changes the tree.

    Args:
        renamed: columns that have another name for the author (`same_names`).

    Returns:
        The call of a star whose columns are unknown. None if all were expanded.
    """
    unknown = None
    for star in list(every(tree, exp.Star)):
        holder = star.parent if isinstance(star.parent, exp.Column) else star
        call = holder.parent
        if call is None or not _needs_expansion(holder, call) or not concerned(holder):
            continue
        columns = columns_of_star(holder, ask)
        if isinstance(call, exp.Struct) and any(column.name in renamed for column in columns or ()):
            columns = None  # field names are part of a struct's value
        if columns is None:
            unknown = unknown or (holder if isinstance(call, exp.Select) else call)
        elif isinstance(call, exp.Count):
            call.set("this", columns[0])
            call.set("expressions", columns[1:])
        else:
            holder.replace(columns)
    return unknown


def _needs_expansion(holder: exp.Expr, call: exp.Expr) -> bool:
    if isinstance(call, exp.Select):
        group = call.args.get("group")
        return group is not None and bool(group.args.get("all"))
    if isinstance(call, exp.Count):
        return isinstance(holder, exp.Column) and not call.expressions
    listed = call.args.get(holder.arg_key or "")
    return isinstance(call, exp.Func | exp.Distinct) and isinstance(listed, list)


def columns_of_star(holder: exp.Expr, ask: QueryRunner | None) -> list[exp.Column] | None:
    """Returns the columns of a star, in order.

    Args:
        holder: a star in a query, with its qualifier as in ``t.*``.

    Returns:
        Its columns. None if they are unknown, or can't be referenced.
    """
    select = holder.find_ancestor(exp.Select)
    star = holder if isinstance(holder, exp.Star) else holder.this
    if select is None or not passes_columns(star):
        return None
    qualifier = holder.table.lower() if isinstance(holder, exp.Column) else ""
    sides = [
        (each, join)
        for each, join in relations_with_joins(select)
        if join is None or not is_semi_or_anti(join)
    ]
    if qualifier:
        sides = [(each, None) for each, _ in sides if each.alias_or_name.lower() == qualifier]
    found: list[exp.Column] = []
    for each, join in sides:
        names = column_names_of(each, ask)
        if names is None or not (each.alias_or_name or len(sides) == 1):
            return None
        own = [exp.column(name, table=each.alias_or_name or None, quoted=True) for name in names]
        together = own if join is None else _join_columns(join, found, own)
        if together is None:
            return None
        found = together
    made = _lateral_columns(select.args.get("laterals") or (), qualifier)
    if made is None:
        return None
    gone = columns_left_out(star)
    return [column for column in [*found, *made] if column.name.lower() not in gone] or None


def _lateral_columns(laterals: Sequence[exp.Lateral], qualifier: str) -> list[exp.Column] | None:
    """Columns of all LATERAL VIEWs, or of the one with this alias. None if the text doesn't name them."""
    found: list[exp.Column] = []
    for each in laterals:
        if not qualifier or each.alias.lower() == qualifier:
            if not each.alias_column_names:
                return None
            names = each.alias_column_names
            found += [exp.column(name, table=each.alias or None, quoted=True) for name in names]
    return found


def _join_columns(join: exp.Join, left: list[exp.Column], right: list[exp.Column]) -> list[exp.Column] | None:
    """Columns of a join in Spark's order: USING columns once and first. None if one can't be referenced."""
    if join.args.get("method"):
        return None
    using = [each.name.lower() for each in join.args.get("using") or ()]
    side = (join.side or "").upper()
    first = []
    for name in using:
        each, other = ([column for column in of if column.name.lower() == name] for of in (left, right))
        if len(each) != 1 or len(other) != 1:
            return None
        # In a FULL JOIN it is the merged column, which is neither side's.
        first.append(
            exp.column(name, quoted=True) if side == "FULL" else (other if side == "RIGHT" else each)[0]
        )
    rest = [column for column in [*left, *right] if column.name.lower() not in using]
    merged = {column.name.lower() for column in [*left, *first] if not column.table}
    if merged & {column.name.lower() for column in right} - {*using}:
        return None  # an unqualified reference would be ambiguous
    return [*first, *rest]


def column_names_of(relation: exp.Expr, ask: QueryRunner | None) -> list[str] | None:
    """Returns the column names of a relation in FROM or JOIN, in order. None if they are unknown or not unique."""
    names = _written_names(relation)
    if names is not None or ask is None:
        return names
    types = column_types_of(relation, ask)
    return None if types is None else [*types]


def column_names_if_known(relation: exp.Expr, ask: QueryRunner | None) -> list[str] | None:
    """Returns the column names of a relation as `column_names_of` does; None also if the session rejects it, which planning
    reports."""
    try:
        return column_names_of(relation, ask)
    except QueryError:
        return None


def _written_names(relation: exp.Expr) -> list[str] | None:
    if isinstance(relation, exp.Lateral) and not relation.alias_column_names:
        relation = relation.this
    if not isinstance(relation, exp.Subquery) or relation.args.get("pivots"):
        return None
    query = relation.unnest()
    if not isinstance(query, exp.Query) or any(item.is_star for item in query.selects):
        return None
    return _names_unless_ambiguous([item.alias_or_name for item in query.selects])


def column_types_of(relation: exp.Expr, ask: QueryRunner) -> dict[str, str] | None:
    """Returns the columns of a relation in FROM or JOIN with their types, in order. None if they are unknown or not
    unique."""
    if not isinstance(relation, exp.Subquery | exp.Table):
        return None
    (kind,) = ask(types_query(exp.Select().from_(copied(relation), copy=False), ["any_value(struct(*))"]))
    columns = nested_types.row_type_columns(str(kind)) or []
    return dict(columns) if _names_unless_ambiguous([name for name, _ in columns]) else None


def _names_unless_ambiguous(names: list[str]) -> list[str] | None:
    return names if all(names) and len({*map(str.lower, names)}) == len(names) else None
