"""Tests of the streams that a query reads."""

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.plan.operator import inputs_first
from dbt.adapters.spark_streaming.query.plan.operators.source import Source, views_below
from tests.planned import plan_of

JOINED = (
    "select a.k from (select /*+ STREAM */ * from asks) as a "
    "join (select /*+ STREAM */ * from bids) as b on a.k = b.k"
)


def test_a_stream_is_one_operator_however_often_it_is_read() -> None:
    text = JOINED.replace("bids", "asks")
    flow = plan_of(text, {"asks": RelationInfo("ts")}).dataflow
    assert [each.view for each in flow.operators if isinstance(each, Source)] == ["stream_asks"]


def test_views_below_a_join() -> None:
    root = plan_of(JOINED, {"asks": RelationInfo("ts"), "bids": RelationInfo("ts")}).dataflow.root
    assert views_below(root) == ("stream_asks", "stream_bids")


def test_only_a_changelog_keeps_rows() -> None:
    root = plan_of(
        JOINED, {"asks": RelationInfo("ts", ("k",), changes=True), "bids": RelationInfo("ts")}
    ).dataflow.root
    kept = {each.view: each.rows_never_expire(()) for each in inputs_first(root) if isinstance(each, Source)}
    assert kept == {"stream_asks": True, "stream_bids": False}
