"""Lineage of an operator: which rows it returns, and what each of its columns is computed from, equal for
texts that mean the same.

An operator's name is a digest of its text, so another alias, a WITH around a part, or an added column below
it changes the name, although its state may still fit. The *lineage* traces each column down to the columns of
streams, independent of the names in between.

Equal lineages mean the same; unequal ones may. Text that isn't understood is compared as written.

>>> from ..plan.operators.source import Source
>>> from ..plan.relation import Relation
>>> source = Source(name="source_1", view="t", relation=Relation(), label="t")
>>> def named(text): return of_query(parse(text), {"__input_0": of(source, {})})
>>> one = named("select a.v + 1 as x, k from __input_0 as a")
>>> two = named("select k, x from (select v + 1 as x, k from __input_0 as b)")
>>> one.rows == two.rows, one.column("x") == two.column("X"), one.means == two.means
(True, True, False)
>>> named("select v as x from __input_0 where k > 1").rows == named("select v as x from __input_0 as c where 1 < c.k").rows
True
>>> named("select v as x from __input_0 where k > 1").rows == named("select w from __input_0 as c where c.k > 1").rows
True
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import TypeAlias

from sqlglot import exp

from ...util.quoting import path_of
from ..aggregates.model import AggregateStage
from ..errors import QueryError
from ..frontend.source_text import ordered, without_names
from ..normalize.conditions import is_repeatable
from ..plan.dataflow import Dataflow
from ..plan.hidden_items import ROW_TIME as OF_ROW
from ..plan.operator import Operator, input_name
from ..plan.operators.changelog_normalize import ChangelogNormalize
from ..plan.operators.group_aggregate import GroupAggregate
from ..plan.operators.join import Join
from ..plan.operators.late_rows import LateRows
from ..plan.operators.local import Local
from ..plan.operators.materialized_project import GIVEN_BY, MaterializedProject
from ..plan.operators.outer_interval_join import OuterIntervalJoin
from ..plan.operators.over_aggregate import OverAggregate
from ..plan.operators.project import Project
from ..plan.operators.recompute import Recompute
from ..plan.operators.set_operation import SetOperation
from ..plan.operators.source import Source
from ..plan.operators.temporal_filter import ROW_TIME, TemporalFilter
from ..plan.operators.top_n import TopN
from ..plan.operators.union_all import UnionAll
from ..plan.operators.window_changes import WindowChanges
from ..plan.operators.window_close import WindowClose
from ..plan.operators.window_results import WindowResults
from ..plan.operators.window_rows import WindowRows
from ..plan.relation import WEIGHT
from ..plan.stages import RowsStage
from ..plan.state.ranked_groups import ROW
from ..plan.state.top_n_fields import BY, ID, ORDER
from ..plan.window_operator import WindowOperator
from ..sql.clauses import aggregate, conjuncts, filters, joined, passes_columns, relations
from ..sql.dialect import DIALECT, canonical, parse
from ..sql.functions import makes_rows
from ..sql.names import digest, stages_renamed
from ..sql.nodes import every

_WINDOW_COLUMNS = ("window_start", "window_end", "window_time")
_HIDDEN = (WEIGHT, GIVEN_BY)
STAR = "*"
"""Placeholder for columns that aren't known by name; needed since set operations match columns by position."""
_CLAUSES = {"expressions", "from_", "from", "where", "joins", "laterals"}
"""Clauses of a SELECT that lineage understands."""


class Unclear(Exception):
    """Raised for a text whose meaning lineage can't determine."""


@dataclass(frozen=True)
class Lineage:
    """Rows and columns of an operator, or of a query in one."""

    rows: str
    """Digest of the rows and their multiplicities."""
    columns: tuple[tuple[str, str], ...] = ()
    """Columns known by name (as written), each with its origin, and `STAR` for all others."""
    star: str = ""
    """Origin of all other columns; empty if there are none."""
    hidden: frozenset[str] = field(default=frozenset())
    """Columns covered by `star`, in lower case, that don't pass through."""

    @property
    def means(self) -> str:
        """Returns a digest of rows and columns. Stored rows of another operator fit if its digest is equal."""
        columns = [(name.lower(), what) for name, what in self.columns]
        return digest(self.rows, columns, self.star, sorted(self.hidden))

    def column(self, name: str) -> str:
        """Returns the origin of a column.

        Raises:
            Unclear: no such column is known, or several are.
        """
        found = {what for each, what in self.columns if each.lower() == name.lower()}
        if len(found) == 1 and sum(each.lower() == name.lower() for each, _ in self.columns) == 1:
            return found.pop()
        if found or not self.star or name.lower() in self.hidden:
            raise Unclear(name)
        return digest(self.star, name.lower())

    def names(self, name: str) -> bool:
        """Whether a column is known by name."""
        return any(each.lower() == name.lower() for each, _ in self.columns)

    def without(self, *names: str) -> Lineage:
        """Returns the lineage without some columns."""
        gone = {name.lower() for name in names}
        hidden = self.hidden | gone if self.star else self.hidden
        return replace(
            self,
            columns=tuple(each for each in self.columns if each[0].lower() not in gone),
            hidden=frozenset(hidden),
        )


_UNTOLD = Lineage("")
"""Lineage of a text that isn't understood."""


def lineages(flow: Dataflow) -> dict[str, Lineage]:
    """Returns the lineage of each operator, by its name."""
    found: dict[str, Lineage] = {}
    for operator in flow.operators:
        found[operator.name] = of(operator, found)
    return found


def of(operator: Operator, known: Mapping[str, Lineage]) -> Lineage:
    """Returns the lineage of an operator.

    Args:
        operator: the operator.
        known: lineages of the operators below it, by name.
    """
    try:
        return _of(operator, [known[each.name] for each in operator.inputs])
    except (Unclear, QueryError):
        # The name is a digest of the operator's text and everything below it.
        return _opaque("as written", operator.name)


def _opaque(*texts: object) -> Lineage:
    """Returns a lineage whose rows and columns depend on these texts as a whole."""
    rows = digest(*texts)
    return Lineage(rows, ((STAR, rows),), star=rows)


def _of(operator: Operator, below: Sequence[Lineage]) -> Lineage:
    if isinstance(operator, Source):
        return _opaque("source", operator.name, operator.changelog)
    if isinstance(operator, ChangelogNormalize):
        return _opaque("last row", operator.name)
    if isinstance(operator, WindowOperator):
        return _opaque("windows", operator.name)
    if isinstance(operator, WindowResults):
        return _of_windows(operator, below)
    if isinstance(operator, WindowRows):
        return _in_windows(operator, below[0])
    if isinstance(operator, WindowChanges):
        bounds = (operator.end, operator.start, operator.by)
        return replace(below[0], rows=digest("changes", below[0].means, bounds))
    if isinstance(operator, WindowClose):
        return replace(below[0], rows=digest("closed", below[0].rows, below[0].column(operator.window_end)))
    if isinstance(operator, LateRows):
        return replace(below[0], rows=digest("late", below[0].rows, below[0].column(operator.time)))
    if isinstance(operator, TemporalFilter):
        rows = digest("recent", below[0].rows, below[0].column(ROW_TIME), operator.lasts)
        return replace(below[0].without(ROW_TIME), rows=rows)
    if isinstance(operator, UnionAll):
        return _of_union(below)
    if isinstance(operator, SetOperation):
        sides = [each.means for each in below]
        return _by_place("set", operator.times, *sides, like=below[0])
    if isinstance(operator, GroupAggregate):
        return _of_groups(operator, below[0])
    if isinstance(operator, TopN):
        return _of_ranking(operator, below[0])
    if isinstance(operator, Project | Join | Local):
        names = {input_name(number): each for number, each in enumerate(below)}
        try:
            return of_query(parse(operator.sql), names)
        except Unclear:
            pass
    assert isinstance(operator, _Texts)
    return _of_text(operator, below)


_Texts: TypeAlias = (
    Project | Join | OuterIntervalJoin | Local | MaterializedProject | OverAggregate | Recompute
)


def _of_text(operator: _Texts, below: Sequence[Lineage]) -> Lineage:
    """Returns the lineage of an operator whose text isn't understood: a digest of the text without its
    relations' names, and of its inputs."""
    also: list[object] = []
    if isinstance(operator, Recompute):
        also = [placed(key, operator.aliases) for keys in operator.keys for key in keys]
        if operator.top is not None:
            also += ["top", operator.top.rows]
    text = without_names(parse(operator.sql))
    return _opaque(type(operator).__name__, text, *also, *(each.means for each in below))


def _of_ranking(operator: TopN, below: Lineage) -> Lineage:
    """Returns the lineage of a Top-N: its first rows, with their rank."""
    select = parse(operator.sql)
    assert isinstance(select, exp.Select)
    # ORDER BY refers to the row's columns, whatever the select list gives these names to.
    items = [each for each in select.expressions if each.alias_or_name != OF_ROW]
    select.set(
        "expressions", sorted(items, key=lambda each: not each.alias_or_name.startswith((BY, ORDER, ID)))
    )
    made = of_query(select, {input_name(0): below})
    own = [name for name, _ in made.columns if name.startswith((BY, ORDER, ID))]
    listed = made.without(*own)
    by, order = ([made.column(name) for name in own if name.startswith(each)] for each in (BY, ORDER))
    tied = [what for _, what in listed.columns] if operator.top.order.endswith(ROW) else []
    top = (operator.top.function, operator.top.order, operator.top.rows, operator.top.buckets, operator.final)
    rows = digest("top", *top, sorted(by), order, made.rows, tied, listed.star)
    return replace(listed, rows=rows, columns=(*listed.columns, (operator.rank, digest(rows, "place"))))


def _by_place(*texts: object, like: Lineage) -> Lineage:
    """Returns the lineage of rows whose columns are identified by position and named like those of `like`."""
    rows = digest(*texts)
    columns = tuple((name, digest(rows, place)) for place, (name, _) in enumerate(like.columns))
    return Lineage(rows, columns, rows if like.star else "", like.hidden)


def _of_union(below: Sequence[Lineage]) -> Lineage:
    """Returns the lineage of UNION ALL. A column's origin combines its origins in each side, so that other
    columns can be added and removed."""
    if any(each.star for each in below) or len({len(each.columns) for each in below}) > 1:
        return _by_place("union", *(each.means for each in below), like=below[0])
    named = {tuple(name.lower() for name, _ in each.columns) for each in below}
    # The order of the sides doesn't matter.
    sides = sorted(below, key=lambda each: (each.rows, each.means)) if len(named) == 1 else below
    places = zip(*(each.columns for each in sides), strict=True)
    columns = [[(each.rows, what) for each, (_, what) in zip(sides, place, strict=True)] for place in places]
    return Lineage(
        digest("union", [each.rows for each in sides]),
        tuple(
            (name, digest("union", what)) for (name, _), what in zip(below[0].columns, columns, strict=True)
        ),
    )


# -- windows ---------------------------------------------------------------------------------------


def _in_windows(operator: WindowRows, below: Lineage) -> Lineage:
    """Returns the lineage of rows, each repeated for each window that it is in."""
    window = operator.window
    time = path_of(window.time)
    by = [below.column(name) for name in (time[0], *window.partition_by)]
    rows = digest("in windows", below.rows, operator.sql, *by, *time[1:])
    rest = below.without(*_WINDOW_COLUMNS)
    return replace(
        rest,
        rows=rows,
        columns=(*rest.columns, *((name, digest(rows, name)) for name in _WINDOW_COLUMNS)),
    )


def _of_windows(operator: WindowResults, below: Sequence[Lineage]) -> Lineage:
    """Returns the lineage of windows over streams. The aggregates of a stage have separate origins, so that
    others can be added and removed."""
    windows, output = operator.windows, parse(operator.sql)
    if not windows:
        return _opaque("rows", without_names(output), *(each.means for each in below))
    try:
        return of_query(output, _of_stages(windows)[1])
    except Unclear:
        pass
    for number, each in enumerate(windows):
        for table in every(output, exp.Table):
            if table.name == each.name:
                if not table.alias:
                    table.set("alias", exp.TableAlias(this=exp.to_identifier(each.name)))
                table.set("this", exp.to_identifier(f"__stage_{number}"))
    said = [json.dumps(_said_of(each), sort_keys=True) for each in windows]
    if any(each.inputs for each in windows):
        raise Unclear(operator.name)
    return _opaque("windows", operator.at_once, without_names(output), *said)


def stage_rows(operator: WindowResults) -> dict[str, str]:
    """Returns by stage of windows a digest of its windows, input rows and keys, independent of its
    aggregates."""
    return _of_stages(operator.windows)[0]


def _of_stages(
    windows: Sequence[WindowOperator],
) -> tuple[dict[str, str], dict[str, Lineage]]:
    """Returns `stage_rows`, and the lineage of each stage's results: `_UNTOLD` for those that aren't
    understood, so that they aren't taken for static tables."""
    rows: dict[str, str] = {}
    untold = dict.fromkeys([each.name for each in windows], _UNTOLD)
    given = dict(untold)
    means: dict[str, str] = {}
    for each in windows:
        stage = each.stage
        try:
            said = _said_of(each)
        except Unclear:
            rows[stage.name] = means[stage.name] = digest(repr(stage))
            continue
        of_rows = {name: what for name, what in said.items() if name not in ("metrics", "output")}
        rows[stage.name] = digest(
            "windows", each.at_once, stages_renamed(json.dumps(of_rows, sort_keys=True), means)
        )
        whole = stages_renamed(json.dumps(said, sort_keys=True), means)
        if isinstance(stage, AggregateStage):
            closed = _of_stage(stage, rows[stage.name], means)
            with suppress(Unclear):
                given[stage.name] = of_query(parse(stage.output), {**untold, f"{stage.name}_windows": closed})
        is_told = given[stage.name] is not _UNTOLD
        means[stage.name] = given[stage.name].means if is_told else digest("windows", whole)
    return rows, given


def _of_stage(stage: AggregateStage, rows: str, means: Mapping[str, str]) -> Lineage:
    """Returns the lineage of a stage's closed windows. `means`: digests of the results of other stages, by
    name."""
    columns = {name: digest(rows, name) for name in (*_WINDOW_COLUMNS, "grouping_id")}
    columns |= {key.name: digest(rows, "key", key.identity) for key in stage.keys}
    columns |= {
        each.name: digest(rows, "aggregate", each.identity, digest(stages_renamed(ordered(each.rows), means)))
        for each in stage.metrics
    }
    return Lineage(rows, tuple(columns.items()))


def _said_of(operator: WindowOperator) -> dict[str, object]:
    """Returns the definition of a stage without its number."""
    stage = operator.stage
    said: dict[str, object] = {
        "window": asdict(stage.window),
        "streams": list(operator.streams),
        "carries": stage.time_carries,
    }
    if isinstance(stage, RowsStage):
        top = stage.top
        return {
            **said,
            "source": ordered(stage.plain or stage.source),
            "top": top and [top.function, list(top.partition), top.order, top.rows],
        }
    return {
        **said,
        "source": ordered(stage.source),
        "keys": sorted((key.name, key.identity) for key in stage.keys),
        "sets": stage.grouping_sets and [sorted(members) for members in stage.grouping_sets],
        "order": stage.grouping_sets and [key.name for key in stage.keys],
        "sessions": list(stage.session_keys),
        "enumerated": stage.enumerated and asdict(stage.enumerated),
        "metrics": sorted((each.name, each.identity, ordered(each.rows)) for each in stage.metrics),
        "output": without_names(parse(stage.output.replace(f"{stage.name}_windows", "__windows"))),
    }


# -- GROUP BY --------------------------------------------------------------------------------------


def _of_groups(operator: GroupAggregate, below: Lineage) -> Lineage:
    stage = operator.stage
    select = parse(stage.written)
    if not isinstance(select, exp.Select):
        raise Unclear(operator.name)
    read = _read(select, {input_name(0): below})
    said = [
        sorted((key.name, read.told(_expression(key.sql))) for key in stage.keys),
        stage.grouping_sets,
        stage.signed,
        [below.column(name) for name in operator.ends],
        sorted(operator.relation.in_time),
        operator.relation.open_until,
    ]
    rows = digest("groups", read.rows, *said)
    columns = {key.name: digest(rows, "key", key.name) for key in stage.keys}
    if stage.grouping_sets is not None:
        columns["grouping_id"] = digest(rows, "grouping_id", [key.name for key in stage.keys])
    columns |= {
        each.name: digest(rows, "aggregate", read.told(_expression(each.sql))) for each in stage.metrics
    }
    return Lineage(rows, tuple(columns.items()))


def _expression(text: str) -> exp.Expr:
    made: exp.Expr = exp.maybe_parse(text, dialect=DIALECT)
    return made


# -- SELECT ----------------------------------------------------------------------------------------


def of_query(query: exp.Expr, known: Mapping[str, Lineage]) -> Lineage:
    """Returns the lineage of a SELECT that works row by row on its input.

    Args:
        query: a tree.
        known: lineages of the tables in it, by name.

    Raises:
        Unclear: the query does anything else.
    """
    if not isinstance(query, exp.Select):
        raise Unclear(query)
    if aggregate(query) is not None:
        raise Unclear(query)
    read = _read(query, known)
    columns: list[tuple[str, str]] = []
    star, hidden, starred = "", frozenset[str](), False
    defined: dict[str, str] = {}
    for item in query.expressions:
        if item.alias_or_name in _HIDDEN or item.alias_or_name.startswith(WEIGHT):
            continue
        if item.is_star:
            if starred or not (isinstance(item, exp.Star) or isinstance(item, exp.Column)):
                raise Unclear(item)
            taken = read.star(item)
            columns += taken.columns
            star, hidden = taken.star, taken.hidden
            starred = True
            continue
        name = item.alias_or_name
        if not name or isinstance(item, exp.Aliases):
            raise Unclear(item)
        columns.append((name, read.told(item.unalias(), defined)))
        if isinstance(item, exp.Alias):
            defined[name.lower()] = columns[-1][1]
    return Lineage(read.rows, tuple(columns), star, hidden)


def _read(select: exp.Select, known: Mapping[str, Lineage]) -> _Read:
    """Returns the input of a SELECT: its relations, joins and WHERE."""
    if more := {name for name, value in select.args.items() if value} - _CLAUSES:
        raise Unclear(more)
    scope: dict[str, Lineage] = {}
    joins: list[exp.Join] = []
    for node, join in joined(select):
        each, alias = _relation(node, known)
        if alias.lower() in scope:
            raise Unclear(alias)
        scope[alias.lower()] = each
        if join is None:
            continue
        if {name for name, value in join.args.items() if value} - {"this", "on", "side", "kind"}:
            raise Unclear(join)
        joins.append(join)
    if not scope:
        raise Unclear(select)
    tests = filters(select)
    plain = not any(join.side or (join.kind or "").upper() not in ("", "INNER", "CROSS") for join in joins)
    rows = [each.rows for each in scope.values()]
    if len(scope) == 1:
        sides = dict.fromkeys(scope, "")
    elif plain and len(set(rows)) == len(rows):
        # The order of inner-joined sides doesn't matter: each is identified by its rows.
        sides = {alias: each.rows for alias, each in scope.items()}
        rows.sort()
    else:
        sides = {alias: f"{place} {each.rows}" for place, (alias, each) in enumerate(scope.items())}
    read = _Read("", scope, sides, known.keys())
    how: list[object] = []
    if plain:
        tests += [test for join in joins for test in conjuncts(join.args.get("on"))]
    else:
        how = [
            (
                (join.side or "").upper(),
                (join.kind or "").upper(),
                read.all_of(conjuncts(join.args.get("on"))),
            )
            for join in joins
        ]
    found = digest("join", rows, how) if joins else rows[0]
    for lateral in select.args.get("laterals") or ():
        read, found = _with_lateral(read, lateral, found)
    kept = read.all_of(tests)
    return replace(read, rows=digest("where", found, kept) if kept else found)


def _with_lateral(read: _Read, lateral: exp.Lateral, rows: str) -> tuple[_Read, str]:
    """Returns the input extended by a LATERAL VIEW, and the digest of its rows; `rows` is the digest without
    it."""
    alias = lateral.args.get("alias")
    if not lateral.args.get("view") or alias is None or not alias.name or alias.name.lower() in read.scope:
        raise Unclear(lateral)
    made = read.told(lateral.this, makes_several=True)
    # Two LATERAL VIEWs of one expression extend different rows.
    of = digest("lateral", rows, made, bool(lateral.args.get("outer")))
    columns = tuple((each.name, digest(of, place)) for place, each in enumerate(alias.columns))
    if not columns:
        raise Unclear(lateral)
    scope = {**read.scope, alias.name.lower(): Lineage(of, columns)}
    return replace(read, scope=scope, sides={**read.sides, alias.name.lower(): ""}), digest(
        "beside", rows, of
    )


def _relation(node: exp.Expr, known: Mapping[str, Lineage]) -> tuple[Lineage, str]:
    alias = node.args.get("alias")
    others = {name for name, value in node.args.items() if value} - {"this", "alias"}
    is_static = isinstance(node, exp.Table | exp.Subquery) and not any(
        each.name in known or not isinstance(each.this, exp.Identifier) for each in every(node, exp.Table)
    )
    if is_static and isinstance(node, exp.Table):
        others -= {"db", "catalog"}
    if others or (alias is not None and alias.args.get("columns")):
        raise Unclear(node)
    if is_static:
        # A static table, or a query over static tables, as it is in each micro-batch.
        text = node.copy()
        text.set("alias", None)
        if not is_repeatable(text):
            raise Unclear(node)
        told = without_names(text.this) if isinstance(text, exp.Subquery) else canonical(text)
        rows = digest("table", told)
        return Lineage(rows, star=rows), node.alias_or_name
    if isinstance(node, exp.Subquery):
        return of_query(node.this, known), node.alias
    if isinstance(node, exp.Table) and node.name in known and known[node.name] is not _UNTOLD:
        return known[node.name], node.alias_or_name
    raise Unclear(node)


@dataclass(frozen=True)
class _Read:
    """The input of a SELECT."""

    rows: str
    scope: Mapping[str, Lineage]
    """Lineages by alias, in lower case."""
    sides: Mapping[str, str]
    """Text that distinguishes each alias from the others, by alias; empty if there is only one alias."""
    operators: Collection[str]
    """Names of the tables that are operators."""

    def all_of(self, tests: Sequence[exp.Expr]) -> list[str]:
        """Returns digests of conditions that are combined by AND."""
        return sorted(map(self._condition, tests))

    def _condition(self, test: exp.Expr) -> str:
        """Returns a digest of a condition, independent of the order of the sides of a comparison."""
        if isinstance(test, exp.EQ | exp.NullSafeEQ | exp.GT | exp.GTE | exp.LT | exp.LTE):
            sides = [self.told(test.this), self.told(test.expression)]
            if isinstance(test, exp.EQ | exp.NullSafeEQ):
                sides.sort()
            if isinstance(test, exp.GT | exp.GTE):
                sides.reverse()
            return digest({"gt": "lt", "gte": "lte"}.get(test.key, test.key), *sides)
        return self.told(test)

    def told(
        self, node: exp.Expr, defined: Mapping[str, str] | None = None, makes_several: bool = False
    ) -> str:
        """Returns a digest of an expression over the rows.

        Args:
            node: the expression.
            defined: digests of the preceding items of the select list, by name in lower case: Spark may
                resolve names to them.
            makes_several: whether it may turn one row into several.

        Raises:
            Unclear: it isn't computed from one row, isn't deterministic, or uses an unknown name.
        """
        if isinstance(node, exp.Column):
            return self._column(node, defined)
        if not is_repeatable(node):
            raise Unclear(node)
        holder = exp.Paren(this=node.copy())
        for query in [each for each in every(holder, exp.Query) if each.find_ancestor(exp.Query) is None]:
            query.replace(exp.Var(this=f"q{self._asked(query)}"))
        for each in list(holder.walk()):
            if isinstance(each, exp.Query | exp.Window | exp.Lambda | exp.Star) or makes_rows(each):
                if makes_several and each is holder.this:
                    continue
                if not (isinstance(each, exp.Star) and isinstance(each.parent, exp.Count)):
                    raise Unclear(each)
            elif isinstance(each, exp.Column) and not isinstance(each.parent, exp.Column):
                each.replace(exp.column(f"c{self._column(each, defined)}"))
        return digest(canonical(holder.this))

    def _asked(self, query: exp.Query) -> str:
        """Returns a digest of a subquery over static tables: its text, and the columns of the row that it may
        read."""
        if any(each.name in self.operators for each in every(query, exp.Table)):
            raise Unclear(query)
        named: list[str] = []
        for column in every(query, exp.Column):
            if isinstance(column.this, exp.Star) or _is_of_query(column, query):
                continue
            # Without a relation's name it may be a column of the row, if the tables don't have it.
            may_be = [each for each in self.scope.values() if each.star or each.names(column.name)]
            if column.table or may_be:
                named.append(self._column(column, None))
        return digest("asked", canonical(query), named)

    def _column(self, column: exp.Column, defined: Mapping[str, str] | None) -> str:
        if column.args.get("db") or isinstance(column.this, exp.Star):
            raise Unclear(column)
        name, table = column.name, column.table.lower()
        if table in self.scope and table:
            return self._of(table, name)
        if table:
            # A field of a struct column.
            return digest(
                "field", self._column(exp.column(column.args["table"].copy()), defined), name.lower()
            )
        listed = [alias for alias, each in self.scope.items() if each.names(name)]
        # If another relation also had such a column, Spark would reject the name.
        may_be = listed or [alias for alias, each in self.scope.items() if each.star] or [*self.scope]
        if len(may_be) > 1:
            raise Unclear(column)
        (alias,) = may_be
        earlier = None if listed or defined is None else defined.get(name.lower())
        if earlier is None:
            return self._of(alias, name)
        if not self.scope[alias].star:
            return earlier
        # Either that item or a column of the rows. The digest covers both.
        return digest("either", earlier, self._of(alias, name))

    def _of(self, alias: str, name: str) -> str:
        found, side = self.scope[alias].column(name), self.sides[alias]
        return digest(side, found) if side else found

    def star(self, item: exp.Expr) -> Lineage:
        """Returns the columns that a star expands to."""
        star = item if isinstance(item, exp.Star) else item.this
        if not passes_columns(star):
            raise Unclear(item)
        table = item.table.lower() if isinstance(item, exp.Column) else ""
        if len(self.scope) != 1 or (table and table not in self.scope):
            raise Unclear(item)
        left_out = star.args.get("except_") or ()
        (read,) = self.scope.values()
        return read.without(*(each.name for each in left_out if not each.name.startswith(_HIDDEN)))


def _is_of_query(column: exp.Column, query: exp.Expr) -> bool:
    """Whether a column in a query certainly belongs to a relation of that query. The nearest enclosing SELECT
    is tried first; a relation in FROM doesn't see its neighbours."""
    name = column.table.lower()
    path: list[exp.Expr] = [column]
    while name and path[-1] is not query and path[-1].parent is not None:
        path.append(path[-1].parent)
        node, child = path[-1], path[-2]
        if not isinstance(node, exp.Select):
            continue
        stands_in = path[-3].arg_key if isinstance(child, exp.Join) else child.arg_key
        own = {each.alias_or_name.lower() for each in (*relations(node), *(node.args.get("laterals") or ()))}
        if name in own and stands_in not in ("from", "from_", "with", "with_", "this"):
            return True
    return False


def placed(text: str, aliases: Sequence[str]) -> str:
    """Returns the canonical text of an expression, with its relations named by position.

    >>> placed("upper(a.k)", ("b", "a")), placed("upper(a.k)", ("a",))
    ('UPPER(__1.k)', 'UPPER(k)')
    """
    places = {alias.lower(): number for number, alias in enumerate(aliases)}
    holder = exp.Paren(this=_expression(text))
    for each in every(holder, exp.Column):
        if each.table.lower() in places:
            place = exp.to_identifier(f"__{places[each.table.lower()]}")
            each.set("table", place if len(places) > 1 else None)
    return canonical(holder.this)
