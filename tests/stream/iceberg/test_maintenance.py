"""Which snapshots stay, and which copies of a table go."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.model import Retention, StreamModel
from dbt.adapters.spark_streaming.stream.iceberg import maintenance
from dbt.adapters.spark_streaming.stream.iceberg.maintenance import Maintenance, count_kept_snapshots
from dbt.adapters.spark_streaming.stream.iceberg.snapshot_retention import RequiredSnapshots
from dbt.adapters.spark_streaming.stream.iceberg.table import Snapshot

NOW = 1_000_000
RETENTION = Retention(max_snapshot_age=10_000_000, max_snapshots=5, target_file_size=1)


def lineage(ages: list[int], operations: str = "", steps: str = "") -> list[Snapshot]:
    """Snapshots of so many seconds of age, newest first. Of each a letter for its operation, if it doesn't append rows
    ('e': it appends none), and a '-' if it is no step."""
    return [
        Snapshot(
            number,
            NOW - age * 1000,
            {"r": "replace", "o": "overwrite"}.get(operations[number : number + 1], "append"),
            steps[number : number + 1] != "-",
            operations[number : number + 1] != "e",
        )
        for number, age in enumerate(ages)
    ]


def kept(found: list[Snapshot], *held: int) -> int:
    return count_kept_snapshots(found, RETENTION, NOW, RequiredSnapshots(dict.fromkeys(held, "a stream")))


def test_young_ones_stay_up_to_a_number() -> None:
    assert kept(lineage([0, 5, 10, 11, 20])) == 3
    assert kept(lineage([0, 1, 2, 3, 4, 5, 6, 7])) == 5


def test_the_newest_stays() -> None:
    assert kept(lineage([50, 60, 70])) == 1


def test_the_last_step_stays() -> None:
    assert kept(lineage([50, 60, 70, 80], steps="--")) == 3


def test_what_a_stream_can_begin_with_stays() -> None:
    assert kept(lineage([50, 60, 70, 80], "rrr")) == 4
    assert kept(lineage([50, 60, 70, 80], "ooo")) == kept(lineage([50, 60, 70, 80], "orr")) == 1
    assert kept(lineage([50, 60, 70, 80], "eer")) == 4, "nobody can begin with a snapshot without rows"
    assert kept(lineage(list(range(50, 100)), "e" * 49)) == 25, "but not for ever"


def test_what_the_table_says_itself_stays() -> None:
    assert (
        count_kept_snapshots(lineage([50, 60, 70, 80]), RETENTION, NOW, RequiredSnapshots(), age=70_000) == 3
    )
    assert (
        count_kept_snapshots(lineage([50, 60, 70, 80]), RETENTION, NOW, RequiredSnapshots(), at_least=2) == 2
    )
    assert count_kept_snapshots(lineage([50, 60]), RETENTION, NOW, RequiredSnapshots(), at_least=9) == 2


def test_what_a_stream_has_not_read_stays() -> None:
    assert kept(lineage([0, 1, 50, 60, 70, 80, 90, 100]), 6, 4, 99) == 7
    assert (
        count_kept_snapshots(lineage([50, 60, 70]), RETENTION, NOW, RequiredSnapshots(whole="a stream")) == 3
    )


class Table:
    """What `Maintenance` asks of a table."""

    name = "db.t"

    def __init__(
        self,
        found: list[Snapshot],
        replaced: list[int] | None = None,
        properties: dict[str, str] | None = None,
    ) -> None:
        self._found = found
        self.replaced = replaced or []
        self._properties = properties or {}

    @property
    def snapshot_count(self) -> int:
        return len(self._found) + len(self.replaced)

    def times_of_detached_snapshots(self, lineage: list[Snapshot]) -> list[int]:
        return self.replaced

    def refresh(self) -> None:
        pass

    def lineage(self) -> list[Snapshot]:
        return self._found

    def oldest_time(self) -> int | None:
        return min([self._found[-1].made, *self.replaced]) if self._found else None

    def property(self, name: str) -> str | None:
        return self._properties.get(name)

    def expire_snapshots(self, before: int) -> None:
        self._found = [each for each in self._found if each.made >= before]
        self.replaced = [made for made in self.replaced if made >= before]


def test_who_keeps_many_snapshots_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(maintenance.logger, "warning", told.append)
    checkpoint(tmp_path, "dev.slow", {1: 80}, [1], began=0)
    model = StreamModel("m", "db.t", "db.t__state", Storage(str(tmp_path), lambda: None), ())
    table = Table(lineage(list(range(100, 300))))
    kept_small = Maintenance("table", model, table, RETENTION)
    assert kept_small.maintain_after_commit(None) == 1
    assert told == [
        "Model m: its table db.t keeps 81 snapshots, because the stream that writes dev.slow has not read these "
        "snapshots yet. Run that model, or drop it with `dbt-stream reset`. If it is no longer in the project, drop its "
        "table, and remove the rest with `dbt-stream clean --dropped --yes`."
    ]
    assert table.snapshot_count == 81


def test_a_version_that_was_replaced_is_cleaned_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(maintenance.logger, "warning", told.append)
    checkpoint(tmp_path, "dev.slow__previous_0a1b2c3d", {1: 80}, [1], began=0)
    model = StreamModel("m", "db.t", "db.t__state", Storage(str(tmp_path), lambda: None), ())
    Maintenance("table", model, Table(lineage(list(range(100, 300)))), RETENTION).maintain_after_commit(None)
    (said,) = told
    assert "because dev.slow__previous_0a1b2c3d, another version of a model, has not" in said
    assert "`dbt-stream deploy cleanup` of that model releases them" in said


def checkpoint(root: Path, name: str, planned: dict[int, int], done: list[int], began: int | None) -> None:
    folder = root / "checkpoints" / name
    for log in ("offsets", "commits", "sources/0/offsets"):
        (folder / log).mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"id": name}))
    for batch, snapshot in planned.items():
        (folder / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{offset(snapshot)}\n-")
    for batch in done:
        (folder / "commits" / str(batch)).write_text("v1\n{}")
    if began is not None:
        (folder / "sources/0/offsets/0").write_text(offset(began))


def offset(snapshot: int) -> str:
    return json.dumps({"version": 1, "snapshot_id": snapshot, "position": 1, "scan_all_files": False})


def test_a_run_that_begins_looks_at_old_snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance.time, "time", lambda: NOW / 1000)
    model = StreamModel("m", "db.t", "db.t__state", Storage(str(tmp_path), lambda: None), ())
    for ages, left in (([0, 5, 11, 12], 4), ([0, 5, 11, 25], 2), ([0, 5, 8, 25], 4)):
        table = Table(lineage(ages))
        Maintenance("table", model, table, RETENTION).maintain_after_commit(None)
        assert table.snapshot_count == left, ages
    table = Table(lineage([0, 5, 11, 25]))
    state = Maintenance("state", model, table, RETENTION, is_read=False)
    assert (state.maintain_after_commit(None), table.snapshot_count) == (0, 4)
    state.check_snapshots_next()
    assert (state.maintain_after_commit(None), table.snapshot_count) == (1, 2)


def test_copies_that_full_refreshes_leave_go_when_they_are_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance.time, "time", lambda: NOW / 1000)
    model = StreamModel("counts", "db.t", "db.t__state", Storage(str(tmp_path), lambda: None), ())

    def left(ages: list[int], replaced: list[int], own_age: int | None = None) -> tuple[int, list[int]]:
        properties = {} if own_age is None else {maintenance.OWN_AGE: str(own_age * 1000)}
        table = Table(lineage(ages), [NOW - age * 1000 for age in replaced], properties)
        Maintenance("table", model, table, RETENTION).maintain_after_commit(None)
        return len(table.lineage()), [(NOW - made) // 1000 for made in table.replaced]

    assert left([0, 1], [25, 12, 8, 5]) == (2, [8, 5]), "young ones can be read by their snapshot"
    assert left([0, 1], [19, 12, 8]) == (2, [19, 12, 8]), "a look is due where some are of twice the age"
    assert left([0, 1, 2, 3], [25, 8, 5]) == (4, []), "more than are kept in all"
    assert left([0, 1, 2, 3], [25, 18, 8, 5], own_age=20) == (4, [18, 8, 5]), (
        "the table's property retains them"
    )
    assert left([0, 1, 2, 3], [25, 18, 8, 5], own_age=6) == (4, [5]), (
        "which may be for a shorter time than max_snapshot_age"
    )


def test_a_table_made_in_the_place_of_another(tmp_path: Path) -> None:
    """bench/kill.py met it: it has the snapshots of that one, and none that it goes by."""

    class Replaced:
        name, known, snapshot_count = "lakehouse.s.counts", None, 100

        def lineage(self) -> list[Snapshot]:
            return []

        def refresh(self) -> None: ...

        def property(self, name: str) -> None: ...

        def oldest_time(self) -> float:
            return 0.0

        def summary_count(self, name: str) -> int:
            return 0

    model = StreamModel("counts", "s.counts", "s.counts__state", Storage(str(tmp_path), lambda: None), ())
    found = Maintenance("table", model, Replaced(), RETENTION, is_read=False)
    found.check_snapshots_next()
    assert found._expire_if_due() == 0
