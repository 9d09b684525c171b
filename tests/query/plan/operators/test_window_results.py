"""Windows that nothing stands above emit their results themselves."""

from __future__ import annotations

from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from tests.planned import tree_of
from tests.query.auctions import AUCTIONS
from tests.query.trees import GROUPS, KNOWN, per_window


def test_windows_put_themselves_out_where_nothing_stands_above_them() -> None:
    assert plan_query.plan(per_window("5 minutes"), KNOWN).dataflow.windows is not None
    assert plan_query.plan(GROUPS, KNOWN, DAY).dataflow.windows is None
    above = f"select n, count(*) as c from ({per_window('5 minutes')}) group by n"
    assert plan_query.plan(above, KNOWN, DAY).dataflow.windows is None


def test_windows_over_what_changes_do_not_put_themselves_out() -> None:
    over = expansion.expand_window("raw.best", window_arguments.make_window("tumble", "ts", "1 hour"))
    text = f"select window_start, window_end, count(*) as n from {over} group by 1, 2"
    assert plan_query.plan(text, AUCTIONS).dataflow.windows is None
    assert plan_query.plan(text.replace("best", "bid"), AUCTIONS).dataflow.windows is not None


def test_a_row_is_identified_by_its_window_and_group_whether_or_not_it_has_more() -> None:
    over = expansion.expand_window("raw.bid", window_arguments.make_window("tumble", "ts", "1 hour"))
    for items in ("window_end, x", "window_end, x, count(*) as n"):
        (above,) = [
            each
            for each in tree_of(
                f"select {items} from {over} group by window_start, window_end, x"
            ).dataflow.operators
            if each.name.startswith("windows_")
        ]
        assert above.relation.keys == (frozenset({"window_end", "x"}),)
