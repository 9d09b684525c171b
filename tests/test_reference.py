"""The reference is only worth something if it is right itself: it gives Flink's rows, and its trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests import reference as ref
from tests.oracle.cases import ORACLE
from tests.oracle.compare import difference, read_expected

pytestmark = pytest.mark.skipif(ORACLE is None, reason="the Flink oracle is not beside this repository")


def input_of(table: str) -> list[dict[str, Any]]:
    assert ORACLE is not None
    rows: list[dict[str, Any]] = pq.read_table(ORACLE / "data" / "tiny" / f"{table}.parquet").to_pylist()
    return [{**row, "ts": ref.to_micros(row["ts"])} for row in rows]


PAGE_VIEW_METRICS: list[ref.Aggregate] = [
    ref.count(),
    ref.count_distinct("user_id"),
    ref.count_distinct("device_id", where=lambda row: row["channel"] == "A"),
    ref.least("room_id"),
    ref.greatest("ts"),
]
BID_METRICS: list[ref.Aggregate] = [
    ref.count(),
    ref.count("price"),
    ref.total("price"),
    ref.least("price"),
    ref.greatest("price"),
    ref.average("price"),
    ref.count_distinct("bidder"),
    ref.count_distinct("bidder", where=lambda row: row["price"] is not None and row["price"] >= 10000),
    ref.total("price", where=lambda row: row["channel"] == "Google"),
    ref.count(where=lambda row: row["price"] is None),
]
Case = tuple[str, ref.Windows, list[str], list[ref.Aggregate]]
CASES: dict[str, Case] = {
    "tumble_agg": ("bid", ref.Tumble(10 * ref.MINUTE), ["channel"], BID_METRICS),
    "tumble_offset": ("bid", ref.Tumble(ref.DAY, 4 * ref.HOUR), ["channel"], BID_METRICS),
    "hop_agg": ("bid", ref.Hop(5 * ref.MINUTE, 15 * ref.MINUTE), ["channel"], BID_METRICS),
    "cumulate_agg": ("page_view", ref.Cumulate(ref.HOUR, ref.DAY), ["page"], PAGE_VIEW_METRICS),
    "cumulate_global": ("page_view", ref.Cumulate(10 * ref.MINUTE, ref.DAY), [], PAGE_VIEW_METRICS),
    "cumulate_offset_m4": (
        "page_view",
        ref.Cumulate(2 * ref.MINUTE, 10 * ref.MINUTE, -4 * ref.MINUTE),
        ["channel"],
        PAGE_VIEW_METRICS,
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("cuts", [1, 7, 40])
def test_the_reference_gives_the_rows_of_flink(case: str, cuts: int) -> None:
    assert ORACLE is not None
    table, windows, keys, metrics = CASES[case]
    rows = input_of(table)
    stream = ref.Stream(windows, keys, metrics, delay=5 * ref.SECOND)
    out = []
    for cut in range(cuts):
        out += stream.feed(rows[len(rows) * cut // cuts : len(rows) * (cut + 1) // cuts])
    out += stream.flush()
    header, expected = read_expected(Path(ORACLE / "expected" / case / "tiny.csv"))
    instants = [at for at, name in enumerate(header) if name in ("window_start", "window_end", "last_ts")]
    readable = [
        tuple(
            ref.to_datetime(value).replace(tzinfo=None) if at in instants and value is not None else value
            for at, value in enumerate(row)
        )
        for row in out
    ]
    assert difference(header, readable, header, expected) is None
    assert stream.late == 0


def test_a_late_row_counts_in_the_windows_that_have_not_fired() -> None:
    """Flink's own trace of a cumulate with step 1 s and size 3 s (its watermark 999 is our 1000)."""
    ms = 1000
    stream = ref.Stream(ref.Cumulate(1000 * ms, 3000 * ms), ["k"], [ref.total("v"), ref.count()], time="ts")

    def watermark(at: int) -> list[tuple[Any, ...]]:
        stream.watermark = at * ms
        return [(start // ms, end // ms, *rest) for start, end, *rest in stream.feed([])]

    def row(k: str, ts: int, v: int = 1) -> dict[str, Any]:
        return {"k": k, "ts": ts * ms, "v": v}

    def late(*rows: dict[str, Any]) -> None:
        before = stream.watermark
        stream.feed(rows)
        stream.watermark = before

    early = [row("k2", ts) for ts in (2999, 3000, 1998, 1999, 1000)] + [row("k1", ts) for ts in (20, 0, 999)]
    for one in early:
        for window in stream.windows.windows(one["ts"]):
            stream._open[window].setdefault((one["k"],), []).append(one)
    assert watermark(1000) == [(0, 1000, "k1", 3, 3)]
    assert sorted(watermark(2000)) == [(0, 2000, "k1", 3, 3), (0, 2000, "k2", 3, 3)]
    late(row("k2", 1000))
    assert watermark(2000) == []
    assert sorted(watermark(3000)) == [(0, 3000, "k1", 3, 3), (0, 3000, "k2", 5, 5)]
    assert watermark(4000) == [(3000, 4000, "k2", 1, 1)]
    late(row("k1", 3500, 2))
    assert sorted(watermark(5000)) == [(3000, 5000, "k1", 2, 1), (3000, 5000, "k2", 1, 1)]
    late(row("k1", 2999))
    assert stream.late == 1
    assert sorted(watermark(6000)) == [(3000, 6000, "k1", 2, 1), (3000, 6000, "k2", 1, 1)]
    assert stream.flush() == []
