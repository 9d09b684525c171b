"""`*` inside of a call, as in ``to_json(struct(*))``, written out: what a query is planned as has columns of its own beside
those that its author sees.

>>> from .dialect import parse, sql
>>> tree = parse("select hash(*) as h, struct(g.* except (k)) as s from (select k, count(*) as N from t group by k) as g")
>>> write_out(tree)
>>> sql(tree.expressions[0]), sql(tree.expressions[1])
('HASH(`g`.`k`, `g`.`N`) AS h', 'STRUCT(`g`.`N`) AS s')
>>> sql(write_out(parse("select struct(*) from t")))
'STRUCT(*)'
>>> tree = parse("select struct(*) as s from t")
>>> write_out(tree, ask=lambda query: ["struct<a:int,b:array<string>>"]) or sql(tree)
'SELECT STRUCT(`t`.`a`, `t`.`b`) AS s FROM t'
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.errors import SqlglotError

from .clauses import left_out, relations
from .dialect import DIALECT
from .functions import QueryRunner
from .types import question


def write_out(
    tree: exp.Expr, concerned: Callable[[exp.Expr], bool] = lambda star: True, ask: QueryRunner | None = None
) -> exp.Expr | None:
    """Names the columns of each `*` inside of a call. Changes the tree.

    Args:
        tree: of a query.
        concerned: which of these.
        ask: carries out a query of one row; None: there is nobody who knows what a table has.

    Returns:
        A call in which nothing says which they are; None: there is none.
    """
    unknown = None
    for star in list(tree.find_all(exp.Star)):
        holder = star.parent if isinstance(star.parent, exp.Column) else star
        call = holder.parent
        if not isinstance(call, exp.Func | exp.Distinct) or (isinstance(call, exp.Count) and holder is star):
            continue
        if not concerned(holder):
            continue
        columns = _columns(star, holder, ask)
        listed = call.args.get(holder.arg_key or "")
        if columns is None or not isinstance(listed, list):
            unknown = unknown or call
            continue
        place = next(number for number, each in enumerate(listed) if each is holder)
        call.set(holder.arg_key or "", [*listed[:place], *columns, *listed[place + 1 :]])
    return unknown


def _columns(star: exp.Star, holder: exp.Expr, ask: QueryRunner | None) -> list[exp.Column] | None:
    """What a star stands for, in order; None: nothing says."""
    select = holder.find_ancestor(exp.Select)
    if select is None or star.args.get("replace") or star.args.get("rename"):
        return None
    qualifier = holder.table.lower() if isinstance(holder, exp.Column) else ""
    read = relations(select)
    if qualifier:
        read = [each for each in read if each.alias_or_name.lower() == qualifier]
    elif select.args.get("laterals") or any(
        join.args.get("using") for join in select.args.get("joins") or ()
    ):
        return None
    alone = len(read) == 1 and not select.args.get("laterals")
    found = []
    for each in read:
        names = _names(each)
        if names is None and ask is not None:
            names = _asked(each, ask)
        if names is None or not (each.alias_or_name or alone):
            return None
        found += [exp.column(name, table=each.alias_or_name or None, quoted=True) for name in names]
    gone = left_out(star)
    return [column for column in found if column.name.lower() not in gone] or None


def _names(relation: exp.Expr) -> list[str] | None:
    if not isinstance(relation, exp.Subquery) or relation.args.get("pivots"):
        return None
    query = relation.unnest()
    if not isinstance(query, exp.Query) or any(item.is_star for item in query.selects):
        return None
    return _plain([item.alias_or_name for item in query.selects])


def _asked(relation: exp.Expr, ask: QueryRunner) -> list[str] | None:
    if not isinstance(relation, exp.Subquery | exp.Table):
        return None
    (kind,) = ask(question(exp.Select().from_(relation.copy()), ["any_value(struct(*))"]))
    try:
        made = exp.DataType.build(str(kind), dialect=DIALECT)
    except SqlglotError:
        return None
    return _plain([each.name for each in made.expressions])


def _plain(names: list[str]) -> list[str] | None:
    return names if all(names) and len({*map(str.lower, names)}) == len(names) else None
