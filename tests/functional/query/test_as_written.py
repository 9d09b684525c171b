"""SQL that can be read in two ways is read as Spark does: streams have the rows of the text itself, which nobody planned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.stream.run.runner import flush, run_stream
from tests.corpus.unwindowed import KNOWN, A, B
from tests.corpus.windows import TUMBLE
from tests.functional.query.test_queries import folder, model_of, rows
from tests.planned import plan_of
from tests.spark_rows import asks
from tests.thorough import mostly_thorough

__all__ = ["folder"]  # a fixture

QUERIES = {
    "arguments and quotes": f"""select date_trunc(if(bidder % 2 = 0, 'MINUTE', 'HOUR'), ts) as d,
        percentile(price, 0.5, cast(bidder as int) + 1) as p, count_if(concat('O', chr(39), 'Brien') = 'O''Brien') as n,
        count_if("a ""b\\"" = 'a "b"') as m from {B} group by 1""",
    "grouping sets behind keys": f"""select item, bidder, count(*) as n, grouping_id() as g from {B}
        group by item, bidder grouping sets ((item), (bidder, item), ())""",
    "a limit behind brackets": f"""select item, count(*) as n, sum(price) as s from (
        (select * from {B}) order by price desc nulls last, ts, bidder, item limit 7) as x group by item""",
    "a ranking behind brackets": f"(select item, count(*) as n from {B} group by item) order by n desc, item limit 3",
    "a limit behind a union": f"""((select item, price from {B}) union all (select item, price from {A}))
        order by price desc nulls last, item limit 5""",
    "a column that an alias hides": f"""select item, upper(item) as bidder, bidder as who, count(*) as n from {B}
        group by item, bidder""",
    "all columns of a window's rows": f"""select window_start, window_end,
        max_by(to_json(struct(*)), struct(price, ts, bidder, item)) as best from {TUMBLE}
        group by window_start, window_end""",
    "all columns of groups": f"select max(struct(*)) as m from (select item, count(*) as N from {B} group by item) as g",
}


@pytest.mark.parametrize(
    "name",
    mostly_thorough(QUERIES, ["grouping sets behind keys"]),
)
def test_streams_have_the_rows_of_the_text(spark: Any, storage_root: Path, folder: Path, name: str) -> None:
    batch = spark.sql(QUERIES[name])
    expected = rows(batch)
    assert expected
    program = generate.generate_program(plan_of(QUERIES[name], KNOWN, ask=asks(spark)))
    model = model_of(spark, storage_root, folder, program, batch, files=4)
    assert run_stream(spark, model, program).batches == 1
    flush(spark, model, program)
    assert rows(spark.table(model.target)) == expected
