"""Lookup joins on a real database: what it is asked, and what becomes of failures."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common import periodic
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.lookup_source import LookupSource
from dbt.adapters.spark_streaming.stream.common.model import StreamSource
from dbt.adapters.spark_streaming.stream.microbatch import lookups
from dbt.adapters.spark_streaming.stream.progress.report import read_progress
from dbt.adapters.spark_streaming.stream.sources.source_schemas import SchemaChanged
from tests.planned import plan_of

from .harness import Stream
from .test_changed_while_running import running, take
from .test_changelog import agree, fails_at

HOUR = 3600_000
EVENTS = "(select /*+ STREAM */ * from events)"
TUMBLE = expansion.expand_window("events", window_arguments.make_window("tumble", "ts", "1 hour"))
CUSTOMERS = (
    "create table customers (id int primary key, name varchar(20), region varchar(20))",
    "insert into customers values (1, 'Ada', 'north'), (2, 'Bob', 'south'), (3, 'Cid', 'north')",
)

_numbers = itertools.count()


class Database:
    """A Derby in the memory of Spark's JVM, which writes down what it is asked."""

    def __init__(self, spark: Any, log: Path) -> None:
        self._java, self._log = spark._jvm.java, log
        self.url = f"jdbc:derby:memory:shop{next(_numbers)}"
        self._connected(";create=true").close()

    def _connected(self, more: str = "") -> Any:
        return self._java.sql.DriverManager.getConnection(self.url + more)

    def run(self, *statements: str) -> None:
        """Change something."""
        connection = self._connected()
        for text in statements:
            connection.createStatement().execute(text)
        connection.close()

    def asked(self) -> list[list[str]]:
        """The values of each request since the last call."""
        lines = [
            line for line in self._log.read_text().splitlines() if "Executing prepared statement" in line
        ]
        self._log.write_text("")
        keyed = [line for line in lines if "= ?" in line or "in (?" in line]
        return [re.findall(r"parameter #\d+: (.*?) :end parameter", line) for line in keyed]


def _end_derby(spark: Any) -> None:
    """Have Derby, which another test may have begun in this JVM, begin anew: only then does it look at its settings."""
    with pytest.raises(Py4JJavaError):  # its way of saying that it has ended
        spark._jvm.java.sql.DriverManager.getConnection("jdbc:derby:;shutdown=true;deregister=false")


@pytest.fixture(scope="module")
def log(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("derby") / "derby.log"
    system = spark._jvm.java.lang.System
    _end_derby(spark)
    system.setProperty("derby.stream.error.file", str(file))
    system.setProperty("derby.language.logStatementText", "true")
    return file


@pytest.fixture
def shop(spark: Any, log: Path) -> Database:
    database = Database(spark, log)
    database.run(*CUSTOMERS)
    database.asked()
    return database


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses before a request is tried again, which take no time here."""
    found: list[float] = []
    monkeypatch.setattr(lookups, "wait", found.append)
    return found


def stream(
    spark: Any, root: Path, shop: Database, text: str, columns: str, table: str = "customers", **said: Any
) -> Stream:
    """A model over `events` that asks a table of the shop."""
    known = {"events": RelationInfo("ts"), f"crm.{table}": RelationInfo(lookup=True)}
    made = Stream(spark, root, generate.generate_program(plan_of(text, known)), columns)
    config = {"url": shop.url, **said}
    source = LookupSource.from_config(f"crm.{table}", f"crm.{table}", config, table)
    made.model = replace(made.model, lookups=(source,))
    return made


NAMED = f"""select e.k, c.name, c.region
    from {EVENTS} as e left join crm.customers as c on c.id = nullif(e.v, 0)"""


@pytest.mark.thorough
def test_a_micro_batch_asks_for_its_distinct_keys_in_chunks(
    spark: Any, storage_root: Path, shop: Database
) -> None:
    model = stream(spark, storage_root, shop, NAMED, "k string, name string, region string", chunk_size=2)
    model.add((0, "a", 1), (0, "b", 2), (0, "c", 1), (0, "d", 9), (0, "e", 0), (0, "f", 3))
    result = model.run()
    assert model.rows() == [
        ("a", "Ada", "north"),
        ("b", "Bob", "south"),
        ("c", "Ada", "north"),
        ("d", None, None),
        ("e", None, None),  # NULL, which no one is asked for
        ("f", "Cid", "north"),
    ]
    assert (result.lookup_requests, result.lookup_keys, result.rows_in) == (2, 4, 6)
    asked = shop.asked()
    assert [len(values) for values in asked] == [2, 2]
    assert sorted(value for values in asked for value in values) == ["1", "2", "3", "9"]

    model.add((0, "g", 2), (0, "h", 0))
    model.run()
    assert shop.asked() == [["2"]]
    model.add((0, "i", 0))
    assert model.run().lookup_requests == 0
    assert shop.asked() == []
    progress: Any = read_progress(model.model)
    assert progress["lookups"] == {
        "total": {"requests": 3, "keys": 5},
        "last": {"requests": 0, "keys": 0, "cached": 0},
    }


@pytest.mark.thorough
def test_keys_of_all_types_are_bound_as_what_they_are(spark: Any, storage_root: Path, shop: Database) -> None:
    shop.run(
        "create table rates (moment timestamp, dated date, code varchar(9), cost decimal(9, 2), ready boolean, n bigint, "
        "rate double)",
        "insert into rates values "
        "(timestamp('1970-01-01 00:00:01.5'), date('1970-01-01'), 'o''\\x?', 1.50, true, 10000000000, 0.5), "
        "(timestamp('1970-01-01 00:00:01.5'), date('1970-01-01'), 'o''\\x?', 1.50, false, 10000000000, 0.7)",
    )
    text = f"""select e.k, r.rate, r.moment, r.cost from {EVENTS} as e join crm.rates as r
        on r.moment = e.ts and r.dated = cast(e.ts as date) and r.code = concat(e.k, "'\\\\x?")
        and r.cost = e.v / 2 and r.ready = (e.v > 0) and r.n = e.x"""
    columns = "k string, rate double, moment timestamp, cost decimal(9, 2)"
    without_zone = text.replace("= e.ts and", "= cast(e.ts as timestamp_ntz) and")
    assert without_zone != text
    for asking, said in (
        (text, {}),
        (text, {"cache_ttl": "1 hour"}),
        (without_zone, {"options": {"preferTimestampNTZ": True}}),
    ):
        model = stream(spark, storage_root, shop, asking, columns, "rates", **said)
        model.add((1500, "o", 3, 10_000_000_000), (1500, "o", 4, 10_000_000_000), (1500, "p", 3, 1))
        model.run()
        ((k, rate, at, price),) = model.rows()
        assert (k, rate, at, str(price)) == ("o", 0.5, 1500, "1.50")


@pytest.mark.thorough
def test_a_cache_asks_once_for_what_is_there_and_for_what_is_not(
    spark: Any, storage_root: Path, shop: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(step=10)  # looked at when keys come, and when they were asked for
    monkeypatch.setattr(lookups, "now", lambda: next(clock))
    columns = "k string, name string, region string"
    model = stream(spark, storage_root, shop, NAMED, columns, cache_ttl="45 seconds")
    # What the hint MINI_BATCH(1) makes of the source: here each row is a file.
    model.reads(StreamSource("events", model.events, options={"streaming-max-rows-per-micro-batch": "1"}))
    for row in ((0, "a", 1), (0, "b", 9), (0, "c", 1), (0, "d", 9), (0, "e", 1)):
        model.add(row)
    assert model.run().batches == 5
    assert shop.asked() == [["1"], ["9"], ["1"]]
    assert [row[1] for row in model.rows()] == ["Ada", None, "Ada", None, "Ada"]


BY_REGION = f"""select w.window_start, w.window_end, c.region, count(*) as n
    from {TUMBLE} as w join crm.customers as c on c.id = w.v
    group by w.window_start, w.window_end, c.region"""
TOTALS = "window_start timestamp, window_end timestamp, region string, n bigint"


def test_a_request_that_fails_is_tried_again_and_a_batch_that_fails_is_done_again(
    spark: Any, storage_root: Path, shop: Database, pauses: list[float]
) -> None:
    model = stream(spark, storage_root, shop, BY_REGION, TOTALS)
    model.add((0, "a", 1), (1, "b", 3), (2, "c", 2))
    shop.run("rename table customers to gone")
    with pytest.raises(StreamError) as raised:
        model.run()
    assert pauses == [0.5, 1.0, 2.0]
    assert raised.value.msg.startswith(
        f"Model {model.model.name}: the lookup table crm.customers ({shop.url}) doesn't answer: "
    )
    assert "CUSTOMERS" in raised.value.msg
    assert raised.value.msg.endswith(
        "It was tried 4 times. Nothing of this micro-batch is lost; the next run continues with it."
    )
    shop.run("rename table gone to customers")
    model.run()
    model.add((HOUR, "d", 1))
    model.run()
    assert model.rows() == [(0, HOUR, "north", 2), (0, HOUR, "south", 1)]


def test_a_request_that_fails_between_two_others(
    spark: Any, storage_root: Path, shop: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = stream(spark, storage_root, shop, BY_REGION, TOTALS, chunk_size=1)
    model.add((0, "a", 1), (1, "b", 3), (2, "c", 2), (HOUR, "d", 1))
    ask, calls = lookups.JdbcTable.query_keys, itertools.count()

    def unsteady(table: Any, connection: Any, *arguments: Any) -> Any:
        if next(calls) == 1:
            connection.close()
        return ask(table, connection, *arguments)

    monkeypatch.setattr(lookups.JdbcTable, "query_keys", unsteady)
    monkeypatch.setattr(lookups, "wait", lambda _: None)
    result = model.run()
    assert (result.lookup_requests, result.lookup_keys) == (4, 3)
    assert sorted(shop.asked()) == [["1"], ["2"], ["3"]]
    assert model.rows() == [(0, HOUR, "north", 2), (0, HOUR, "south", 1)]


@pytest.mark.thorough
def test_above_the_windows_it_is_asked_when_they_close_and_after_a_failure_once_more(
    spark: Any, storage_root: Path, shop: Database, pauses: list[float]
) -> None:
    text = f"""with n as (
            select window_start, window_end, v, count(*) as n from {TUMBLE} group by window_start, window_end, v
        )
        select n.window_start, n.window_end, c.name, n.n from n left join crm.customers as c on c.id = n.v"""
    columns = "window_start timestamp, window_end timestamp, name string, n bigint"
    model = stream(spark, storage_root, shop, text, columns, retries=0)
    model.add((0, "a", 1), (1, "b", 1), (2, "c", 7))
    model.run()
    assert shop.asked() == []
    shop.run("rename table customers to gone")
    model.add((HOUR, "d", 2))
    with pytest.raises(StreamError, match="It was tried once"):
        model.run()
    assert not pauses and model.rows() == []
    shop.run("rename table gone to customers")
    # The rows are in the state; only what comes out of it is made again.
    model.run()
    assert model.rows() == [(0, HOUR, "Ada", 2), (0, HOUR, None, 1)]
    assert [sorted(values) for values in shop.asked()] == [["1", "7"]]


ABOVE_WINDOWS = f"""with n as (
    select window_start, window_end, v, count(*) as n from {TUMBLE} group by window_start, window_end, v
  )
  select n.window_end, c.name, n.n from n left join crm.customers as c on c.id = n.v"""


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        pytest.param(NAMED, "k string, name string, region string", marks=pytest.mark.thorough),
        (ABOVE_WINDOWS, "window_end timestamp, name string, n bigint"),
    ],
    ids=["rows", "windows"],
)
def test_what_was_answered_before_a_crash_holds_after_it(
    spark: Any, storage_root: Path, shop: Database, text: str, columns: str
) -> None:
    model = stream(spark, storage_root, shop, text, columns)
    model.model = replace(model.model, changelog=True)
    model.add((0, "a", 1))
    model.run()
    model.add((HOUR, "b", 2))
    with fails_at("changelog.append:after"):
        model.run()
    changes = spark.sql(f"select name from {model.model.changes}").collect()
    assert [row[0] for row in changes] in (["Ada"], ["Ada", "Bob"], ["Bob", "Ada"])
    shop.run("update customers set name = 'another'")
    model.run()
    assert "another" not in [row[-2] for row in model.rows()]
    agree(model)


REGIONS = f"""select c.region, sum(g.n) as n, count(*) as keys from (select v, count(*) as n from {EVENTS} group by v) as g
    left join crm.customers as c on c.id = g.v group by c.region"""


@pytest.mark.thorough
def test_in_a_tree_of_operators_an_answer_is_taken_back_as_it_was(
    spark: Any, storage_root: Path, shop: Database
) -> None:
    known = {"events": RelationInfo("ts"), "crm.customers": RelationInfo(lookup=True)}
    plan = plan_query.plan(REGIONS, known, 24 * HOUR * 1000)
    columns = "region string, n bigint, keys bigint"
    model = Stream(spark, storage_root, generate.generate_program(plan, ttl=24 * HOUR * 1000), columns)
    source = LookupSource.from_config("crm.customers", "crm.customers", {"url": shop.url}, "customers")
    model.model = replace(model.model, lookups=(source,), changelog=True)
    model.add((0, "a", 1), (0, "b", 1), (0, "c", 2))
    assert model.run().lookup_keys == 2
    assert model.rows() == [("north", 2, 1), ("south", 1, 1)]
    shop.run("update customers set region = 'east'")
    model.add((1, "d", 1))
    # What comes out is in the state by then; the next run takes it from there, and asks for nothing.
    shop.asked()
    with fails_at("state.append:after"):
        model.run()
    assert shop.asked() == [["1"]]
    shop.run("update customers set region = 'west'")
    model.run()
    assert shop.asked() == []
    assert model.rows() == [("east", 3, 1), ("south", 1, 1)]
    agree(model)


@pytest.fixture
def other_shop(spark: Any, log: Path) -> Iterator[Database]:
    database = Database(spark, log)
    database.run("create table things (id varchar(9), picture blob)")
    yield database


@pytest.mark.parametrize(
    ("condition", "sentence"),
    [
        (
            "t.nr = e.v",
            "the lookup table crm.things has no column nr, which a join compares. It has ID, PICTURE.",
        ),
        (
            "t.id = e.v",
            "the column id of the lookup table crm.things is a STRING, and the join compares it with a BIGINT; cast "
            "the stream's side",
        ),
        ("t.picture = cast(e.k as binary)", "the column picture of the lookup table crm.things is a BINARY"),
    ],
)
def test_what_cannot_be_compared_is_said(
    spark: Any, storage_root: Path, other_shop: Database, condition: str, sentence: str
) -> None:
    text = f"select e.k from {EVENTS} as e join crm.things as t on {condition}"
    model = stream(spark, storage_root, other_shop, text, "k string", "things")
    model.add((0, "a", 1))
    with pytest.raises(StreamError) as raised:
        model.run()
    assert sentence in raised.value.msg


@pytest.mark.thorough
def test_a_column_that_comes_while_it_runs(
    spark: Any, storage_root: Path, shop: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(periodic.Periodic, "is_due", True)
    text = f"select e.k, c.* from {EVENTS} as e left join crm.customers as c on c.id = e.v"
    model = stream(spark, storage_root, shop, text, "k string, id int, name string, region string")
    model.add((0, "a", 1))
    with running(model) as found:
        take(found, 1)
        shop.run("alter table customers add column since int")
        model.add((0, "b", 2))
        with pytest.raises(SchemaChanged, match=r"columns of crm\.customers changed while it ran \(SINCE\)"):
            take(found, 2)
    assert model.rows() == [("a", 1, "Ada", "north")]
