"""Queries that rules write another way before they are planned: as a stream on DuckDB they have the rows of the query as
written, or are refused."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError
from tests.corpus.regressions import LONG, stream
from tests.differential import duck, planning, tables
from tests.differential.outcome import EQUAL
from tests.differential.planning import KNOWN
from tests.differential.tables import PIECES, Row
from tests.differential.tree import Model, Written
from tests.planned import plan_of
from tests.thorough import mostly_thorough

CLICKS, ORDERS = stream("clicks"), stream("orders")
_IN = f"c.k in (select o.k from {ORDERS} as o)"
BESIDE_TABLE = f"from {CLICKS} as c join levels as l on c.u = l.u group by"
QUERIES = {
    "a table's columns in a subquery of a select list": "select c.k, (select max(u) from levels) as m, count(*) as n "
    f"{BESIDE_TABLE} c.k",
    "a table's column that a stream has, too": "select c.u, sum(case when c.k in (select k from dims) "
    f"then 1 end) as n, max(c.k) as m {BESIDE_TABLE} c.u",
    "a subquery asks for a group": "select c.u, (select max(o.label) from levels as o where o.u = c.u) as m, count(*) as n "
    f"{BESIDE_TABLE} c.u",
    "a subquery in HAVING": f"select c.k, count(*) as n {BESIDE_TABLE} c.k having count(*) > (select min(factor) from dims)",
    "a subquery next to OVER": "select * from (select c.u, c.ts, (select max(u) from levels) as m, row_number() over "
    f"(partition by c.u order by c.ts, c.k, c.v, c.w) as rn from {CLICKS} as c join dims as d on d.k = c.k) where rn <= 2",
    "a key that an aggregate is called like": f"select max(c.v) as k, count(*) as n {BESIDE_TABLE} k",
    "QUALIFY by a column that an item is called like": f"select c.k, c.u as v from {CLICKS} as c "
    "qualify row_number() over (partition by c.k order by c.v, c.ts, c.u) = 1",
    "QUALIFY by an item in an expression": f"select k, v + u as x from {CLICKS} "
    "qualify row_number() over (partition by k order by x * -1, ts, v, u) = 1",
    "QUALIFY by a qualified column": f"select c.k, c.u from {CLICKS} as c "
    "qualify row_number() over (partition by c.k order by c.ts, c.u, c.v) <= 2 and c.v > 0",
    "QUALIFY by a qualified column next to a star": f"select c.* from {CLICKS} as c "
    "qualify row_number() over (partition by c.k order by c.ts, c.u, c.v, c.w, c.d, c.e) = 1 and c.v > 0",
    "QUALIFY by an aggregate": f"select k, count(*) as n from {CLICKS} group by k "
    "qualify row_number() over (order by max(v), k) <= 3 and max(v) > 1",
    "QUALIFY by a field": "select ts, rec.a as a from "
    f"{stream('odd')} qualify row_number() over (partition by rec.a order by ts, rec.b) = 1 and rec.b = 'a'",
    "QUALIFY by a table": f"select k, u from {CLICKS} as c "
    "qualify row_number() over (partition by k order by ts, u, v, w) <= 3 and k in (select k from dims where factor > 1)",
    "QUALIFY by a table's row of a row": f"select k, u from {CLICKS} as c "
    "qualify row_number() over (partition by k order by ts, u, v) = 1 and exists (select 1 from dims as d where d.k = c.k)",
}
_RANKED = f"row_number() over (partition by k order by ts, v) as {{}} from {stream('odd')}"
QUERIES |= {
    "a field that is called like a rank": f"select k, a from (select k, rec, {_RANKED.format('a')}) as rec "
    "where rec.rec.a <= 1",
    "groups of a field that is called like a rank's group": "select r.rec.b as b, count(if(r.rn < 3, 1, null)) as n "
    f"from (select rec, k as b, {_RANKED.format('rn')} where k = 'a') as r group by r.rec.b",
}
QUERIES["an alias next to a stream's row"] = f"""select d.name, factor + 1 as a, a * 2 as b,
  (select count(*) from {CLICKS}) as n from dims as d"""
_MOST = [
    "a field that is called like a rank",
    "a table's column that a stream has, too",
    "QUALIFY by a column that an item is called like",
]


@pytest.fixture(scope="module")
def laboratory() -> duck.Laboratory:
    return duck.Laboratory()


def _check(laboratory: duck.Laboratory, text: str) -> None:
    program = planning.planned(Model(Written(text, ()), (("state_ttl", LONG),)), ask=laboratory.ask)
    outcome = laboratory.stream(text, program, 3, timedelta(minutes=11))
    assert outcome.kind == EQUAL, f"{outcome.kind}: {outcome.detail}"


@pytest.mark.parametrize("name", mostly_thorough(QUERIES, _MOST))
def test_rows_are_those_of_the_query_as_written(laboratory: duck.Laboratory, name: str) -> None:
    laboratory.show(tables.make(3))
    _check(laboratory, QUERIES[name])


@pytest.mark.parametrize(
    "clause",
    [
        "order by r limit 3",
        "order by 1 limit 3",
        "order by r + 1 limit 3",
        "qualify row_number() over (order by r) = 1",
    ],
)
def test_rows_are_not_ordered_by_another_value_than_they_have(clause: str) -> None:
    with pytest.raises(QueryError, match=r"ordered by the item 'RAND\(\)', which is non-deterministic"):
        plan_of(f"select rand() as r, k from {CLICKS} {clause}", KNOWN)


@pytest.mark.parametrize(
    "test",
    mostly_thorough(
        [
            f"({_IN}) = false",
            f"coalesce({_IN}, c.u > 1)",
            f"({_IN}) is null",
            f"if({_IN}, false, c.u = 2) is null",
            f"({_IN}) <=> null",
        ],
        [f"({_IN}) = false"],
    ),
)
def test_a_later_null_counts_for_each_row_that_in_tests(laboratory: duck.Laboratory, test: str) -> None:
    def rows(*found: tuple[str | None, int]) -> list[Row]:
        return [(datetime(2024, 3, 4, 8, tzinfo=timezone.utc), *each, 1, None, None) for each in found]

    click = [(*each, *[None] * 5) for each in rows(("a", 1), ("b", 2), (None, 2))]
    laboratory.put("clicks", tables.CLICKS, [click, *[[]] * (PIECES - 1)])
    laboratory.put("orders", tables.ORDERS, [rows(("a", 1)), *[[]] * (PIECES - 2), rows((None, 2))])
    laboratory.tables = None
    _check(laboratory, f"select c.k, c.u from {CLICKS} as c where {test}")
