"""Writes a join of versions as of a time (the macro ``as_of()``) as a plain join.

Spark can't inline a CTE with a LATERAL whose columns ON compares.

>>> from ..sql.dialect import parse, sql
>>> from ..windows.expansion import expand_as_of
>>> tree = parse(f"select o.*, r.rate from o left join {expand_as_of('v', '`o`.`at`', 't', ['k'])} as r on r.k = o.k")
>>> write_as_joins(tree)
>>> print(sql(tree).partition(") AS r ")[2])
ON r.k = o.k AND `r`.`t` <= `o`.`at` AND (`r`.`__valid_until` IS NULL OR `r`.`__valid_until` > `o`.`at`)
"""

from __future__ import annotations

from sqlglot import exp

from ..frontend import hints
from ..frontend.hints import VersionsAsOf
from ..sql.clauses import hide_from_stars
from ..sql.nodes import every
from ..windows.expansion import VALID_UNTIL


def write_as_joins(tree: exp.Expr) -> None:
    """Replaces each LATERAL with versions as of a time by the versions. Changes the tree."""
    for join in list(every(tree, exp.Join)):
        versions, select = hints.versions_as_of(join.this), join.parent
        if versions is None or not isinstance(select, exp.Select):
            continue
        lateral, alias = join.this, join.this.alias
        inner = lateral.this.unnest()
        all_versions: exp.Expr = (inner.args.get("from_") or inner.args["from"]).this.this
        join.set("this", exp.Subquery(this=all_versions, alias=lateral.args["alias"]))
        compare_times(select, join, alias, versions, versions.valid_until.name)


def compare_times(
    select: exp.Select, join: exp.Join, alias: str, versions: VersionsAsOf, valid_until: str = VALID_UNTIL
) -> None:
    """Adds to the condition of a join that a version is valid at the time of the row that looks for it. Changes the
    tree.

    Args:
        select: the SELECT with the join; its stars leave the column `valid_until` out.
        join: a join of all versions, with that column.
        alias: name of the versions.
        versions: what is looked for.
        valid_until: column with the time at which the next version begins.
    """
    time = versions.time
    begins = exp.column(versions.version_time.name, table=alias, quoted=True)
    until = exp.column(valid_until, table=alias, quoted=True)
    is_last = exp.Is(this=until.copy(), expression=exp.null())
    valid = exp.or_(is_last, exp.GT(this=until, expression=time.copy()))
    on = join.args.get("on")
    tests = [] if on is None else [on]
    join.set("on", exp.and_(*tests, exp.LTE(this=begins, expression=time.copy()), valid, copy=True))
    hide_from_stars(select, [(alias, valid_until)])
