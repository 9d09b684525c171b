"""What becomes of a state when its query is edited: what is kept, new, removed, refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.query.state_signature import (
    AggregateState,
    MetricState,
    Signature,
    WindowOperatorState,
    from_json,
    to_json,
)
from dbt.adapters.spark_streaming.query.windows import emission, expansion, window_arguments
from dbt.adapters.spark_streaming.stream.evolution import compare
from dbt.adapters.spark_streaming.stream.evolution.effect import Evolution
from dbt.adapters.spark_streaming.stream.evolution.match_parts import (
    matched_windows,
    names_in_state,
    program_with_state_names,
)
from dbt.adapters.spark_streaming.stream.evolution.migration import Migration, migrated_signature, migration

DOMAINS = ("item", "u", "v", "bidder", "page", "k", "a", "b", "c")
WINDOWS = {
    "tumble": ("tumble", "10 minutes"),
    "hop": ("hop", "5 minutes", "10 minutes"),
    "cumulate": ("cumulate", "10 minutes", "1 hour"),
    "session": ("session", "10 minutes"),
    "dynamic_cumulate": ("dynamic_cumulate", "1 minute", "10 minutes"),
}


def made(text: str, **options: Any) -> Noted:
    """The signature of a query."""
    known = options.pop("known", {"raw.bid": RelationInfo("ts")})
    plan = plan_query.plan(text, known, domains=DOMAINS, **options)
    return Noted(generate.generate_program(plan, ttl=options.get("ttl")))


class Noted:
    """The signature of a program as it is stored, and the program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        fingerprints = None if program.fingerprints is None else program.fingerprints()
        self.signature = replace(program.signature, fingerprints=fingerprints)

    @property
    def operator(self) -> WindowOperatorState:
        (operator,) = self.signature.windows
        return operator

    @property
    def metrics(self) -> Mapping[str, MetricState]:
        (aggregates,) = self.signature.aggregates.values()
        return aggregates.metrics


def evolution(old: Noted | Signature, new: Noted | Signature, same_rows: bool = False) -> Evolution:
    """As in a run: what is of the same rows is called as the state calls it."""
    if isinstance(old, Noted) and isinstance(new, Noted):
        new = Noted(program_with_state_names(old.signature, new.program, same_rows))
    was, now = (each.signature if isinstance(each, Noted) else each for each in (old, new))
    return compare.evolution(was, now, same_rows)


def signature(
    items: str = "count(*) as n, sum(price) as s",
    keys: str = "item",
    where: str = "price > 0",
    window: tuple[str, ...] = WINDOWS["tumble"],
    relation: str = "raw.bid",
    alias: str = "",
    before: str = "",
    having: str = "",
    **options: Any,
) -> Noted:
    if window[0] in ("session", "dynamic_cumulate"):
        options = {"partition_by": [keys], **options}
        where = ""
    source = expansion.expand_window(
        relation, window_arguments.make_window(window[0], "ts", *window[1:], **options)
    )
    return made(
        f"{before} select window_start, window_end, {keys}, {items} from {source} {alias} "
        f"{f'where {where}' if where else ''} group by window_start, window_end, {keys} {having}"
    )


def timed(**configs: Any) -> Signature:
    source = expansion.expand_window("raw.bid", window_arguments.make_window("tumble", "ts", "10 minutes"))
    plan = plan_query.plan(
        f"select window_start, window_end, item, count(*) as n from {source} group by window_start, window_end, item"
    )
    return generate.generate_program(plan, emission.emission_from_configs(configs)).signature


def test_when_windows_are_complete_stays() -> None:
    """Windows would come twice, or not at all, or be put together of the rows that came last."""
    late = {"late_updates": True, "last_result_offset": "1 hour"}
    had = timed(**late)
    assert not compare.differences(had, timed(**late, first_result_offset="-1 minute"))
    for others in (
        {},
        {**late, "last_result_offset": "2 hours"},
        {**late, "complete_result_offset": "1 minute"},
    ):
        (said,) = compare.differences(had, timed(**others))
        assert "complete_result_offset, last_result_offset" in said


def groups(items: str, alias: str = "", ttl: int | None = 60_000_000) -> Noted:
    stream = expansion.expand_stream("raw.bid")
    return made(f"select item, {items} from {stream} {alias} group by item", ttl=ttl)


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (signature(), []),
        (signature("sum(price) + 1 as other, count(*) as n"), []),
        (
            signature("count(*) as n, max(price) as m"),
            ["the aggregate SUM(price) is gone", "the aggregate MAX(price) is new"],
        ),
        (signature(keys="bidder"), ["the group key item is gone", "the group key bidder is new"]),
        (signature(window=("tumble", "20 minutes")), ["the window's size"]),
        (signature(offset="1 minute"), ["the window's offset"]),
        (
            signature(window=("cumulate", "10 minutes", "1 hour")),
            ["the window is cumulate() and was tumble()"],
        ),
        (signature(where="price > 1"), ["what is read below the aggregates"]),
    ],
)
def test_what_changed(now: Noted, said: list[str]) -> None:
    assert evolution(signature(), now).differences == said


def test_another_stream() -> None:
    assert "the streams it reads" in evolution(signature(), signature(relation="raw.ask")).differences


def test_edited_windows_keep_their_streams() -> None:
    """With keep_state each would get the other's state."""
    (bids,) = signature().signature.windows
    asks = replace(bids, name="window_2", streams=("raw.ask",))
    edited = [replace(each, name=f"{each.name}_edited", identity=each.name) for each in (asks, bids)]
    assert matched_windows([bids, asks], edited) == {
        edited[0].name: asks.name,
        edited[1].name: bids.name,
    }


def test_a_window_more() -> None:
    old = signature().signature
    (window,) = old.windows
    more = replace(old, windows=(window, replace(window, name="window_2")))
    above = replace(old, windows=(window, replace(window, name="window_2", streams=())))
    assert compare.differences(old, more) == ["tumble() over raw.bid is new"]
    assert compare.differences(above, old) == ["tumble() over other windows is gone"]


def test_a_signature_is_read_as_it_was_written() -> None:
    for each in (signature(), groups("count(distinct v) as n, sum(price) as s"), ranking(), ranking(last=1)):
        found = each.signature
        assert from_json(Signature, json.loads(json.dumps(to_json(found)))) == found
    others: list[dict[str, Any]] = [{"odd": 1}, {"windows": [{"name": 1}]}, {"tree": []}]
    for other in others:
        with pytest.raises(ValueError):
            from_json(Signature, other)


# -- aggregates ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", WINDOWS)
def test_aggregates_come_go_and_change_places(kind: str) -> None:
    def of(items: str) -> Noted:
        return signature(items, window=WINDOWS[kind])

    old = of("count(*) as n, avg(price) as a, min(price) as m")
    found = evolution(old, of("max(price) as x, min(price) as m, sum(v) as m2, count(*) + 1 as n"))
    assert found.refused == []
    assert (found.kept, found.new, found.removed) == (
        ["MIN(price)", "COUNT(*)"],
        ["MAX(price)", "SUM(v)"],
        ["AVG(price)"],
    )
    assert found.new_columns[old.operator.name] == {"max_price", "sum_v"}
    assert found.dropped_columns[old.operator.name] == {"avg_price_sum", "avg_price_n"}
    assert found.kept_columns == {"min_price", "count_all"} and found.is_migration


def test_a_function_changed_under_the_same_name_is_another_aggregate() -> None:
    found = evolution(signature("sum(price) as total"), signature("max(price) as total"))
    assert (found.new, found.removed, found.kept) == (["MAX(price)"], ["SUM(price)"], [])


def test_what_is_above_the_state_changes_nothing() -> None:
    now = signature(
        "sum(price) / count(*) as mean, count(*) as n, sum(price) as s", having="having count(*) > 3"
    )
    found = evolution(signature(), now)
    assert not found.differences and not found.is_migration


@pytest.mark.parametrize(
    "now",
    [
        signature("COUNT( * ) AS n,  Sum(b.Price) s", alias="as b", where="b.price > 0"),
        signature("count(*) n, sum(c.price) s", alias="as c"),
        signature(
            "count(*) n, sum(price) s", relation="src", before="with src as (select * from raw.bid as x)"
        ),
    ],
)
def test_aliases_and_formatting_change_nothing(now: Noted) -> None:
    old = signature()
    if now.operator.source != old.operator.source:
        old = signature(relation="src", before="with src as (select * from raw.bid)")
    found = evolution(old, now)
    assert not found.differences and not found.is_migration


def test_a_column_that_is_handed_up_for_a_new_aggregate() -> None:
    def of(columns: str, items: str) -> Noted:
        return signature(
            items, relation="src", before=f"with src as (select ts, item, {columns} from raw.bid)"
        )

    old = of("price", "count(*) as n, sum(price) as s")
    found = evolution(old, of("price, bidder", "count(*) as n, sum(price) as s, count(distinct bidder) as d"))
    assert found.refused == [] and found.new == ["COUNT(DISTINCT bidder)"]
    assert found.kept == ["COUNT(*)", "SUM(price)"]
    # What an aggregate is made of is a part of it.
    found = evolution(old, of("price * 2 as price", "count(*) as n, sum(price) as s"))
    assert found.refused[0].startswith("what is read below the aggregates")  # the WHERE reads price
    other = of("price, fee", "count(*) as n, sum(fee) as s")
    assert evolution(other, of("price, fee * 2 as fee", "count(*) as n, sum(fee) as s")).refused == [
        "what SUM(fee) is made of, below the aggregates"
    ]
    same_rows = of("price, fee * 2 as fee", "count(*) as n, sum(fee) as s")
    assert not evolution(other, same_rows, same_rows=True).refused


NET = (
    "with b as (select ts, item, price * 1.1 as gross, gross - fee as net from {}) "
    "select item, sum(net) as n from b group by item"
)


@pytest.mark.parametrize(
    ("text", "was", "now"),
    [
        (NET, "1.1", "1.2"),
        (NET.replace("gross - fee as net", "-gross as less, less - fee as net"), "1.1", "1.2"),
        (
            "select item, sum(x) as n from (select lower(k) as l, trim(l) as item, x from {}) group by item",
            "lower",
            "upper",
        ),
        (
            "select item, count(*) as n from {} as a join (select max(x) as m from dim) as d on a.v > 0 group by item",
            "max(x)",
            "x",
        ),
        ("select item, sum(`a - b`) as n from {} group by item", "`a - b`", "a - b"),
        (
            "select item, count(*) as n from {} as a join dim as d on a.k = d.k group by item",
            "dim as",
            "dim2 as",
        ),
        (
            "select item, count(*) as n from {} as a join dim as d on a.k = d.k group by item",
            "a.k =",
            "a.l =",
        ),
        (
            "select item, count(*) as n from {} as a join db.dim as d on a.k = d.k group by item",
            "db.",
            "other.",
        ),
        (
            "select item, count(*) as n from {} as a join dim as d on a.k = d.k where d.x > 1 group by item",
            "> 1",
            "> 2",
        ),
        (
            "select item, count(*) as n from {} as a left join dim as d on a.k = d.k group by item",
            "left",
            "inner",
        ),
        ("select item, sum(d.x) as n from {} as a join dim as d on a.k = d.k group by item", "d.x", "a.x"),
        (
            "select item, count(*) as n from {} lateral view explode(split(l, ',')) e as p group by item",
            "','",
            "';'",
        ),
        (
            "select item, count(*) as n from {} lateral view explode(l) e as p group by item",
            "view",
            "view outer",
        ),
        (
            "select item, sum(p) as n from {} lateral view posexplode(l) e as p, q group by item",
            "p, q",
            "q, p",
        ),
        (
            "select item, count(*) as n from {} where k in (select k from dim where z > 1) group by item",
            "> 1",
            "> 2",
        ),
        (
            "select item, count(*) as n from {} as a where exists (select 1 from dim as d where d.k = a.k) group by item",
            "a.k",
            "a.l",
        ),
        (
            "select item, count(*) as n from (select *, upper(k) as l from {}) as a "
            "where l in (select id from dim where l > 1) group by item",
            "upper",
            "lower",
        ),
        (
            "select item, sum(p) as n from (select item, (select max(r) from rate where id = u) as p "
            "from (select item, v as u from {}) as b) as c group by item",
            "v as u",
            "w as u",
        ),
        (
            "select item, count(*) as n from (select item, k, v as u from {}) as b "
            "where k in (select kk from rate where x = u) group by item",
            "v as u",
            "w as u",
        ),
        (
            "select item, count(*) as n from (select item, v as u from {}) as b where exists (select id from dim as d "
            "where d.x = b.u and exists (select 1 from z as b where b.i = d.i)) group by item",
            "v as u",
            "w as u",
        ),
        (
            "select item, count(*) as n from (select item, v as u from {}) as b where exists "
            "(select id from (select id, x from dim) where x = u) group by item",
            "v as u",
            "w as u",
        ),
        (
            "select item, count(*) as n from (select item, v as u from {}) as b where exists (select 1 from z as q join "
            "(select i from dim where dim.j = b.u) as e on e.i = q.i) group by item",
            "v as u",
            "w as u",
        ),
        (
            "select item, sum(x * y) as n from (select item, x, y from {} lateral view explode(array(v, w)) e as x "
            "lateral view explode(array(v, w)) f as y) group by item",
            "item, x, y from",
            "item, x, x as y from",
        ),
        (
            "select item, count(*) as n from {} lateral view explode(array(v, w)) e as x "
            "lateral view explode(array(v, w)) f as y where x < y group by item",
            "x < y",
            "y < x",
        ),
        (
            "select item, sum(x) as n from {} as a join dim as d on a.k = d.id group by item",
            "sum(x)",
            "sum(d.x)",
        ),
        (
            "select item, sum(v) as n from (select item, v from {0} union all select item, v from {0}) group by item",
            "union all select item, v",
            "union all select item, v + 1 as v",
        ),
        (
            "select item, sum(v) as n from (select item, v from {0} union all select item, v from {0}) group by item",
            "union all select item, v from",
            "union all select k as item, v from",
        ),
    ],
)
def test_what_a_column_below_is_made_of(text: str, was: str, now: str) -> None:
    text = text.format(expansion.expand_stream("raw.bid"))
    assert was in text
    found = evolution(made(text, ttl=60_000_000), made(text.replace(was, now), ttl=60_000_000))
    assert found.refused or found.new, found
    assert not found.kept or found.refused


@pytest.mark.parametrize("of", ["raw.bid", "tumble"])
@pytest.mark.parametrize(
    ("was", "now", "is_same"),
    [
        ("a > 1 and b > 2", "b > 2 and a > 1", True),
        ("a > 1 and (b > 2 or c)", "(b > 2 or c) and a > 1", True),
        ("a > 1 and b > 2", "b > 1 and a > 2", False),
        ("a > 1 and b > 2", "a > 1 or b > 2", False),
        ("a > 1 and (b > 2 or c)", "(a > 1 and b > 2) or c", False),
    ],
)
def test_the_order_of_conditions_is_no_matter(of: str, was: str, now: str, is_same: bool) -> None:
    relation, keys = expansion.expand_stream("raw.bid"), "item"
    if of == "tumble":
        relation = expansion.expand_window(
            "raw.bid", window_arguments.make_window("tumble", "ts", "1 minute")
        )
        keys = "window_start, window_end, item"
    text = (
        f"select {keys}, sum(x) as n from (select *, v + 1 as x from {relation} where {was}) group by {keys}"
    )
    ttl = None if of == "tumble" else 60_000_000
    old = made(text, ttl=ttl)
    found = evolution(old, made(text.replace(was, now), ttl=ttl))
    assert (not found.differences) == is_same
    # Another change beside it isn't overlooked.
    other = evolution(old, made(text.replace(was, now).replace("v + 1", "v + 2"), ttl=ttl))
    assert other.refused or (other.new and not other.kept)


def test_an_alias_beside_what_is_asked_for() -> None:
    text = NET.format(expansion.expand_stream("raw.bid"))
    more = text.replace("as net", "as net, fee * 2 as z").replace("as n ", "as n, sum(z) as twice ")
    found = evolution(made(text, ttl=60_000_000), made(more, ttl=60_000_000))
    assert (found.refused, found.kept, found.new) == ([], ["SUM(net)"], ["SUM(z)"])


def test_the_order_of_keys_that_grouping_id_goes_by() -> None:
    text = f"select a, b, c, grouping_id() as g, count(*) as n from {expansion.expand_stream('raw.bid')} group by "
    first, second = ("a, grouping sets ((b), (c))", "grouping sets ((b), (c)), a")
    old, new = (made(text + each) for each in (first, second))
    found = evolution(old, new)
    assert "the order of its group keys, which grouping_id() goes by" in found.refused


def test_aggregates_that_cannot_be_told_to_be_the_same() -> None:
    stream = expansion.expand_stream("raw.bid")
    text = f"select item, sum(s.v) as x, sum(v) as y, sum(s.v.w) as z from {stream} as s group by item"
    columns = [column for each in made(text, ttl=60_000_000).metrics.values() for column in each.columns]
    assert len({*columns}) == len(columns)


def test_a_row_more_or_less_is_a_difference() -> None:
    def of(text: str) -> Noted:
        return signature(relation="src", before=f"with src as ({text})")

    old = of("select ts, item, price from raw.bid")
    for text in (
        "select ts, item, price, explode(array(1, 2)) as e from raw.bid",
        "select ts, item, price, cast(explode(array(1, 2)) as string) as e from raw.bid",
        "select ts, item, price from raw.bid where item <> 'x'",
    ):
        assert evolution(old, of(text)).refused


def test_where_two_relations_are_read_their_names_tell_columns_apart() -> None:
    def of(items: str, first: str = "b", second: str = "d") -> Noted:
        alias = f"as {first} join dim as {second} on {first}.k = {second}.k"
        return signature(items, where="", alias=alias)

    old = of("sum(b.v) as s")
    assert not evolution(old, of("sum(x.v) as s", "x", "y")).differences
    found = evolution(old, of("sum(d.v) as s"))
    assert found.refused == [
        "SUM(d.v) was written SUM(b.v), and several relations are read, so it may be another column; write it as it was"
    ]
    assert evolution(old, of("sum(v) as s")).refused
    # The names of the tables turned round.
    assert evolution(old, of("sum(b.v) as s", "d", "b")).refused


def test_a_column_of_a_struct_and_all_columns() -> None:
    def of(columns: str, items: str) -> Noted:
        return signature(
            items, where="", relation="src", before=f"with src as (select ts, item, {columns} from raw.bid)"
        )

    for items in ("sum(s.v) as x", "max(struct(*)) as x"):
        old = of("struct(a as v) as s", items)
        assert evolution(old, of("struct(b as v) as s", items)).refused


def test_comments_change_nothing() -> None:
    def of(text: str, items: str) -> Noted:
        return signature(items, relation="src", before=f"with src as ({text})")

    old = of("select ts, item, price from raw.bid where price > 1", "sum(price) as s, count(*) as n")
    new = of(
        "select ts /* time */, item, -- what it is\n price from raw.bid /* all */ where price > 1 /* no 0 */",
        "sum(/* all */ price) as s -- total\n, count(*) /* n */ as n",
    )
    found = evolution(old, new)
    assert not found.differences and not found.is_migration


def test_a_text_that_nobody_edited() -> None:
    """Another version of a library may print the same query in other words."""
    old, new = replace(windows(s={"a": ["a"]}), text="1"), replace(windows(s={"A": ["a"]}), text="1")
    assert evolution(old, replace(new, text="2")).refused == []
    assert evolution(old, new).refused == [
        "the query is unchanged, and this version of the package plans it differently"
    ]
    assert evolution(old, old).refused == []


# -- distinct values -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", WINDOWS)
def test_distinct_sets_and_what_counts_in_them(kind: str) -> None:
    def of(items: str) -> Noted:
        return signature(items, window=WINDOWS[kind])

    column = "first" if kind == "cumulate" else "in"
    old = of("count(distinct u) as d, count(distinct w) as e")
    found = evolution(
        old,
        of(
            "count(distinct u) filter (where a) as f, sum(distinct u) as s, count(distinct u) as d, count(distinct x)"
        ),
    )
    assert found.refused == [] and found.kept == ["COUNT(DISTINCT u)"]
    assert found.removed == ["COUNT(DISTINCT w)"] and found.dropped_parts == [
        f"{old.operator.name}_distinct_w"
    ]
    assert f"count_distinct_u_{column}" in found.kept_columns and "u" in found.kept_columns
    for name in ("count_distinct_u_where_a", "sum_distinct_u", "count_distinct_x"):
        assert f"{name}_{column}" in found.new_columns[old.operator.name]
    assert {"w", f"count_distinct_w_{column}"} <= found.dropped_columns[old.operator.name]
    assert "x" in found.new_columns[old.operator.name]


def test_the_order_of_filters_is_no_matter() -> None:
    one, other = "count(distinct u) filter (where a) as f", "count(distinct u) as d"
    old, new = signature(f"{one}, {other}"), signature(f"{other}, {one}")
    assert not evolution(old, new).is_migration
    assert old.metrics == new.metrics


def test_no_column_is_shared_by_what_is_called_alike() -> None:
    either, both = "sum(a_b) as x", "sum(a.b) as y"
    alone, first, second = (
        signature(items, where="") for items in (either, f"{either}, {both}", f"{both}, {either}")
    )
    assert first.metrics == second.metrics
    columns = [metric.columns for metric in first.metrics.values()]
    assert len({name for each in columns for name in each}) == 2
    # What was alone has another name, once another comes.
    found = evolution(alone, first)
    assert found.kept == ["SUM(a_b)"] and found.renamed["sum_a_b"].startswith("sum_a_b_")
    # A column of several has a suffix.
    listed = signature("avg(x) as a, sum(x_n) as s, max(avg_x_sum) as m").metrics.values()
    names = [name for metric in listed for name in metric.columns]
    assert len(set(names)) == len(names)


# -- groups --------------------------------------------------------------------------------------------


def test_groups() -> None:
    old = groups("count(*) as n, sum(price) as s")
    found = evolution(old, groups("sum(b.price) as s, avg(price) as a, count(distinct u) as d", alias="as b"))
    assert (found.refused, found.kept, found.removed) == ([], ["SUM(b.price)"], ["COUNT(*)"])
    assert evolution(old, groups("count(*) as n, sum(price) as s", ttl=120_000_000)).differences == []
    assert "whether there is a state_ttl" in evolution(old, groups("count(*) as n", ttl=None)).refused


def test_rows_in_the_place_of_aggregates() -> None:
    found = evolution(signature("count(*) as n"), signature("percentile(price, 0.5) as p"))
    assert found.refused == ["it keeps the rows of its windows, and kept aggregates of them"]


def test_what_may_go_again_cannot_be_counted_from_the_middle() -> None:
    def operator(*names: str) -> Signature:
        metrics = {name: MetricState(name, (name,), ("value",)) for name in names}
        return Signature(
            (WindowOperatorState("window_1", aggregates=AggregateState(metrics=metrics, retracts=True)),)
        )

    found = evolution(operator("a", "b"), operator("b", "c"))
    assert found.refused == ["the aggregate c is new, and rows that came before it may be retracted from it"]
    assert evolution(operator("a", "b"), operator("b")).refused == []


# -- rows that are kept --------------------------------------------------------------------------------

STREAM = expansion.expand_stream("raw.bid")
OPERATORS = "the operators that keep it up to date"


def ranking(
    items: str = "item, v, u as z",
    order: str = "v desc",
    by: str = "item",
    source: str = STREAM,
    last: int = 5,
) -> Noted:
    rank = f"row_number() over (partition by {by} order by {order}) as r"
    return made(f"select * from (select {items}, {rank} from {source}) where r <= {last}")


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (ranking(order="u desc"), ["the ranking"]),
        (ranking(order="-v desc"), ["the ranking"]),
        (ranking(items="item, v, w as z"), ["what the rows that it keeps are made of"]),
        (ranking(items="item, v, u as y"), ["what the rows that it keeps are made of"]),
        (ranking(items="v, item, u as z"), ["what the rows that it keeps are made of"]),
        (ranking(items="ITEM, v as `v`, /* other */ u z", order="V  desc", by="Item"), []),
    ],
)
def test_what_a_ranking_keeps(now: Noted, said: list[str]) -> None:
    assert evolution(ranking(), now).refused == said


def test_a_relation_that_is_named_before_columns_of_a_ranking() -> None:
    old = ranking(source=f"{STREAM} as b")
    assert not evolution(old, ranking("b.item, b.v, u as z", "b.v desc", source=f"{STREAM} as b")).differences


def test_the_first_row_by_another_column() -> None:
    assert evolution(ranking(order="ts", last=1), ranking(order="seq", last=1)).refused == [OPERATORS]


def test_columns_that_come_and_go_below_other_windows() -> None:
    minutes = expansion.expand_window("raw.bid", window_arguments.make_window("tumble", "ts", "1 minute"))
    hours = expansion.expand_window("low", window_arguments.make_window("tumble", "window_time", "1 hour"))

    def of(lower: str, upper: str = "sum(n) as s", having: str = "") -> Noted:
        by = "window_start, window_end, window_time"
        low = f"select {by}, {lower} from {minutes} group by {by} {having}"
        return made(
            f"with low as ({low}) select window_end, {upper} from {hours} group by window_start, window_end"
        )

    old = of("count(*) as n")
    more = evolution(old, of("sum(v) as v, count(*) as n", "max(v) as m, sum(n) as s"))
    assert (more.refused, more.kept, more.new) == ([], ["COUNT(*)", "SUM(n)"], ["SUM(v)", "MAX(v)"])
    assert evolution(of("count(*) as n, max(v) as m"), old).refused == []
    said = "the results of a window that another window reads"
    assert said in evolution(old, of("count(v) as n")).refused
    assert said in evolution(old, of("count(*) as n", having="having count(*) > 1")).refused
    for upper, is_refused in {
        "sum(n * 2) as s": False,
        "count(*) filter (where n * 2 > 3) as s": False,
        "max(struct(*)) as s": True,
        "max_by(n, struct(low.*)) as s": True,
        "count(low.*) as s": True,
    }.items():
        found = evolution(of("count(*) as n", upper), of("sum(v) as v, count(*) as n", upper))
        assert (said in found.refused) == is_refused, upper


@pytest.mark.parametrize(
    "between",
    [
        "select *, struct(*) as st from low",
        "select distinct * from low",
        "select * from low where hash(*) > 0",
        "select * from low union all select * from low",
    ],
)
def test_columns_that_come_below_and_change_what_is_above(between: str) -> None:
    minutes = expansion.expand_window("raw.bid", window_arguments.make_window("tumble", "ts", "1 minute"))
    hours = expansion.expand_window("middle", window_arguments.make_window("tumble", "window_time", "1 hour"))

    def of(lower: str) -> Noted:
        by = "window_start, window_end, window_time"
        low = f"select {by}, {lower} from {minutes} group by {by}"
        item = "max(st)" if "as st" in between else "sum(n)"
        top = f"select window_end, {item} as s from {hours} group by window_start, window_end"
        return made(f"with low as ({low}), middle as ({between}) {top}")

    old = of("count(*) as n")
    assert not evolution(old, of("count(*) as n")).refused
    assert evolution(old, of("count(*) as n, max(v) as m")).refused


def test_one_name_of_two_aggregates_below() -> None:
    minutes = expansion.expand_window("raw.bid", window_arguments.make_window("tumble", "ts", "1 minute"))
    hours = expansion.expand_window("low", window_arguments.make_window("tumble", "window_time", "1 hour"))

    def of(lower: str, upper: str = "sum(n) as s") -> Noted:
        by = "window_start, window_end, window_time"
        low = f"select {by}, {lower} from {minutes} group by {by}"
        return made(
            f"with low as ({low}) select window_end, {upper} from {hours} group by window_start, window_end"
        )

    def ranked(metric: str) -> Noted:
        groups = f"select item, {metric} as n from {STREAM} group by item"
        rank = "row_number() over (order by n desc, item) as r"
        return made(f"select * from (select *, {rank} from ({groups})) where r <= 3")

    said = "the results of a window that another window reads"
    for one, other in (
        ("sum(v + 1)", "sum(v - 1)"),
        ("count(*) filter (where v > 100)", "count(*) filter (where v <= 100)"),
    ):
        for upper in ("sum(n) as s", "collect_list(n) as s"):
            assert said in evolution(of(f"{one} as n", upper), of(f"{other} as n", upper)).refused
        assert evolution(ranked(one), ranked(other)).rebuilt == ["what is computed of its groups"]
    assert said in evolution(of("count(*) as n"), of("count(*) as n, explode(array(1, 2)) as e")).refused


def test_a_ranking_of_fewer_and_of_more_rows() -> None:
    fewer = evolution(ranking(last=3), ranking(last=2))
    assert (fewer.rebuilt, fewer.refused, fewer.dropped_parts) == (
        ["the ranking, of 2 rows instead of 3,"],
        [],
        [],
    )
    assert fewer.is_migration
    (said,) = evolution(ranking(last=3), ranking(last=4)).refused
    assert said.startswith("the ranking is of 4 rows and was of 3, and no others are kept")


def test_a_ranking_of_groups() -> None:
    def of(items: str, order: str = "n desc", last: int = 3, ttl: int | None = None) -> Noted:
        rank = f"row_number() over (partition by item order by {order}) as r"
        groups = f"select item, u, {items} from {STREAM} group by item, u"
        return made(
            f"select * from (select *, {rank} from ({groups})) where r <= {last}",
            ttl=ttl,
        )

    old = of("count(*) as n")
    for new in (of("count(*) as n, sum(v) as s"), of("count(*) as n", "n"), of("count(*) as n", last=5)):
        found = evolution(old, new)
        assert (found.rebuilt, found.refused) == (["what is computed of its groups"], [])
        (gone,) = found.dropped_parts
        assert gone.startswith("top_") and gone.endswith("_members")
        assert found.kept == ["COUNT(*)"]
    assert not evolution(old, of("count(*) as n")).is_migration
    minute = 60_000_000
    forgets = evolution(of("count(*) as n", ttl=minute), of("count(*) as n", last=5, ttl=minute))
    assert forgets.refused == [f"{OPERATORS}; with state_ttl they aren't rebuilt"]


def test_what_is_above_a_ranking_changes_nothing() -> None:
    def of(items: str) -> Noted:
        rank = "row_number() over (partition by item order by v) as place"
        return made(f"select {items} from (select item, v, {rank} from {STREAM}) where place <= 3")

    assert not evolution(of("*"), of("item, place, v + 1 as more")).differences

    def within(text: str) -> Noted:
        rank = "row_number() over (partition by item order by v) as place"
        return made(text.format(f"(select * from (select item, v, {rank} from {STREAM}) where place <= 3)"))

    assert not evolution(within("select * from {}"), within("select * from {} where place <= 2")).differences


def test_what_a_ranking_keeps_may_be_put_right() -> None:
    old, new = ranking(items="item, cast(v as int) as n"), ranking(items="item, try_cast(v as int) as n")
    assert evolution(old, new).refused and not evolution(old, new, same_rows=True).refused
    assert evolution(ranking(), ranking(order="u desc"), same_rows=True).refused


def test_what_is_kept_of_a_stream() -> None:
    def of(items: str, alias: str = "a") -> Noted:
        return made(
            f"select item, percentile(v, 0.5) as p from (select {items} from {STREAM}) {alias} group by item",
            ttl=60_000_000,
        )

    assert evolution(of("item, v"), of("item, w as v")).refused == [
        f"{OPERATORS}; with state_ttl they aren't rebuilt"
    ]
    assert not evolution(of("item, v"), of("ITEM, v as v", "b")).differences


@pytest.mark.parametrize(
    "text",
    [
        f"select item, count(*) as n from {STREAM} group by item",
        f"select distinct item from {STREAM}",
        f"select item, n from (select item, count(*) as n from {STREAM} group by item) order by n desc limit 3",
        f"select a.item from {STREAM} as a join {STREAM} as b on a.item = b.item",
    ],
)
def test_another_event_time_of_a_stream_is_refused(text: str) -> None:
    """What is in the state, and when it expires, was told by a watermark of that column."""
    old, new = (
        made(text, known={"raw.bid": RelationInfo(time)}, ttl=86_400_000_000) for time in ("ts", "seen_at")
    )
    assert "the event time of raw.bid is seen_at and was ts" in evolution(old, new).refused
    # Nobody may have said before which it is.
    unknown = replace(old.signature, event_times={})
    assert "the event time of raw.bid is seen_at and was ts" not in evolution(unknown, new.signature).refused


def test_rows_that_replace_each_other() -> None:
    def of(items: str, known: RelationInfo) -> Noted:
        return made(f"select {items} from {STREAM}", known={"raw.bid": known})

    old = of("item, v", RelationInfo("ts", ("item",)))
    assert not evolution(old, of("item, w", RelationInfo("ts", ("item",)))).refused
    assert evolution(old, of("item, v", RelationInfo("at", ("item",)))).refused == [
        OPERATORS,
        "the event time of raw.bid is at and was ts",
    ]


# -- the migration -------------------------------------------------------------------------------------


def windows(**metrics: dict[str, list[str]]) -> Signature:
    """A signature of window operators with metrics and their columns."""

    def operator(name: str, of: dict[str, list[str]]) -> WindowOperatorState:
        listed = {key: MetricState(columns=tuple(columns), storage=("value",)) for key, columns in of.items()}
        return WindowOperatorState(name, aggregates=AggregateState(metrics=listed))

    return Signature(tuple(operator(name, of) for name, of in metrics.items()))


def left_in(signature: Signature, name: str) -> list[str]:
    """Columns of removed aggregates that a state still has."""
    return [*signature.aggregates[name].leftovers]


def columns(*names: str, kind: str = "bigint") -> dict[str, str]:
    return {"part": "string", "k": "string", **dict.fromkeys(names, kind)}


def migrated(old: Signature, new: Signature, has: list[str], wants: list[str]) -> Migration:
    found = evolution(old, new)
    assert not found.refused
    made, problems = migration(found, columns(*has), columns(*wants))
    assert problems == []
    return made


def test_columns_come_and_go() -> None:
    old, new = windows(s={"a": ["a"], "b": ["b"]}), windows(s={"b": ["b"], "c": ["c"]})
    made = migrated(old, new, ["a", "b"], ["b", "c"])
    assert (made.drop, made.rename, made.add) == (("a",), {}, {"c": "bigint"})


def test_a_column_of_the_same_name_begins_anew() -> None:
    made = migrated(windows(s={"a": ["x"]}), windows(s={"b": ["x"]}), ["x"], ["x"])
    assert (made.drop, made.add) == (("x",), {"x": "bigint"})


def test_columns_that_change_their_names() -> None:
    old, new = windows(s={"a": ["x"], "b": ["y"]}), windows(s={"a": ["y"], "b": ["x"]})
    assert migrated(old, new, ["x", "y"], ["x", "y"]).rename == {"x": "y", "y": "x"}
    made = migrated(windows(s={"a": ["x"]}), windows(s={"a": ["y"], "b": ["x"]}), ["x"], ["x", "y"])
    assert (made.rename, made.add, made.drop) == ({"x": "y"}, {"x": "bigint"}, ())


def test_what_is_left_goes_with_its_column() -> None:
    new = windows(window_1={})
    old = new.with_aggregates(lambda _, each: replace(each, leftovers=("sum_v", "max_v")))
    assert left_in(migrated_signature(old, new, {}, ["sum_v"]), "window_1") == ["max_v"]


def test_a_column_that_another_window_has_too() -> None:
    old, new = windows(s={"a": ["x"]}, t={"b": ["x"]}), windows(s={}, t={"b": ["x"]})
    made = migrated(old, new, ["x"], ["x"])
    assert (made.drop, made.add, made.leftovers) == ((), {}, {"s": {"x"}})
    left = migrated_signature(old, new, made.leftovers)
    assert left_in(left, "s") == ["x"]
    assert not evolution(left, new).differences
    assert left_in(migrated_signature(left, new, {}), "s") == ["x"]
    assert evolution(left, old).refused == [
        "its state still has earlier values of x, because something else in the query has a column of that name"
    ]
    # In one go.
    found = evolution(old, windows(s={"c": ["x"]}, t={"b": ["x"]}))
    assert migration(found, columns("x"), columns("x"))[1] == [
        "x of its state would start empty, and something else still uses it"
    ]
    # One window operator begins what another goes on with.
    made = migrated(windows(s={}, t={"b": ["x"]}), windows(s={"a": ["x"]}, t={"b": ["x"]}), ["x"], ["x"])
    assert (made.drop, made.add, made.leftovers) == ((), {}, {})


def test_a_name_that_is_not_free() -> None:
    found = evolution(windows(s={"a": ["x"]}, t={"b": ["x"]}), windows(s={"a": ["y"]}, t={"b": ["x"]}))
    assert found.refused == ["how x of its state is called"]
    found = evolution(windows(s={"a": ["x"]}), windows(s={"a": ["k"]}))
    assert migration(found, columns("x", kind="string"), columns())[1] == [
        "the column x of its state would be called k, and something else has one of the names",
    ]


def test_a_type_that_changed() -> None:
    found = evolution(windows(s={"a": ["x"]}), windows(s={"a": ["x"], "b": ["y"]}))
    assert migration(found, columns("x"), columns("x", "y", kind="double"))[1] == [
        "x of its state is a BIGINT and would be a DOUBLE"
    ]


def test_all_rows_of_windows_are_enough_for_a_ranking() -> None:
    rank = "row_number() over (partition by window_start, window_end, item order by v desc) as r"
    window = expansion.expand_window("raw.bid", window_arguments.make_window("tumble", "ts", "1 minute"))

    def of(where: str = "", rows: str = window) -> Noted:
        return made(f"select * from (select *, {rank} from {rows}) {where}")

    passed_on = of("where r <= 3", f"(select * from (select * from {window}))")
    assert evolution(of("where r <= 3"), passed_on).differences == [], "a SELECT * hands on all rows"
    assert evolution(of(), of("where r <= 3")).refused == []
    assert evolution(of("where r <= 3"), of()).refused == ["the ranking"]
    (told,) = evolution(of(), of("where r <= 3")).limited_rankings
    assert told == "the ranking of 3 rows instead of all rows"


def test_windows_that_put_themselves_out_and_windows_below_others() -> None:
    window = expansion.expand_window("raw.bid", window_arguments.make_window("tumble", "ts", "1 minute"))
    alone = f"select window_start, window_end, item, count(*) as n from {window} group by window_start, window_end, item"
    above = f"select item, max(n) as most from ({alone}) group by item"
    below = made(above)
    assert evolution(below, made(alone)).refused == [OPERATORS]
    assert evolution(made(alone), below).refused


BY_ITEM = "select window_start, window_end, item, {} from {} group by window_start, window_end, item"


def joined(one: tuple[str, str], other: tuple[str, str]) -> Program:
    """Two windows, each of a relation with an aggregate ``n``, joined."""
    tumble = window_arguments.make_window("tumble", "ts", "1 minute")
    a, b = (BY_ITEM.format(n, expansion.expand_window(relation, tumble)) for relation, n in (one, other))
    on = "a.window_start = b.window_start and a.window_end = b.window_end and a.item = b.item"
    text = f"select a.window_end, a.item, a.n, b.n as m from ({a}) as a join ({b}) as b on {on}"
    return generate.generate_program(plan_query.plan(text))


COUNT, SUM = "count(*) as n", "sum(price) as n"


def test_windows_have_the_same_names_in_another_order() -> None:
    bid, ask = ("raw.bid", COUNT), ("raw.ask", COUNT)
    old, new = joined(bid, ask), joined(ask, bid)
    assert names_in_state(old.signature, new) == {}
    assert {part.name for part in old.parts} == {part.name for part in new.parts}
    assert evolution(old.signature, new.signature).differences == []


def test_windows_of_the_same_rows_are_distinguished_by_their_aggregates() -> None:
    count, total = ("raw.bid", COUNT), ("raw.bid", SUM)
    old, new = joined(count, total), joined(total, count)
    (was_count, was_sum), (now_sum, now_count) = (
        [each.name for each in made.signature.windows] for made in (old, new)
    )
    assert was_count == now_sum and len({was_count, was_sum, now_count}) == 3, "the first has the short name"
    names = names_in_state(old.signature, new)
    assert names == {now_sum: was_sum, now_count: was_count}
    assert evolution(old.signature, program_with_state_names(old.signature, new).signature).differences == []


def test_windows_of_the_same_rows_keep_as_many_aggregates_as_they_can() -> None:
    one, other = f"{COUNT}, max(price) as s, min(price) as d", "max(price) as n, sum(price) as y"
    more = f"{one}, avg(price) as x", f"{other}, min(price) as d"
    old = joined(("raw.bid", one), ("raw.bid", other))
    new = program_with_state_names(old.signature, joined(("raw.bid", more[1]), ("raw.bid", more[0])))
    found = evolution(old.signature, new.signature)
    assert found.refused == [] and found.removed == []
    assert sorted(found.new) == ["AVG(price)", "MIN(price)"]


def test_rankings_of_the_same_rows_are_distinguished_by_their_order() -> None:
    window = expansion.expand_window("raw.bid", window_arguments.make_window("tumble", "ts", "1 minute"))

    def both(*rankings: tuple[str, int]) -> Program:
        return made(
            " union all ".join(
                f"select window_start, window_end, item, r from (select *, row_number() over (partition by window_start, "
                f"window_end order by {order}) as r from {window}) where r <= {rows}"
                for order, rows in rankings
            )
        ).program

    old, new = both(("price", 3), ("item", 4)), both(("item", 3), ("price", 2))
    assert len(old.signature.windows) == 2
    assert evolution(old.signature, program_with_state_names(old.signature, new).signature).refused == []
    again = both(("price", 4), ("price", 3))
    swapped = program_with_state_names(again.signature, both(("price", 3), ("price", 4)))
    assert evolution(again.signature, swapped.signature).differences == []


def test_rows_of_the_table_are_found_again_if_the_author_accepts_other_rows() -> None:
    late = emission.emission_from_configs({"late_updates": True, "last_result_offset": "1 hour"})
    window = expansion.expand_window("raw.bid", window_arguments.make_window("tumble", "ts", "1 minute"))
    old, new = (
        generate.generate_program(
            plan_query.plan(BY_ITEM.format(COUNT, f"{window} where price > {least}")), late
        )
        for least in (0, 1)
    )
    new = program_with_state_names(old.signature, new, same_rows=True)
    assert [part.name for part in new.parts] == [part.name for part in old.parts]
    assert new.upsert is not None and old.upsert is not None and new.upsert.row_key == old.upsert.row_key
    assert compare.evolution(old.signature, new.signature, same_rows=True).differences == []


def test_a_window_has_the_same_name_whatever_it_aggregates() -> None:
    def cascade(items: str) -> list[str]:
        below = signature_text(items)
        hour = expansion.expand_window(
            f"({below})", window_arguments.make_window("tumble", "window_end", "1 hour")
        )
        return [each.name for each in made(BY_ITEM.format("max(n) as most", hour)).signature.windows]

    def signature_text(items: str) -> str:
        return BY_ITEM.format(
            items,
            expansion.expand_window("raw.bid", window_arguments.make_window("tumble", "ts", "1 minute")),
        )

    assert len(set(cascade(COUNT))) == 2
    assert cascade(COUNT) == cascade("sum(price) as s, count(*) as n") == cascade(SUM)
