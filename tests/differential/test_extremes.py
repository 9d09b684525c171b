"""MIN_BY and MAX_BY of rows that tie take the same value wherever they stand, and rankings of tables the same row, cut in
any way and in batch, on DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.generation import generate
from tests.corpus.unwindowed import KNOWN, A, B
from tests.corpus.windows import BY_ITEM, CUMULATE, SESSION, TUMBLE
from tests.differential import duck
from tests.differential.outcome import EQUAL
from tests.differential.tables import Row
from tests.differential.two_streams import PIECES, put, rows_of
from tests.planned import plan_of
from tests.thorough import mostly_thorough

RANKED = "(select label, -u as w, row_number() over (partition by label order by label) as rn from levels)"
QUERIES = {
    "groups": f"select item, max_by(bidder, price) as m, min_by(bidder, price) as l from {B} group by item",
    "filtered": f"select max_by(bidder, price) filter (where item <> 'a') as m from {B}",
    "asked for a row": f"""select a.item, a.price, (select max_by(b.bidder, b.price) from {B} as b where b.item = a.item)
        as m from {A} as a""",
    "asked for a row, by another condition": f"""select a.item, a.price, (select min_by(b.bidder, b.price) from {B} as b
        where b.item = a.item and b.price < a.price) as m from {A} as a""",
    "compared": f"""select a.item, a.price from {A} as a
        where 2 < (select max_by(b.bidder, b.price) from {B} as b where b.item = a.item)""",
    "asked by none": f"select (select max_by(bidder, price) from {B}) as m, (select count(*) from {A}) as n",
    "beside kept rows": f"""select item, max_by(bidder, price) as m, percentile(price, 0.5) as p from {B} group by item""",
    "above them": f"""select m, count(*) as n from (select item, max_by(bidder, price) as m, percentile(price, 0.5) as p
        from {B} group by item) group by m""",
    "of windows": f"""select window_start, window_end, item, max_by(bidder, price) as m from {CUMULATE}
        group by window_start, window_end, item""",
    "beside kept rows of windows": f"""select window_start, window_end, item, max_by(bidder, price) as m,
        percentile(price, 0.5) as p from {TUMBLE} group by window_start, window_end, item""",
    "beside kept rows of sessions": f"""select window_start, window_end, bidder, min_by(item, price) as m,
        percentile(price, 0.5) as p from {SESSION} group by window_start, window_end, bidder""",
    "of results of windows": f"""select window_start, window_end, max_by(item, n) as m
        from ({BY_ITEM.format("count(*)", TUMBLE)}) group by window_start, window_end""",
    "of results of windows, above an operator": f"""select m, count(*) as n from (
        select window_start, window_end, max_by(item, n) as m from ({BY_ITEM.format("count(*)", TUMBLE)})
        group by window_start, window_end) group by m""",
    "over results of windows": f"""select window_start, window_end, item, max(n) as n,
        max_by(item, max(n)) over (partition by window_start, window_end) as m
        from ({BY_ITEM.format("count(*)", TUMBLE)}) group by window_start, window_end, item""",
    "over windows": f"""select window_start, window_end, item, count(*) as n,
        min_by(item, count(*)) over (partition by window_start, window_end) as m
        from {TUMBLE} group by window_start, window_end, item""",
    "over rows of windows": f"""select window_start, window_end, item, price,
        min_by(bidder, price) over (partition by window_start, window_end, item) as m from {TUMBLE}""",
    "of a join of windows": f"""select l.window_start, l.window_end, max_by(l.bidder, r.price) as m
        from {TUMBLE} as l join {TUMBLE} as r on l.window_start = r.window_start and l.window_end = r.window_end
        group by l.window_start, l.window_end""",
    "of a table beside windows": f"""select window_start, window_end, count(*) as n, d.m from {TUMBLE}
        cross join (select max_by(name, 1) as m from dims) as d group by window_start, window_end, d.m""",
    "of a table that rows of windows ask": f"""select window_start, window_end, count(*) as n from {TUMBLE}
        where bidder < (select max_by(factor, 1) from dims) group by window_start, window_end""",
    "of a table that rows ask": f"""select item, (select max_by(name, 1) from dims) as m from {A}
        where price > (select min_by(factor, 1) from dims)""",
    "of a table that groups ask": f"""select item, count(*) as n, (select max_by(name, 1) from dims) as m from {A}
        where price > (select min_by(factor, 1) from dims) group by item""",
    "of a table that a row asks": f"""select item, (select max_by(name, 1) from dims where k = a.item) as m
        from {A} as a""",
    "of a table that results of windows ask": f"""select window_start, window_end, count(*) as n,
        (select max_by(name, 1) from dims) as m from {TUMBLE} group by window_start, window_end""",
    "of a table that joins ask": f"""select l.item, (select max_by(name, 1) from dims) as m from {A} as l
        join (select distinct item from {B}) as r on l.item = r.item""",
    "of a table beside rows": f"""select item, d.m from {A} cross join (select max_by(name, 1) as m from dims) as d""",
    "of a table beside groups": f"""select item, d.m, count(*) as n from {A}
        cross join (select max_by(name, 1) as m from dims) as d group by item, d.m""",
    "a ranked table beside rows": f"select a.item, d.label, d.w from {A} as a join {RANKED} as d on d.rn = 1",
    "a ranked table beside groups": f"""select d.w, count(*) as n from {A} as a join {RANKED} as d on d.rn = 1
        group by d.w""",
    "a ranked table beside windows": f"""select window_start, window_end, d.w, count(*) as n from {TUMBLE} as t
        join {RANKED} as d on d.rn = 1 group by window_start, window_end, d.w""",
    "a ranked table beside results of windows": f"""select t.window_end, t.item, t.n, d.w
        from ({BY_ITEM.format("count(*)", TUMBLE)}) as t join {RANKED} as d on d.rn = 1""",
}


def _tied(name: str) -> list[Row]:
    """Prices of three values."""
    return [(*row[:-1], None if row[-1] is None else row[-1] % 3) for row in rows_of(name, 90)]


@pytest.fixture(scope="module")
def laboratory() -> Iterator[duck.Laboratory]:
    made = duck.Laboratory()
    put(made, _tied)
    yield made
    made.base.close()


@pytest.mark.parametrize(
    "name",
    mostly_thorough(
        QUERIES,
        [
            "groups",
            "filtered",
            "beside kept rows",
            "compared",
            "of results of windows",
            "a ranked table beside rows",
        ],
    ),
)
def test_ties_are_decided(laboratory: duck.Laboratory, name: str) -> None:
    plan = plan_of(QUERIES[name], KNOWN)
    in_batch = whole_query.text_in_batch(QUERIES[name])
    assert "STRUCT(" in in_batch
    for cuts in (1, PIECES):
        found = laboratory.stream(in_batch, generate.generate_program(plan), cuts, timedelta(hours=1))
        assert found.kind == EQUAL, f"{found.kind} in {cuts}: {found.detail}"
