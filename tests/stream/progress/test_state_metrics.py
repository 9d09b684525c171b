"""What was done with each part of a state, as plain numbers."""

from __future__ import annotations

import io

from rich.console import Console

from dbt.adapters.spark_streaming.cli.status import state_table, status_table
from dbt.adapters.spark_streaming.stream.progress.query_metrics import scanned_part
from dbt.adapters.spark_streaming.stream.progress.state_metrics import (
    PartFigures,
    PartMetrics,
    Size,
    operators_from_progress,
    sizes_from_progress,
    sum_of_runs,
    written_per_part,
)

GROUPS = PartMetrics(
    part="group_ad8c9754db_groups",
    operator="GroupAggregate by k",
    holds="partial aggregates per key",
    size=Size(10, 1_000, 2),
    figures=PartFigures(lookups=3, hits=1),
)
PROGRESS = {
    "state": {
        "rows": 10,
        "bytes": 1_000,
        "files": 2,
        "snapshot": 7,
        "query": "abc",
        "parts": [GROUPS.as_dict()],
    }
}


def test_commits_say_what_came_to_each_part_and_what_went() -> None:
    append = {
        "added-records": "9",
        "partitions.part=a%2Fb": "added-data-files=1,added-records=5,added-files-size=900",
        "partitions.part=c": "added-data-files=1,added-records=4,added-files-size=800",
    }
    fold = {
        "partitions.part=c": "added-data-files=1,deleted-data-files=2,added-records=1,deleted-records=6,"
        "added-files-size=300,removed-files-size=1500",
    }
    found = written_per_part([append, fold])
    assert found["a/b"] == PartFigures(rows_written=5, bytes_written=900, files_written=1)
    assert Size(2, 700, 1).after_writes(found["c"]) == Size(2 + 4 + 1 - 6, 700 + 800 + 300 - 1500, 1 + 2 - 2)


def test_figures_of_before_count_only_for_the_same_snapshot_and_query() -> None:
    assert sizes_from_progress(PROGRESS, 7) == {GROUPS.part: Size(10, 1_000, 2)}
    assert sizes_from_progress(PROGRESS, 8) is None
    assert sizes_from_progress(None, 7) is None
    assert sizes_from_progress({"state": {"rows": 1, "bytes": 2, "files": 3}}, 7) is None
    assert sizes_from_progress(PROGRESS, None) == {}  # there is no state, whatever they say
    assert operators_from_progress(PROGRESS, "abc") == {
        GROUPS.part: ("GroupAggregate by k", "partial aggregates per key")
    }
    assert operators_from_progress(PROGRESS, "abd") is None
    before = {"part": GROUPS.part, "operator": "GroupAggregate by k"}  # as an earlier version wrote it
    assert operators_from_progress({"state": {"query": "abc", "parts": [before]}}, "abc") is None


def test_two_runs_add_up() -> None:
    later = PartMetrics(GROUPS.part, "", "", Size(11), PartFigures(lookups=2, hits=2))
    new = PartMetrics("values", "", "", Size(), PartFigures(scans=1))
    (groups, values) = sum_of_runs([GROUPS], [later, new])
    assert (groups.size, groups.figures.lookups, groups.figures.misses) == (Size(11), 5, 2)
    assert values == new


def test_a_scan_of_several_parts_is_of_none_of_them() -> None:
    assert scanned_part("filters=part = 'a'", ["a", "a_b"]) == "a"
    assert scanned_part("filters=part IN ('a', 'a_b')", ["a", "a_b"]) == ""
    assert scanned_part("filters=", ["a"]) == ""


def test_status_shows_reads_hits_and_misses() -> None:
    progress = {
        "batch": 0,
        "watermark": None,
        "total": dict.fromkeys(("rows_in", "late_rows", "null_time_rows", "rows_out"), 0),
        "last": {"rows_in": 0, "seconds": {}},
        **PROGRESS,
    }
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(status_table([{"model": "m", "progress": progress}], 200))
    console.print(state_table("m", PROGRESS["state"]["parts"]))
    shown = console.export_text()
    assert "1 hit, 2 misses" in shown
    assert "GroupAggregate by k" in shown and "partial aggregates per key" in shown
    assert GROUPS.part not in shown
