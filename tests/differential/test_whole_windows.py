"""What combines rows of one window combines all of them, and nothing else, on DuckDB: a stream has batch's rows."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.generation import generate
from tests.corpus.unwindowed import KNOWN, A, B
from tests.corpus.windows import BY_ITEM, CUMULATE, TUMBLE
from tests.differential import duck
from tests.differential.outcome import EQUAL
from tests.differential.test_composed import laboratory
from tests.planned import plan_of
from tests.thorough import mostly_thorough

__all__ = ["laboratory"]  # a fixture

ALL = BY_ITEM.format("count(*)", TUMBLE)
LOW = BY_ITEM.format("count(*)", f"(select * from {TUMBLE} where price < 15)")
HIGH = BY_ITEM.format("count(*)", f"(select * from {TUMBLE} where price > 75)")
SAME = "{0}.window_end = {1}.window_end and {0}.item = {1}.item"
AB, AC = SAME.format("a", "b"), SAME.format("a", "c")
RANKED = f"""(select item as k, bidder as v, row_number() over (partition by item order by ts, price) as rn,
    lag(price) over (partition by item order by price, ts) as before from {B})"""
PAIRED = f"""(select b.item as k, b.bidder as v, row_number() over (partition by b.item order by b.price, b.bidder) as rn
    from {B} as b left join {A} as a on a.item = b.item and a.price = b.price)"""
FIRST_AND_ALL = """select 'first' as what, k, v from {0} where rn = 1
    union all select distinct 'all', k, v from {0} where rn <= 5"""

QUERIES = {
    "the one or the other of two that may be missing": f"""select coalesce(b.window_end, c.window_end) as at, count(*) as n
        from ({ALL}) as a left join ({LOW}) as b on {AB} left join ({HIGH}) as c on {AC}
        group by coalesce(b.window_end, c.window_end)""",
    "two of three that may be missing": f"""select coalesce(a.window_end, b.window_end) as at, count(*) as n
        from ({LOW}) as a full join ({HIGH}) as b on {AB} full join ({ALL}) as c on {AC}
        group by coalesce(a.window_end, b.window_end)""",
    "a merged column that may be missing": f"""select window_end, count(*) as n from ({LOW}) as a
        left join ({HIGH}) as b using (window_end, item)
        right join (select window_end as at, item as of from ({ALL})) as c on c.at = a.window_end and c.of = a.item
        group by window_end""",
    "columns at other places behind a star": f"""select window_end, count(*) as n from (select * except (n) from ({ALL})
        union all select window_end, window_start, item from ({ALL})) group by window_end""",
    "columns at other places behind two stars": f"""select window_end, count(*) as n
        from (select * except (n) from ({ALL}) union all select * except (n) from (
        select window_end, window_start, item, count(*) as n from {CUMULATE} group by window_start, window_end, item))
        group by window_end""",
    "a ranking of which more is asked for, too": FIRST_AND_ALL.format(RANKED),
    "a ranking of changing rows of which more is asked for, too": FIRST_AND_ALL.format(PAIRED),
}


@pytest.mark.parametrize("name", mostly_thorough([*QUERIES], [*QUERIES][::2]))
def test_a_stream_has_the_rows_of_batch(laboratory: duck.Laboratory, name: str) -> None:
    plan = plan_of(QUERIES[name], KNOWN)
    outcome = laboratory.stream(
        whole_query.batch_sql(plan), generate.generate_program(plan), 6, delay=timedelta(hours=1)
    )
    assert outcome.kind == EQUAL, f"{outcome.kind}: {outcome.detail}"


def test_all_windows_that_may_be_missing_are_one_that_is_there() -> None:
    both = "coalesce(a.window_end, b.window_end, c.window_end)"
    text = f"""select {both} as at, count(*) as n from ({LOW}) as a full join ({HIGH}) as b on {AB}
        full join ({ALL}) as c on {AC} group by {both}"""
    assert plan_of(text, KNOWN).dataflow.windows is not None
