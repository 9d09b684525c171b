"""Random queries over the streams of `tables`, put together from all that a model may contain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from tests.differential import planning
from tests.differential.tables import STATIC, STREAMS
from tests.differential.tree import (
    ANY_TIME,
    RESULT,
    ROWS,
    TABLE,
    TIME,
    UPSTREAM,
    WINDOW,
    WINDOWED,
    Among,
    Call,
    Case,
    Column,
    Combined,
    Distinct,
    Expr,
    Group,
    Invalid,
    Item,
    Join,
    Limit,
    Loose,
    Model,
    Node,
    Order,
    Over,
    Rank,
    Recent,
    Select,
    Shared,
    Static,
    Stream,
    Taken,
    Windowed,
    check,
    depth,
    nodes,
)

DEPTH = 9
"""Of a tree; each of the four steps of a query may bring a projection."""
NUMBERS = ("bigint", "int", "double", "decimal(10,2)", "decimal(18,5)")
TESTS = {
    "bigint": (
        "{} > 0",
        "{} % 2 = 0",
        "{} is not null",
        "not ({} <= 1)",
        "{} between -1 and 2",
        "{} in (1, 3, 7)",
    ),
    "int": ("{} > 0", "{} <> 1"),
    "string": (
        "{} = 'a'",
        "{} in ('a', 'b')",
        "{} is null",
        "{} <> 'b'",
        "{} like 'a%'",
        "{} <=> 'c'",
        "length({}) > 0",
    ),
    "double": ("{} > 0.5", "{} <= 2.75", "not isnan({})"),
    "boolean": ("{}", "not {}", "{} is not false"),
    "date": ("{} >= date'2024-03-05'", "year({}) = 2024"),
    "decimal(10,2)": ("{} > 1", "{} <> 3.33", "coalesce({}, 0) < 10"),
    "decimal(18,5)": ("{} > 0", "{} < 1.5"),
    TIME: (
        "minute({}) < 40",
        "{} > timestamp'2024-03-04 08:30:00'",
        "{} - timestamp'2024-03-04 08:00:00' > interval '40' minute",
    ),
    ANY_TIME: ("year({}) > 1600", "{} > timestamp'1582-10-10 00:00:00'"),
    "float": ("{} > 0", "{} = 0"),
    "smallint": ("{} > 0", "{} <> 7"),
    "decimal(38,10)": ("{} > 1", "{} <> 2"),
    "timestamp_ntz": ("year({}) > 1600", "{} is not null"),
    "binary": ("{} is not null", "{} = cast('a' as binary)"),
    "array<bigint>": ("size({}) > 1", "array_contains({}, 2)", "{} = array(1, 2)"),
    "struct<a:bigint,b:string>": ("{}.a > 0", "{}.b is null", "{} is not null"),
}
EXPRESSIONS = {
    "bigint": (
        ("{} + 1", "bigint"),
        ("-{}", "bigint"),
        ("{} % 3", "bigint"),
        ("coalesce({}, 0)", "bigint"),
        ("{} > 1", "boolean"),
        ("cast({} as string)", "string"),
        ("case when {} > 1 then 'more' when {} is null then 'none' else 'less' end", "string"),
        ("cast({} as double) / 4", "double"),
        ("nullif({}, 1)", "bigint"),
        ("if({} is null, 1, 0)", "int"),
        ("least({}, 2)", "bigint"),
    ),
    "int": (("{} + 1", "int"), ("cast({} as bigint)", "bigint")),
    "string": (
        ("upper({})", "string"),
        ("coalesce({}, 'none')", "string"),
        ("concat({}, '-')", "string"),
        ("{} in ('a', 'b')", "boolean"),
        ("length({})", "int"),
        ("case {} when 'a' then 'b' else {} end", "string"),
    ),
    "double": (("{} * 2", "double"), ("cast({} as decimal(12,3))", "decimal(12,3)"), ("{} > 1", "boolean")),
    "boolean": (("not {}", "boolean"), ("cast({} as int)", "int")),
    "date": (("date_add({}, 1)", "date"), ("month({})", "int")),
    "decimal(10,2)": (
        ("{} + 1", "decimal(13,2)"),
        ("cast({} as double)", "double"),
        ("round({}, 1)", "decimal(10,1)"),
    ),
    "decimal(18,5)": (("cast({} as decimal(10,2))", "decimal(10,2)"),),
    TIME: (
        ("date_trunc('hour', {})", TIME),
        ("date({})", "date"),
        ("minute({})", "int"),
        ("{} - interval '1' day", TIME),
        ("unix_micros({})", "bigint"),
    ),
    "float": (("cast({} as double)", "double"), ("-{}", "float")),
    "smallint": (("cast({} as bigint)", "bigint"), ("{} > 0", "boolean")),
    "decimal(38,10)": (("cast({} as decimal(18,5))", "decimal(18,5)"), ("{} > 0", "boolean")),
    ANY_TIME: (
        ("date_trunc('hour', {})", ANY_TIME),
        ("date({})", "date"),
        ("{} - interval '1' day", ANY_TIME),
    ),
    "timestamp_ntz": (("date_trunc('hour', {})", ANY_TIME), ("hour({})", "int"), ("date({})", "date")),
    "array<bigint>": (("size({})", "int"), ("array_contains({}, 2)", "boolean")),
    "struct<a:bigint,b:string>": (
        ("{}.a", "bigint"),
        ("{}.b", "string"),
        ("struct({}.b as b)", "struct<b:string>"),
    ),
}
"""By type; the wild columns ``w`` and ``z`` are left as they are."""
NAMES = ("k", "n", "s", "x", "y", "total", "most", "a", "b", "u", "v")
KEYS = (
    *(
        "string",
        "bigint",
        "boolean",
        "date",
        "int",
        "double",
        "float",
        "smallint",
        "decimal(10,2)",
        "decimal(38,10)",
    ),
    *("timestamp_ntz", "binary", "array<bigint>", "struct<a:bigint,b:string>"),
)


class Generator:
    """Makes cases.

    Args:
        seed: the same seed makes the same case.
    """

    def __init__(self, seed: int | str) -> None:
        self.chance = Random(f"query {seed}")
        self.names = 0
        self.upstream: Stream | None = None

    # -- small choices -----------------------------------------------------------------------------

    def often(self, part: float) -> bool:
        return self.chance.random() < part

    def name(self, used: Sequence[str]) -> str:
        """A name that isn't used in this select list; often one that means something else elsewhere."""
        wanted = self.chance.choice(NAMES)
        if wanted not in used and self.often(0.4):
            return wanted
        self.names += 1
        return f"c{self.names}"

    def columns(self, node: Node, kinds: Sequence[str] | None = None, exact: bool = True) -> list[Column]:
        return [
            column
            for column in node.columns
            if (kinds is None or column.kind in kinds)
            and (column.exact or not exact)
            and column.name not in (*WINDOW, "window_time", "rn")
        ]

    def some(self, found: Sequence[Column], least: int, most: int) -> list[Column]:
        count = min(len(found), self.chance.randint(least, most))
        return sorted(self.chance.sample(list(found), count), key=list(found).index)

    def test(self, node: Node) -> Expr | None:
        """A condition on a row."""
        found = [c for c in self.columns(node) if c.kind in TESTS and c.name not in ("w", "z")]
        if not found:
            return None
        made = self._test(self.chance.choice(found))
        if self.often(0.2):
            other = self._test(self.chance.choice(found))
            word = self.chance.choice(("or", "or", "and"))
            return Expr(f"({made.sql} {word} {other.sql})", "boolean", made.uses | other.uses)
        if self.often(0.08):
            among = [c for c in found if c.kind == "string"]
            if among:
                negated = self.chance.choice(("", "not "))
                return Expr(
                    f"{among[0].name} {negated}in (select d.k from dims as d where d.k is not null)",
                    "boolean",
                    frozenset({among[0].name}),
                )
        return made

    def _test(self, column: Column) -> Expr:
        text = self.chance.choice(TESTS[column.kind]).replace("{}", column.name)
        return Expr(text, "boolean", frozenset({column.name}))

    def tests(self, node: Node, part: float = 0.5) -> tuple[Expr, ...]:
        found: list[Expr] = []
        while self.often(part) and len(found) < 3:
            made = self.test(node)
            if made is not None:
                found.append(made)
            part /= 2
        return tuple(found)

    def computed(self, column: Column) -> Expr:
        """An expression over a column, or the column."""
        if column.name in ("w", "z") or column.kind not in EXPRESSIONS or not column.exact:
            return Expr.of(column)
        text, kind = self.chance.choice(EXPRESSIONS[column.kind])
        return Expr(text.replace("{}", column.name), kind, frozenset({column.name}), column.exact)

    def order(self, node: Node, most: int = 2) -> tuple[Order, ...]:
        found = self.some([c for c in self.columns(node) if c.kind != "boolean"], 1, most)
        self.chance.shuffle(found)
        return tuple(
            Order(column.name, self.often(0.5), self.chance.choice(("", "", "first", "last")))
            for column in found
        )

    # -- rows ----------------------------------------------------------------------------------------

    def stream(self, timeless: bool = False) -> Stream:
        if self.upstream is not None and self.often(0.8):
            return self.upstream
        chances = (6, 3, 1 if timeless else 0, 2)
        name = self.chance.choices(("clicks", "orders", "loose", "odd"), chances)[0]
        return Stream(name, STREAMS[name])

    def static(self, name: str | None = None) -> Static:
        name = name or self.chance.choice(list(STATIC))
        return Static(name, STATIC[name])

    def rows(self, steps: int, timeless: bool = False) -> Node:
        """Rows of a stream, perhaps filtered, computed, joined with a table, put together."""
        node: Node = self.stream(timeless)
        if self.often(0.06):
            node = self.recent(node) or node
        for _ in range(steps):
            pick = self.chance.random()
            if pick < 0.55:
                node = self.select(node)
            elif pick < 0.7:
                node = self.with_table(node) or node
            elif pick < 0.85:
                node = self.united(node, self.stream(timeless)) or node
            elif pick < 0.93:
                node = self.exploded(node)
            else:
                node = self.where_among(node, self.static()) or node
        return node

    def recent(self, node: Node) -> Node | None:
        """Rows that aren't too old by the clock of event time."""
        times = [c.name for c in node.columns if c.event_time]
        below = node.input if isinstance(node, Windowed) else node
        if not times or not isinstance(below, Stream) or below.name == UPSTREAM:
            return None
        # Multiples of what separates rows, so that some are at the very bound. None is older than the watermark when it
        # comes: below a window only those bounds leave rows out that are ahead of it.
        lengths = (-540, -300, 0, 120, 600, 1830, 5400)
        return Recent(node, times[0], self.chance.choice(lengths), self.often(0.4))

    def select(self, node: Node, keep: Sequence[str] = (), narrow: bool = True) -> Node:
        """A projection with a filter, which keeps event time, windows and other columns."""
        fixed = [c for c in node.columns if c.event_time or c.name in (*WINDOW, *keep)]
        others = [c for c in node.columns if c not in fixed and c.name != "window_time"]
        kept = self.some(others, min(2, len(others)), len(others)) if narrow else others
        items = [Item(Expr.of(column), column.name) for column in (*fixed, *kept)]
        for column in self.some(self.columns(node), 0, 2):
            expr = self.computed(column)
            if expr.sql != column.name:
                items.append(Item(expr, self.name([item.name for item in items])))
        return Select(node, tuple(items), self.tests(node))

    def exploded(self, node: Node) -> Node:
        found = self.columns(node, ("bigint",))
        found = [c for c in found if c.name != "w"]
        if not found or node.has("part"):
            return self.select(node)
        column = self.chance.choice(found).name
        array = self.chance.choice((f"array({column}, 1)", f"array({column}, {column} + 1, null)"))
        items = [Item(Expr.of(c), c.name) for c in node.columns if c.name != "window_time"]
        items.append(Item(Expr("part", "bigint", frozenset({"part"})), "part"))
        return Select(node, tuple(items), (), Item(Expr(array, "array", frozenset({column})), "part"))

    def with_table(self, node: Node) -> Node | None:
        """A join with a table that is not a stream."""
        table = self.static()
        key = table.columns[0]
        found = [c for c in self.columns(node, (key.kind,)) if c.name != "w"]
        if not found:
            return None
        kind = self.chance.choice(("inner", "left", "left", "left semi", "left anti"))
        items = [Taken("l", c.name, c.name) for c in node.columns if c.name != "window_time"]
        if not kind.endswith(("semi", "anti")):
            for column in table.columns[1:]:
                items.append(Taken("r", column.name, self.name([item.name for item in items])))
        on = ((self.chance.choice(found).name, key.name),)
        return Join(kind, node, table, on, tuple(items))

    def where_among(self, node: Node, others: Node) -> Node | None:
        pairs = [
            (mine.name, theirs.name)
            for mine in self.columns(node, KEYS)
            for theirs in self.columns(others, KEYS)
            if mine.kind == theirs.kind and mine.name != "w"
        ]
        if not pairs:
            return None
        exists = self.often(0.5)
        return Among(node, others, self.chance.choice(pairs), exists, self.often(0.4))

    def united(self, left: Node, right: Node, op: str = "union all") -> Node | None:
        """Two queries put together, by columns of the same types."""
        fixed = [c for c in left.columns if c.event_time or c.name in WINDOW]
        pairs: list[tuple[Column, Column]] = []
        for column in (*fixed, *self.columns(left, exact=op != "union all")):
            if any(column == one for one, _ in pairs):
                continue
            taken = {other.name for _, other in pairs}
            same = [
                c
                for c in right.columns
                if c.kind == column.kind
                and c.name not in taken
                and (c.event_time or not column.event_time)
                and ((c.name == column.name) if column.name in WINDOW else c.name not in WINDOW)
                and c.name != "window_time"
                and (c.exact or op == "union all")
            ]
            if same:
                by_name = [c for c in same if c.name == column.name]
                pairs.append((column, by_name[0] if by_name else self.chance.choice(same)))
            elif column in fixed:
                return None
        if len(pairs) < max(2, len(fixed)):
            return None
        if not fixed or self.often(0.5):
            keep = self.chance.randint(max(2, len(fixed)), len(pairs))
            pairs = pairs[:keep]
        one = Select(left, tuple(Item(Expr.of(a), a.name) for a, _ in pairs), self.tests(left, 0.2))
        other = Select(right, tuple(Item(Expr.of(b), a.name) for a, b in pairs), self.tests(right, 0.2))
        return Combined(op, one, other)

    # -- windows -------------------------------------------------------------------------------------

    def call_for(self, node: Node, time: str) -> Call:
        keys = [c.name for c in self.columns(node, ("string", "bigint")) if c.name != "w"]
        by = tuple(self.chance.sample(keys, min(len(keys), self.chance.choice((0, 1, 1, 2)))))
        kind, lengths = self.chance.choice(
            (
                ("tumble", ("10 minutes",)),
                ("tumble", ("10 minutes",)),
                ("tumble", ("1 hour",)),
                ("hop", ("5 minutes", "15 minutes")),
                ("hop", ("10 minutes", "25 minutes")),
                ("cumulate", ("10 minutes", "1 hour")),
                ("cumulate", ("15 minutes", "30 minutes")),
                ("session", ("4 minutes",)),
                ("session", ("10 minutes",)),
                ("dynamic_cumulate", ("5 minutes", "10 minutes")),
            )
        )
        merges = kind in ("session", "dynamic_cumulate")
        offset = "0 seconds"
        if not merges and self.often(0.2):
            offset = self.chance.choice(("3 minutes", "-4 minutes"))
        zone = self.chance.choice(("Asia/Kolkata", "America/New_York")) if self.often(0.07) else None
        emit = "on_change" if kind == "cumulate" and self.often(0.3) else "every_step"
        return Call(kind, time, lengths, offset, by if merges else (), zone, emit)

    def windowed(self, steps: int) -> Node:
        """Rows with their windows."""
        rows = self.rows(self.chance.randint(0, min(1, steps)), timeless=True)
        times = [c.name for c in rows.columns if c.event_time]
        if not times:
            rows = self.stream()
            times = [c.name for c in rows.columns if c.event_time]
            if not times:
                raise Invalid("no event time")
        node: Node = Windowed(rows, self.call_for(rows, times[0]))
        if self.often(0.06):
            node = self.recent(node) or node
        if self.often(0.25):
            node = self.select(node)
        elif self.often(0.12):
            node = self.with_table(node) or node
        return node

    def again(self, node: Node, call: Call) -> Node:
        """Other rows with the windows of a call, for a join."""
        rows = self.rows(self.chance.randint(0, 1))
        times = [c.name for c in rows.columns if c.event_time]
        if not times or not rows.has(*call.partition_by):
            rows = self.stream()
            times = [c.name for c in rows.columns if c.event_time]
        if not times or not rows.has(*call.partition_by):
            raise Invalid("no such windows")
        return Windowed(rows, replace(call, time_col=times[0]))

    def result(self, steps: int) -> Node:
        """Results of windows."""
        pick = self.chance.random()
        if steps <= 1 or pick < 0.3:
            windowed = self.windowed(steps)
            if self.often(0.75):
                return self.group(windowed)
            if self.often(0.7):
                return self.rank(windowed)
            return self.distinct(windowed) or self.group(windowed)
        below = self.result(steps - 1)
        if pick < 0.42:
            return self.rank(below)
        if pick < 0.5:
            return self.cascade(steps) or self.rank(below)
        if pick < 0.6:
            return self.select(below, narrow=False)
        if pick < 0.78:
            return self.join_of_windows(below, steps) or self.rank(below)
        if pick < 0.84:
            return self.group(below)
        if pick < 0.92:
            op = self.chance.choice(("union all", "union all", "union", "intersect", "except", "except all"))
            other = self.result(steps - 1) if self.often(0.5) else below
            return self.united(below, other, op) or self.rank(below)
        if pick < 0.95:
            return self.distinct(below) or below
        if pick < 0.97:
            return self.over(below) or below
        return self.with_table(below) or below

    def cascade(self, steps: int) -> Node | None:
        """Windows over the results of windows."""
        windowed = self.windowed(1)
        if windowed.form != WINDOWED or not windowed.has("window_time"):
            return None
        grouped = self.group(windowed, window_time=True)
        if not isinstance(grouped, Group) or not grouped.has("window_time"):
            return None
        items = [Item(Expr("window_time", TIME, frozenset({"window_time"})), "at")]
        items += [Item(Expr.of(c), c.name) for c in grouped.columns if c.name not in (*WINDOW, "window_time")]
        if self.often(0.3):
            items.append(Item(Expr("window_start", TIME, frozenset({"window_start"})), "since"))
        below = Select(grouped, tuple(items))
        call = self.call_for(below, "at")
        made: Node = Windowed(below, call)
        return self.group(made) if self.often(0.8) else self.rank(made)

    def join_of_windows(self, left: Node, steps: int) -> Node | None:
        call = left.call
        if call is None or not left.has(*WINDOW):
            return None
        pick = self.chance.random()
        right: Node
        if pick < 0.35:
            right = left = Shared(left)
        elif pick < 0.75:
            right = self.group(self.again(left, call))
        else:
            right = self.again(left, call)
        pairs: list[tuple[str, str]] = [(name, name) for name in WINDOW]
        keys = [
            (a.name, b.name)
            for a in self.columns(left, KEYS)
            for b in self.columns(right, KEYS)
            if a.kind == b.kind and a.name == b.name and a.name != "w"
        ]
        if keys and self.often(0.75):
            pairs.append(self.chance.choice(keys))
        kind = self.chance.choice(("inner", "inner", "left", "right", "full", "left semi", "left anti"))
        return self.join(kind, left, right, pairs)

    def join(
        self, kind: str, left: Node, right: Node, pairs: Sequence[tuple[str, str]], more: str = ""
    ) -> Node:
        fixed = [a for a, _ in pairs]
        side = {"right": "r", "full": "b"}.get(kind, "l")
        items = [Taken(side, name, name) for name in fixed if left.column(name).name in {b for _, b in pairs}]
        names = [item.name for item in items]
        for column in [c for c in left.columns if c.name not in (*names, "window_time")]:
            items.append(Taken("l", column.name, column.name))
        if not kind.endswith(("semi", "anti")):
            names = [item.name for item in items]
            others = [c for c in right.columns if c.name not in (*fixed, *WINDOW, "window_time")]
            for column in self.some(others, min(1, len(others)), 4):
                items.append(Taken("r", column.name, self.name([*names, *(i.name for i in items)])))
        made = Join(kind, left, right, tuple(pairs), tuple(items), more)
        return self.beside(made) if self.often(0.25) else made

    def beside(self, join: Join) -> Join:
        """The same with a static table in its SELECT."""
        table = self.static()
        key = table.columns[0]
        asks = join.kind.endswith(("semi", "anti"))
        sides = [("l", join.left)] if asks else [("l", join.left), ("r", join.right)]
        found = [
            (side, column.name)
            for side, node in sides
            for column in self.columns(node, (key.kind,))
            if column.name != "w"
        ]
        if not found:
            return join
        side, column = self.chance.choice(found)
        names = [item.name for item in join.items]
        items = list(join.items)
        for more in table.columns[1:]:
            items.append(Taken("d", more.name, self.name([*names, *(item.name for item in items)])))
        return replace(
            join,
            items=tuple(items),
            table=table,
            table_kind=self.chance.choice(("inner", "left")),
            table_on=(side, column, key.name),
            table_first=side == "l" and self.often(0.4),
        )

    # -- aggregates and rankings -----------------------------------------------------------------------

    def metric(self, node: Node) -> Expr:
        """An aggregate, or an expression over aggregates."""
        made = self._aggregate(node)
        pick = self.chance.random()
        if pick < 0.08 and made.kind == "bigint":
            other = self._aggregate(node)
            if other.kind == "bigint":
                text = f"coalesce({made.sql}, 0) + coalesce({other.sql}, 0)"
                return Expr(text, "bigint", made.uses | other.uses)
        if pick < 0.13 and made.kind == "bigint":
            return Expr(f"{made.sql} / nullif(count(*), 0)", "double", made.uses)
        if pick < 0.17:
            return Expr(f"{made.sql} is null", "boolean", made.uses)
        return made

    def _aggregate(self, node: Node) -> Expr:
        found = self.columns(node)
        if not found or self.often(0.15):
            return Expr("count(*)", "bigint")
        column = self.chance.choice(found)
        name, kind = column.name, column.kind
        wild = name in ("w", "z")
        uses = frozenset({name})
        options: list[tuple[str, str]] = [
            (f"count({name})", "bigint"),
            (f"min({name})", kind),
            (f"max({name})", kind),
            (f"count(distinct {name})", "bigint"),
        ]
        if kind in ("bigint", "int", "smallint") and not wild:
            options += [(f"sum({name})", "bigint")] * 3
            options += [
                (f"avg({name})", "double"),
                (f"sum(distinct {name})", "bigint"),
                (f"bit_xor({name})", kind),
                (f"bit_or({name})", kind),
                (f"percentile({name}, 0.5)", "double"),
                (f"sum(case when {name} > 0 then 1 else 0 end)", "bigint"),
                (f"count_if({name} > 0)", "bigint"),
            ]
        if name in ("f", "sums", "h"):
            # Their sums are exact in any order, NaN and the infinities too; those of an average, say, are not.
            options += [(f"sum({name})", "double"), (f"avg({name})", "double")] * 2
        if kind.startswith("decimal"):
            digits, scale = map(int, kind[len("decimal(") : -1].split(","))
            options += [(f"sum({name})", f"decimal({min(38, digits + 10)},{scale})")] * 2
            if digits <= 28:
                # Spark's has four digits more than the column, DuckDB's is of doubles.
                options.append((f"round(cast(avg({name}) as double), 3)", "double"))
        if kind == "boolean":
            options += [(f"bool_and({name})", kind), (f"bool_or({name})", kind)]
        if kind == "string":
            options += [(f"concat_ws(',', sort_array(collect_set({name})))", "string")]
        if kind.startswith(("array", "struct", "binary")):
            options = options[:1] + options[3:] + [(f"max({name})", kind)]
        text, of = self.chance.choice(options)
        exact = not text.startswith("round(cast(avg")
        if (name == "f" or (kind == "bigint" and not wild)) and self.often(0.06):
            text = f"{self.chance.choice(('stddev_pop', 'var_samp', 'stddev', 'var_pop'))}({name})"
            of, exact = "double", False
        if self.often(0.05):
            others = [c.name for c in found if c.name != name]
            if others:
                other = self.chance.choice(others)
                text, of = f"count(distinct {name}, {other})", "bigint"
                uses |= {other}
                exact = True
        if (
            text.endswith(f"({name})")
            and self.often(0.15)
            and (test := self.test(node))
            and "select" not in test.sql
        ):
            text += f" filter (where {test.sql})"
            uses |= test.uses
        return Expr(text, of, uses, exact)

    def group(self, node: Node, window_time: bool = False) -> Node:
        """GROUP BY, with windows if the rows have them."""
        has_windows = node.form in (WINDOWED, RESULT)
        if has_windows and not node.has(*WINDOW):
            raise Invalid("no windows")
        keys = [Item(Expr(n, TIME, frozenset({n})), n) for n in WINDOW] if has_windows else []
        if window_time:
            keys.append(Item(Expr("window_time", TIME, frozenset({"window_time"})), "window_time"))
        merges = node.call is not None and node.call.kind in ("session", "dynamic_cumulate")
        by = list(node.call.partition_by) if merges and node.call is not None else []
        own = [Item(Expr.of(node.column(n)), n) for n in by if node.has(n)] if self.often(0.85) else []
        own_names = {item.name for item in own}
        candidates = [c for c in self.columns(node, KEYS) if c.name not in (*own_names, "w")]
        for column in self.some(candidates, 0 if has_windows or self.often(0.1) else 1, 2):
            if self.often(0.2):
                expr = self.computed(column)
                if expr.sql != column.name and expr.kind in KEYS:
                    own.append(
                        Item(expr, self.name([*(i.name for i in own), *(c.name for c in node.columns)]))
                    )
                    continue
            own.append(Item(Expr.of(column), column.name))
        used = [item.name for item in (*keys, *own)]
        metrics: list[Item] = []
        for _ in range(self.chance.randint(1, 4)):
            metrics.append(Item(self.metric(node), self.name([*used, *(m.name for m in metrics)])))
        sets = ""
        plain = [item for item in own if item.expr.sql == item.name]
        if own and len(plain) == len(own) and self.often(0.12) and not window_time:
            listed = [item.name for item in own]
            sets = self.chance.choice(
                (
                    "rollup",
                    "cube",
                    ", ".join(f"({n})" for n in listed) + ", ()",
                    f"({', '.join(listed)}), ({listed[0]})",
                )
            )
            metrics = [m for m in metrics if not any(n in m.expr.uses for n in listed)] or [
                Item(Expr("count(*)", "bigint"), self.name(used))
            ]
            metrics.append(Item(Expr("grouping_id()", "bigint"), "gid"))
        having = None
        if self.often(0.15):
            having = Expr(
                self.chance.choice(("count(*) > 1", "count(*) % 2 = 0", "count(*) between 2 and 6")),
                "boolean",
            )
        return Group(node, (*keys, *own), tuple(metrics), having, sets)

    def rank(self, node: Node) -> Node:
        """TopN or deduplication."""
        node = self.exact(node)
        has_windows = node.form in (WINDOWED, RESULT)
        if has_windows and not node.has(*WINDOW):
            raise Invalid("no windows")
        if node.has("rn"):
            node = Select(
                node,
                tuple(
                    Item(Expr.of(c), "place" if c.name == "rn" else c.name)
                    for c in node.columns
                    if c.name != "place"
                ),
            )
        if node.has("window_time"):
            node = Select(
                node, tuple(Item(Expr.of(c), c.name) for c in node.columns if c.name != "window_time")
            )
        partition = list(WINDOW) if has_windows else []
        partition += [c.name for c in self.some(self.columns(node, KEYS), 0, 2) if c.name != "w"]
        times = [c.name for c in node.columns if c.event_time]
        if times and self.often(0.35):
            return Rank(
                node,
                tuple(partition),
                (Order(times[0], self.often(0.5)),),
                "row_number",
                "rn = 1",
                self.often(0.2),
            )
        function = self.chance.choice(("row_number", "row_number", "rank", "dense_rank"))
        test = self.chance.choice(
            (
                "rn <= 2",
                "rn <= 3",
                "rn < 3",
                "3 >= rn",
                "rn = 1",
                "rn = 2",
                "rn between 2 and 3",
                "rn in (1, 3)",
            )
        )
        qualify = self.often(0.12)
        return Rank(
            node, tuple(partition), self.order(node), function, test, self.often(0.5) and not qualify, qualify
        )

    def exact(self, node: Node) -> Node:
        """Without columns that depend on the order in which rows are added up."""
        if all(column.exact for column in node.columns):
            return node
        return Select(node, tuple(Item(Expr.of(c), c.name) for c in node.columns if c.exact))

    def distinct(self, node: Node) -> Node | None:
        names = [c.name for c in node.columns if c.name in WINDOW]
        found = self.some(self.columns(node, KEYS), 1, 3)
        return Distinct(node, (*names, *(c.name for c in found))) if found else None

    def over(self, node: Node) -> Node | None:
        node = self.exact(node)
        found = [c.name for c in self.columns(node, ("bigint",)) if c.name != "w"]
        if not found or node.has("running") or node.has("window_time"):
            return None
        partition = [n for n in WINDOW if node.form in (WINDOWED, RESULT)]
        partition += [c.name for c in self.some(self.columns(node, KEYS), 0, 1)]
        function = self.chance.choice(("lag", "lead", "sum", "count", "max"))
        made = Over(node, function, self.chance.choice(found), tuple(partition), self.order(node, 1))
        times = [c.name for c in node.columns if c.kind == TIME]
        if times and self.often(0.6):
            # As rows come.
            order = (Order(self.chance.choice(times)),)
            frames = (made.frame, "rows 2 preceding", "rows between 3 preceding and 1 preceding", made.frame)
            by_time = "range between interval 20 minutes preceding and current row"
            counts = function not in ("lag", "lead")
            made = replace(made, order=order, frame=self.chance.choice((*frames, *([by_time] * 2 * counts))))
        return made

    # -- without windows -------------------------------------------------------------------------------

    def table(self, steps: int, loose: float = 0.15) -> Node:
        """Rows that change, of groups and rankings or, with a chance `loose`, of anything."""
        pick = self.chance.random()
        if steps <= 2 and self.often(loose):
            return Loose(self.result(max(1, steps - 1)) if self.often(0.6) else self.rows(1))
        if steps <= 1 or pick < 0.3:
            rows = self.rows(self.chance.randint(0, 1))
            if self.often(0.12) and (found := self.over(rows)) is not None:
                return found
            pick = self.chance.random()
            if pick < 0.6:
                return self.group(rows)
            if pick < 0.78:
                return self.ranked_rows(rows)
            if pick < 0.84:
                return self.limit(rows)
            if pick < 0.9:
                return self.distinct(rows) or self.group(rows)
            return self.group(self.join_of_streams() or rows)
        below = self.table(steps - 1, loose)
        if below.form == ROWS:
            return self.group(below)
        if pick < 0.42:
            return self.group(below)
        if pick < 0.58:
            return self.rank(below)
        if pick < 0.66:
            return self.select(below)
        if pick < 0.76:
            return self.join_of_tables(below, steps, loose) or self.group(below)
        if pick < 0.84:
            op = self.chance.choice(
                ("union all", "union", "intersect", "except", "intersect all", "except all")
            )
            other = self.table(steps - 1, loose) if self.often(0.5) else Shared(below)
            if isinstance(other, Shared):
                below = other
            return self.united(below, other, op) or self.group(below)
        if pick < 0.88:
            return self.limit(below)
        if pick < 0.91:
            return self.over(below) or self.group(below)
        if pick < 0.94:
            return self.distinct(below) or below
        if pick < 0.96:
            return self.where_among(below, self.table(1, loose)) or below
        return self.with_table(below) or below

    def ranked_rows(self, rows: Node) -> Node:
        return self.rank(rows)

    def limit(self, node: Node) -> Node:
        node = self.exact(node)
        skipped = self.chance.choice((0, 0, 0, 2))
        return Limit(node, self.order(node), self.chance.randint(1, 6), skipped)

    def join_of_streams(self) -> Node | None:
        left, right = self.stream(), self.stream()
        if left.name == right.name:
            other = "orders" if left.name == "clicks" else "clicks"
            right = Stream(other, STREAMS[other])
        times = [[c.name for c in node.columns if c.event_time] for node in (left, right)]
        keys = [
            (a.name, b.name)
            for a in self.columns(left, ("string", "bigint"))
            for b in self.columns(right, ("string", "bigint"))
            if a.name == b.name and a.kind == b.kind and a.name != "w"
        ]
        if not keys:
            return None
        pairs = [self.chance.choice(keys)]
        if self.often(0.5):
            pairs = list(dict.fromkeys([*pairs, self.chance.choice(keys)]))
        kind, more = "inner", ""
        if all(times) and self.often(0.6):
            ((one, *_), (other, *_)) = times
            more = self.chance.choice(
                (
                    f"r.{other} between l.{one} - interval '2' minute and l.{one} + interval '5' minute",
                    f"r.{other} >= l.{one} and r.{other} < l.{one} + interval '7' minute",
                )
            )
            kind = self.chance.choice(
                ("inner", "inner", "left", "left", "right", "full", "left semi", "left anti")
            )
        return self.join(kind, left, right, pairs, more)

    def join_of_tables(self, left: Node, steps: int, loose: float) -> Node | None:
        pick = self.chance.random()
        right: Node
        if pick < 0.4:
            right = left = Shared(left)
        else:
            right = self.table(steps - 1, loose)
        keys = [
            (a.name, b.name)
            for a in self.columns(left, (*KEYS, TIME))
            for b in self.columns(right, (*KEYS, TIME))
            if a.kind == b.kind and (a.name == b.name or self.often(0.1)) and a.name != "w"
        ]
        if not keys:
            return None
        kind = self.chance.choice(("inner", "inner", "left", "right", "full", "left semi", "left anti"))
        return self.join(kind, left, right, [self.chance.choice(keys)])

    def windows_over_table(self, steps: int) -> Node:
        """Windows over what was ranked, grouped or joined first, and perhaps something above."""
        pick = self.chance.random()
        rows = self.rows(self.chance.randint(0, 1))
        below: Node | None
        if pick < 0.35:
            below = self.rank(rows)
        elif pick < 0.55:
            times = [c for c in rows.columns if c.event_time]
            if not times:
                raise Invalid("no event time")
            minute = Item(
                Expr(f"date_trunc('minute', {times[0].name})", TIME, frozenset({times[0].name})), "minute"
            )
            grouped = self.group(rows)
            assert isinstance(grouped, Group)
            below = replace(grouped, keys=(minute, *grouped.keys), sets="", metrics=grouped.metrics)
            if grouped.sets:
                below = replace(below, metrics=(Item(Expr("count(*)", "bigint"), "n"),))
        elif pick < 0.8:
            below = self.join_of_streams()
        else:
            below = self.table(max(1, steps - 1))
        found = [c for c in below.columns if c.kind == TIME and c.exact] if below is not None else []
        if below is None or not found:
            raise Invalid("no time")
        at = self.chance.choice(found).name
        items = [Item(Expr(at, TIME, frozenset({at})), "at")]
        items += [
            Item(Expr.of(c), c.name) for c in below.columns if c.name not in (*WINDOW, "window_time", "at")
        ]
        windowed: Node = Windowed(Select(below, tuple(items)), self.call_for(below, "at"))
        if self.often(0.2):
            windowed = self.select(windowed)
        above = self.group(windowed) if self.often(0.8) else self.rank(windowed)
        if self.often(0.25):
            above = self.rank(above)
        made: Node = Loose(above)
        return self.group(made) if self.often(0.2) else made

    # -- whole cases -----------------------------------------------------------------------------------

    def case(self) -> Case:
        """A random case."""
        while True:
            try:
                made = self._case()
                made.check()
                if all(depth(model.root) <= DEPTH for model in (made.model, made.upstream) if model):
                    return made
            except Invalid:
                pass
            self.upstream = None

    def _case(self) -> Case:
        above = None
        if self.often(0.15):
            above = self.model(self.chance.randint(1, 2), upstream=True)
            check(above.root)
            self.upstream = Stream(UPSTREAM, _of_table(above.root))
        made = self.model(self.chance.randint(1, 4))
        if self.upstream is not None and not any(node == self.upstream for node in nodes(made.root)):
            above = None
        read = {node.name for node in nodes(made.root) if isinstance(node, Stream)}
        if above is not None and read != {UPSTREAM}:
            raise Invalid("other streams beside the model upstream")
        return Case(made, above, self.chance.choice((1, 2, 2, 2, 3, 3, 6)))

    def model(self, steps: int, upstream: bool = False) -> Model:
        pick = self.chance.random()
        root: Node
        if pick < 0.08:
            root = self.windows_over_table(steps)
        elif pick < 0.35:
            root = self.result(steps)
        elif pick < 0.6:
            root = self.table(max(2, steps), loose=0.8)
        elif pick < 0.85:
            root = self.table(steps)
        elif pick < 0.9:
            root = self.windowed(steps)
            root = Select(
                root, tuple(Item(Expr.of(c), c.name) for c in root.columns if c.name != "window_time")
            )
        elif pick < 0.96:
            root = self.join_of_streams() or self.rows(steps)
        else:
            root = self.rows(steps)
        if isinstance(root, Stream | Shared | Loose):
            root = self.select(root)
        return Model(root, self.config(root, upstream))

    def config(self, root: Node, upstream: bool) -> tuple[tuple[str, object], ...]:
        found: dict[str, object] = {}
        if upstream or self.often(0.3):
            found["changelog"] = True
        if root.form in (WINDOWED, RESULT):
            if self.often(0.12):
                found["first_result_offset"] = "-8 minutes"
                if self.often(0.6):
                    found["update_rate"] = "3 minutes"
            if self.often(0.1):
                found["late_updates"] = True
                found["last_result_offset"] = "20 minutes"
            elif self.often(0.05):
                found["complete_result_offset"] = "5 minutes"
            elif self.often(0.05):
                found["output_mode"] = "upsert"
        elif root.form == TABLE or any(isinstance(node, Join) for node in nodes(root)):
            if self.often(0.45):
                found["state_ttl"] = planning.LASTS
            else:
                found["constant_domains"] = tuple(sorted({c.name for n in nodes(root) for c in n.columns}))
        for name, value in (("enum_distinct", True), ("split_distinct", 4), ("split_topn", 3)):
            if self.often(0.03):
                found[name] = value
        return tuple(found.items())


def _of_table(root: Node) -> tuple[Column, ...]:
    """The columns of a model's table, as the next model reads them."""
    times = [column for column in root.columns if column.event_time]
    ends = [column for column in root.columns if column.name == "window_end"]
    time = (times or ends)[:1]
    renamed = []
    for column in root.columns:
        renamed.append(Column(column.name, column.kind, column.exact, column in time))
    return tuple(renamed)
