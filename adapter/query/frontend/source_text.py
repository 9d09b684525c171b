"""The input of a GROUP BY as canonical text, unchanged by edits that don't change its rows.

A state continues with an edited query if its input rows are the same. So tables and subqueries are named by their
position instead of the author's aliases, and unused columns are left out of select lists: a column that a CTE adds
for a new aggregate doesn't affect existing ones.

>>> from ..sql.dialect import parse
>>> one = SourceText(parse("select k, sum(a.v) from (select k, v, w from t as s where s.v > 0) as a group by k"))
>>> two = SourceText(parse("select b.k, sum(v), max(x) from (select k, v, w as x from t where v > 0) b group by b.k"))
>>> one.rows_text({"k", "v"})
'SELECT * FROM (SELECT k, v FROM t WHERE v > 0)'
>>> one.rows_text({"k", "v"}) == two.rows_text({"k", "v"}), one.rows_text({"w"}) == two.rows_text({"w"})
(True, False)
>>> three = SourceText(parse("select k, sum(v) from (select * from (select k, v from t where v > 0) as b) as c group by k"))
>>> three.rows_text({"k", "v"}) == one.rows_text({"k", "v"})
True
>>> one.expression_text(parse("select sum(a.v)").expressions[0]), two.expression_text(parse("select SUM(V)").expressions[0])
('SUM(v)', 'SUM(v)')
>>> both = SourceText(parse("select sum(b.v) from t as a join u as b on a.k = b.k"))
>>> [both.expression_text(parse("select sum(b.v)").expressions[0], qualified) for qualified in (True, False)]
['SUM(__0_1.v)', 'SUM(v)']
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache

from sqlglot import exp

from ..sql.clauses import conjuncts, first_aggregate, output_name, relations
from ..sql.dialect import canonical, parse, sql, with_clause
from ..sql.functions import makes_rows
from ..sql.nodes import copied, every
from . import hints

_ALL = None
"""All columns, in place of a set of names."""
_WHOLE = "distinct group having qualify order sort cluster distribute limit offset".split()
"""Clauses that need all items of a select list."""


class SourceText:
    """Canonical text of a grouped SELECT's input.

    Args:
        select: the SELECT, over relations as the planner found them. It isn't changed.
    """

    def __init__(self, select: exp.Query) -> None:
        self.written = hints.input_as_written(select)
        """The input as its author wrote it. Callers must not change it."""
        self._names = _positional_names(self.written, 0) if isinstance(self.written, exp.Select) else None
        self._texts: dict[frozenset[str] | None, str] = {}

    def rows_text(self, columns: Collection[str] | None) -> str:
        """Text of the input rows with some of their columns.

        Args:
            columns: names in lower case. Columns in conditions are added. None for all.
        """
        wanted = None if columns is None else frozenset(columns)
        if wanted not in self._texts:
            read = copied(self.written)
            _rewrite_query(read, wanted, {}, 0)
            self._texts[wanted] = canonical(read)
        return self._texts[wanted]

    def expression_text(self, node: exp.Expr, qualified: bool = True) -> str:
        """Text of an expression over the input rows.

        Args:
            qualified: whether columns are qualified by the position of their relation, if there are several.
        """
        holder = exp.Paren(this=copied(node))
        if self._names is not None:
            _rename_qualifiers(holder, self._names, len(self._names) == 1 or not qualified, {}, 1)
        return canonical(holder.this)


def text_without_aliases(query: exp.Query) -> str:
    """Canonical text of a query, independent of the author's relation aliases.

    >>> from ..sql.dialect import parse
    >>> one, other = (parse(f"select {name}.k from t as {name} where {name}.v > 0") for name in "ab")
    >>> text_without_aliases(one) == text_without_aliases(other)
    True
    """
    read = copied(query)
    _rewrite_query(read, _ALL, {}, 0)
    return canonical(read)


@lru_cache(maxsize=1024)
def with_sorted_conjuncts(text: str) -> str:
    """Returns a query's text with the conjuncts of each WHERE sorted.

    >>> texts = "SELECT * FROM t WHERE b > 1 AND (a OR c)", "SELECT * FROM t WHERE (a OR c) AND b > 1"
    >>> len({with_sorted_conjuncts(text) for text in texts})
    1
    """
    if " AND " not in text:
        return text
    query = parse(text)
    for where in every(query, exp.Where):
        tests = sorted(conjuncts(where.this), key=sql)
        where.set("this", exp.and_(*tests, copy=False))
    return sql(query)


def text_to_compare(text: str, tables: Mapping[str, str]) -> str:
    """Returns `with_sorted_conjuncts` of a query's text with other names of some tables.

    >>> text_to_compare("SELECT n, 'a' AS b FROM a AS b CROSS JOIN (SELECT * FROM b) AS c", {"a": "x", "b": "a"})
    "SELECT n, 'a' AS b FROM x AS b CROSS JOIN (SELECT * FROM a) AS c"
    """
    text = with_sorted_conjuncts(text)
    if not tables:
        return text
    query = parse(text)
    for table in every(query, exp.Table):
        if table.name in tables:
            table.set("this", exp.to_identifier(tables[table.name]))
    return sql(query)


def possible_columns(*nodes: exp.Expr) -> set[str] | None:
    """Returns all names in expressions that may be columns, in lower case. None if there is a star.

    >>> from ..sql.dialect import parse
    >>> select = parse("select sum(a.v.w), count(*), max(struct(*))")
    >>> sorted(possible_columns(select.expressions[0]) or ())
    ['a', 'v', 'w']
    >>> possible_columns(select.expressions[1]), possible_columns(select)
    (set(), None)
    """
    for node in nodes:
        for star in every(node, exp.Star):
            if not isinstance(star.parent, exp.Count):
                return None
    # The part before a point may be a column that holds a struct.
    return {each.name.lower() for node in nodes for each in every(node, exp.Identifier)}


def _positional_names(select: exp.Select, depth: int) -> dict[str, str] | None:
    """Maps a SELECT's relation aliases to positional names. None if they have to keep their names."""
    if select.args.get("laterals") or with_clause(select) is not None:
        return None
    names = {}
    for number, node in enumerate(relations(select)):
        has_more = any(node.args.get(part) for part in ("pivots", "sample", "laterals", "joins"))
        if not isinstance(node, exp.Table | exp.Subquery) or has_more or node.alias_column_names:
            return None
        names[node.alias_or_name.lower()] = f"__{depth}_{number}"
    # Duplicate or missing aliases make qualifiers ambiguous.
    return names if len(names) == len(relations(select)) and ("" not in names or len(names) == 1) else None


def _rewrite_query(
    node: exp.Expr, wanted: frozenset[str] | None, outer: Mapping[str, str], depth: int
) -> None:
    """Rewrites a query canonically, in place.

    Args:
        wanted: the columns that are used. None for all.
        outer: relations of enclosing queries, by alias.
        depth: number of enclosing queries.
    """
    if isinstance(node, exp.Subquery):
        _rewrite_query(node.this, wanted, outer, depth)
    elif isinstance(node, exp.SetOperation):
        for side in (node.this, node.expression):
            _rewrite_query(side, _ALL, outer, depth)
    elif isinstance(node, exp.Select):
        _rewrite_select(node, wanted, outer, depth)


def _rewrite_select(
    select: exp.Select, wanted: frozenset[str] | None, outer: Mapping[str, str], depth: int
) -> None:
    names = _positional_names(select, depth)
    whole = (
        names is None
        or any(select.args.get(clause) for clause in _WHOLE)
        or first_aggregate(select) is not None
    )
    if wanted is not _ALL and not whole:
        select.set("expressions", _wanted_items(select, wanted) or [exp.Literal.number(1)])
    below = _columns_read(select, _ALL if whole and _has_star(select) else wanted)
    if names is None:
        below = _ALL
    read = relations(select)
    for node in read:
        _collapse_plain_selects(node)
        # A relation in FROM can't refer to its neighbours.
        _rewrite_query(node, below, outer if names is None else {}, depth + 1)
    if names is None:
        # Its own relations hide outer ones of the same name.
        own = {node.alias_or_name.lower() for node in (*read, *(select.args.get("laterals") or ()))}
        seen = {name: new for name, new in outer.items() if name not in own}
        _rename_qualifiers(select, {}, False, seen, depth + 1)
        return
    single = len(names) == 1
    for node in read:
        new = None if single else exp.TableAlias(this=exp.to_identifier(names[node.alias_or_name.lower()]))
        node.set("alias", new)
    _rename_qualifiers(select, names, single, outer, depth + 1)


def _collapse_plain_selects(node: exp.Expr) -> None:
    """Replaces subqueries that are plain ``SELECT *`` (as CTEs may leave) by their input."""
    while isinstance(node, exp.Subquery) and isinstance(handed := node.this, exp.Select):
        # Any other clause may change the rows.
        said = {clause for clause, value in handed.args.items() if value}
        inner = next(iter(relations(handed)), None)
        if not isinstance(inner, exp.Subquery) or not isinstance(inner.this, exp.Select):
            return
        others = {clause for clause, value in inner.args.items() if value} - {"this", "alias"}
        is_plain = said <= {"expressions", "from_", "from"} and handed.expressions == [exp.Star()]
        if not is_plain or others or inner.alias_column_names:
            return
        node.set("this", inner.this)


def _wanted_items(select: exp.Select, wanted: frozenset[str] | None) -> list[exp.Expr]:
    """Returns the items of the wanted columns, and those that they refer to by alias (lateral column aliases)."""
    asked = wanted
    while True:
        items = [item for item in select.expressions if _is_wanted(item, asked)]
        named = frozenset(each.name.lower() for item in items for each in every(item, exp.Identifier))
        if asked is _ALL or named <= asked:
            return items
        asked |= named


def _is_wanted(item: exp.Expr, wanted: frozenset[str] | None) -> bool:
    name = output_name(item).lower()
    return (
        wanted is _ALL
        or item.is_star
        or not name
        or name in wanted
        or any(map(makes_rows, every(item, exp.Func, exp.UDTF)))
    )


def _has_star(select: exp.Select) -> bool:
    return any(item.is_star for item in select.expressions)


def _columns_read(select: exp.Select, wanted: frozenset[str] | None) -> frozenset[str] | None:
    """Columns that a SELECT reads from its relations."""
    if any(join.method == "NATURAL" for join in select.args.get("joins") or ()):
        return _ALL
    if _has_star(select) and wanted is _ALL:
        return _ALL
    found = set(wanted or ()) if _has_star(select) else set()
    below = {id(node) for node in relations(select)}
    for node in select.walk(prune=lambda each: id(each) in below):
        if isinstance(node, exp.Column | exp.Identifier):
            found.add(node.name.lower())
    return frozenset(found)


def _rename_qualifiers(
    node: exp.Expr, names: Mapping[str, str], single: bool, outer: Mapping[str, str], depth: int
) -> None:
    """Replaces the qualifiers of columns by positional names, in a SELECT or an expression over its relations."""
    read = {id(each) for each in relations(node)} if isinstance(node, exp.Select) else set()
    around = {**outer, **names}
    inner: list[exp.Expr] = []

    def is_other(each: exp.Expr) -> bool:
        if id(each) in read:
            return True
        if each is not node and isinstance(each, exp.Query):
            inner.append(each)
            return True
        return False

    for each in node.walk(prune=is_other):
        if not isinstance(each, exp.Column) or not each.table or each.args.get("db"):
            continue
        name = each.table.lower()
        if name in names and single:
            each.set("table", None)
        elif name in around:
            each.set("table", exp.to_identifier(around[name]))
    for each in inner:
        _rewrite_query(each, _ALL, around, depth)
