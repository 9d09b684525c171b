"""Windows that fire several times: a new result takes back the rows of the one before."""

from __future__ import annotations

from typing import Any

from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.operators.window_changes import WindowChanges
from dbt.adapters.spark_streaming.query.sql.intervals import DAY, MINUTE
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.query.windows.emission import FINAL, Emission
from tests.planned import tree_of
from tests.query.trees import KNOWN

EARLY = Emission(first=-5 * MINUTE, update=MINUTE)


def window(kind: str, *lengths: str, **options: Any) -> str:
    return expansion.expand_window("db.s", window_arguments.make_window(kind, "ts", *lengths, **options))


def counted(rows: str) -> str:
    return f"select window_start, window_end, k, count(*) as n from {rows} group by 1, 2, 3"


def changes(rows: str, emission: Emission) -> list[WindowChanges]:
    text = f"select a.k, a.n, b.n as m from ({counted(rows)}) as a join ({counted(rows)}) as b on a.n = b.n"
    plan = tree_of(text, KNOWN, DAY, ("n", "k"), emission=emission)
    assert generate.generate_program(plan, emission, ttl=DAY).parts
    return [each for each in plan.dataflow.operators if isinstance(each, WindowChanges)]


def test_windows_that_fire_once_have_no_changes() -> None:
    assert changes(window("tumble", "1 hour"), FINAL) == []


def test_results_that_change_are_rows_that_come_and_go() -> None:
    (found,) = changes(window("tumble", "1 hour"), EARLY)
    assert (found.end, found.start, found.by) == ("window_end", None, ())
    assert found.relation.changes and found.relation.ends == "window_end"


def test_later_rows_may_move_the_bounds_of_a_session() -> None:
    (found,) = changes(window("session", "5 minutes", partition_by=["k"]), EARLY)
    assert (found.start, found.by) == ("window_start", (("k", "k"),))
    assert found.relation.ends is None
