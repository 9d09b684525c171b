"""Joins with external tables, of any parts; those that the planners of window operators take are in the tests of lookups."""

from __future__ import annotations

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.plan.plan import Plan
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.sql.functions import QueryRunner
from tests.corpus.operators import FIVE, ITEMS, LAST_ROWS, NEAR_OF_FIVE
from tests.corpus.unwindowed import DAY, KNOWN, A, B
from tests.corpus.windows import window
from tests.differential.tables import Row
from tests.differential.tree import Column

NAMES = (Column("item", "string"), Column("name", "string"), Column("factor", "bigint"))
ROWS_OF_NAMES: list[Row] = [("a", "x", 1), ("a", "y", 2), ("b", "x", 3), ("zz", "n", 4)]
KINDS_OF_NAMES: list[Row] = [("x", "good", 1), ("n", "bad", 2)]
NAMED = f"(select b.ts, b.price, d.name from {LAST_ROWS} as b join names as d on d.item = b.item)"
QUERIES = {
    "below a group by over groups": f"""select d.name, sum(g.n) as n, count(*) as items from ({ITEMS}) as g
        left join names as d on d.item = g.item group by d.name""",
    "beside a join of streams": f"""select b.item, b.ts, a.ts as at, d.name from {B} as b join {A} as a
        on a.item = b.item and a.price = b.price join names as d on d.item = b.item and d.factor < 3""",
    "above windows of a left join in time": f"""select w.window_end, d.name, w.n from ({NEAR_OF_FIVE}) as w
        left join names as d on d.item = w.item""",
    "below windows of groups": f"""select window_end, name, sum(price) as total
        from {window("tumble", "5 minutes", of=NAMED)} group by window_start, window_end, name""",
    "a star of one side below windows": f"""select window_end, name, count(*) as n, sum(price) as total
        from (select w.*, d.name from {window("cumulate", "5 minutes", "20 minutes")} as w
            join names as d on d.item = w.item)
        group by window_start, window_end, name""",
    "stars of both sides below windows": f"""select window_end, name, count(distinct price) as n
        from (select d.*, w.* except (item) from {window("hop", "5 minutes", "10 minutes")} as w
            join names as d on d.item = w.item where w.price > 1) group by window_start, window_end, name""",
    "one after the other, above groups": f"""select k.name as kind, sum(g.n) as n from ({ITEMS}) as g
        join names as d on d.item = g.item left join kinds as k on k.item = d.name group by k.name""",
    "beside exists": f"""select b.item, b.ts, d.name from {B} as b left join names as d on d.item = b.item
        where exists (select 1 from {A} as a where a.item = b.item and a.price > b.price)""",
    "in what exists": f"""select b.item, b.ts from {B} as b where exists (select 1 from (select a.price, d.name from {A} as a
        join names as d on d.item = a.item) as n where n.price = b.price and n.name = 'x')""",
    "within a union": f"""select name, count(*) as n from (select d.name, b.price from {B} as b join names as d
        on d.item = b.item union select d.name, g.n from ({ITEMS}) as g join names as d on d.item = g.item) group by name""",
    "windows, and groups of them": f"""select d.name, max(w.n) as most, count(*) as n from ({FIVE}) as w
        left join names as d on d.item = w.item group by d.name""",
    "below windows, and groups of them": f"""select name, max(n) as most from (select window_end, d.name, count(*) as n
        from {window("tumble", "5 minutes")} as w join names as d on d.item = w.item
        group by window_start, window_end, d.name) group by name""",
}


def planned(name: str, ask: QueryRunner | None = None) -> Plan:
    known = {**KNOWN, "names": RelationInfo(lookup=True), "kinds": RelationInfo(lookup=True)}
    plan = plan_query.plan(QUERIES[name], known, 30 * DAY, ask=ask)
    assert plan.lookups
    return plan
