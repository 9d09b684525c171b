"""Results of streams beside tables that don't say which of their rows belongs to which result: after each micro-batch all
rows of batch are there, on DuckDB."""

from __future__ import annotations

import pytest

from tests.corpus.unwindowed import A, B
from tests.differential import duck
from tests.differential.outcome import compare
from tests.differential.test_no_rows import COUNT, after_each
from tests.thorough import mostly_thorough

TOTAL = f"({COUNT})"
GROUPS = f"(select item, count(*) as n from {B} group by item)"
TABLES = {
    "crossed": f"select t.x, s.n from t cross join {TOTAL} as s",
    "by a comma": f"select t.x, s.n from t, {TOTAL} as s where t.x <= s.n",
    "the total first": f"select t.x, s.n from {TOTAL} as s join t on true",
    "the total left": f"select s.n, t.x from {TOTAL} as s left join t on t.x > s.n",
    "left on true": f"select t.x, s.n from t left join {TOTAL} as s on true",
    "left on 1 = 1": f"select t.x, s.n from t left join {TOTAL} as s on 1 = 1",
    "of rows that are equal": f"select t.name, s.n from t cross join {TOTAL} as s",
    "without a column of the table": f"select s.n from t cross join {TOTAL} as s",
    "all columns": f"select * from t cross join {TOTAL} as s",
    "a table twice": f"select a.x, b.x as y, s.n from t as a cross join t as b cross join {TOTAL} as s",
    "on equal columns": f"select t.x, t.name, s.n from {TOTAL} as s left join t on t.x = s.n",
    "having": f"select t.x, s.n from t cross join ({COUNT} having count(*) > 3) as s",
    "a filter on the total": f"select t.x, s.n from t cross join (select * from {TOTAL} where n > 2) as s",
    "kept rows": f"select t.x, s.p from t cross join (select percentile(price, 0.5) as p from {B}) as s",
    "values": f"select v.x, s.n from {TOTAL} as s cross join (values (1), (2)) as v(x)",
    "scalar": f"select x, (select count(*) from {B}) as n from t where x > 1",
    "scalars": f"select t.*, (select count(*) from {B}) + (select max(price) from {A}) as n from t",
    "scalar in a condition": f"select x from t where x > (select count(*) from {B})",
    "scalar twice": f"select x, (select count(*) from {B}) as n from t where x < (select count(*) from {B})",
    "exists": f"select x from t where exists (select 1 from {B})",
    "the first": f"""select t.x, s.item from t cross join (select * from (select item, row_number() over (
        order by price desc, item) as rn from {B}) where rn <= 1) as s""",
    "groups": f"select g.item, g.n, t.x from {GROUPS} as g cross join t",
    "groups by a comma": f"select g.item, g.n, t.x from {GROUPS} as g, t where t.x <> g.n",
    "groups on less": f"select g.item, g.n, t.x from {GROUPS} as g left join t on t.x <= g.n",
    "groups with a table's total": f"""select g.item, g.n, d.m from {GROUPS} as g
        cross join (select max(x) as m from t) as d""",
    "groups with a table's groups": f"""select g.item, g.n, d.x from {GROUPS} as g
        join (select name, max(x) as x from t group by name) as d on d.name = g.item""",
    "distinct": f"select r.item, t.x from (select distinct item from {B}) as r cross join t",
    "a ranking": f"""select r.item, r.n, t.x from (select item, n from {GROUPS} order by n desc, item limit 2) as r
        cross join t""",
}


_IN_CI = ["left on true", "having", "exists"]


@pytest.mark.parametrize("name", mostly_thorough(TABLES, _IN_CI))
def test_each_micro_batch_leaves_what_batch_has(name: str) -> None:
    laboratory = duck.Laboratory()
    rows = "values (1, 'a'), (2, 'b'), (3, 'zz'), (4, 'a'), (4, 'a'), (5, null)"
    laboratory.base.execute(f"create table t as select * from ({rows}) as t(x, name)")
    found, expected = after_each(laboratory, TABLES[name])
    assert any(each.total() for each in found)
    for number, (has, wants) in enumerate(zip(found, expected, strict=False)):
        assert not compare(wants, has), f"after {number}: {compare(wants, has)}"
