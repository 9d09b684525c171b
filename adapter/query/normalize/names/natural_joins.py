"""Rewrites NATURAL JOIN with USING, from the columns of both sides.

>>> from ...sql.dialect import parse, sql
>>> tree = parse("select * from (select k, v from t) as a natural left join (select w, K from u) as b")
>>> rewrite_natural_joins(tree.find_all(exp.Select))
>>> sql(tree).partition(" AS a ")[2]
'LEFT JOIN (SELECT w, K FROM u) AS b USING (`k`)'
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from ...sql.clauses import is_semi_or_anti, relations_with_joins
from ...sql.functions import QueryRunner
from .stars import column_names_if_known


def rewrite_natural_joins(selects: Iterable[exp.Select], ask: QueryRunner | None = None) -> None:
    """Rewrites NATURAL joins with USING where the columns of both sides are known. Changes the trees.

    Args:
        selects: SELECTs that may be changed.
    """
    for select in selects:
        if any(join.args.get("method") == "NATURAL" for join in select.args.get("joins") or ()):
            _rewrite_with_using(select, ask)


def _rewrite_with_using(select: exp.Select, ask: QueryRunner | None) -> None:
    before: list[str] = []
    for relation, join in relations_with_joins(select):
        names = column_names_if_known(relation, ask)
        if names is None:
            return
        using = {each.name.lower() for each in join.args.get("using") or ()} if join is not None else set()
        if join is not None and join.args.get("method") == "NATURAL":
            there = {name.lower() for name in names}
            common = [name for name in before if name.lower() in there]
            using = {*map(str.lower, common)}
            if len(using) < len(common):
                return  # two of the earlier relations have one
            join.set("method", None)
            join.set("using", [exp.to_identifier(name, quoted=True) for name in common])
            if not common:
                join.set("on", exp.true())
        elif join is not None and join.args.get("method"):
            return
        if join is None or not is_semi_or_anti(join):
            before += [name for name in names if name.lower() not in using]
