"""Queries below others with columns of one name, and stars that stand for columns by their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.stream.run.runner import flush, run_stream
from tests.corpus.operators import FIVE, ITEMS, SAME_COLUMNS, TEN
from tests.corpus.unwindowed import DAY, GROUPS, KNOWN, A, B
from tests.corpus.windows import window
from tests.functional.query.test_queries import folder, model_of, rows
from tests.functional.quick import many_rows
from tests.planned import plan_of
from tests.spark_rows import asks
from tests.thorough import mostly_thorough

__all__ = ["folder", "many_rows"]  # fixtures


@pytest.fixture(autouse=True, scope="module")
def few_rows() -> None:
    """What is set for the others isn't here, where `many_rows` is."""


BOTH = f"{B} as b join {A} as a on a.item = b.item and a.price = b.price"
RANKED = "row_number() over (partition by b.bidder order by b.price desc, b.ts, b.item, a.ts) as rn"
QUERIES = {
    "a ranking": f"select n, rn from (select *, 1 as n, {RANKED} from {BOTH}) where rn <= 2",
    "a ranking with a view": f"""select n, rn from (select *, each as n, {RANKED} from {BOTH}
        lateral view explode(array(1)) as each) where rn <= 2""",
    "a percentile": f"""select n, percentile(x, 0.5) as p from (select *, b.price % 3 as n, a.price as x from {BOTH})
        group by n""",
    "a ranking of groups": f"""select o, m, rn from (select *, x.n as o, y.n as m, row_number() over (partition by x.item
        order by x.n desc, x.bidder) as rn from ({GROUPS}) as x join ({ITEMS}) as y on x.item = y.item) where rn <= 2""",
    "windows": f"""select window_end, count(*) as n, percentile(q, 0.5) as p
        from {window("tumble", "5 minutes", of=SAME_COLUMNS)} group by window_start, window_end""",
    "joined windows": f"""select o, rn from (select *, w.n as o, row_number() over (partition by w.item order by w.n desc,
        w.window_end) as rn from ({FIVE}) as w join ({TEN}) as v on w.window_end = v.window_end and w.item = v.item)
        where rn <= 2""",
    "lag": f"""select t, l from (select *, b.ts as t, lag(b.price) over (partition by b.bidder order by b.ts, b.item,
        b.price) as l from {B} as b join (select item, max(price) as price from {A} group by item) as g
        on g.item = b.item)""",
    "different rows": f"select n, t from (select distinct *, b.price as n, b.ts as t from {BOTH})",
    "using, and another join": f"""select n, count(*) as c from (select *, 1 as n from {B} as b
        join (select item, max(price) as most from {A} group by item) as a using (item)
        join (select item, n % 3 as r from ({ITEMS})) as d on b.bidder % 3 = d.r) group by n""",
    "full join using": f"""select m, o, p from (select *, coalesce(x.n, 0) as m, y.n as o, item as p from ({ITEMS}) as x
        full join (select item, count(*) as n from {A} group by item) as y using (item))""",
    "beside a star": f"""select rn, bidder, price from (select *, upper(item) as item, row_number() over (
        partition by bidder order by price, ts, item) as rn from {B}) where rn <= 2""",
    "below a join": f"""select x.bidder, y.n from (select *, price + 1 as price from {B}) as x
        join ({ITEMS}) as y on x.item = y.item""",
    "without a name": f"""select x.item, y.n from (select item, price + 1, price + 1 from {B}) as x
        join ({ITEMS}) as y using (item)""",
    "result without names": f"""select item, count(*), sum(b.price) + 1, count(distinct bidder), max(price)
        from {B} as b group by item""",
    "windows without names": f"""select window_start, window_end, item, count(*), sum(price) * 2 - min(price), avg(price)
        from {window("tumble", "5 minutes")} group by window_start, window_end, item""",
    "group by all": f"select *, count(*) as n from (select item, bidder from {B}) group by all",
    "group by all below a window": f"""select window_end, count(*) as n from {
        window("tumble", "5 minutes", of=f"(select *, count(*) as m from {B} group by all)")
    } group by window_start, window_end""",
    "in": f"select item, bidder, price from {B} where price in (select * except (ts, item) from {A})",
}  # fmt: skip
_IN_CI: set[str] = set()


@pytest.mark.parametrize("name", mostly_thorough(QUERIES, _IN_CI))
def test_a_stream_has_the_rows_of_batch(spark: Any, storage_root: Path, folder: Path, name: str) -> None:
    expected = rows(spark.sql(QUERIES[name]))
    assert expected
    plan = plan_of(QUERIES[name], KNOWN, 30 * DAY, asks(spark))
    batch = spark.sql(whole_query.batch_sql(plan))
    assert rows(batch) == expected
    assert batch.columns == spark.sql(QUERIES[name]).columns
    program = generate.generate_program(plan, ttl=30 * DAY)
    model = model_of(
        spark, storage_root, folder, program, batch, changelog=program.upsert is not None, files=1
    )
    run_stream(spark, model, program)
    flush(spark, model, program)
    assert rows(spark.table(model.target)) == expected
