"""A model's text: what is taken out of it, and what is known of it before it is planned."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.frontend import hints
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.normalize import event_clock
from dbt.adapters.spark_streaming.query.planner.read_text import ReadText, parse_text, read_text
from dbt.adapters.spark_streaming.query.sql.dialect import sql
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments

KNOWN = {"raw.bid": RelationInfo("ts"), "raw.item": RelationInfo(lookup=True)}
TUMBLE = str(expansion.expand_window("raw.bid", window_arguments.make_window("tumble", "ts", "10 minutes")))
STREAM = expansion.expand_stream("raw.bid")


def read(text: str, watermark: bool = True) -> ReadText:
    return read_text(text, parse_text(text), KNOWN, None, watermark)


def test_settings_are_taken_out_of_the_text() -> None:
    found = read(
        f"select /*+ ENUM_DISTINCT, MINI_BATCH('1 minute') */ k, count(distinct v) as n from {STREAM} group by k"
    )
    assert found.hint is not None and "ENUM_DISTINCT" not in sql(found.tree)
    assert found.rewrites.asked == {"enum_distinct": None}


def test_streams_and_lookup_tables_are_read_by_their_views() -> None:
    found = read(f"select b.k, i.name from {STREAM} as b join raw.item as i on i.k = b.k")
    views = {each.view for each in found.streams.streams.values()} | {
        each.view for each in found.lookup_tables
    }
    assert len(views) == 2
    assert not [each for each in found.tree.find_all(hints.exp.Table) if each.name not in views]


@pytest.mark.parametrize("watermark", [True, False])
def test_a_clock_over_windows_is_the_watermark_in_a_stream(watermark: bool) -> None:
    found = read(
        f"select window_end, count(*) as n from (select * from {TUMBLE} where ts > current_timestamp() - interval 1 day) "
        "group by window_start, window_end",
        watermark,
    )
    assert event_clock.filters_on_arrival(found.tree) is watermark


def test_a_text_that_does_not_parse_is_refused() -> None:
    with pytest.raises(QueryError):
        parse_text("select from where")


def test_columns_without_a_name_are_refused_where_columns_are_generated() -> None:
    with pytest.raises(QueryError, match="has no name"):
        read(f"select 1 as one, 1 + (select max(v) from {STREAM})").check_names()
