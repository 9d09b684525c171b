"""A query is edited while its stream goes on: what is kept, what begins, and what was put out."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.project import streaming
from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common import failpoints
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.progress.result import StreamResult
from dbt.adapters.spark_streaming.stream.run.runner import flush, run_stream
from dbt.adapters.spark_streaming.stream.state import table as state_module
from tests.functional.stream.harness import SCHEMA, replayed
from tests.spark_rows import asks, rows_of
from tests.thorough import mostly_thorough

EVENTS = "ts timestamp, k string, v bigint, x bigint, d decimal(10,2), f double, late boolean"
_numbers = itertools.count()


class Event(NamedTuple):
    """A row: its minute, and whether it comes after the query was edited."""

    minute: float
    k: str
    v: int | None
    x: int
    late: bool


def _events(first: int, last: int, late: bool) -> list[Event]:
    return [
        Event(
            minute + 0.1 * at,
            k,
            None if (minute + at) % 5 == 0 else (minute * 7 + at) % 6,
            (minute * 3 + at) % 4,
            late,
        )
        for minute in range(first, last)
        for at, k in enumerate("ab")
        if not (k == "b" and minute % 4 == 3)
    ]


BEFORE, AFTER, THEN = _events(0, 15, False), _events(15, 24, True), _events(24, 36, True)

KEPT = {
    "n": "count(*)",
    "sd": "sum(d)",
    "a": "avg(v)",
    "u": "count(distinct x)",
    "s": "stddev(f)",
}
OLD = {"gone": "max(v)", **KEPT, "w": "count(distinct v) filter (where x > 1)", "same_name": "sum(v)"}
NEW = {
    "c": "count(v)",
    "sv": "sum(x)",
    "same_name": "max(x)",
    "ad": "avg(d)",
    "lo": "min(d)",
    "sf": "sum(f)",
    "dev": "var_pop(f)",
    "ci": "count_if(v > 2)",
    "ever": "bool_or(v > 4)",
    "mb": "max_by(x, v * 10 + x)",
    "hll": "approx_count_distinct(x)",
    "uf": "count(distinct x) filter (where v > 1)",
    "su": "sum(distinct x)",
    "ux": "count(distinct v)",
    "sv2": "sum(v) filter (where x > 0)",
}


def _listed(items: dict[str, str]) -> str:
    return ", ".join(f"{text} as {name}" for name, text in items.items())


def _filtered(text: str) -> str:
    """An aggregate over the rows that came after the edit."""
    head, found, condition = text.partition(" filter (where ")
    return f"{head} filter (where late{f' and {condition[:-1]}' if found else ''})"


# Kept in another order, with new ones between.
EDITED = {"c": NEW["c"], "u": KEPT["u"], **{k: v for k, v in NEW.items() if k != "c"}}
EDITED |= {name: KEPT[name] for name in ("s", "n", "a", "sd")}
EXPECTED = {name: text if name in KEPT else _filtered(text) for name, text in EDITED.items()}


def few(items: dict[str, str]) -> dict[str, str]:
    """One of each kind of aggregate, where all of them are edited over windows: Spark plans these in half of the time."""
    names = {"gone", "n", "u", "a", "w", "same_name", "c", "mb", "uf", "lo"}
    return {name: text for name, text in items.items() if name in names}


WINDOWS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "tumble": (("10 minutes",), {}),
    "hop": (("5 minutes", "10 minutes"), {}),
    "cumulate": (("5 minutes", "20 minutes"), {}),
    "session": (("90 seconds",), {"partition_by": ["k"]}),
    "dynamic_cumulate": (("1 minute", "90 seconds"), {"partition_by": ["k"]}),
}
EARLY = {"first_result_offset": "-6 minutes", "update_rate": "2 minutes", "changelog": True}


class Edited:
    """A model whose query changes from run to run."""

    def __init__(self, spark: Any, root: Path, **config: Any) -> None:
        self.spark = spark
        self.config = {"materialized": "streaming_table", **config}
        name = f"evolution_{next(_numbers)}"
        spark.sql(f"create namespace if not exists {SCHEMA}")
        self.events, target = f"{SCHEMA}.{name}_events", f"{SCHEMA}.{name}"
        spark.sql(f"create table {self.events} ({EVENTS}) using iceberg")
        self.model = StreamModel(
            name=name,
            target=target,
            state=f"{target}__state",
            storage=Storage(str(root), lambda: spark),
            sources=(StreamSource("events", self.events),),
            changelog=bool(config.get("changelog")),
        )
        spark.table(self.events).createOrReplaceTempView("events")

    def add(self, rows: list[Event]) -> None:
        """Append events."""
        listed = ", ".join(
            f"({round(e.minute * 60_000)}, '{e.k}', {'null' if e.v is None else e.v}, {e.x}, {str(e.late).lower()})"
            for e in rows
        )
        self.spark.sql(
            f"insert into {self.events} (ts, k, v, x, d, f, late) "
            "select timestamp_millis(t), k, cast(v as bigint), cast(x as bigint), "
            f"cast(v * 1.25 as decimal(10,2)), cast(v as double) / 2, late from values {listed} as new(t, k, v, x, late)"
        )

    def _planned(self, text: str) -> tuple[Any, Any]:
        self.spark.table(self.events).createOrReplaceTempView("events")
        node = {"name": self.model.name, "config": self.config}
        plan = streaming.plan_model(node, text, {"events": RelationInfo("ts")}, asks(self.spark))
        return plan, streaming.model_program(node, plan)

    def run(self, text: str, closing: bool = False) -> StreamResult:
        """Take in what is there, by a query; and close all windows."""
        plan, program = self._planned(text)
        fields = self.spark.sql(whole_query.batch_sql(plan)).schema.fields
        columns = {field.name: field.dataType.simpleString() for field in fields}
        if not self.spark.catalog.tableExists(self.model.target):
            listed = ", ".join(f"{name} {kind}" for name, kind in columns.items())
            self.spark.sql(f"create table {self.model.target} ({listed}) using iceberg")
        model = replace(self.model, columns=columns)
        result = run_stream(self.spark, model, program)
        if closing:
            flush(self.spark, model, program)
        return result

    def batch(self, text: str) -> Any:
        """The rows of a query over all events."""
        return self.spark.sql(whole_query.batch_sql(self._planned(text)[0]))

    def table(self) -> Any:
        """The model's table."""
        self.spark.catalog.refreshTable(self.model.target)
        return self.spark.table(self.model.target)

    def rows(self, *columns: str) -> dict[tuple[Any, ...], dict[str, Any]]:
        """The table's rows by their keys."""
        return _by_key(self.table(), columns)

    def state(self) -> dict[str, str]:
        """The state's columns and their types."""
        return dict(self.spark.table(self.model.state).dtypes)

    def snapshots(self) -> int:
        """How often the state was written."""
        return int(self.spark.sql(f"select count(*) from {self.model.state}.snapshots").first()[0])


def _by_key(table: Any, keys: tuple[str, ...]) -> dict[tuple[Any, ...], dict[str, Any]]:
    found = {}
    for row in rows_of(table):
        cells = {
            name: round(value, 9) if isinstance(value, float) else value
            for name, value in zip(table.columns, row, strict=True)
        }
        key = tuple(cells.pop(name) for name in keys)
        assert key not in found
        found[key] = cells
    return found


@pytest.fixture(autouse=True)
def folded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the state folded after each micro-batch, old rows together with new ones."""
    monkeypatch.setattr(state_module, "_COMMITS", 1)
    monkeypatch.setattr(state_module, "_ROWS", 1)


@contextmanager
def cut_short_at(point: str) -> Iterator[None]:
    """A run that ends at a step."""
    failpoints.arm(failpoints.parse(f"raise {point}"))
    with pytest.raises(Exception, match=re.escape(point)):
        yield
    failpoints.arm(None)


def windowed(kind: str, items: dict[str, str]) -> str:
    lengths, options = WINDOWS[kind]
    source = expansion.expand_window("events", window_arguments.make_window(kind, "ts", *lengths, **options))
    return f"select window_start, window_end, k, {_listed(items)} from {source} group by window_start, window_end, k"


CASES = {
    **{kind: (kind, {}) for kind in WINDOWS},
    **{f"{kind}, early": (kind, EARLY) for kind in ("tumble", "cumulate")},
}


@pytest.mark.parametrize("name", mostly_thorough(CASES, []))
def test_windows(spark: Any, storage_root: Path, name: str) -> None:
    kind, config = CASES[name]
    keys = ("window_start", "window_end", "k")
    s = Edited(spark, storage_root, **config)
    s.add(BEFORE)
    s.run(windowed(kind, OLD))
    sent = s.rows(*keys)
    assert sent
    assert s.run(windowed(kind, EDITED)).batches == 0
    # Nothing came, and all that was put out is there as it was.
    for key, row in s.rows(*keys).items():
        assert {name: row[name] for name in OLD} == sent[key]
        assert all(row[name] is None for name in NEW if name != "same_name")
    s.add(AFTER)
    s.run(windowed(kind, EDITED))
    s.add(THEN)
    s.run(windowed(kind, EDITED), closing=True)
    found, expected = s.rows(*keys), _by_key(s.batch(windowed(kind, EXPECTED)), keys)
    assert found.keys() == expected.keys()
    for key, row in found.items():
        final = key in sent and sent[key] == {name: row[name] for name in OLD} and row["c"] is None
        for name in EDITED:
            if name in KEPT or not final:
                assert row[name] == expected[key][name], (key, name)
        if not final:
            assert row["gone"] is None and row["w"] is None
    assert any(row["c"] is not None for key, row in found.items() if key not in sent)
    columns = s.state()
    assert "max_v" not in columns and "count_distinct_v_where_x_1_in" not in columns
    if config:
        again = {tuple(map(repr, row)) for row in replayed(spark, s.model)}
        assert again == {tuple(map(repr, row)) for row in s.table().collect()}


def cascading(lower: str, upper: str) -> str:
    minutes = expansion.expand_window("events", window_arguments.make_window("tumble", "ts", "1 minute"))
    by = "window_start, window_end, window_time, k"
    low = f"select {by}, {lower} from {minutes} group by {by}"
    tens = expansion.expand_window("low", window_arguments.make_window("tumble", "window_time", "10 minutes"))
    keys = "window_start, window_end, k"
    return f"with low as ({low}) select {keys}, {upper} from {tens} group by {keys}"


@pytest.mark.thorough
def test_windows_over_windows(spark: Any, storage_root: Path) -> None:
    """A metric more below and above; what is kept above goes on, though more is below."""
    s = Edited(spark, storage_root)
    s.add(BEFORE)
    s.run(cascading("count(*) as n, max(v) as gone", "sum(n) as total, max(gone) as g"))
    lower, upper = "sum(x) as sx, count(*) as n", "max(sx) as most, sum(n) as total"
    s.run(cascading(lower, upper))
    s.add(AFTER)
    s.run(cascading(lower, upper))
    s.add(THEN)
    s.run(cascading(lower, upper), closing=True)
    keys = ("window_start", "window_end", "k")
    expected = _by_key(s.batch(cascading(lower.replace("sum(x)", "sum(x) filter (where late)"), upper)), keys)
    found = s.rows(*keys)
    assert found.keys() == expected.keys()
    first = min(end for _, end, _ in expected)
    for key, row in found.items():
        assert row["total"] == expected[key]["total"]
        if key[1] > first:
            assert row["most"] == expected[key]["most"], key
    with pytest.raises(StreamError, match="the results of a window that another window reads"):
        s.run(cascading("sum(x) as sx, count(v) as n", upper))


def side_by_side(first: str, second: str) -> str:
    """The same windows joined, whichever stands first."""
    sides = {"tens": windowed("tumble", {"n": "count(*)", "u": "count(distinct x)"}), "rows": _tens_of_rows()}
    on = "tens.window_start = rows.window_start and tens.window_end = rows.window_end and tens.k = rows.k"
    return (
        f"select tens.window_start, tens.window_end, tens.k, tens.n, tens.u, rows.v, rows.x, rows.ts from "
        f"({sides[first]}) as {first} join ({sides[second]}) as {second} on {on}"
    )


def _tens_of_rows() -> str:
    return f"select * from {expansion.expand_window('events', window_arguments.make_window('tumble', 'ts', '10 minutes'))}"


@pytest.mark.thorough
def test_windows_change_places(spark: Any, storage_root: Path) -> None:
    s = Edited(spark, storage_root)
    s.add(BEFORE)
    s.run(side_by_side("tens", "rows"))
    s.add(AFTER)
    assert s.run(side_by_side("rows", "tens")).batches == 1
    s.add(THEN)
    s.run(side_by_side("tens", "rows"), closing=True)
    keys = ("window_end", "k", "ts")
    assert s.rows(*keys) == _by_key(s.batch(side_by_side("tens", "rows")), keys)
    parts = s.spark.sql(f"select distinct part from {s.model.state}").collect()
    windows = {part.part.split("_")[1] for part in parts}
    assert len(windows) == 2, "each kept its state"


def grouped(items: dict[str, str]) -> str:
    return f"select k, {_listed(items)} from {expansion.expand_stream('events')} group by k"


OF_GROUPS: dict[str, dict[str, Any]] = {
    "groups": {"constant_domains": ["k"]},
    "state_ttl": {"state_ttl": "20 minutes"},
}


@pytest.mark.parametrize("name", mostly_thorough(OF_GROUPS, []))
def test_groups(spark: Any, storage_root: Path, name: str) -> None:
    config = OF_GROUPS[name]
    s = Edited(spark, storage_root, **config)
    # One key that nothing comes for any more.
    s.add([*BEFORE, Event(14, "idle", 1, 1, False), Event(1, "back", 5, 5, False)])
    s.run(grouped(few(OLD)))
    sent = s.rows("k")
    s.run(grouped(few(EDITED)))
    assert {key: {name: row[name] for name in few(OLD)} for key, row in s.rows("k").items()} == sent
    s.add(AFTER)
    s.run(grouped(few(EDITED)))
    # With state_ttl its first life is over.
    s.add([*THEN, Event(30, "back", 3, 3, True)])
    s.run(grouped(few(EDITED)))
    found = s.rows("k")
    text = grouped(few(EXPECTED))
    if "state_ttl" in config:
        text = text.replace("group by k", "where k <> 'back' or late group by k")
    expected = _by_key(s.batch(text), ("k",))
    assert found.keys() == expected.keys()
    for key, row in found.items():
        for name in few(EDITED):
            if name in KEPT or key != ("idle",):
                assert row[name] == expected[key][name], (key, name)
    assert found[("idle",)]["c"] is None and found[("a",)]["gone"] is None


@pytest.mark.thorough
def test_two_windows_with_a_column_of_one_name(spark: Any, storage_root: Path) -> None:
    source = expansion.expand_window("events", window_arguments.make_window("tumble", "ts", "10 minutes"))

    def text(items: str, of_all: str = "sum(v) as total") -> str:
        keys = "window_start, window_end"
        return (
            f"select a.*, b.total from (select {keys}, k, {items} from {source} group by {keys}, k) as a join "
            f"(select {keys}, {of_all} from {source} group by {keys}) as b using ({keys})"
        )

    s = Edited(spark, storage_root)
    s.add(BEFORE)
    s.run(text("count(*) as n, sum(v) as s"))
    s.run(text("count(*) as n"))
    # The other window operator's.
    assert s.state()["sum_v"] == "bigint"
    s.add(AFTER)
    with pytest.raises(StreamError, match="its state still has earlier values of sum_v"):
        s.run(text("count(*) as n, sum(v) as s"))
    s.run(text("max(v) as m, count(*) as n"), closing=True)
    keys = ("window_start", "window_end", "k")
    expected = _by_key(s.batch(text("max(v) filter (where late) as m, count(*) as n")), keys)
    found = s.rows(*keys)
    assert found.keys() == expected.keys()
    first = min(end for _, end, _ in expected)
    for key, row in found.items():
        assert (row["n"], row["total"]) == (expected[key]["n"], expected[key]["total"])
        assert row["m"] == (expected[key]["m"] if key[1] > first else None)


@pytest.mark.thorough
def test_grouping_sets_and_nothing_but_distinct_values(spark: Any, storage_root: Path) -> None:
    source = expansion.expand_window(
        "events", window_arguments.make_window("cumulate", "ts", "5 minutes", "20 minutes")
    )

    def text(items: dict[str, str]) -> str:
        return (
            f"select window_start, window_end, k, x, {_listed(items)} from {source} "
            "group by window_start, window_end, grouping sets ((k, x), (k))"
        )

    keys = ("window_start", "window_end", "k", "x")
    s = Edited(spark, storage_root)
    s.add(BEFORE)
    s.run(text({"u": "count(distinct v)"}))
    sent = s.rows(*keys)
    items = {"n": "count(*)", "uf": "count(distinct f)", "u": "count(distinct v)"}
    s.add([*AFTER, *THEN])
    s.run(text(items), closing=True)
    expected = _by_key(s.batch(text({k: v if k == "u" else _filtered(v) for k, v in items.items()})), keys)
    found = s.rows(*keys)
    assert found.keys() == expected.keys()
    for key, row in found.items():
        assert row == expected[key] or (key in sent and row == {**sent[key], "n": None, "uf": None})


@pytest.mark.thorough
def test_there_and_back(spark: Any, storage_root: Path) -> None:
    keys = ("window_start", "window_end", "k")
    one, two = windowed("tumble", {"n": "count(*)", "s": "sum(x)"}), windowed("tumble", {"n": "count(*)"})
    s = Edited(spark, storage_root)
    s.add(BEFORE)
    s.run(one)
    s.run(two)
    assert "sum_x" not in s.state()
    before = s.snapshots()
    s.run(two)
    assert s.snapshots() == before  # changed once
    s.run(one)
    s.add(AFTER)
    s.run(one, closing=True)
    # What was removed is forgotten, though it is asked for again.
    expected = _by_key(
        s.batch(windowed("tumble", {"n": "count(*)", "s": "sum(x) filter (where late)"})), keys
    )
    for key, row in s.rows(*keys).items():
        assert row["n"] == expected[key]["n"]
        if key[1] > min(end for _, end, _ in expected):
            assert row == expected[key]


POINTS = ["table.columns:after", "state.migrate:written", "state.migrate:after"]


@pytest.mark.parametrize("point", mostly_thorough(POINTS, []))
def test_cut_short(spark: Any, storage_root: Path, failing: None, point: str) -> None:
    """Old and new query both go on, whenever a change is cut short."""
    old, new = {"n": "count(*)", "m": "max(v)"}, {"s": "sum(x)", "n": "count(*)"}
    changed = point == "state.migrate:after"
    for after in (old, new):
        s = Edited(spark, storage_root)
        s.add(BEFORE)
        s.run(windowed("tumble", old))
        with cut_short_at(point):
            s.run(windowed("tumble", new))
        s.add(AFTER)
        s.run(windowed("tumble", after), closing=True)
        keys = ("window_start", "window_end", "k")
        then = {
            name: _filtered(text) if after is new or changed else text
            for name, text in after.items()
            if name != "n"
        }
        expected = _by_key(s.batch(windowed("tumble", {"n": "count(*)", **then})), keys)
        first = min(end for _, end, _ in expected)
        found = s.rows(*keys)
        assert found.keys() == expected.keys()
        for key, row in found.items():
            for name in ("n", *then) if key[1] > first else ("n",):
                assert row[name] == expected[key][name], (key, name)


@pytest.mark.thorough
@pytest.mark.parametrize("name", mostly_thorough(["tumble", "tumble, early"], ["tumble, early"]))
def test_a_step_that_was_cut_short(spark: Any, storage_root: Path, failing: None, name: str) -> None:
    """What the old query had not put out yet when it ended comes once."""
    config = CASES[name][1]
    old, new = {"n": "count(*)", "m": "max(v)"}, {"s": "sum(x)", "n": "count(*)"}
    keys = ("window_start", "window_end", "k")
    s = Edited(spark, storage_root, **config)
    s.add(BEFORE)
    with cut_short_at("table.append:before"):
        s.run(windowed("tumble", old))
    assert not s.rows(*keys)
    s.run(windowed("tumble", new))
    sent = s.rows(*keys)
    if config:
        # The changelog has decided what comes into the table.
        assert all(row["m"] is not None and row["s"] is None for row in sent.values())
    s.add(AFTER)
    s.run(windowed("tumble", new), closing=True)
    expected = _by_key(s.batch(windowed("tumble", {"n": "count(*)", "s": _filtered("sum(x)")})), keys)
    found = s.rows(*keys)
    assert sent and found.keys() == expected.keys()
    for key, row in found.items():
        assert row["n"] == expected[key]["n"]
        assert row["s"] == expected[key]["s"]
    if config:
        again = {tuple(map(repr, row)) for row in replayed(spark, s.model)}
        assert again == {tuple(map(repr, row)) for row in s.table().collect()}


@pytest.mark.thorough
def test_few_keys_and_their_distinct_values(spark: Any, storage_root: Path) -> None:
    """Sets that have columns instead of rows for some of their keys."""
    source = expansion.expand_window(
        "events", window_arguments.make_window("cumulate", "ts", "5 minutes", "20 minutes")
    )

    def text(items: dict[str, str]) -> str:
        return (
            f"select window_start, window_end, k, {_listed(items)} from {source} where k in ('a', 'b') "
            "group by window_start, window_end, k"
        )

    keys = ("window_start", "window_end", "k")
    s = Edited(spark, storage_root, enum_distinct=True)
    s.add(BEFORE)
    s.run(text({"u": "count(distinct x)"}))
    sent = s.rows(*keys)
    items = {
        "uf": "count(distinct x) filter (where v > 1)",
        "n": "count(*)",
        "u": "count(distinct x)",
        "w": "count(distinct v)",
    }
    s.add([*AFTER, *THEN])
    s.run(text(items), closing=True)
    expected = _by_key(s.batch(text({k: v if k == "u" else _filtered(v) for k, v in items.items()})), keys)
    found = s.rows(*keys)
    assert found.keys() == expected.keys()
    for key, row in found.items():
        assert row == expected[key] or (key in sent and row == {**dict.fromkeys(row), **sent[key]})


def test_what_is_refused_changes_nothing(spark: Any, storage_root: Path) -> None:
    old, new = windowed("tumble", {"n": "count(*)"}), windowed("tumble", {"n": "count(*)", "s": "sum(x)"})
    s = Edited(spark, storage_root)
    s.add(BEFORE)
    s.run(old)
    before, columns = s.snapshots(), s.table().columns
    s.model = replace(s.model, on_state_change="fail")
    with pytest.raises(
        StreamError, match=r"the aggregate SUM\(x\) is new\), and its config on_state_change is 'fail'"
    ):
        s.run(new)
    s.model = replace(s.model, on_state_change="migrate")
    with pytest.raises(StreamError, match="the window's size"):
        s.run(new.replace("10 minutes", "20 minutes").replace("600000000", "1200000000"))
    assert s.snapshots() == before and s.table().columns == columns
    s.run(new)
    assert s.snapshots() == before + 1 and s.table().columns == [*columns, "s"]


@pytest.mark.parametrize("kind", mostly_thorough(["ranking", "groups of groups"], ["ranking"]))
def test_rows_that_are_kept_with_their_columns(spark: Any, storage_root: Path, kind: str) -> None:
    stream = expansion.expand_stream("events")
    if kind == "ranking":
        ranked = "row_number() over (partition by k order by v desc nulls last, x, ts) as rn"
        old = f"select k, rn, v from (select k, v, x, ts, {ranked} from {stream}) where rn <= 2"
        new = f"select k, rn, v, d from (select k, v, x, ts, d, {ranked} from {stream}) where rn <= 2"
    else:
        old = f"select n, count(*) as c from (select k, count(*) as n from {stream} group by k) group by n"
        new = old.replace("group by k", "where x > 1 group by k")
    s = Edited(spark, storage_root, constant_domains=["k", "n"])
    s.add(BEFORE)
    s.run(old)
    before, columns, rows = s.snapshots(), s.table().columns, sorted(map(repr, s.table().collect()))
    with pytest.raises(StreamError, match="its query has changed in what its state depends on"):
        s.run(new)
    assert s.snapshots() == before and s.table().columns == columns
    s.run(old)
    assert sorted(map(repr, s.table().collect())) == rows


@pytest.mark.thorough
def test_an_aggregate_less_of_rows_that_are_kept(spark: Any, storage_root: Path, failing: None) -> None:
    """The rows of open windows lose the columns that nothing reads any more, and all others are there."""
    items = {"p": "percentile(v, 0.5)", "most": "max(x)", "n": "count(*)", "sd": "sum(d)", "first": "min(f)"}
    left = {name: items[name] for name in ("n", "p", "sd")}
    more = {**left, "least": "min(v)"}
    s = Edited(spark, storage_root, watermark="1 minute")
    s.add(BEFORE)
    s.run(windowed("cumulate", items))
    s.model = replace(s.model, on_state_change="fail")
    with pytest.raises(
        StreamError, match=r"rows that are kept lose window_\w+_row\.\w+, .*leave its config on_state_change"
    ):
        s.run(windowed("cumulate", left))
    s.model = replace(s.model, on_state_change="migrate")
    with cut_short_at("state.migrate:after"):
        s.run(windowed("cumulate", left))
    s.run(windowed("cumulate", left))
    s.add(AFTER)
    s.run(windowed("cumulate", left))
    # Another aggregate of what is there is of all rows.
    s.run(windowed("cumulate", more))
    s.add(THEN)
    s.run(windowed("cumulate", more), closing=True)
    expected = s.batch(windowed("cumulate", more)).drop("least")
    assert in_order(s.table().select(*expected.columns)) == in_order(expected)


STREAM = expansion.expand_stream("events")


def of_groups(upper: str, lower: str = "count(*) as n, sum(x) as s", rest: str = "group by n") -> str:
    """A query over the groups of k and v."""
    return f"select {upper} from (select k, v, {lower} from {STREAM} group by k, v) as g {rest}"


_LIKE = f"select 1 from (select x, count(*) as total from {STREAM} group by x) as h where h.x = g.v"
_LIKED = f"where exists ({_LIKE}) group by n"
_RANK = "(select *, row_number() over (order by s desc, n) as place from ({})) where place <= {}"
OPERATORS: dict[str, tuple[str, str]] = {
    "an aggregate": (of_groups("n, count(*) as c"), of_groups("n, sum(s) as total, count(*) as c")),
    "of doubles": (
        of_groups("n, sum(f) as total", "count(*) as n, sum(f) as f"),
        of_groups("n, avg(f) as mean, count(distinct v) as vs", "count(*) as n, sum(f) as f"),
    ),
    "of all": (of_groups("max(n) as c", rest=""), of_groups("max(n) as c, min(s) as least", rest="")),
    "a column below": (
        of_groups("n, count(*) as c", "count(*) as n, max(x) as gone"),
        of_groups("n, count(*) as c, sum(s) as s", "sum(x) as s, count(*) as n"),
    ),
    "having": (
        of_groups("n, count(*) as c", rest="group by n having count(*) > 1"),
        of_groups("n, count(*) as c", rest="group by n having min(s) > 3"),
    ),
    "a condition on groups": (
        of_groups("n, count(*) as c", rest="where n > 2 group by n"),
        of_groups("n, count(*) as c", rest="where n < 5 group by n"),
    ),
    "nothing for now": (
        of_groups("n, count(*) as c", rest="group by n"),
        of_groups("n, count(*) as c", rest="where n > 6 group by n"),
    ),
    "another aggregate of one name": (
        of_groups(
            "n, count(*) as c", "count(*) as n, count(*) filter (where x > 1) as s", "where s >= 0 group by n"
        ),
        of_groups(
            "n, sum(s) as c", "count(*) as n, count(*) filter (where x < 1) as s", "where s >= 0 group by n"
        ),
    ),
    "semi join": (
        of_groups("k, v, n", rest=f"where exists ({_LIKE})"),
        of_groups("k, v, s, n", rest=f"where not exists ({_LIKE} and h.total > 2)"),
    ),
    "of no rows": (
        of_groups("percentile(n, 0.5) as p", rest=f"where n > 1 and exists ({_LIKE})"),
        of_groups("percentile(n, 0.5) as p", rest=f"where n > 100 and exists ({_LIKE})"),
    ),
    "a ranking": (
        "select * from " + _RANK.format(of_groups("n, sum(s) as s", rest=_LIKED), 2),
        "select * from " + _RANK.format(of_groups("n, max(s) as s, count(*) as c", rest=_LIKED), 3),
    ),
}


CUT_ABOVE = {
    "an aggregate": "state.migrate:after",
    "having": "batch.rebuild:before",
    "of doubles": "batch.rebuild:before",
    "a ranking": "state.append:after",
    "a condition on groups": "state.append:written",
    "semi join": "changelog.append:after",
}
"""Where the run after the edit is cut short."""


@pytest.mark.thorough
def test_rows_that_nothing_tells_apart(spark: Any, storage_root: Path, failing: None) -> None:
    """They are put out anew as a whole, several that are equal as often."""
    old, new = of_groups("n", rest=""), of_groups("n % 2 as n, least(s, 3) as s", rest="")
    s = Edited(spark, storage_root, constant_domains=["k", "v"])
    s.add(BEFORE)
    s.run(old)
    with cut_short_at("batch.rebuild:before"):
        s.run(new)
    for more in ([], AFTER, THEN):
        if more:
            s.add(more)
        s.run(new)
        expected = s.batch(new)
        assert in_order(s.table().select(expected.columns)) == in_order(expected)
        assert len({*in_order(expected)}) < expected.count()


@pytest.mark.parametrize("name", mostly_thorough(OPERATORS, []))
def test_operators(spark: Any, storage_root: Path, failing: None, name: str) -> None:
    """What stands on groups is made anew from them, without new rows of the stream."""
    old, new = OPERATORS[name]
    s = Edited(spark, storage_root, constant_domains=["k", "v", "n", "x"], changelog=True)
    s.add(BEFORE)
    s.run(old)
    # More below them begins with the next row.
    new_rows = new
    if name == "a column below":
        new_rows = new.replace("sum(x)", "sum(x) filter (where late)")
    if name == "another aggregate of one name":
        new_rows = new.replace("where x < 1", "where x < 1 and late")

    def is_right() -> None:
        expected = s.batch(new_rows)
        assert in_order(s.table().select(expected.columns)) == in_order(expected)
        again = {tuple(map(repr, row)) for row in replayed(spark, s.model)}
        assert again == {tuple(map(repr, row)) for row in s.table().collect()}

    if point := CUT_ABOVE.get(name):
        with cut_short_at(point):
            s.run(new)
    if name == "of doubles":
        # Edited once more, before that is made anew: what stands on the groups is still forgotten.
        with cut_short_at("batch.rebuild:before"):
            s.run(old)
    s.run(new)
    is_right()
    for more in (AFTER, THEN):
        s.add(more)
        s.run(new)
        is_right()
    assert s.run(new).batches == 0


def in_order(table: Any) -> list[str]:
    return sorted(map(repr, rows_of(table)))


def ranked(order: str, rows: int, metrics: str = "count(*) as n, sum(x) as s", having: str = "") -> str:
    """A ranking of groups: three of them in each of four rankings."""
    groups = f"select v as c, x, {metrics} from {expansion.expand_stream('events')} group by v, x {having}"
    place = f"row_number() over (partition by c order by {order}, x) as place"
    return f"select * from (select *, {place} from ({groups})) where place <= {rows}"


def of_rows(rows: int, columns: str = "k, place, v, x") -> str:
    place = "row_number() over (partition by k order by v desc nulls last, x, ts) as place"
    ranked = f"(select *, {place} from {expansion.expand_stream('events')})"
    return f"select {columns} from {ranked} where place <= {rows}"


BOTH = "count(*) as n, sum(x) as s"
RANKINGS = {
    "fewer": (ranked("n desc", 3), ranked("n desc", 1)),
    "more": (ranked("n desc", 1), ranked("n desc", 3)),
    "in another order": (ranked("n desc", 2), ranked("s desc nulls last, n", 2)),
    "of fewer groups": (ranked("n desc", 2), ranked("n desc", 2, having="having count(*) > 1")),
    "a metric fewer": (ranked("n desc", 2), ranked("n desc", 2, "count(*) as n")),
    "global, with LIMIT": (
        f"select v, {BOTH} from {expansion.expand_stream('events')} group by v order by n desc, v limit 2",
        f"select v, {BOTH} from {expansion.expand_stream('events')} group by v order by s desc, v limit 4",
    ),
    "of rows": (of_rows(4), of_rows(2)),
    "of one row": (of_rows(3), of_rows(1)),
    "of rows, without their places": (of_rows(4, "k, v, x, ts"), of_rows(2, "k, v, x, ts")),
    "groups of ranked rows": (
        f"select v, count(*) as n, sum(x) as s from ({of_rows(4)}) group by v",
        f"select v, count(*) as n, max(x) as m, percentile(x, 0.5) as p from ({of_rows(3)}) group by v",
    ),
    # Nothing that is shown changes.
    "the same for now": (ranked("n desc", 30), ranked("n desc", 40)),
}
CUT_SHORT = {
    "more": "state.append:after",
    "of rows": "state.append:after",
    "of rows, without their places": "state.append:written",
    "groups of ranked rows": "batch.rebuild:before",
    "of fewer groups": "table.overwrite:before",
    "in another order": "state.migrate:after",
}


@pytest.mark.parametrize("name", mostly_thorough(RANKINGS, []))
@pytest.mark.usefixtures("failing")
def test_rankings(spark: Any, storage_root: Path, name: str) -> None:
    """They are made anew from the groups at once, also where that is cut short."""
    old, new = RANKINGS[name]
    s = Edited(spark, storage_root, constant_domains=["k", "v", "x"], changelog=True)
    s.add(BEFORE)
    s.run(old)
    columns = s.batch(new).columns

    def is_right(text: str) -> None:
        rows = s.table().select(*columns)
        assert in_order(rows) == in_order(s.batch(text).select(*columns))
        again = {tuple(map(repr, row)) for row in replayed(spark, s.model)}
        assert again == {tuple(map(repr, row)) for row in s.table().collect()}

    if point := CUT_SHORT.get(name):
        with cut_short_at(point):
            s.run(new)
    assert s.run(new).batches == 0
    is_right(new)
    s.add(AFTER)
    s.run(new)
    is_right(new)
    before = s.snapshots()
    assert s.run(new).batches == 0
    assert s.snapshots() == before
    if "row" not in name and name != "a metric fewer":
        # And back.
        s.run(old)
        is_right(old)
        s.add(THEN)
        s.run(old)
        is_right(old)


@pytest.mark.thorough
def test_a_metric_more_in_a_ranking(spark: Any, storage_root: Path) -> None:
    s = Edited(spark, storage_root, constant_domains=["v", "x"])
    s.add(BEFORE)
    s.run(ranked("n desc", 2, "count(*) as n"))
    new = ranked("n desc", 2, "sum(d) as sd, count(*) as n, count(k) as ks")
    s.run(new)
    then = new.replace("sum(d)", "sum(d) filter (where late)").replace(
        "count(k)", "count(k) filter (where late)"
    )
    for rows in ([], AFTER, THEN):
        if rows:
            s.add(rows)
            s.run(new)
        columns = s.batch(new).columns
        assert in_order(s.table().select(*columns)) == in_order(s.batch(then).select(*columns))
    # A ranking by what is new is of what came since.
    by_new = ranked("ks desc", 2, "count(*) as n, count(k) as ks")
    s.run(by_new)
    columns = s.batch(by_new).columns
    then = by_new.replace("count(k)", "count(k) filter (where late)")
    assert in_order(s.table().select(*columns)) == in_order(s.batch(then).select(*columns))


@pytest.mark.thorough
def test_a_ranking_that_forgets_gets_shorter(spark: Any, storage_root: Path) -> None:
    s = Edited(spark, storage_root, state_ttl="20 minutes")
    s.add(
        [*BEFORE, Event(0, "gone", 1, 1, False), Event(1, "gone", 2, 2, False), Event(1, "gone", 3, 3, False)]
    )
    s.run(of_rows(3))
    s.add(THEN)
    s.run(of_rows(3))
    rows = in_order(s.table())
    s.run(of_rows(2))
    assert in_order(s.table()) == rows, "what is forgotten stays"
    s.add([Event(36, "a", 9, 9, True), Event(36, "b", 9, 9, True)])
    s.run(of_rows(2))
    assert [row["place"] for row in s.table().where("k = 'gone'").orderBy("place").collect()] == [1, 2, 3]
    assert s.table().where("k <> 'gone'").count() == 4


@pytest.mark.thorough
def test_rankings_that_cannot_be_made_anew(spark: Any, storage_root: Path) -> None:
    s = Edited(spark, storage_root, constant_domains=["k"])
    s.add(BEFORE)
    s.run(of_rows(2))
    before, rows = s.snapshots(), in_order(s.table())
    with pytest.raises(StreamError, match="is of 4 rows and was of 2, and no others are kept"):
        s.run(of_rows(4))
    assert s.snapshots() == before and in_order(s.table()) == rows
    forgetting = Edited(spark, storage_root, state_ttl="1 hour")
    forgetting.add(BEFORE)
    forgetting.run(ranked("n desc", 2))
    with pytest.raises(
        StreamError, match="the operators that keep it up to date; with state_ttl they aren't rebuilt"
    ):
        forgetting.run(ranked("n desc", 3))


def below_groups(upper: dict[str, str], lower: dict[str, str]) -> str:
    """A GROUP BY over the results of windows."""
    return f"select k, {_listed(upper)} from ({windowed('tumble', lower)}) group by k"


LIVES: dict[str, dict[str, Any]] = {
    "few keys": {"constant_domains": ["k"]},
    "state_ttl": {"state_ttl": "10 days"},
}


@pytest.mark.parametrize("name", mostly_thorough(LIVES, []))
def test_aggregates_of_windows_below_groups(spark: Any, storage_root: Path, failing: None, name: str) -> None:
    """They come and go together with those of the groups that stand on them."""
    old = below_groups({"n": "sum(n)", "m": "max(m)"}, {"n": "count(*)", "m": "max(v)"})
    upper = {"most": "max(sx)", "n": "sum(n)"}
    new = below_groups(upper, {"sx": "sum(x)", "n": "count(*)"})
    s, edited_at_once = (Edited(spark, storage_root, changelog=True, **LIVES[name]) for _ in range(2))
    for each in (s, edited_at_once):
        each.add(BEFORE)
        with cut_short_at("changelog.append:before"):
            each.run(old)
    s.run(old)
    sent = s.rows("k")
    assert sent
    # The table lacks the output of the last micro-batch, which the new query emits.
    edited_at_once.run(new)
    assert edited_at_once.rows("k") == {key: {**row, "m": None, "most": None} for key, row in sent.items()}
    assert {tuple(map(repr, row)) for row in replayed(spark, edited_at_once.model)} == {
        tuple(map(repr, row)) for row in edited_at_once.table().collect()
    }
    with cut_short_at("state.migrate:written"):
        s.run(new)
    s.run(old)
    with cut_short_at("state.migrate:after"):
        s.run(new)
    assert s.run(new).batches == 0
    for key, row in s.rows("k").items():
        assert row == {**sent[key], "most": None}
    s.add(AFTER)
    s.run(new)
    s.add(THEN)
    s.run(new, closing=True)
    # Windows that had closed gave nothing, and those that were open count from then on.
    expected = _by_key(
        s.batch(below_groups(upper, {"sx": "sum(x) filter (where late)", "n": "count(*)"})), ("k",)
    )
    found = s.rows("k")
    assert {key: {each: row[each] for each in upper} for key, row in found.items()} == expected
    again = {tuple(map(repr, row)) for row in replayed(spark, s.model)}
    assert again == {tuple(map(repr, row)) for row in s.table().collect()}


@pytest.mark.thorough
def test_a_column_more_is_read_and_windows_are_closed(spark: Any, storage_root: Path) -> None:
    """A flush has rows of no stream, with the columns that the query reads by now."""

    def text(columns: str) -> str:
        window = expansion.expand_window("e", window_arguments.make_window("tumble", "ts", "10 minutes"))
        windows = f"select window_start, window_end, k, count(*) as n from {window} group by window_start, window_end, k"
        return f"with e as (select {columns} from events) select k, max(n) as m from ({windows}) group by k"

    s = Edited(spark, storage_root, constant_domains=["k"])
    s.add(BEFORE)
    s.run(text("ts, k"))
    s.run(text("ts, k, x"), closing=True)
    assert s.rows("k") == _by_key(s.batch(text("ts, k, x")), ("k",))


@pytest.mark.thorough
def test_a_step_that_the_changelog_alone_has(spark: Any, storage_root: Path, failing: None) -> None:
    """It comes into the table before anything is changed, so it is no reason to put the query back."""
    s = Edited(spark, storage_root, changelog=True, constant_domains=["k"])
    s.add(BEFORE)
    with cut_short_at("changelog.append:after"):
        s.run(below_groups({"n": "sum(n)"}, {"n": "count(*)"}))
    new = below_groups({"n": "sum(n)", "most": "max(sx)"}, {"n": "count(*)", "sx": "sum(x)"})
    s.run(new)
    s.add(AFTER)
    s.run(new, closing=True)
    assert {key: row["n"] for key, row in s.rows("k").items()} == {
        key: row["n"] for key, row in _by_key(s.batch(new), ("k",)).items()
    }


@pytest.mark.thorough
def test_a_tree_that_is_written_otherwise(spark: Any, storage_root: Path) -> None:
    """Its state goes on under the names that it has."""
    counts = f"select k, count(*) as n from {STREAM} group by k"
    old = (
        f"select a.k, a.n, b.m from ({counts}) as a join (select k, max(n) as m "
        f"from ({windowed('tumble', {'n': 'count(*)'})}) group by k) as b on a.k = b.k"
    )
    new = (
        f"with s as (select * from {STREAM}), w as ({windowed('tumble', {'n': 'count(*)'})}), "
        "most as (select z.k, max(z.n) as m from w as z group by z.k) "
        "select y.k, y.n, most.m from most join (select e.k, count(*) as n from s as e group by e.k) as y on most.k = y.k"
    )
    s = Edited(spark, storage_root, constant_domains=["k"], changelog=True)
    s.add(BEFORE)
    s.run(old)

    def parts() -> set[str]:
        found = spark.sql(f"select distinct part from {s.model.state}").collect()
        return {row[0] for row in found}

    had, snapshots = parts(), s.snapshots()
    assert s.run(new).batches == 0
    assert s.snapshots() == snapshots
    s.add(AFTER)
    s.run(new)
    s.add(THEN)
    s.run(old)
    s.run(new, closing=True)
    assert parts() == had
    expected = s.batch(new)
    assert in_order(s.table().select(expected.columns)) == in_order(expected)
    again = {tuple(map(repr, row)) for row in replayed(spark, s.model)}
    assert again == {tuple(map(repr, row)) for row in s.table().collect()}
