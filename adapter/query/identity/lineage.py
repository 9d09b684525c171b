"""What an operator's rows and columns are, told by what they are made of: the same for texts that mean the same.

An operator is called by a digest of its text, so another alias, a WITH around a part, or a column more below it gives it
another name. What its state has may be the same all the same. Its *lineage* tells: which rows it gives, and what each column
of them is made of, down to the columns of streams, whatever these are called on the way.

Equal lineages mean the same; unequal ones may. What isn't understood is told as it is written.

>>> from ..plan.relation import Relation
>>> from ..plan.base import Project, Source
>>> source = Source("source_1", "t", Relation(), "t")
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

from sqlglot import exp

from ...util.quoting import path_of
from ..aggregates.model import AggregateStage
from ..errors import QueryError
from ..frontend.source_text import ordered, without_names
from ..normalize.conditions import is_repeatable
from ..plan.base import (
    BY,
    GIVEN_BY,
    ID,
    ORDER,
    ROW_TIME,
    ChangelogNormalize,
    Dataflow,
    GroupAggregate,
    Join,
    LateRows,
    Local,
    MaterializedProject,
    Operator,
    OuterIntervalJoin,
    OverAggregate,
    Project,
    Recompute,
    SetOperation,
    Source,
    TemporalFilter,
    TopN,
    UnionAll,
    WindowAggregate,
    WindowBuffer,
    WindowChanges,
    WindowClose,
    WindowResults,
    WindowRows,
    input_name,
)
from ..plan.hidden_items import ROW_TIME as OF_ROW
from ..plan.operators.top_n import ROW
from ..plan.relation import WEIGHT
from ..plan.stages import RowsStage
from ..sql.clauses import aggregate, conjuncts, filters, joined, passes_columns, relations
from ..sql.dialect import DIALECT, canonical, parse
from ..sql.functions import makes_rows
from ..sql.names import digest, stages_renamed
from ..sql.nodes import every

_WINDOW_COLUMNS = ("window_start", "window_end", "window_time")
_HIDDEN = (WEIGHT, GIVEN_BY)
STAR = "*"
"""What stands among columns in the place of those that aren't known by name: set operations go by places."""
_CLAUSES = {"expressions", "from_", "from", "where", "joins", "laterals"}
"""What a SELECT may say to be understood."""


class Unclear(Exception):
    """A text whose meaning isn't told here."""


@dataclass(frozen=True)
class Lineage:
    """What an operator, or a query in one, gives."""

    rows: str
    """Which rows, and how often each."""
    columns: tuple[tuple[str, str], ...] = ()
    """Those that are known by name (as written), each with what it is, and `STAR` in the place of all others."""
    star: str = ""
    """What all other columns are of; empty: there are no others."""
    hidden: frozenset[str] = field(default=frozenset())
    """Columns of that, in lower case, which aren't handed on."""

    @property
    def means(self) -> str:
        """All of it: rows that are kept can be those of another operator if this is the same."""
        columns = [(name.lower(), what) for name, what in self.columns]
        return digest(self.rows, columns, self.star, sorted(self.hidden))

    def column(self, name: str) -> str:
        """What a column is.

        Raises:
            Unclear: there is none, as far as is known, or several.
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
        """The same without some columns."""
        gone = {name.lower() for name in names}
        hidden = self.hidden | gone if self.star else self.hidden
        return replace(
            self,
            columns=tuple(each for each in self.columns if each[0].lower() not in gone),
            hidden=frozenset(hidden),
        )


_UNTOLD = Lineage("")
"""Of what isn't understood."""


def lineages(flow: Dataflow) -> dict[str, Lineage]:
    """The lineage of each operator, by its name."""
    found: dict[str, Lineage] = {}
    for operator in flow.operators:
        found[operator.name] = of(operator, found)
    return found


def of(operator: Operator, known: Mapping[str, Lineage]) -> Lineage:
    """The lineage of an operator.

    Args:
        operator: which.
        known: by name those of what is below it.
    """
    try:
        return _of(operator, [known[each.name] for each in operator.inputs])
    except (Unclear, QueryError):
        # Its name says all of its text, and all below.
        return _opaque("as written", operator.name)


def _opaque(*texts: object) -> Lineage:
    """Rows that only these texts tell, as all of their columns."""
    rows = digest(*texts)
    return Lineage(rows, ((STAR, rows),), star=rows)


def _of(operator: Operator, below: Sequence[Lineage]) -> Lineage:
    if isinstance(operator, Source):
        return _opaque("source", operator.name, operator.changelog)
    if isinstance(operator, ChangelogNormalize):
        return _opaque("last row", operator.name)
    if isinstance(operator, WindowAggregate | WindowBuffer):
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
    return _of_text(operator, below)


def _of_text(
    operator: Project | Join | OuterIntervalJoin | Local | MaterializedProject | OverAggregate | Recompute,
    below: Sequence[Lineage],
) -> Lineage:
    """Of a text that isn't understood: the text without the names of its relations, and all that it reads."""
    also: list[object] = []
    if isinstance(operator, Recompute):
        also = [placed(key, operator.aliases) for keys in operator.keys for key in keys]
        if operator.top is not None:
            also += ["top", operator.top.rows]
    text = without_names(parse(operator.sql))
    return _opaque(type(operator).__name__, text, *also, *(each.means for each in below))


def _of_ranking(operator: TopN, below: Lineage) -> Lineage:
    """The first rows, each with its place."""
    select = parse(operator.sql)
    assert isinstance(select, exp.Select)
    # What is ranked by is of the rows, whatever the select list calls by the same name.
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
    """Rows whose columns are told by their places, and called as others are."""
    rows = digest(*texts)
    columns = tuple((name, digest(rows, place)) for place, (name, _) in enumerate(like.columns))
    return Lineage(rows, columns, rows if like.star else "", like.hidden)


def _of_union(below: Sequence[Lineage]) -> Lineage:
    """All rows of all sides: a column is what it is in each, so that others may come and go."""
    if any(each.star for each in below) or len({len(each.columns) for each in below}) > 1:
        return _by_place("union", *(each.means for each in below), like=below[0])
    named = {tuple(name.lower() for name, _ in each.columns) for each in below}
    # In either order it is the same relation.
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
    """Each row once for each window it is in."""
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
    """Windows over streams: aggregates of one stage are told one by one, so that others may come and go."""
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
    """By stage of windows what it has rows of: which windows, of which rows and keys, whatever is aggregated of them."""
    return _of_stages(operator.windows)[0]


def _of_stages(
    windows: Sequence[WindowAggregate | WindowBuffer],
) -> tuple[dict[str, str], dict[str, Lineage]]:
    """The same, and the lineage of the results of all, `_UNTOLD` of those that aren't understood: they are no tables beside
    the streams."""
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
    """The finished windows of a stage; `means`: of the results of others, by their names."""
    columns = {name: digest(rows, name) for name in (*_WINDOW_COLUMNS, "grouping_id")}
    columns |= {key.name: digest(rows, "key", key.identity) for key in stage.keys}
    columns |= {
        each.name: digest(rows, "aggregate", each.identity, digest(stages_renamed(ordered(each.rows), means)))
        for each in stage.metrics
    }
    return Lineage(rows, tuple(columns.items()))


def _said_of(operator: WindowAggregate | WindowBuffer) -> dict[str, object]:
    """What tells a stage, but for its number."""
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
    """The lineage of a SELECT, row by row over what it reads.

    Args:
        query: a tree.
        known: by name what is known of the tables in it.

    Raises:
        Unclear: it does something else.
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
    """What a SELECT reads, with its joins and its WHERE."""
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
        # In either order it is the same relation: a side is told by its rows.
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
    """What is read with the rows of a LATERAL VIEW beside, and which rows these are; `rows`: those without it."""
    alias = lateral.args.get("alias")
    if not lateral.args.get("view") or alias is None or not alias.name or alias.name.lower() in read.scope:
        raise Unclear(lateral)
    made = read.told(lateral.this, makes_several=True)
    # Two of one expression stand beside other rows each.
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
        # A table beside the streams, or a query over tables, as it is in each micro-batch.
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
    """What a SELECT reads."""

    rows: str
    scope: Mapping[str, Lineage]
    """By alias, in lower case."""
    sides: Mapping[str, str]
    """By alias what tells it from others; empty where it is alone."""
    operators: Collection[str]
    """The tables that are operators."""

    def all_of(self, tests: Sequence[exp.Expr]) -> list[str]:
        """What conditions are that all have to hold."""
        return sorted(map(self._condition, tests))

    def _condition(self, test: exp.Expr) -> str:
        """What a condition is, whichever side of a comparison is first."""
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
        """What an expression over the rows is.

        Args:
            node: the expression.
            defined: what stands before it in the select list, by name in lower case: Spark may read it from there.
            makes_several: whether it may make several rows of one.

        Raises:
            Unclear: it isn't of one row, or another each time, or a name isn't known.
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
        """What a query over tables alone is that is asked for each row: its text, and what of the row it may name."""
        if any(each.name in self.operators for each in every(query, exp.Table)):
            raise Unclear(query)
        named: list[str] = []
        for column in every(query, exp.Column):
            if isinstance(column.this, exp.Star) or _is_of_query(column, query):
                continue
            # Without a relation's name it may be a column of the row that the tables don't have.
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
            # A field of a column.
            return digest(
                "field", self._column(exp.column(column.args["table"].copy()), defined), name.lower()
            )
        listed = [alias for alias, each in self.scope.items() if each.names(name)]
        # Had another one such a column, too, the name would be refused.
        may_be = listed or [alias for alias, each in self.scope.items() if each.star] or [*self.scope]
        if len(may_be) > 1:
            raise Unclear(column)
        (alias,) = may_be
        earlier = None if listed or defined is None else defined.get(name.lower())
        if earlier is None:
            return self._of(alias, name)
        if not self.scope[alias].star:
            return earlier
        # That, or a column of the rows: it is the same wherever both are.
        return digest("either", earlier, self._of(alias, name))

    def _of(self, alias: str, name: str) -> str:
        found, side = self.scope[alias].column(name), self.sides[alias]
        return digest(side, found) if side else found

    def star(self, item: exp.Expr) -> Lineage:
        """The columns that a star stands for."""
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
    """Whether a column in a query is surely one of the relations in it: what is nearest around it counts, and what stands in
    FROM sees nothing of its neighbours."""
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
    """An expression over relations, which are called by their places.

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
