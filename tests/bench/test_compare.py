"""bench/compare.py gives no ratio to a peer with other rows, and its works are queries that can be kept up to date."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(scope="module", autouse=True)
def beside_bench() -> Iterator[None]:
    """Its modules import each other by their plain names."""
    sys.path.insert(0, str(BENCH))
    yield
    sys.path.remove(str(BENCH))


def module(name: str) -> Any:
    return importlib.import_module(name)


def files(folder: Path, columns: str, *rows: str) -> str:
    """A folder with one Parquet file of rows."""
    folder.mkdir()
    query = f"select * from (values {', '.join(rows)}) as t ({columns})"
    duckdb.connect().execute(f"copy ({query}) to '{folder}/part-0' (format parquet)")
    return str(folder)


def line(**runs: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "workload": "topn_count",
        "title": "top",
        "mode": "pieces",
        "events": 9,
        "on": "today",
        "runs": runs,
    }


def test_a_changelog_is_the_rows_that_are_left(tmp_path: Path) -> None:
    rows = module("compared").Rows()
    changes = [
        "('INSERT', 'a', 1)",
        "('UPDATE_BEFORE', 'a', 1)",
        "('UPDATE_AFTER', 'a', 2)",
        "('INSERT', 'b', 1)",
        "('DELETE', 'b', 1)",
    ]
    left = rows.read(files(tmp_path / "changes", "op, item, n", *changes), changelog=True)
    same = rows.read(files(tmp_path / "same", "item, n", "('a', 2::bigint)"))
    twice = rows.read(files(tmp_path / "twice", "item, n", "('a', 2)", "('a', 2)"))
    assert rows.count(left) == 1
    assert rows.difference(left, same) is None
    assert rows.difference(left, twice) == (
        "1 missing, like [('a', 2, 1)]; 1 that ours hasn't, like [('a', 2, 2)]"
    )


def test_times_and_fractions_agree_whoever_wrote_them(tmp_path: Path) -> None:
    rows = module("compared").Rows()
    theirs = "(timestamp '2026-03-01 00:01:00', 0.1 + 0.2::double, date '2026-03-01')"
    ours = "(1772323260000000, 0.3::double, date '2026-03-01')"
    one, other = (
        rows.read(files(tmp_path / name, "ts, share, day", row)) for name, row in (("t", theirs), ("o", ours))
    )
    assert rows.difference(one, other) is None


def test_printed_changes_are_rows_and_the_time_of_their_first_sight() -> None:
    printed = [
        (10.0, "+I[a, 1, 2026-03-01T00:00]\n"),
        (11.0, "-U[a, 1, 2026-03-01T00:00]\n"),
        (11.5, "2> +U[a, 2, 2026-03-01T00:00:00.250]\n"),
        (12.0, "a warning\n"),
        (13.0, "+I[a, 2, 2026-03-01T00:00:00.250]\n"),
    ]
    bag, at = module("compared").from_print(printed, ["item", "n", "last_ts"], ["item"], "last_ts", None)
    begin = module("workloads").BEGIN_MICROS
    assert bag == {("a", 2, begin + 250_000): 2}
    assert at == [(begin, 10.0), (begin + 250_000, 11.5)]


def test_a_ratio_is_the_median_of_rounds_with_its_spread() -> None:
    runs = line(
        ours=[{"cpu": 1.0}, {"cpu": 3.0}, {"cpu": 2.0}], flink=[{"cpu": 2.0}, {"cpu": 2.0}, {"cpu": 2.0}]
    )
    assert str(module("report").ratio(runs, "flink", "cpu")) == "1.00 (0.50–1.50)"


@pytest.mark.parametrize(
    ("theirs", "reason"),
    [
        ({"cpu": 1.0, "wall": 1.0, "problem": "2 missing"}, "2 missing"),
        ({"limit": 100}, "not done after 100 s, so wall < 0.05"),
        ({"problem": "it broke"}, "it broke"),
    ],
)
def test_who_has_other_rows_or_none_has_no_ratio(theirs: dict[str, Any], reason: str) -> None:
    report = module("report")
    runs = line(ours=[{"cpu": 1.0, "wall": 5.0}], flink=[theirs])
    assert report.ratio(runs, "flink", "cpu") is None
    assert report.ratios(runs) == [f"topn_count, 12 micro-batches: ours / Flink, in memory: {reason}"]


def test_a_goal_is_met_or_not() -> None:
    runs = line(ours=[{"cpu": 3.0, "wall": 1.0}], flink=[{"cpu": 1.0, "wall": 1.0}])
    assert module("report").goals([runs]) == [
        "NOT MET  topn_count, against Flink in memory, CPU: 3.00, at most 1.5"
    ]


def test_a_job_is_told_without_its_start_where_that_leaves_something() -> None:
    start = {"wall": 3.0, "cpu": 4.0}
    found = module("compare").without({"wall": 3.1, "cpu": 10.0}, start)
    assert found == {"cpu": 6.0, "start": start}


def test_all_works_can_be_kept_up_to_date() -> None:
    workloads = module("workloads")
    for each in workloads.WORKLOADS.values():
        known = {f"raw.{source}": RelationInfo("ts") for source in each.sources}
        text = each.text(workloads.Ours(trickle=True))
        program = generate.generate_program(plan_query.plan(text, known, domains=workloads.DOMAINS))
        assert (program.upsert is not None) == each.updates, each.name
        columns = [item.alias_or_name for item in plan_query.parse(text).expressions]
        if each.moment and columns != ["*"]:
            assert {*each.key, each.moment} <= set(columns), each.name


def test_the_processor_time_of_a_process_is_that_of_its_children_too() -> None:
    protocol = module("protocol")
    script = (
        "import sys; sys.path.insert(0, {!r}); from protocol import serve; "
        "serve({{'add': lambda a, b: {{'is': a + b}}}})"
    )
    log = Path("/dev/null")
    peer = protocol.Peer("python", [sys.executable, "-c", script.format(str(BENCH))], log, {})
    try:
        found = peer.measured("add", a=1, b=2)
        assert found["is"] == 3
        assert found["wall"] > 0
        assert peer.start["cpu"] > 0
        with pytest.raises(protocol.Failed, match="python: KeyError: 'divide'"):
            peer.ask("divide")
    finally:
        peer.close()
