"""Joins, semi and anti joins: which operator each is, and by what it is partitioned."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.operators.recompute import Recompute
from dbt.adapters.spark_streaming.query.program import Step
from dbt.adapters.spark_streaming.query.sql.dialect import sql
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from tests.planned import tree_of
from tests.query.trees import GROUPS, KNOWN, OTHER, STREAM, flow, kinds, only, per_window


def keys_of(operator: Recompute) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(map(sql, each)) for each in operator.keys)


def test_windows_of_two_lengths_meet_within_a_micro_batch() -> None:
    found = flow(
        f"select a.window_end, a.n, b.n as m from ({per_window('5 minutes')}) as a "
        f"join ({per_window('10 minutes')}) as b on a.window_end = b.window_end and a.k = b.k"
    )
    assert kinds(found) == ["WindowAggregate", "WindowResults"] * 2 + ["Local"]
    assert not found.root.relation.changes
    assert found.root.relation.complete_by == {"window_end": "window_end"}


def test_window_end_and_window_time_do_not_meet() -> None:
    timed = per_window("10 minutes").replace("select window_start", "select window_time, window_start", 1)
    timed = timed.replace("group by window_start", "group by window_time, window_start")
    text = f"select a.n from ({per_window('5 minutes')}) as a join ({timed}) as b on a.window_end = b.window_time"
    assert "Local" not in kinds(flow(text))


def test_an_outer_join_is_computed_by_what_it_equates() -> None:
    found = flow(
        f"select a.k, b.m from ({GROUPS}) as a left join ({GROUPS.replace('db.s', 'db.t')}) as b on a.k = b.k"
    )
    made = only(found, Recompute)
    assert isinstance(made, Recompute)
    assert keys_of(made) == (("a.k",), ("b.k",))


@pytest.mark.parametrize(
    ("condition", "keys"),
    [
        ("exists (select 1 from {t} as b where b.k = g.k and b.v > 3)", (("g.k",), ("b.k",))),
        ("not exists (select 1 from {t} as b where b.k = g.k)", (("g.k",), ("b.k",))),
        ("g.n in (select v from {t} as b)", (("g.n",), ("b.v",))),
        ("g.n not in (select v from {t} as b)", ((), ())),
        ("g.n > (select avg(v) from {t} as b)", ((), ())),
        ("exists (select 1 from {t} as b where b.v > g.n)", ((), ())),
    ],
)
def test_subqueries_touch_what_they_are_correlated_by(
    condition: str, keys: tuple[tuple[str, ...], ...]
) -> None:
    made = only(flow(f"select * from ({GROUPS}) as g where {condition.format(t=OTHER)}"), Recompute)
    assert isinstance(made, Recompute)
    assert keys_of(made) == keys


@pytest.mark.parametrize(
    "text, partitions",
    [
        ("left join {0} as b on a.k = b.k where a.v = b.v", ("a.k", "a.v")),
        ("left join {0} as b on a.k = b.k where a.v <=> b.v", ("a.k",)),
        ("left join {0} as b on a.k <=> b.k where a.v = coalesce(b.v, 1)", ("a.k",)),
        ("left semi join {0} as b on a.k = b.k", ("a.k",)),
        ("left join {0} as b on a.k = b.k left join {0} as c on c.k = b.k", ("a.k",)),
        ("left join {0} as b on a.k = b.k left join {0} as c on c.k <=> b.k", ()),
        (
            "left join {0} as b on a.k = b.k left join {0} as c on a.v = b.v and c.v = b.v and a.k = c.k",
            ("a.k",),
        ),
    ],
)
def test_outer_joins_are_partitioned_by_what_their_rows_have_in_common(
    text: str, partitions: tuple[str, ...]
) -> None:
    found = only(flow(f"select a.k, a.v from {STREAM} as a {text.format(OTHER)}"), Recompute)
    assert isinstance(found, Recompute)
    assert keys_of(found)[0] == partitions


def test_a_query_in_a_select_list_is_kept_apart_from_the_unions_of_rows_below() -> None:
    """Spark's optimizer takes select lists into a UNION ALL, and loses columns that queries in them are correlated by."""
    asked = f"(select count(*) from {OTHER} as t where t.k = s.k and t.v > s.v)"

    def steps(text: str) -> str:
        program = generate.generate_program(tree_of(text, KNOWN, DAY), ttl=DAY)
        return " ".join(step.sql for step in program.items_of_kind(Step))

    assert "explode(array(1))" in steps(f"select k, v, {asked} as n from {STREAM} as s")
    assert "explode(array(1))" not in steps(f"select k, v from {STREAM} as s where v > {asked}")


@pytest.mark.parametrize(
    ("inner", "given"),
    [
        (f"select count(*) from {OTHER}", True),
        (f"select max(v) from {OTHER} as t where t.v < 10 and k <> 'a'", True),
        # It may be one for each row around it.
        (f"select max(v) from {OTHER} as t where t.k = g.k", False),
        (f"select max(v) from {OTHER} as t where v = n", False),
        (f"select max(v) from {OTHER} as t group by k having count(*) > 100", True),
    ],
)
def test_a_subquery_that_asks_nothing_around_is_kept_as_what_it_gives(inner: str, given: bool) -> None:
    found = only(flow(f"select k, n, ({inner}) as x from ({GROUPS}) as g"), Recompute)
    assert isinstance(found, Recompute)
    assert found.inputs[1].relation.bounded == given


def test_what_a_group_is_compared_with_needs_no_bound_of_its_own() -> None:
    text = f"select k, count(*) / (select count(*) from {STREAM}) as share from {STREAM} group by k"
    assert flow(text, ttl=None).key == ("k",)


def test_a_name_that_may_be_of_the_rows_around_is_asked_for_beside_a_joined_table() -> None:
    text = f"select l.k, d.x from {STREAM} as l join db.dim as d on d.k = l.k where exists (select 1 from {OTHER} as r {{}})"
    with pytest.raises(QueryError, match=r"a subquery in it reads 'v', without saying whose column it is"):
        flow(text.format("where r.k = v"))
    assert flow(text.format("where r.k = l.v and v > 3"))
