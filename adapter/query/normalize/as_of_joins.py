"""Rewrites a temporal join (the macro ``as_of()``, a LATERAL) as a plain join.

Spark can't inline a CTE with a LATERAL whose columns are compared in ON.

>>> from ..sql.dialect import parse, sql
>>> from ..windows.expansion import expand_as_of
>>> tree = parse(f"select o.*, r.rate from o left join {expand_as_of('v', '`o`.`at`', 't', ['k'])} as r on r.k = o.k")
>>> write_as_joins(tree, {})
>>> print(sql(tree).partition(") AS r ")[2])
ON r.k = o.k AND `r`.`t` <= `o`.`at` AND (`r`.`__valid_until` IS NULL OR `r`.`__valid_until` > `o`.`at`)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from ...util.nested_types import struct_fields
from ...util.quoting import quote_path
from ..errors import QueryError
from ..frontend import hints
from ..frontend.hints import VersionsAsOf
from ..frontend.streams import RelationInfo
from ..program import CHANGES
from ..sql.clauses import hide_from_stars, over_clauses, relations_with_joins
from ..sql.dialect import DIALECT, parse, relation_names_around, sql
from ..sql.maps import orderable_sql
from ..sql.nodes import every
from ..sql.tie_breaking import mark_without_ties
from ..windows.expansion import VALID_UNTIL, versions_in_changes
from .conditions import returns_one_row
from .static_sides import nest_first_relations


def write_as_joins(tree: exp.Expr, known: Mapping[str, RelationInfo]) -> None:
    """Replaces each LATERAL of a temporal join by all versions, and adds to ON when a version is valid. Changes the tree.

    Args:
        known: properties of relations. If a relation's rows change, its versions are read from its changelog.
    """
    check_version_joins(tree)
    changing = {name.lower(): each for name, each in known.items() if each.changes}
    for join in list(every(tree, exp.Join)):
        versions, select = hints.versions_as_of(join.this), join.parent
        if versions is None or not isinstance(select, exp.Select):
            continue
        lateral, alias = join.this, join.this.alias
        inner = lateral.this.unnest()
        all_versions: exp.Expr = (inner.args.get("from_") or inner.args["from"]).this.this
        if versions.row is not None:
            _order_by_entries(all_versions, versions.row)
        if found := changing.get(versions.relation.lower()):
            changelog = versions.table.copy()
            changelog.set("alias", None)
            changelog.set("this", exp.to_identifier(f"{versions.table.name}{CHANGES}", quoted=True))
            key = changelog_key(versions, found)
            begins, until = versions.version_time.name, versions.valid_until.name
            all_versions = parse(versions_in_changes(sql(changelog), begins, key, until))
        for each in every(all_versions, exp.Select):
            mark_without_ties(each)
        join.set("this", exp.Subquery(this=all_versions, alias=lateral.args["alias"]))
        add_validity_condition(select, join, alias, versions, versions.valid_until.name)


def nest_in_expressions(selects: Iterable[exp.Select]) -> None:
    """Moves each temporal join of a subquery in an expression into a query in FROM, which is planned as a temporal join.
    Changes the trees.

    Raises:
        QueryError: the subquery has other clauses, or it is unknown whose columns it reads.
    """
    for select in selects:
        sides = [node for node, _ in relations_with_joins(select)]
        joined = [place for place, node in enumerate(sides) if hints.versions_as_of(node) is not None]
        if not joined or _is_in_from(select) or returns_one_row(select):
            continue
        clauses = ("group", "having", "order", "limit", "offset", "laterals", "qualify")
        is_plain = not any(map(select.args.get, clauses)) and not over_clauses(select)
        around = relation_names_around(select)
        if not (is_plain and nest_first_relations(select, joined[-1] + 1, around)):
            versions = hints.versions_as_of(sides[joined[0]])
            assert versions is not None
            raise QueryError(
                f"as_of() over {versions.relation} is joined in a subquery of an expression; put the join into a CTE, and "
                "read that in the subquery."
            )


def _is_in_from(select: exp.Select) -> bool:
    """Whether a SELECT is a whole model, or a relation in FROM."""
    node = select.parent
    while isinstance(node, exp.Subquery | exp.Paren | exp.SetOperation):
        node = node.parent
    return node is None or isinstance(node, exp.From | exp.Join)


def _order_by_entries(select: exp.Expr, row: str) -> None:
    """Replaces the last value of ORDER BY, the whole row, by one with lists of entries instead of MAPs, which have no order.
    Changes the tree.

    Args:
        row: type of a version, a struct as `typeof` prints it.
    """
    (window,) = every(select, exp.Window)
    of_row = window.args["order"].expressions[-1]
    rows = next(every(of_row, exp.Column)).table
    values: list[exp.Expr] = [
        exp.maybe_parse(orderable_sql(quote_path([rows, name]), kind), dialect=DIALECT)
        for name, kind in struct_fields(row) or ()
    ]
    of_row.set("this", exp.Anonymous(this="STRUCT", expressions=values))


def changelog_key(versions: VersionsAsOf, known: RelationInfo) -> tuple[str, ...]:
    """Returns the columns that identify a row of a relation whose rows change.

    Raises:
        QueryError: there are none, or ``as_of()`` names others.
    """
    if not known.key:
        raise QueryError(
            f"as_of() over {versions.relation}: its rows change, and nothing identifies them, so which row a change ends is "
            "unknown; put the key into that model's select list, or name its columns as that model's config unique_key."
        )
    if {name.lower() for name in known.key} != {name.lower() for name in versions.key}:
        raise QueryError(
            f"as_of() over {versions.relation}: its rows change, and are identified by {', '.join(known.key)}; write "
            f"key={[*known.key]}."
        )
    return known.key


def check_version_joins(tree: exp.Expr) -> None:
    """Raises unless each ``as_of()`` is joined so that each row on the left gets the version of its time."""
    for node in every(tree, exp.Lateral):
        if (versions := hints.versions_as_of(node)) is None:
            continue
        if not isinstance(node.parent, exp.Join):
            raise QueryError(
                f"as_of() over {versions.relation} isn't joined to a stream; write the stream first, and join the versions "
                "to it: FROM {{ stream(…) }} as o JOIN {{ as_of(…, 'o.…') }} as r ON …."
            )
        _check_version_join(node.parent, versions)


def _check_version_join(join: exp.Join, versions: VersionsAsOf) -> None:
    of = versions.relation
    alias = join.this.args.get("alias")
    if alias is None or not alias.name:
        raise QueryError(f"as_of() over {of} has no name; give it one: {{{{ as_of(…) }}}} as r.")
    if alias.args.get("columns"):
        raise QueryError(
            f"as_of() over {of} renames the columns of the versions; name them in the select list, as in "
            f"{alias.name}.c as d."
        )
    on = join.args.get("on")
    if (
        (join.side or "").upper() not in ("", "LEFT")
        or (join.kind or "").upper() not in ("", "INNER", "OUTER")
        or join.args.get("method")
        or on is None
        or isinstance(on, exp.Boolean)
    ):
        raise QueryError(
            f"as_of() over {of} has to be joined by JOIN … ON or LEFT JOIN … ON: each row of the other side looks for its "
            "version."
        )
    time = versions.time
    if isinstance(time, exp.Column) and time.table.lower() == alias.name.lower():
        raise QueryError(
            f"as_of() over {of} looks for versions at {sql(time)}, their own time; write the event time of the rows on the "
            "other side, as in 'o.ordered_at'."
        )


def add_validity_condition(
    select: exp.Select, join: exp.Join, alias: str, versions: VersionsAsOf, valid_until: str = VALID_UNTIL
) -> None:
    """Adds a condition to ON: the version is valid at the time of the joined row. Changes the tree.

    Args:
        select: the SELECT with the join. The column `valid_until` is excluded from its stars, also from those in calls.
        join: a join of all versions, with that column.
        versions: the temporal join.
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
    hide_from_stars(select, [(alias, valid_until)], in_calls=True)
