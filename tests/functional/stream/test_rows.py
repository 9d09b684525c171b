"""What a micro-batch keeps stays kept until its end, whatever views are shown meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.stream.common.session import register_view, working_session
from dbt.adapters.spark_streaming.stream.sources.rows import BatchCache

from . import programs
from .harness import CUMULATE, Stream
from .programs import SECOND


def is_kept(rows: Any) -> bool:
    return bool(rows.storageLevel.useMemory)


def test_a_view_of_another_session_leaves_kept_rows_alone(spark: Any) -> None:
    one, other = working_session(spark), working_session(spark)
    register_view(one.range(3), "v")
    register_view(other.range(5), "v")
    cache = BatchCache()
    rows = one.sql("select id + 1 as n from v")
    cache.persist(rows)
    register_view(other.range(7), "v")
    assert is_kept(rows)
    register_view(one.range(9), "v")
    assert is_kept(rows)
    assert (one.table("v").count(), other.table("v").count()) == (9, 7)
    cache.release()
    assert not is_kept(rows)


def test_a_micro_batch_holds_its_rows_to_the_end(
    spark: Any, storage_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[bool] = []
    release = BatchCache.release

    def observed(self: BatchCache) -> None:
        held.extend(map(is_kept, self._rows))
        release(self)

    monkeypatch.setattr(BatchCache, "release", observed)
    stream = Stream(spark, storage_root, programs.cumulate(SECOND, 3 * SECOND), CUMULATE)
    stream.add((0, "a", 1), (6_100, "a", 2))
    stream.run()
    assert held
    assert all(held)


def test_no_session_is_copied_for_what_is_kept(spark: Any) -> None:
    # A copy would have the views of its time, and they what was kept before: all micro-batches since the first.
    session = working_session(spark)
    rows = session.range(3)
    cache = BatchCache()
    cache.persist(rows)
    cached = rows._jdf.queryExecution().withCachedData().cacheBuilder().cachedPlan()
    assert cached.session().equals(session._jsparkSession)
    cache.release()
