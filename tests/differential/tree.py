"""Queries as small trees: made at random, printed as a model's text, and cut down node by node.

A tree knows of each query its columns and its form, so that what is put on top of it has a meaning:

static     a table that doesn't change
rows       rows of a stream
windowed   rows of a stream with their windows
result     results of windows that have closed
table      rows that change: groups and rankings of a stream without windows
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments

STATIC, ROWS, WINDOWED, RESULT, TABLE = "static", "rows", "windowed", "result", "table"
WINDOW = ("window_start", "window_end")
TIME = "timestamp"
ANY_TIME = "TIMESTAMP"
"""The same type, of times that are in no order: a window over them would drop rows as late."""


class Invalid(Exception):
    """A tree that has no meaning, as some that are cut down have not."""


@dataclass(frozen=True)
class Column:
    """A column of a query."""

    name: str
    kind: str
    """Its type, as Spark prints it."""
    exact: bool = True
    """Whether its value doesn't depend on the order in which rows are added up."""
    event_time: bool = False


@dataclass(frozen=True)
class Expr:
    """An expression over the columns of one query."""

    sql: str
    kind: str
    uses: frozenset[str] = frozenset()
    exact: bool = True

    @staticmethod
    def of(column: Column) -> Expr:
        """A column as it is."""
        return Expr(column.name, column.kind, frozenset({column.name}), column.exact)


@dataclass(frozen=True)
class Item:
    """An expression with a name."""

    expr: Expr
    name: str

    def __str__(self) -> str:
        return self.name if self.expr.sql == self.name else f"{self.expr.sql} as {self.name}"


@dataclass(frozen=True)
class Order:
    """One expression of an ORDER BY."""

    column: str
    descending: bool = False
    nulls: str = ""

    def __str__(self) -> str:
        words = [self.column, "desc" if self.descending else "", f"nulls {self.nulls}" if self.nulls else ""]
        return " ".join(word for word in words if word)


@dataclass(frozen=True)
class Call:
    """A windowing function with its arguments."""

    kind: str
    time_col: str
    lengths: tuple[str, ...]
    offset: str = "0 seconds"
    partition_by: tuple[str, ...] = ()
    time_zone: str | None = None
    emit: str = "every_step"

    def expand(self, relation: str) -> str:
        """What its macro prints."""
        window = window_arguments.make_window(
            self.kind,
            self.time_col,
            *self.lengths,
            offset=self.offset,
            emit=self.emit,
            partition_by=list(self.partition_by),
            time_zone=self.time_zone,
        )
        return expansion.expand_window(relation, window)

    @property
    def new_at_the_step(self) -> str:
        """Of a cumulate, whether a row of a group came in the step that ends with the window."""
        return f"max({self.time_col}) >= window_end - interval '{self.lengths[0]}'"

    def macro(self, relation: str) -> str:
        """Its macro, as an author writes it."""
        said = [relation, repr(self.time_col), *map(repr, self.lengths)]
        if self.offset != "0 seconds":
            said.append(f"offset={self.offset!r}")
        if self.kind in ("session", "dynamic_cumulate"):
            said.append(f"partition_by={list(self.partition_by)!r}")
        if self.time_zone:
            said.append(f"time_zone={self.time_zone!r}")
        if self.emit != "every_step":
            said.append(f"emit={self.emit!r}")
        return f"{{{{ {self.kind}({', '.join(said)}) }}}}"


@dataclass(frozen=True)
class Watermarks:
    """What the clock of event time says in a run, as literals; None: nothing yet."""

    cuts: tuple[tuple[int, str | None], ...]
    """By the first piece of each cut: the watermark before it."""
    last: str | None
    """After all."""


class Printer:
    """Prints trees; collects what stands in WITH.

    Args:
        ties: whether it is the text that says in batch what a stream's rows are: rankings that leave ties to chance go on
            to all columns, windows that leave out silent steps do it by HAVING, and there is no QUALIFY.
        macros: whether macros are printed instead of what they expand to.
        clock: what ``current_timestamp()`` was in the run; None: it stays as it is.
    """

    def __init__(self, ties: bool = False, macros: bool = False, clock: Watermarks | None = None) -> None:
        self.ties, self.macros, self.clock = ties, macros, clock
        self.windows = False
        self.ctes: dict[Node, tuple[str, str]] = {}

    def text(self, node: Node) -> str:
        """The whole text of a query."""
        self.windows = any(isinstance(each, Windowed) for each in nodes(node))
        body = node.sql(self)
        named = ",\n".join(f"{name} as (\n{indented(text)}\n)" for name, text in self.ctes.values())
        return f"with {named}\n{body}" if named else body

    def cte(self, node: Node) -> str:
        """The name that a query has in WITH."""
        if node not in self.ctes:
            text = node.sql(self)
            self.ctes[node] = (f"q{len(self.ctes) + 1}", text)
        return self.ctes[node][0]

    def source(self, node: Node, alias: str = "t", judged: str | None = None) -> str:
        """A query in FROM; `judged`: what stands in the place of the stream below a windowing function."""
        if isinstance(node, Static):
            return f"{node.name} as {alias}"
        if isinstance(node, Shared):
            return f"{self.cte(node.input)} as {alias}"
        if isinstance(node, Stream):
            macro = f"{{{{ stream({node.name}) }}}}"
            return f"{macro if self.macros else expansion.expand_stream(node.name)} as {alias}"
        if isinstance(node, Windowed):
            if judged is not None:
                return f"{node.call.expand(judged)} as {alias}"
            relation = node.input.name if isinstance(node.input, Stream) else self.cte(node.input)
            call = node.call
            return f"{call.macro(relation) if self.macros else call.expand(relation)} as {alias}"
        return f"(\n{indented(node.sql(self))}\n) as {alias}"


def indented(text: str) -> str:
    """A text, two spaces to the right."""
    return "\n".join("  " + line for line in text.splitlines())


@dataclass(frozen=True)
class Node:
    """A query."""

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """What it gives."""
        raise NotImplementedError

    @cached_property
    def form(self) -> str:
        """What kind of rows these are."""
        raise NotImplementedError

    @property
    def call(self) -> Call | None:
        """The windowing function whose windows its rows are of, if there is one."""
        return next((child.call for child in children(self) if child.call is not None), None)

    def sql(self, printer: Printer) -> str:
        """Its text."""
        listed = ", ".join(column.name for column in self.columns)
        return f"select {listed} from {printer.source(self)}"

    def check(self) -> None:
        """Passes a tree with a meaning.

        Raises:
            Invalid: it has none.
        """
        names = [column.name for column in self.columns]
        if len(set(names)) != len(names) or not names:
            raise Invalid(f"columns {names}")

    def column(self, name: str) -> Column:
        """One of its columns.

        Raises:
            Invalid: there is none of that name.
        """
        for column in self.columns:
            if column.name == name:
                return column
        raise Invalid(f"no column {name}")

    def has(self, *names: str) -> bool:
        """Whether it has columns."""
        return set(names) <= {column.name for column in self.columns}


def leaves_steps_out(node: Node) -> Call | None:
    """The window that rows are of, if their GROUP BY leaves out the steps in which none of a group is new."""
    call = node.call if node.form == WINDOWED else None
    return call if call is not None and call.emit == "on_change" else None


def children(node: Node) -> list[Node]:
    """The queries a query reads."""
    return [value for each in fields(node) if isinstance(value := getattr(node, each.name), Node)]


def nodes(node: Node) -> Iterator[Node]:
    """A query and all below it."""
    yield node
    for child in children(node):
        yield from nodes(child)


def depth(node: Node) -> int:
    """How many queries stand in each other."""
    return 1 + max(map(depth, children(node)), default=0)


def check(node: Node) -> None:
    """Passes a tree all of whose queries have a meaning.

    Raises:
        Invalid: one has none.
    """
    for child in children(node):
        check(child)
    node.check()


def _needs(node: Node, names: Sequence[str] | frozenset[str]) -> None:
    for name in names:
        node.column(name)


def aggregated(form: str) -> str:
    """What an aggregate or a ranking of such rows is."""
    return {WINDOWED: RESULT, ROWS: TABLE}.get(form, form)


@dataclass(frozen=True)
class Stream(Node):
    """A stream."""

    name: str
    of: tuple[Column, ...]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.of

    @cached_property
    def form(self) -> str:
        return ROWS


@dataclass(frozen=True)
class Static(Node):
    """A table."""

    name: str
    of: tuple[Column, ...]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.of

    @cached_property
    def form(self) -> str:
        return STATIC


@dataclass(frozen=True)
class Written(Node):
    """A query written down by hand, over streams."""

    text: str
    of: tuple[Column, ...]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.of

    @cached_property
    def form(self) -> str:
        return TABLE

    def sql(self, printer: Printer) -> str:
        return self.text


@dataclass(frozen=True)
class Shared(Node):
    """A query under a name in WITH, read in more than one place."""

    input: Node

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns

    @cached_property
    def form(self) -> str:
        return self.input.form


@dataclass(frozen=True)
class Loose(Node):
    """Rows of any form, on which anything may be put: windows are columns like others from here on."""

    input: Node

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return tuple(replace(column, event_time=False) for column in self.input.columns)

    @cached_property
    def form(self) -> str:
        return TABLE

    def sql(self, printer: Printer) -> str:
        return f"select {', '.join(c.name for c in self.columns)}\nfrom {printer.source(self.input)}"

    def check(self) -> None:
        super().check()
        if self.input.form == STATIC:
            raise Invalid("a table alone")


@dataclass(frozen=True)
class Windowed(Node):
    """A windowing function over rows."""

    input: Node
    over: Call

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return (
            *self.input.columns,
            *(Column(name, TIME) for name in (*WINDOW, "window_time")),
        )

    @cached_property
    def form(self) -> str:
        return WINDOWED

    @property
    def call(self) -> Call:
        return self.over

    def check(self) -> None:
        super().check()
        if self.input.form not in (ROWS, RESULT, TABLE) or self.input.column(self.over.time_col).kind != TIME:
            raise Invalid("a windowing function over something else")
        _needs(self.input, self.over.partition_by)


@dataclass(frozen=True)
class Select(Node):
    """Columns computed row by row, of the rows that pass."""

    input: Node
    items: tuple[Item, ...]
    where: tuple[Expr, ...] = ()
    explode: Item | None = None
    """LATERAL VIEW explode of an array, under a name."""

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        found = []
        for item in self.items:
            same = self.input.column(item.expr.sql) if self.input.has(item.expr.sql) else None
            time = same is not None and same.event_time
            found.append(Column(item.name, item.expr.kind, item.expr.exact, time))
        return tuple(found)

    @cached_property
    def form(self) -> str:
        return self.input.form

    def sql(self, printer: Printer) -> str:
        text = f"select {', '.join(map(str, self.items))}\nfrom {printer.source(self.input)}"
        if self.explode is not None:
            text += f"\nlateral view explode({self.explode.expr.sql}) exploded as {self.explode.name}"
        if self.where:
            text += f"\nwhere {' and '.join(test.sql for test in self.where)}"
        return text

    def check(self) -> None:
        super().check()
        own = {self.explode.name} if self.explode else set()
        for expr in [*(item.expr for item in self.items), *self.where]:
            _needs(self.input, expr.uses - own)
        if self.explode is not None:
            _needs(self.input, self.explode.expr.uses)


NOW = "now__"


@dataclass(frozen=True)
class Recent(Node):
    """Rows of a stream, or of its windows, that aren't older than some seconds by the clock of event time."""

    input: Node
    time: str
    seconds: int
    inclusive: bool = False

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns

    @cached_property
    def form(self) -> str:
        return self.input.form

    def sql(self, printer: Printer) -> str:
        names = ", ".join(column.name for column in self.columns)
        source, now = printer.source(self.input), "current_timestamp()"
        if printer.clock is not None and not printer.windows:
            now = printer.clock.last or _BEFORE_ALL
        elif printer.clock is not None:
            # A row is judged when it comes, by the watermark before its cut.
            stream = self.input.input if isinstance(self.input, Windowed) else self.input
            assert isinstance(stream, Stream)
            judged = f"(select *, {_at_its_piece(printer.clock)} as {NOW} from {stream.name}__pieces)"
            source = f"{judged} as t"
            if self.input is not stream:
                source = printer.source(self.input, judged=judged)
            now = NOW
        test = f"{self.time} {'>=' if self.inclusive else '>'} {now} - interval '{self.seconds}' second"
        return f"select {names}\nfrom {source}\nwhere {test}"

    def check(self) -> None:
        super().check()
        below = self.input.input if isinstance(self.input, Windowed) else self.input
        if not isinstance(below, Stream) or not self.input.column(self.time).event_time:
            raise Invalid("the clock of something else")
        if below.name == UPSTREAM:
            raise Invalid("the clock of rows that may change")


_BEFORE_ALL = "timestamp'0001-01-01 00:00:00'"


def _at_its_piece(clock: Watermarks) -> str:
    branches = [f"when piece__ >= {piece} then {at or _BEFORE_ALL}" for piece, at in reversed(clock.cuts)]
    return f"case {' '.join(branches)} end"


@dataclass(frozen=True)
class Group(Node):
    """GROUP BY, with grouping sets or without."""

    input: Node
    keys: tuple[Item, ...]
    metrics: tuple[Item, ...]
    having: Expr | None = None
    sets: str = ""
    """``rollup``, ``cube`` or the text of GROUPING SETS over the keys; window columns stay outside."""

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return tuple(
            Column(item.name, item.expr.kind, item.expr.exact) for item in (*self.keys, *self.metrics)
        )

    @cached_property
    def form(self) -> str:
        return aggregated(self.input.form)

    def sql(self, printer: Printer) -> str:
        listed = ", ".join(map(str, (*self.keys, *self.metrics)))
        text = f"select {listed}\nfrom {printer.source(self.input)}"
        inside = [key.expr.sql for key in self.keys if key.expr.sql not in (*WINDOW, "window_time")]
        outside = [key.expr.sql for key in self.keys if key.expr.sql in (*WINDOW, "window_time")]
        if self.sets in ("rollup", "cube"):
            outside.append(f"{self.sets} ({', '.join(inside)})")
        elif self.sets:
            outside.append(f"grouping sets ({self.sets})")
        else:
            outside += inside
        if outside:
            text += f"\ngroup by {', '.join(outside)}"
        tests = [] if self.having is None else [self.having.sql]
        if printer.ties and self._has_total and self.sets:
            # Totals of grouping sets are there once there is something to count, in a stream and in Spark; not in DuckDB.
            tests.append("count(*) > 0")
        call = leaves_steps_out(self.input)
        if printer.ties and call is not None:
            tests.append(call.new_at_the_step)
        if tests:
            text += f"\nhaving {' and '.join(tests)}"
        return text

    @property
    def _has_total(self) -> bool:
        """Whether there is a group of all rows, which batch has even of none."""
        return not self.keys or self.sets in ("rollup", "cube") or "()" in self.sets

    def check(self) -> None:
        super().check()
        if self.input.form == STATIC:
            raise Invalid("groups of a table")
        if (call := leaves_steps_out(self.input)) is not None:
            _needs(self.input, [call.time_col])
        for item in (*self.keys, *self.metrics):
            _needs(self.input, item.expr.uses)
        if self.having is not None:
            _needs(self.input, self.having.uses)
        if not all(key.expr.exact for key in self.keys):
            raise Invalid("a key that isn't exact")
        if self.input.form in (WINDOWED, RESULT) and not set(WINDOW) <= {k.expr.sql for k in self.keys}:
            raise Invalid("windows mixed")
        if self.sets and self.sets not in ("rollup", "cube"):
            named = set(self.sets.replace("(", " ").replace(")", " ").replace(",", " ").split())
            if not named <= {key.expr.sql for key in self.keys}:
                raise Invalid("a set of a key that isn't there")
        if self.sets and len(self.keys) < 1 + 2 * (self.input.form in (WINDOWED, RESULT)):
            raise Invalid("sets of nothing")


@dataclass(frozen=True)
class Rank(Node):
    """A filter on ROW_NUMBER, RANK or DENSE_RANK."""

    input: Node
    partition: tuple[str, ...]
    order: tuple[Order, ...]
    function: str = "row_number"
    test: str = "rn <= 2"
    keep: bool = False
    """Whether the rank is among the columns."""
    qualify: bool = False

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return (*self.input.columns, *((Column("rn", "int"),) if self.keep else ()))

    @cached_property
    def form(self) -> str:
        return aggregated(self.input.form)

    @property
    def is_first_row(self) -> bool:
        """Whether it is the first row by event time, of a stream: final when the watermark is there."""
        first = self.order[0]
        return (
            self.input.form == ROWS
            and self.function == "row_number"
            and self.test == "rn = 1"
            and self.input.column(first.column).event_time
            and not first.descending
        )

    def sql(self, printer: Printer) -> str:
        order = list(map(str, self.order))
        names = [column.name for column in self.input.columns]
        if printer.ties and self.function == "row_number":
            order.append(f"struct({', '.join(names)})")
        over = f"partition by {', '.join(self.partition)} " if self.partition else ""
        rank = f"{self.function}() over ({over}order by {', '.join(order)})"
        source = printer.source(self.input)
        if self.qualify and not printer.ties:
            rn = self.test.replace("rn", rank)
            shown = [*names, f"{rank} as rn"] if self.keep else names
            return f"select {', '.join(shown)} from {source}\nqualify {rn}"
        inner = f"select {', '.join(names)}, {rank} as rn\nfrom {source}"
        listed = ", ".join(column.name for column in self.columns)
        return f"select {listed} from (\n{indented(inner)}\n) as r\nwhere {self.test}"

    def check(self) -> None:
        super().check()
        _needs(self.input, self.partition)
        if not self.order or self.input.form == STATIC:
            raise Invalid("a ranking without an order")
        if not all(column.exact for column in self.input.columns):
            raise Invalid("ranked by what isn't exact")
        _needs(self.input, [each.column for each in self.order])
        if self.input.form in (WINDOWED, RESULT) and not set(WINDOW) <= set(self.partition):
            raise Invalid("windows mixed")


@dataclass(frozen=True)
class Limit(Node):
    """ORDER BY … LIMIT."""

    input: Node
    order: tuple[Order, ...]
    rows: int
    skipped: int = 0

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns

    @cached_property
    def form(self) -> str:
        return aggregated(self.input.form)

    def sql(self, printer: Printer) -> str:
        names = ", ".join(column.name for column in self.columns)
        order = [*map(str, self.order), *([f"struct({names})"] if printer.ties else [])]
        offset = f" offset {self.skipped}" if self.skipped else ""
        return (
            f"select {names}\nfrom {printer.source(self.input)}\n"
            f"order by {', '.join(order)} limit {self.rows}{offset}"
        )

    def check(self) -> None:
        super().check()
        if not self.order or self.input.form not in (ROWS, TABLE):
            raise Invalid("a limit of something else")
        if not all(column.exact for column in self.input.columns):
            raise Invalid("ordered by what isn't exact")
        _needs(self.input, [each.column for each in self.order])


@dataclass(frozen=True)
class Taken:
    """A column of a join: of the left, the right, or whichever has it."""

    side: str
    column: str
    name: str

    def __str__(self) -> str:
        if self.side == "b":
            return f"coalesce(l.{self.column}, r.{self.column}) as {self.name}"
        return f"{self.side}.{self.column} as {self.name}"


@dataclass(frozen=True)
class Join(Node):
    """A join of two queries."""

    kind: str
    left: Node
    right: Node
    on: tuple[tuple[str, str], ...]
    items: tuple[Taken, ...]
    more: str = ""
    """A further condition, over ``l`` and ``r``."""
    where: str = ""
    table: Node | None = None
    """A static table that is joined as ``d`` in the same SELECT."""
    table_kind: str = ""
    table_on: tuple[str, str, str] = ("", "", "")
    """The side and the column that are equal to a column of the table."""
    table_first: bool = False
    """Whether it is joined before the right side."""

    def _of(self, side: str) -> Node:
        node = {"r": self.right, "d": self.table}.get(side, self.left)
        if node is None:
            raise Invalid("no table")
        return node

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        found = []
        for item in self.items:
            of = self._of(item.side).column(item.column)
            # A pair of rows of two streams comes when the later one does: its times are no longer in order.
            time = of.event_time and item.side == "l" and self.right.form == STATIC
            found.append(Column(item.name, of.kind, of.exact, time))
        return tuple(found)

    @cached_property
    def form(self) -> str:
        forms = {self.left.form, self.right.form} - {STATIC}
        if not forms:
            return STATIC
        if TABLE in forms:
            return TABLE
        if len({self.left.form, self.right.form}) == 1 and forms == {WINDOWED}:
            return RESULT
        return RESULT if RESULT in forms else next(iter(forms))

    def sql(self, printer: Printer) -> str:
        tests = [f"l.{left} = r.{right}" for left, right in self.on]
        tests += [self.more] if self.more else []
        joins = [f"{self.kind} join {printer.source(self.right, 'r')}\non {' and '.join(tests)}"]
        if self.table is not None:
            side, column, key = self.table_on
            table = f"{self.table_kind} join {printer.source(self.table, 'd')}\non {side}.{column} = d.{key}"
            joins.insert(0 if self.table_first else 1, table)
        text = "\n".join(
            [f"select {', '.join(map(str, self.items))}\nfrom {printer.source(self.left, 'l')}", *joins]
        )
        return f"{text}\nwhere {self.where}" if self.where else text

    def check(self) -> None:
        super().check()
        if not self.on and not self.more:
            raise Invalid("a join of everything")
        for left, right in self.on:
            if self.left.column(left).kind != self.right.column(right).kind:
                raise Invalid("types differ")
        for side in ("l", "r"):
            node = self.left if side == "l" else self.right
            for text in (self.more, self.where):
                for word in text.replace("(", " ").replace(")", " ").replace(",", " ").split():
                    if word.startswith(f"{side}."):
                        node.column(word[2:])
        for item in self.items:
            if item.side == "b":
                self.right.column(item.column)
            if item.side in ("r", "b") and self.kind.endswith(("semi", "anti")):
                raise Invalid("a column of the other side")
        if self.table is not None:
            side, column, key = self.table_on
            if self._of(side).column(column).kind != self.table.column(key).kind:
                raise Invalid("types differ")
            if side == "r" and (self.table_first or self.kind.endswith(("semi", "anti"))):
                raise Invalid("a column of the other side")
        forms = {self.left.form, self.right.form}
        if forms & {WINDOWED, RESULT} and STATIC not in forms and not self.on:
            raise Invalid("windows mixed")


@dataclass(frozen=True)
class Combined(Node):
    """UNION, INTERSECT or EXCEPT."""

    op: str
    left: Node
    right: Node

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return tuple(
            replace(
                left,
                exact=left.exact and right.exact,
                event_time=left.event_time and right.event_time,
            )
            for left, right in zip(self.left.columns, self.right.columns, strict=True)
        )

    @cached_property
    def form(self) -> str:
        forms = {self.left.form, self.right.form}
        if self.op == "union all":
            if len(forms) == 1:
                return next(iter(forms))
            return next(form for form in (TABLE, RESULT, WINDOWED, ROWS, STATIC) if form in forms)
        return aggregated(self.left.form)

    def sql(self, printer: Printer) -> str:
        return f"{self._side(self.left, printer)}\n{self.op}\n{self._side(self.right, printer)}"

    @staticmethod
    def _side(node: Node, printer: Printer) -> str:
        plain = isinstance(node, Select | Group | Join)
        if plain:
            return node.sql(printer)
        return f"select {', '.join(c.name for c in node.columns)} from {printer.source(node)}"

    def check(self) -> None:
        if [c.kind for c in self.left.columns] != [c.kind for c in self.right.columns]:
            raise Invalid("types differ")
        super().check()
        if self.op != "union all" and not all(column.exact for column in self.columns):
            raise Invalid("compares what isn't exact")


@dataclass(frozen=True)
class Distinct(Node):
    """SELECT DISTINCT."""

    input: Node
    of: tuple[str, ...]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return tuple(replace(self.input.column(name), event_time=False) for name in self.of)

    @cached_property
    def form(self) -> str:
        return aggregated(self.input.form)

    def sql(self, printer: Printer) -> str:
        listed, source = ", ".join(self.of), printer.source(self.input)
        call = leaves_steps_out(self.input)
        if printer.ties and call is not None:
            # It is a GROUP BY of all its columns, and leaves out the same steps.
            return f"select {listed}\nfrom {source}\ngroup by {listed}\nhaving {call.new_at_the_step}"
        return f"select distinct {listed}\nfrom {source}"

    def check(self) -> None:
        super().check()
        if not all(column.exact for column in self.columns) or self.input.form == STATIC:
            raise Invalid("compares what isn't exact")
        if (call := leaves_steps_out(self.input)) is not None:
            _needs(self.input, [call.time_col])
        if self.input.form in (WINDOWED, RESULT) and not set(WINDOW) <= set(self.of):
            raise Invalid("windows mixed")


@dataclass(frozen=True)
class Among(Node):
    """A filter by rows of another query: IN or EXISTS."""

    input: Node
    others: Node
    column_of: tuple[str, str]
    exists: bool = False
    negated: bool = False

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns

    @cached_property
    def form(self) -> str:
        return self.input.form

    def sql(self, printer: Printer) -> str:
        mine, theirs = self.column_of
        below = printer.source(self.others, "o")
        names = ", ".join(column.name for column in self.columns)
        word = "not " if self.negated else ""
        if self.exists:
            test = f"{word}exists (select 1 from {below} where o.{theirs} = t.{mine})"
        else:
            test = f"t.{mine} {word}in (select o.{theirs} from {below})"
        return f"select {names}\nfrom {printer.source(self.input)}\nwhere {test}"

    def check(self) -> None:
        super().check()
        if self.input.column(self.column_of[0]).kind != self.others.column(self.column_of[1]).kind:
            raise Invalid("types differ")


@dataclass(frozen=True)
class Over(Node):
    """LAG, LEAD or a running aggregate over partitions, in an order that leaves nothing to chance."""

    input: Node
    function: str
    of: str
    partition: tuple[str, ...]
    order: tuple[Order, ...]
    frame: str = "rows between unbounded preceding and current row"
    """Of an aggregate. One of time ends with all rows of a time."""

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        kind = self.input.column(self.of).kind if self.function in ("lag", "lead", "max") else "bigint"
        return (*self.input.columns, Column("running", kind))

    @cached_property
    def form(self) -> str:
        return aggregated(self.input.form)

    def sql(self, printer: Printer) -> str:
        names = [column.name for column in self.input.columns]
        by_time = self.frame.startswith("range")
        order = ", ".join([*map(str, self.order), *([] if by_time else [f"struct({', '.join(names)})"])])
        frame = "" if self.function in ("lag", "lead") else f" {self.frame}"
        by = f"partition by {', '.join(self.partition)} " if self.partition else ""
        over = f"{self.function}({self.of}) over ({by}order by {order}{frame}) as running"
        return f"select {', '.join(names)}, {over}\nfrom {printer.source(self.input)}"

    def check(self) -> None:
        super().check()
        _needs(self.input, [self.of, *self.partition, *(each.column for each in self.order)])
        if not all(column.exact for column in self.input.columns) or self.input.form == STATIC:
            raise Invalid("ordered by what isn't exact")
        if self.frame.startswith("range") and (
            self.function in ("lag", "lead")
            or [self.input.column(e.column).kind for e in self.order] != [TIME]
        ):
            raise Invalid("a frame of time in another order")
        if self.input.form in (WINDOWED, RESULT) and not set(WINDOW) <= set(self.partition):
            raise Invalid("windows mixed")


def _waits(node: Node) -> bool:
    """Whether rows come out of a node when event time has come so far: in its order, or when no other row can meet them."""
    if isinstance(node, Join):
        return "interval" in node.more and not node.kind.endswith(("inner", "semi"))
    return isinstance(node, Over)


def _check_flush(root: Node) -> None:
    """Passes queries whose clock the flush leaves where it is; what waits for it moves it (`test_temporal.py` has that).

    Raises:
        Invalid: it doesn't.
    """
    every = list(nodes(root))
    waits = any(_waits(e) and not any(isinstance(b, Recent) for b in nodes(e)) for e in every)
    windows = any(isinstance(each, Windowed) for each in every)
    if waits and not windows and any(isinstance(each, Recent) for each in every):
        raise Invalid("a clock that a flush moves")


@dataclass(frozen=True)
class Model:
    """A streaming model: a query and its configs."""

    root: Node
    config: tuple[tuple[str, Any], ...] = ()

    def text(self) -> str:
        """Its compiled text."""
        return Printer().text(self.root)

    def expected(self, clock: Watermarks | None = None) -> str:
        """The text that gives its rows in batch, whatever chance would do with ties.

        Args:
            clock: what the clock of event time said in its run.
        """
        return Printer(ties=True, clock=clock).text(self.root)

    def streams(self) -> list[str]:
        """The streams that it reads."""
        return sorted({node.name for node in nodes(self.root) if isinstance(node, Stream)})

    def settings(self) -> dict[str, Any]:
        """Its configs."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in self.config}

    def __str__(self) -> str:
        said = ", ".join(f"{key}={value!r}" for key, value in self.settings().items())
        return f"{{{{ config({said}) }}}}\n{Printer(macros=True).text(self.root)}"


UPSTREAM = "upstream"
"""The name under which a model reads the one before it."""


@dataclass(frozen=True)
class Case:
    """One or two models, the second of which reads the first, and in how many pieces their input comes."""

    model: Model
    upstream: Model | None = None
    cuts: int = 2

    def check(self) -> None:
        """Passes a case with a meaning.

        Raises:
            Invalid: it has none.
        """
        check(self.model.root)
        reads = [node for node in nodes(self.model.root) if isinstance(node, Stream)]
        if not reads and not isinstance(self.model.root, Written):
            raise Invalid("no stream")
        if any(node.name == UPSTREAM for node in reads) != (self.upstream is not None):
            raise Invalid("no model upstream, or one that nobody reads")
        for model in filter(None, (self.model, self.upstream)):
            _check_flush(model.root)
        if self.upstream is not None:
            check(self.upstream.root)
            of = {column.name: column.kind for column in self.upstream.root.columns}
            for node in reads:
                if node.name == UPSTREAM and {c.name: c.kind for c in node.of} != of:
                    raise Invalid("other columns upstream")

    def __str__(self) -> str:
        parts = [f"-- {self.cuts} cuts"]
        if self.upstream is not None:
            parts += ["-- upstream:", str(self.upstream), "-- downstream:"]
        return "\n".join([*parts, str(self.model)])
