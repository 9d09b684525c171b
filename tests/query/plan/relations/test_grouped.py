"""What is known of groups."""

from __future__ import annotations

from sqlglot import exp

from dbt.adapters.spark_streaming.query.aggregates.model import Key
from dbt.adapters.spark_streaming.query.plan.relation import Relation
from dbt.adapters.spark_streaming.query.plan.relations.grouped import GroupedRows

KEYS = (
    Key("k", exp.column("k", "s")),
    Key("at", exp.column("window_end")),
    Key("day", exp.func("date", exp.column("ts", "s"))),
)
OPEN = Relation(open_until="window_end", open_for=5, event_time="ts", delays={"window_end": 5}, bounded=True)


def test_a_group_is_identified_by_its_keys() -> None:
    found = GroupedRows(KEYS, None, "s", Relation()).relation
    assert (found.changes, found.keys, found.bounded) == (True, (frozenset({"k", "at", "day"}),), False)


def test_groups_of_open_windows_are_open_with_them() -> None:
    found = GroupedRows(KEYS, None, "s", OPEN)
    assert (found.window_end_column, found.relation.ends) == ("window_end", "at")
    assert (found.relation.open_until, found.relation.open_for) == ("at", 5)
    assert (found.relation.delays, found.relation.bounded) == ({"at": 5}, True)


def test_without_that_key_nothing_is_known_of_windows() -> None:
    found = GroupedRows(KEYS[:1], None, "s", OPEN).relation
    assert (found.open_until, found.open_for, found.ends, found.delays) == (None, None, None, {})


def test_a_key_that_a_grouping_set_lacks_may_be_null() -> None:
    found = GroupedRows(KEYS[:2], [["k", "at"], ["k"]], "s", OPEN).relation
    assert found.keys == (frozenset({"k", "at", "grouping_id"}),)
    assert found.open_until is None


def test_columns_of_other_relations_do_not_count() -> None:
    assert (
        GroupedRows([Key("at", exp.column("window_end", "t"))], None, "s", OPEN).relation.open_until is None
    )


def test_rows_that_expire_with_windows_are_grouped_by_their_end() -> None:
    below = Relation(True, ends="end", in_time=frozenset({"end", "time"}))
    found = GroupedRows(
        [Key("e", exp.column("end")), Key("t", exp.column("time", "s"))], None, "s", below
    ).relation
    assert (found.ends, found.in_time) == ("e", frozenset({"e", "t"}))
