"""The rewrites in streams: what they change of a plan, what is said of them, and what is refused."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.aggregates.model import (
    Enumerated,
    GroupAggregateSpec,
    WindowAggregateSpec,
)
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.operators.top_n import TopN
from dbt.adapters.spark_streaming.query.plan.plan import Plan
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.program import Step
from dbt.adapters.spark_streaming.query.rewrites import stream_rewrites
from dbt.adapters.spark_streaming.query.rewrites.stream_rewrites import Rewrites
from dbt.adapters.spark_streaming.query.sql.dialect import parse
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from tests.planned import plan_of, signature_of

KNOWN = {"raw.view": RelationInfo("ts"), "raw.page": RelationInfo("ts", ("page",))}
VIEWS = "(select /*+ STREAM */ * from raw.view)"
COUNTS = "count(*) as n, count(distinct visitor) as visitors"
FEW = "channel in ('web', 'app')"


def over(
    kind: str, *lengths: str, select: str = COUNTS, keys: str = "city, channel", where: str = FEW
) -> str:
    window = expansion.expand_window("raw.view", window_arguments.make_window(kind, "ts", *lengths))
    keys = f"{keys}, window_start, window_end"
    return f"select {keys}, {select} from {window} where {where} group by {keys}"


def grouped(select: str = COUNTS, where: str = FEW, of: str = VIEWS, by: str = "city, channel") -> str:
    return f"select city, channel, {select} from {of} where {where} group by {by}"


def planned(name: str, text: str, buckets: int | None = None, ttl: int | None = None) -> Plan:
    return plan_of(stream_rewrites.with_hints(name, text, buckets), KNOWN, ttl)


def aggregated(plan: Plan) -> WindowAggregateSpec | GroupAggregateSpec:
    """The only GROUP BY of a plan."""
    if plan.dataflow.windows is None:
        (group,) = plan.dataflow.groups.values()
        return group.spec
    (spec,) = plan.dataflow.window_specs
    assert isinstance(spec, WindowAggregateSpec)
    return spec


@pytest.mark.parametrize(
    "text", [over("cumulate", "1 minute", "1 hour"), over("tumble", "1 hour"), grouped()]
)
def test_a_distinct_set_has_a_column_for_each_value(text: str) -> None:
    plan = planned("enum_distinct", text)
    spec = aggregated(plan)
    assert spec.enumerated is not None
    assert spec.enumerated == Enumerated(("channel",), spec.enumerated.number, (("'web'",), ("'app'",)))
    (name,) = plan.dataflow.groups or [each.name for each in plan.dataflow.window_specs]
    assert plan.rewrites == (
        (
            "enum_distinct",
            f"{name} keeps each visitor once for all 2 values of channel, with a column for each",
        ),
    )
    (part,) = [part for part in generate.generate_program(plan).parts if "distinct" in part.name]
    assert part.name.startswith(name)
    assert "channel" not in part.fold
    assert "channel" in aggregated(plan_of(text, KNOWN)).rows


def test_several_keys_are_combined() -> None:
    where = "(channel = 'web' or channel is null) and level in (1, 2, 3) and city <> 'Ulm'"
    (spec,) = planned(
        "enum_distinct", over("tumble", "1 hour", keys="city, channel, level", where=where)
    ).dataflow.window_specs
    assert isinstance(spec, WindowAggregateSpec) and spec.enumerated is not None
    assert spec.enumerated.keys == ("channel", "level")
    assert spec.enumerated.values == tuple((c, n) for c in ("'web'", "NULL") for n in "123")


def test_values_of_another_relation_are_not_those_of_the_key() -> None:
    """A row of another value would count nowhere."""
    window = expansion.expand_window("raw.view", window_arguments.make_window("tumble", "ts", "1 hour"))
    text = f"""select w.channel, window_start, window_end, count(distinct w.visitor) as n from {window} as w
        join dims as d on w.city = d.city where {{}}.channel in ('web', 'app')
        group by w.channel, window_start, window_end"""
    assert aggregated(planned("enum_distinct", text.format("w"))).enumerated is not None
    with pytest.raises(QueryError, match="WHERE limits no group key"):
        planned("enum_distinct", text.format("d"))


@pytest.mark.parametrize(
    ("kind", "texts", "refused"),
    [
        ("date", ["2024-03-04", "2024-03-05"], None),
        ("date", ["2024-03-04", "2024-3-5"], "2024-3-5"),
        ("timestamp", ["2024-03-04 00:00:00", "2024-03-05"], "2024-03-05"),
        ("int", ["1", "02"], "02"),
        ("string", ["1", "02"], None),
        ("string collate UTF8_LCASE", ["1", "02"], None),
    ],
)
def test_a_text_is_written_as_spark_writes_the_value(
    kind: str, texts: list[str], refused: str | None
) -> None:
    """Its text would be another key of the counts than the value is of the rows."""
    shown = {"2024-3-5": "2024-03-05", "2024-03-05": "2024-03-05 00:00:00", "02": "2"}

    def ask(query: str) -> list[object]:
        if query.startswith("SELECT CAST(CAST("):
            assert f" AS {kind}) AS STRING)" in query
            (text,) = (each for each in texts if f"'{each}'" in query)
            return [text if kind == "date" and text == "2024-03-05" else shown.get(text, text), text]
        return [kind] * query.count("TYPEOF")

    where = " or ".join(f"channel = '{text}'" for text in texts)
    text = stream_rewrites.with_hints("enum_distinct", grouped(where=where))
    if refused is None:
        assert plan_of(text, KNOWN, ask=ask).rewrites
        return
    with pytest.raises(QueryError) as problem:
        plan_of(text, KNOWN, ask=ask)
    assert str(problem.value) == (
        f"enum_distinct: channel is a {kind.upper()}, and the text '{refused}' is its value '{shown[refused]}'; write it "
        "so, or as a value of that type."
    )


def test_filters_share_a_set_as_they_are() -> None:
    text = (
        "select count(distinct visitor) as v, count(distinct visitor) filter (where a > 1) as w from " + VIEWS
    )
    plan = planned("enum_distinct", text)
    (name,) = plan.dataflow.groups
    assert plan.rewrites == (
        ("enum_distinct", f"{name} keeps each visitor once, with a column for each FILTER"),
    )
    assert plan.dataflow == plan_of(text, KNOWN).dataflow


def test_a_stream_splits_its_distinct_values_as_it_is() -> None:
    plan = planned("split_distinct", grouped(), 64)
    assert plan.dataflow == plan_of(grouped(), KNOWN).dataflow
    assert [name for name, _ in plan.rewrites] == ["split_distinct"]


def test_rankings_are_taken_in_buckets() -> None:
    rank = "row_number() over (partition by city order by n desc) as rn"
    ranked = f"select * from (select *, {rank} from ({grouped()})) where rn < 9"
    plan = planned("split_topn", ranked, 16)
    (top,) = [each for each in plan.dataflow.operators if isinstance(each, TopN)]
    assert top.top.buckets == 16
    assert plan.rewrites == (
        ("split_topn", f"{top.name} ranks the rows of 16 buckets, and the first of these"),
    )
    program = generate.generate_program(plan)
    steps = [*program.items_of_kind(Step), *program.output_steps]
    assert any("pmod(hash(__ranked), 16)" in step.sql for step in steps)
    # What is ranked in buckets is the same state.
    assert signature_of(plan) == signature_of(plan_of(ranked, KNOWN))


def test_rankings_over_windows_are_taken_in_buckets() -> None:
    ranked = f"""select * from (select *, rank() over (partition by window_start, window_end order by n desc) as r
        from ({over("tumble", "1 hour")})) where r <= 3"""
    plan = planned("split_topn", ranked, 16)
    assert plan.dataflow.windows is not None
    assert "PMOD(HASH(n), 16)" in plan.dataflow.windows.sql
    assert plan.rewrites[0][1].startswith("the query over the windows ranks")


def test_both_with_and_without_the_same_state() -> None:
    """What is ranked in buckets is the same state."""
    window = expansion.expand_window("raw.view", window_arguments.make_window("tumble", "ts", "1 hour"))
    rank = "row_number() over (partition by window_end order by a) as rn"
    ranked = f"select * from (select *, {rank} from {window}) where rn < 3"
    split, plain = planned("split_topn", ranked, 16), plan_of(ranked, KNOWN)
    assert split.dataflow.window_specs != plain.dataflow.window_specs
    assert signature_of(split) == signature_of(plain)


def test_a_distinct_set_of_another_shape_is_another_state() -> None:
    text = over("tumble", "1 hour")
    split, plain = planned("enum_distinct", text), plan_of(text, KNOWN)
    assert signature_of(split) != signature_of(plain)


def test_operators_that_make_no_use_of_it_are_told() -> None:
    text = f"""select * from (select g.city, row_number() over (order by g.n) as place from (
        select city, count(*) as n from {VIEWS} group by city) as g join (
        select city, count(*) as m from {VIEWS} group by city) as h on g.n = h.m) where place <= 3"""
    with pytest.raises(QueryError) as refusal:
        plan_query.plan(stream_rewrites.with_hints("split_topn", text), KNOWN, DAY)
    assert "the operators that compute this query make no use of it; leave the rewrite out" in str(
        refusal.value
    )


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("enum_distinct", "select count(*) as n from t", "There is no COUNT(DISTINCT …)"),
        ("split_distinct", "select count(*) as n from t", "There is no COUNT(DISTINCT …)"),
        ("split_topn", grouped(), "There is no filter on a ROW_NUMBER()"),
        (
            "enum_distinct",
            grouped(where="a > 1"),
            "WHERE limits no group key (city, channel) to a list of values",
        ),
        ("enum_distinct", grouped(where="channel in ('a', b)"), "lists values that are not literals"),
        (
            "enum_distinct",
            grouped(by="rollup (city, channel)"),
            "GROUPING SETS, ROLLUP and CUBE have distinct sets",
        ),
        (
            "enum_distinct",
            over("session", "5 minutes", keys="channel"),
            "The rows of this GROUP BY are kept as they are (a WHERE or JOIN between session()",
        ),
        (
            "split_distinct",
            grouped("count(distinct v) as v, percentile(a, 0.5) as p"),
            "the operators that compute this query make no use of it; leave the rewrite out",
        ),
        (
            "enum_distinct",
            grouped(where=f"channel in ({', '.join(map(str, range(300)))})"),
            "make 300 columns",
        ),
        (
            "enum_distinct",
            grouped(of="(select /*+ STREAM */ * from raw.page)"),
            "The stream's rows may be retracted",
        ),
    ],
)
def test_what_is_refused(name: str, text: str, sentence: str) -> None:
    with pytest.raises(QueryError) as found:
        planned(name, text, None if name == "enum_distinct" else 8)
    assert sentence in str(found.value)


def test_sessions_have_no_columns_for_values() -> None:
    window = expansion.expand_window(
        "raw.view", window_arguments.make_window("session", "ts", "5 minutes", partition_by=["channel"])
    )
    text = f"""select channel, window_start, window_end, count(distinct visitor) as v from {window}
        where {FEW} group by channel, window_start, window_end"""
    with pytest.raises(QueryError, match="are kept as they are"):
        planned("enum_distinct", text)
    unfiltered = text.replace(f"where {FEW}", "")
    with pytest.raises(QueryError, match="computes the bounds of a window from its rows"):
        planned("enum_distinct", unfiltered)


def test_groups_that_are_forgotten_share_nothing() -> None:
    with pytest.raises(QueryError, match="With state_ttl each group expires on its own"):
        planned("enum_distinct", grouped(), ttl=DAY)


@pytest.mark.parametrize(
    ("hint", "sentence"),
    [
        ("ENUM_DISTINCT(3)", "takes no arguments; write ENUM_DISTINCT."),
        ("SPLIT_TOPN('many')", "takes a number of buckets; write SPLIT_TOPN(128)."),
        ("SPLIT_DISTINCT(1)", "buckets is 1"),
    ],
)
def test_hints_that_are_wrong(hint: str, sentence: str) -> None:
    with pytest.raises(QueryError) as found:
        plan_of(grouped().replace("select city", f"select /*+ {hint} */ city", 1), KNOWN)
    assert sentence in str(found.value)


def test_a_hint_that_would_be_taken_for_a_comment_is_refused() -> None:
    with pytest.raises(QueryError) as found:
        plan_of(grouped().replace("select city", "select city /*+ ENUM_DISTINCT */", 1), KNOWN)
    assert "A hint ENUM_DISTINCT is where it is read as a comment" in str(found.value)
    assert "SELECT /*+ ENUM_DISTINCT */ …" in str(found.value)
    with pytest.raises(QueryError, match=r"SELECT /\*\+ SPLIT_TOPN\(128\) \*/"):
        plan_of("/*+ SPLIT_TOPN(16) */ " + grouped(), KNOWN)


def test_outcomes_are_those_of_the_operators_of_the_plan() -> None:
    text = "select /*+ SPLIT_TOPN(4) */ * from (select *, rank() over (order by a) as r from t) where r < 9"
    rewrites = Rewrites(parse(text), text)
    for operator in ("one", "other", None):
        rewrites.record_split_ranking(operator)
    assert [what.partition(" ranks")[0] for _, what in rewrites.effects({"other"})] == [
        "other",
        "the query over the windows",
    ]
    assert rewrites.no_effect_error({"other"}) is None


def test_a_rewrite_of_an_operator_that_is_not_in_the_plan_has_no_effect() -> None:
    text = "select /*+ SPLIT_TOPN(4) */ * from (select *, rank() over (order by a) as r from t) where r < 9"
    rewrites = Rewrites(parse(text), text)
    rewrites.record_split_ranking("one")
    assert rewrites.effects({"other"}) == () and rewrites.no_effect_error({"other"}) is not None
