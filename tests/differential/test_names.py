"""Columns may be called what the generated SQL calls its own."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from dbt.adapters.spark_streaming.query.windows import window_arguments
from dbt.adapters.spark_streaming.query.windows.expansion import expand_window
from tests.differential import own_names
from tests.differential.duck import Laboratory, Streamed, rows_of, translated
from tests.differential.outcome import EQUAL, compare
from tests.differential.tree import TIME, Column, Model, Written
from tests.differential.zones import windows
from tests.planned import plan_of
from tests.thorough import mostly_thorough

COLUMNS = (Column("ts", TIME), Column("item", "varchar"), Column("n", "bigint"))
STREAM = "(select /*+ STREAM */ ts, item, n, item as {name} from bid)"
QUERIES = {
    "first rows": "select {name}, n from (select *, row_number() over (partition by {name} order by ts) as rn "
    f"from {STREAM}) where rn = 1",
    "leaders": "select {name}, n, c, rn from (select *, row_number() over (partition by {name} order by c desc, n) as rn "
    f"from (select {{name}}, n, count(*) as c from {STREAM} group by {{name}}, n)) where rn <= 2",
    "sessions": "select window_start, {name}, count(*) as c, count(distinct n) as d "
    f"from (select *, item as {{name}} from {windows('session', '10 minutes', partition_by=['item'])}) "
    "group by window_start, window_end, item, {name}",
    "steps": "select window_end, {name}, count(*) as c, count(distinct n) as d "
    f"from (select *, item as {{name}} from {windows('cumulate', '10 minutes', '1 hour')}) "
    "group by window_start, window_end, {name}",
}
NAMES = (
    *("place", "bucket_place", "member", "members", "last", "ahead", "is_last", "due", "fresh"),
    *("step", "part", "since", "until", "session", "row", "known"),
)


@pytest.mark.parametrize("query", mostly_thorough(QUERIES, []))
def test_any_name(query: str) -> None:
    begin = datetime(2024, 3, 4, 8)
    cuts = [
        [
            (begin.replace(minute=minute), item, minute % 3)
            for minute, item in enumerate("xyxzxyzx" * 5)
            if minute % 2 == odd
        ]
        for odd in (0, 1)
    ]
    laboratory = Laboratory()
    laboratory.put("bid", COLUMNS, cuts)
    for name in [
        *NAMES,
        "place",
        "bucket_place",
        "member",
        "members",
        "last",
        "ahead",
        "is_last",
        "due",
        "fresh",
    ]:
        text = QUERIES[query].format(name=name)
        ttl = DAY if query in ("first rows", "leaders") else None
        program = generate.generate_program(plan_query.plan(text, {"bid": RelationInfo("ts")}, ttl), ttl=ttl)
        listed = [item.alias_or_name for item in plan_query.parse(text).expressions]
        columns = tuple(Column(each, "bigint") for each in listed)
        streamed = Streamed(
            Model(Written(text, columns)), program, laboratory.base.cursor(), True, delay=3600 * 10**6
        )
        for number in range(len(cuts)):
            streamed.take((number, number + 1))
        streamed.flush()
        expected = rows_of(laboratory.base.cursor().execute(translated(text)).fetchall())
        assert not compare(expected, streamed.rows()), name


@pytest.mark.parametrize("query", mostly_thorough(own_names.QUERIES, ["a ranking that is called so"]))
def test_columns_that_are_called_as_those_of_generated_sql(query: str) -> None:
    laboratory = Laboratory()
    for name, shift in (("bid", 0), ("ask", 5)):
        laboratory.put(name, own_names.COLUMNS, own_names.pieces(shift))
    text, ttl = own_names.QUERIES[query], 400 * DAY if query in own_names.WITHOUT_WINDOWS else None
    known = RelationInfo("ts", columns=tuple(own_names.NAMES))
    program = generate.generate_program(plan_query.plan(text, {"bid": known, "ask": known}, ttl), ttl=ttl)
    found = laboratory.base.cursor().execute(translated(text))
    columns = tuple(Column(each[0], "") for each in found.description)
    expected = rows_of(found.fetchall())
    streamed = Streamed(
        Model(Written(text, columns)), program, laboratory.base.cursor(), True, delay=3600 * 10**6
    )
    for number in range(2):
        streamed.take((number, number + 1))
    streamed.flush()
    assert not compare(expected, streamed.rows())


ODD = (
    Column("my time", TIME),
    Column("Odd name", "varchar"),
    Column("a.b", "varchar"),
    Column("n", "bigint"),
)
_BY_ODD = "window_start, window_end, `Odd name`, `a.b`"


@pytest.mark.parametrize("kind", ["session", "dynamic_cumulate"])
def test_sessions_of_columns_that_are_written_in_quotes(kind: str) -> None:
    begin = datetime(2024, 3, 4, 8)
    rows = [
        (begin.replace(minute=at), item, "y" if at % 5 else None, at % 3)
        for at, item in enumerate("xyxzxyzx" * 5)
    ]
    laboratory = Laboratory()
    laboratory.put("odd", ODD, [rows[:20], rows[20:]])
    window = window_arguments.make_window(
        kind, "`my time`", *(["1 minute"] if kind != "session" else []), "3 minutes",
        partition_by=["`Odd name`", "`a.b`"],
    )  # fmt: skip
    text = f"select {_BY_ODD}, count(*) as c, count(distinct n) as d from {expand_window('odd', window)} group by {_BY_ODD}"
    plan = plan_of(text, {"odd": RelationInfo("my time")})
    outcome = laboratory.stream(text, generate.generate_program(plan), 2, timedelta(hours=1))
    assert outcome.kind == EQUAL, outcome.detail


PLAIN = (Column("ts", TIME), Column("item", "varchar"), Column("n", "bigint"))
KEYED = (Column("ts", TIME), Column("my key", "varchar"), Column("item", "varchar"), Column("n.o", "bigint"))
P, K = ("(select /*+ STREAM */ * from plain)", "(select /*+ STREAM */ * from keyed)")
AMONG_OTHERS = {
    "NATURAL": f"select p.n, k.`n.o` from (select item, n from {P}) as p natural join {K} as k",
    "USING with the second relation": f"""select p.n, `my key` as k, l.item from {P} as p
        full join (select item as i, `my key` from {K} where `my key` = 'a') as k on k.i = p.item
        full join {K} as l using (`my key`)""",
    "EXISTS": f"select item, n from {P} as p where exists (select 1 from {K} where item = p.item)",
    "a count of equal rows": f"select item, n, (select count(*) from {K} where item = p.item) as c from {P} as p",
    "a struct of all columns": f"""select s.`my key` as k, s.item as item, count(*) as c
        from (select struct(*) as s from {K} as k) group by s.`my key`, s.item""",
}


@pytest.mark.parametrize("query", sorted(AMONG_OTHERS))
def test_streams_with_columns_whose_names_need_quotes(query: str) -> None:
    """Spark prints these names without quotes."""
    begin, laboratory = datetime(2024, 3, 4, 8), Laboratory()
    plain = [(begin.replace(minute=at), "xyz"[at % 3], at) for at in range(6)]
    keyed = [(begin.replace(minute=at), "ab"[at % 2], "xxw"[at], at) for at in range(3)]
    laboratory.put("plain", PLAIN, [plain[:4], plain[4:]])
    laboratory.put("keyed", KEYED, [keyed[1:], keyed[:1]])
    text, known = AMONG_OTHERS[query], {"plain": RelationInfo("ts"), "keyed": RelationInfo("ts")}
    plan = plan_query.plan(text, known, 400 * DAY, ask=laboratory.ask)
    outcome = laboratory.stream(text, generate.generate_program(plan, ttl=400 * DAY), 2, timedelta(hours=1))
    assert outcome.kind == EQUAL, outcome.detail
