"""Queries over streams whose columns are called as generated SQL calls its own, all of them at once."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import dbt.adapters.spark_streaming.query as package
from dbt.adapters.spark_streaming.query.sql.names import is_marked

from .tables import Row
from .tree import TIME, Column
from .zones import windows

_NAME = re.compile(r"(?<!\w)__[a-z][a-z_]*(?:\d+)?(?!\w|\()")


def _texts() -> Iterator[str]:
    """What stands in the code's texts, but for those that say what it does."""
    for path in Path(str(package.__file__)).parent.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
                yield node.value


def _names() -> list[str]:
    found = {
        name
        for text in _texts()
        for name in _NAME.findall(text)
        if not name.endswith("__") and not is_marked(name)
    }
    # Some are numbered.
    return sorted({f"{name}0" if name.endswith("_") else name for name in found} | {"_w"})


NAMES = _names()
"""The names of generated SQL, as the code has them."""
COLUMNS = (
    Column("ts", TIME),
    Column("item", "string"),
    Column("n", "bigint"),
    *(Column(name, "bigint") for name in NAMES),
)
KEYS = ", ".join(f"`{name}`" for name in NAMES)
OF_A = ", ".join(f"a.`{name}`" for name in NAMES)
SAME = " and ".join(f"a.`{name}` = b.`{name}`" for name in NAMES)
LEAST = ", ".join(f"min(`{name}`) as `{name}`" for name in NAMES)
FIRST, LAST = NAMES[0], NAMES[-1]
S, T = (f"(select /*+ STREAM */ * from {name})" for name in ("bid", "ask"))
GROUPS = f"(select {KEYS}, item, count(*) as c, sum(n) as s, max(n) as m from {S} as x group by {KEYS}, item)"
WINDOWS = windows("tumble", "10 minutes")
OF_WINDOWS = f"""(select window_start, window_end, {KEYS}, count(*) as c, count(distinct n) as d from {WINDOWS}
  group by window_start, window_end, {KEYS})"""

WITHOUT_WINDOWS = {
    "groups": f"select {KEYS}, count(*) as c, sum(n) as s, count(distinct n) as d from {S} as x group by {KEYS}",
    "groups by others": f"select item, count(*) as c, max(n) as m from {S} as x group by item",
    "aggregates": f"select item, {LEAST} from {S} as x group by item",
    "groups of groups": f"select {KEYS}, sum(c) as c, max(s) as s from {GROUPS} group by {KEYS}",
    "aggregates of aggregates": f"""select item, {LEAST} from (select item, n, {LEAST} from {S} as x group by item, n)
      group by item""",
    "first rows": f"""select {KEYS}, n from (select *, row_number() over (partition by {KEYS} order by ts) as rn
      from {S} as x) where rn = 1""",
    "last rows": f"""select * from (select {KEYS}, n, ts, row_number() over (partition by {KEYS} order by ts desc, n) as rn
      from {S} as x) where rn = 1""",
    "a ranking in their order": f"""select * from (select item, n, row_number() over (
      partition by item order by {KEYS}, n, ts) as rn from {S} as x) where rn <= 2""",
    "a ranking that is called so": f"""select * from (select item, n, row_number() over (
      partition by item order by n, ts) as {FIRST} from {S} as x) where {FIRST} <= 2""",
    "a ranking of groups": f"""select {KEYS}, item, c, rn from (select *, row_number() over (
      partition by {KEYS} order by c desc, item) as rn from {GROUPS}) where rn <= 2""",
    "QUALIFY": f"select * from {S} as x qualify row_number() over (partition by item order by n, ts) <= 2",
    "LIMIT": f"select * from {S} as x order by n, ts, item limit 3",
    "a join": f"select {OF_A}, a.n, b.n as m from {S} as a join {T} as b on {SAME} and a.n = b.n",
    "a star of a join": f"select a.*, b.n as m from {S} as a join {T} as b on a.item = b.item and a.n = b.n",
    "an outer join": f"select {OF_A}, a.n, b.n as m from {S} as a left join {T} as b on {SAME} and a.n = b.n and b.n > 1",
    "an outer join in time": f"""select {OF_A}, a.n, b.n as m from {S} as a left join {T} as b
      on {SAME} and b.ts between a.ts and a.ts + interval 1 minute""",
    "EXISTS": f"select {KEYS}, n, ts from {S} as a where exists (select 1 from {T} as b where {SAME} and b.n > a.n)",
    "a query in the select list": f"select {KEYS}, n, ts, (select max(n) from {T} as b) as m from {S} as a",
    "a query in an aggregate": f"select {KEYS}, sum(n - (select max(n) from {T} as b)) as m from {S} as a group by {KEYS}",
    "EXCEPT": f"select {KEYS}, n from {S} as a except select {KEYS}, n from {T} as b where n > 1",
    "DISTINCT": f"select distinct {KEYS}, n from {S} as a",
    "LAG": f"select {KEYS}, n, ts, lag(n) over (partition by {KEYS} order by ts) as l from {S} as a",
    "LEAD": f"select {KEYS}, n, ts, lead(n) over (partition by {KEYS} order by ts) as l from {S} as a",
    "a median of groups": f"select {KEYS}, percentile(s, 0.5) as p from {GROUPS} as a group by {KEYS}",
    "groups of windows": f"select {KEYS}, sum(c) as c from {OF_WINDOWS} group by {KEYS}",
    "WITH": f"with `{FIRST}` as (select * from {GROUPS}) select `{FIRST}`.* from `{FIRST}` where `{FIRST}`.`{LAST}` > 0",
}
WITH_WINDOWS = {
    "a tumble": OF_WINDOWS,
    "a median of windows": f"""select window_start, window_end, {KEYS}, percentile(n, 0.5) as p from {WINDOWS}
      group by window_start, window_end, {KEYS}""",
    "a cumulate": f"""select window_start, window_end, {KEYS}, count(*) as c, count(distinct n) as d
      from {windows("cumulate", "10 minutes", "1 hour")} group by window_start, window_end, {KEYS}""",
    "sessions": f"""select window_start, window_end, item, {LEAST}
      from {windows("session", "10 minutes", partition_by=["item"])} group by window_start, window_end, item""",
    "a ranking of windows": f"""select * from (select *, row_number() over (
      partition by window_start, window_end, {KEYS} order by n, ts, item) as rn from {WINDOWS}) where rn <= 2""",
}
QUERIES = {
    **WITHOUT_WINDOWS,
    **{name: text.strip("()") if text == OF_WINDOWS else text for name, text in WITH_WINDOWS.items()},
}


def pieces(shift: int) -> list[list[Row]]:
    """The rows of a stream in two pieces; all that is called so has one value."""
    begin = datetime(2024, 3, 4, 8)
    rows: list[Row] = []
    for place, item in enumerate("xyxzxyzx" * 3):
        number = (place + shift) % 3
        at = begin + timedelta(minutes=(place * 7 + shift) % 60)
        rows.append((at, item, number, *((number * 7 + at_name) for at_name in range(len(NAMES)))))
    return [rows[::2], rows[1::2]]
