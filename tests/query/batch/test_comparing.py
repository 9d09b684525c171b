"""What of a table can be compared with a batch run, and over what that reads."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.batch import comparing
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.windows.expansion import expand_stream, expand_window
from dbt.adapters.spark_streaming.query.windows.ranges import WindowEndColumns
from dbt.adapters.spark_streaming.query.windows.windows import Window

HOUR = 3_600_000_000
TUMBLE = expand_window("`lake`.`db`.`events`", Window("tumble", "ts", HOUR, HOUR))
KNOWN = {"`lake`.`db`.`events`": RelationInfo(event_time="ts")}


def due(select: str) -> WindowEndColumns | None:
    return comparing.columns_of_final_rows(
        plan_query.plan(f"select {select} from {TUMBLE} group by window_start, window_end, page")
    )


def test_the_column_that_tells_a_window() -> None:
    assert due("window_start, window_end as until, count(*) as n") == WindowEndColumns(("until",), False)
    assert due("page, window_start, count(*) as n") is None
    rows = plan_query.plan(f"select * from {TUMBLE}", KNOWN)
    assert comparing.columns_of_final_rows(rows) is None and not comparing.has_windows(rows)


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("select e.a from `lake`.`db`.`events` as e", "SELECT e.a FROM `seen` AS e"),
        ("select events.a from `lake`.`db`.`events`", "SELECT events.a FROM `seen` AS `events`"),
        (
            "with t as (select /*+ BROADCAST(x) */ * from `Lake`.`db`.`events`) select * from t, `lake`.`db`.`x`",
            "WITH t AS (SELECT /*+ BROADCAST(x) */ * FROM `seen` AS `events`) SELECT * FROM t CROSS JOIN `lake`.`db`.`x`",
        ),
    ],
)
def test_a_view_in_the_place_of_a_table(text: str, reads: str) -> None:
    assert comparing.replace_tables_by_views(text, {"`lake`.`db`.`events`": "seen"}) == reads


def test_a_table_that_isnt_read() -> None:
    with pytest.raises(QueryError, match="doesn't read `lake`"):
        comparing.replace_tables_by_views(
            "select * from `lake`.`db`.`events`", {"`lake`.`db`.`others`": "seen"}
        )


def test_what_batch_would_tell_otherwise() -> None:
    stream = expand_stream("`lake`.`db`.`events`")
    plain = f"select a from {stream}"
    plan = plan_query.plan(plain, KNOWN)
    comparing.check_same_in_batch(plain, plan, KNOWN)
    with pytest.raises(QueryError, match="it reads NOW"):
        comparing.check_same_in_batch(f"select a, now() as seen from {stream}", plan, KNOWN)
    with pytest.raises(QueryError, match="has a unique_key"):
        comparing.check_same_in_batch(
            plain, plan, {"`lake`.`db`.`events`": RelationInfo(event_time="ts", key=("a",))}
        )
