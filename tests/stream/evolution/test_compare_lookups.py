"""What becomes of a state when its query joins another lookup table than it did."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.state_signature import Signature
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.evolution.compare import evolution
from tests.planned import signature_of

KNOWN = {
    "raw.o": RelationInfo("ts"),
    "crm.d": RelationInfo(lookup=True),
    "erp.d": RelationInfo(lookup=True),
    "`crm`.`e`": RelationInfo(lookup=True),
    "crm.e": RelationInfo(lookup=True),
}
STREAM = expansion.expand_stream("raw.o")
HOURS = expansion.expand_window("raw.o", window_arguments.make_window("tumble", "ts", "1 hour"))
DAY = 24 * 3_600_000_000


def in_window(joins: str, name: str = "d.name") -> str:
    """A query of window operators."""
    return (
        f"select window_start, window_end, {name} as name, count(*) as n from {HOURS} as o {joins} "
        f"group by window_start, window_end, {name}"
    )


def in_groups(joins: str, name: str = "d.name") -> str:
    """The same of window operators without windows."""
    return f"select {name} as name, count(*) as n from {STREAM} as o {joins} group by {name}"


def in_tree(joins: str, name: str = "d.name") -> str:
    """A query of operators."""
    groups = f"select k, count(*) as n from {STREAM} group by k"
    return f"select {name} as name, max(o.n) as most from ({groups}) as o {joins} group by {name}"


def in_union(joins: str, name: str = "d.name") -> str:
    """One with the table above what is kept, whose answers are kept to be taken back."""
    both = f"select k, count(*) as n from {STREAM} group by k union all select k, v as n from {STREAM}"
    return f"select o.k, o.n, {name} as name from ({both}) as o {joins}"


def signed(text: str) -> Signature:
    return replace(signature_of(plan_query.plan(text, KNOWN, DAY), DAY), text=text)


def of(table: str, alias: str = "d") -> str:
    return f"left join {table} as {alias} on {alias}.k = o.k"


QUERIES = [in_window, in_groups, in_tree, in_union]
OTHER = "the lookup table erp.d, in the place of crm.d"


@pytest.mark.parametrize("query", QUERIES)
def test_a_table_of_the_same_name_elsewhere_is_another(query: Any) -> None:
    was, now = signed(query(of("crm.d"))), signed(query(of("erp.d")))
    assert OTHER in evolution(was, now).refused
    assert not evolution(was, signed(query(of("crm.d")))).differences


@pytest.mark.parametrize("query", QUERIES)
def test_two_tables_of_one_name_do_not_change_places(query: Any) -> None:
    both = [of("crm.d"), of("erp.d", "e")]
    was = signed(query(" ".join(both), "concat(d.name, e.name)"))
    now = signed(query(" ".join([of("erp.d"), of("crm.d", "e")]), "concat(d.name, e.name)"))
    assert {OTHER, "the lookup table crm.d, in the place of erp.d"} <= {*evolution(was, now).refused}


@pytest.mark.parametrize("query", QUERIES)
def test_nor_where_a_join_comes_before(query: Any) -> None:
    was = signed(query(of("crm.d")))
    now = signed(query(f"{of('erp.d', 'e')} {of('crm.d')}"))
    assert evolution(was, now).refused


def test_they_are_of_both_planners() -> None:
    assert [bool(signed(query(of("crm.d"))).tree.operators) for query in QUERIES] == [False, True, True, True]


def test_how_a_name_is_quoted_is_no_matter() -> None:
    one, other = signed(in_window(of("`crm`.`e`"))), signed(in_window(of("crm.e")))
    assert one.lookups == other.lookups


def test_what_stands_above_the_state_may_change() -> None:
    """As other tables may that are read there."""
    windowed = (
        f"select window_start, window_end, k, count(*) as n from {HOURS} group by window_start, window_end, k"
    )
    texts = [f"select o.k, o.n, d.name from ({windowed}) as o {of(table)}" for table in ("crm.d", "erp.d")]
    was, now = map(signed, texts)
    assert not was.lookups
    assert not evolution(was, now).differences


def test_who_keeps_a_state_for_other_rows_says_so_of_a_table_too() -> None:
    was, now = (signed(in_window(of(table))) for table in ("crm.d", "erp.d"))
    assert not evolution(was, now, same_rows=True).refused
    was, now = (signed(in_tree(of(table))) for table in ("crm.d", "erp.d"))
    assert evolution(was, now, same_rows=True).refused


def test_names_stay_what_they_were() -> None:
    """Only the note tells the tables apart, so states that are there are found."""
    for query in QUERIES:
        programs = [
            generate.generate_program(plan_query.plan(query(of(table)), KNOWN, DAY), ttl=DAY)
            for table in ("crm.d", "erp.d")
        ]
        kept = [sorted(part.name for part in each.parts) for each in programs]
        assert kept[0] == kept[1]
