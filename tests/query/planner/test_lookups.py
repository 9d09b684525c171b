"""Which keys a lookup join asks for, and where it is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.program import Lookup, Program, Step
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common.lookup_source import LookupSource
from tests.planned import plan_of

KNOWN = {
    "raw.orders": RelationInfo("ts"),
    "raw.pay": RelationInfo("ts"),
    "crm.customers": RelationInfo(lookup=True),
    "crm.prices": RelationInfo(lookup=True),
    "raw.accounts": RelationInfo("ts", ("id",), changes=True),
}
ORDERS, PAY = "(select /*+ STREAM */ * from raw.orders) as o", "(select /*+ STREAM */ * from raw.pay) as p"
HOURS = expansion.expand_window(
    "raw.orders", window_arguments.make_window("cumulate", "ts", "1 hour", "1 day")
)
BY_ID = "lookup_customers_by_id"


def program(text: str) -> Program:
    return generate.generate_program(plan_of(text, KNOWN))


def only(lookups: tuple[Lookup, ...]) -> Lookup:
    (lookup,) = lookups
    return lookup


def test_a_row_is_joined_with_the_answer_for_the_distinct_keys_of_its_micro_batch() -> None:
    made = program(f"select o.id, c.name from {ORDERS} left join crm.customers as c on o.customer = c.id")
    assert made.output.endswith(
        f"SELECT o.id, c.name FROM __input_0 AS `o` LEFT JOIN {BY_ID} AS c ON o.customer = c.id"
    )
    asked = only(made.lookups)
    assert (asked.view, asked.relation, asked.key) == (BY_ID, "crm.customers", ("id",))
    assert (
        "SELECT DISTINCT o.customer AS key_1 FROM __input_0 AS `o` WHERE NOT o.customer IS NULL" in asked.keys
    )


def test_it_is_no_table_that_is_read_afresh() -> None:
    assert plan_of(f"select o.id from {ORDERS} join crm.customers c on o.c = c.id", KNOWN).static == ()


@pytest.mark.parametrize(
    ("condition", "keys", "where"),
    [
        ("c.id = o.customer and c.shop = o.shop", ("id", "shop"), ""),
        ("(c.id = o.customer) and o.paid and c.active", ("id",), " AND o.paid"),
        ("c.id = o.customer and c.id = o.payer", ("id",), ""),
        ("c.id = cast(substr(o.customer, 2) as int)", ("id",), ""),
        ("c.id = o.customer and c.kind = 'x' and o.amount > c.least", ("id",), ""),
    ],
)
def test_equalities_are_keys_and_what_the_stream_alone_decides_is_not_asked_for(
    condition: str, keys: tuple[str, ...], where: str
) -> None:
    asked = only(program(f"select o.id from {ORDERS} join crm.customers as c on {condition}").lookups)
    assert asked.key == keys
    assert asked.keys.endswith(f"IS NULL{where}\n)")


def test_using_and_a_where_over_the_stream() -> None:
    text = f"select o.id from {ORDERS} join crm.customers c using (id) where o.amount > 5 and c.name <> ''"
    assert (
        "SELECT DISTINCT id AS key_1 FROM __input_0 AS `o` WHERE NOT id IS NULL AND o.amount > 5"
        in only(program(text).lookups).keys
    )


def test_a_cte_that_only_passes_it_on_is_seen_through() -> None:
    text = f"with c as (select * from crm.customers) select o.id from {ORDERS} join c on c.id = o.customer"
    assert only(program(text).lookups).view == BY_ID


def test_keys_out_of_another_answer_are_asked_for_after_it() -> None:
    text = (
        f"select o.id, p.price from {ORDERS} join crm.customers c on c.id = o.customer "
        "left join crm.prices p on p.tariff = c.tariff"
    )
    first, then = program(text).lookups
    assert (first.relation, then.relation) == ("crm.customers", "crm.prices")
    assert BY_ID in then.keys


def test_keys_out_of_its_own_answer_are_asked_for_after_it() -> None:
    text = f"""select o.id, b.name from {ORDERS}
        join crm.customers c on c.id = o.customer join crm.customers b on b.id = c.parent"""
    first, then = program(text).lookups
    assert (first.view, then.view) == (BY_ID, f"{BY_ID}_2")
    assert f"JOIN {BY_ID} AS c ON c.id = o.customer" in then.keys


def test_two_joins_by_the_same_key_are_asked_together_and_by_another_apart() -> None:
    text = f"""select o.id, a.name, b.name as seller, m.name as by_mail from {ORDERS}
        left join crm.customers a on a.id = o.buyer
        left join crm.customers b on b.id = o.seller
        left join crm.customers m on m.mail = o.mail"""
    by_id, by_mail = sorted(program(text).lookups, key=lambda each: each.view)
    assert "o.buyer AS key_1" in by_id.keys and "UNION" in by_id.keys and "o.seller AS key_1" in by_id.keys
    assert by_mail.view == "lookup_customers_by_mail"


@pytest.mark.parametrize(
    ("text", "before_commit", "source"),
    [
        # Below the aggregate: once per row, not once for each of its windows.
        (
            f"select window_start, window_end, c.region, count(*) as n from {HOURS} as w "
            "join crm.customers c on c.id = w.customer group by 1, 2, 3",
            True,
            "stream_orders",
        ),
        (
            f"select c.region, count(*) as n from {ORDERS} join crm.customers c on c.id = o.customer group by 1",
            True,
            "project_",
        ),
        # Above it: for the windows that closed, the groups that changed.
        (
            f"with n as (select window_start, window_end, customer, count(*) as n from {HOURS} group by 1, 2, 3) "
            "select n.*, c.name from n left join crm.customers c on n.customer = c.id",
            False,
            "FROM window_",
        ),
        (
            f"with n as (select customer, count(*) as n from {ORDERS} group by 1) "
            "select n.*, c.name from n left join crm.customers c on n.customer = c.id",
            False,
            "group_",
        ),
        # Rows that are kept until their windows close.
        (
            f"select window_start, window_end, c.region, percentile(w.x, 0.5) as m from {HOURS} as w "
            "join crm.customers c on c.id = w.customer group by 1, 2, 3",
            False,
            "FROM window_",
        ),
    ],
)
def test_it_is_asked_where_its_rows_are(text: str, before_commit: bool, source: str) -> None:
    made = program(text)
    before, after = made.items_of_kind(Lookup), made.lookups
    asked = only(before if before_commit else after)
    assert source in asked.keys and "explode" not in asked.keys.lower()
    assert not (after if before_commit else before)


def test_a_ranking_over_an_answer_is_made_above_the_groups() -> None:
    text = f"""with g as (select customer, count(*) as n from {ORDERS} group by 1),
        named as (select g.customer, g.n, c.name from g join crm.customers c on c.id = g.customer)
        select * from (select *, row_number() over (order by n desc) as place from named) where place <= 3"""
    made = program(text)
    # What a group was called is kept, and taken back as it was.
    assert "given_" in only(made.items_of_kind(Lookup)).keys and not made.lookups


def test_only_the_columns_that_are_named_are_asked_for() -> None:
    def columns(items: str) -> tuple[str, ...] | None:
        text = f"select {items} from {ORDERS} join crm.customers as c on c.id = o.customer"
        return only(program(text).lookups).columns

    found = columns("o.*, c.name")
    assert found is not None and {"id", "name"} <= set(found) and "city" not in found
    assert columns("*") is columns("c.*") is None


def test_as_a_table_it_is_read_whole() -> None:
    text = (
        f"select c.region, count(*) as n from {ORDERS} join crm.customers c on c.id = o.customer group by 1"
    )
    plan = plan_of(text, KNOWN)
    assert whole_query.batch_sql(plan) == text
    assert whole_query.batch_text(text).count("crm.customers") == 1


G = f"(select customer, count(*) as n from {ORDERS} group by customer)"
DAY = 86_400_000_000


def tree(text: str) -> Program:
    plan = plan_query.plan(text, KNOWN, DAY)
    assert plan.static == ()
    return generate.generate_program(plan, ttl=DAY)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        # Of rows that change those are looked up that aren't known: what the others were given is kept.
        (
            f"select c.region, sum(n) as n from {G} as g join crm.customers c on c.id = g.customer group by c.region",
            "_new",
        ),
        (
            f"select o.id, c.name from {ORDERS} join {PAY} on p.id = o.id and p.ts between o.ts and o.ts + interval 1 day "
            "join crm.customers c on c.id = o.customer",
            "join_",
        ),
        (
            f"select o.id, c.name from {ORDERS} join crm.customers c on c.id = o.customer "
            f"where exists (select 1 from {PAY} where p.id = o.id)",
            "project_",
        ),
        (
            f"select o.id from {ORDERS} where exists (select 1 from (select p.id from {PAY} join crm.customers c "
            "on c.id = p.customer) as x where x.id = o.id)",
            "project_",
        ),
        (
            "select c.region, sum(n) as n from (select window_start, window_end, customer, count(*) as n "
            f"from {HOURS} group by 1, 2, 3) as w join crm.customers c on c.id = w.customer group by c.region",
            "FROM window_",
        ),
    ],
)
def test_an_operator_asks_right_before_it_joins(text: str, source: str) -> None:
    made = tree(text)
    asked = only(made.items_of_kind(Lookup))
    step = made.items[made.items.index(asked) + 1]
    assert isinstance(step, Step) and asked.view in step.sql
    assert asked.relation == "crm.customers" and source in asked.keys
    # What the keys come out of is computed once.
    read = [each for each in made.items_of_kind(Step) if re.search(rf"\b{each.name}\b", asked.keys)]
    assert all(each.persist or each.sees_changes for each in read)


def test_an_operator_that_reads_two_tables_asks_them_one_after_the_other() -> None:
    made = tree(
        f"select p.price, sum(n) as n from {G} as g join crm.customers c on c.id = g.customer "
        "left join crm.prices p on p.tariff = c.tariff group by p.price"
    )
    first, then = made.items_of_kind(Lookup)
    assert (first.relation, then.relation) == ("crm.customers", "crm.prices") and BY_ID in then.keys


def test_below_windows_within_a_tree_it_is_asked_for_the_rows() -> None:
    made = tree(
        "select region, max(n) as n from (select window_start, window_end, c.region, count(*) as n "
        f"from {HOURS} as w join crm.customers c on c.id = w.customer group by 1, 2, 3) group by region"
    )
    assert "stream_orders" in only(made.items_of_kind(Lookup)).keys


def test_inside_an_expression_it_goes_into_a_query_of_its_own() -> None:
    text = (
        f"select o.id from {ORDERS} where exists (select 1 from {PAY} join crm.customers c on c.id = p.customer "
        "where p.id = o.id)"
    )
    (lookup,) = tree(text).items_of_kind(Lookup)
    assert lookup.relation == "crm.customers" and "SELECT DISTINCT p.customer AS" in lookup.keys


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("select * from (select /*+ STREAM */ * from crm.customers)", "which can't be read as a stream"),
        (
            f"select * from crm.customers c join {ORDERS} on c.id = o.customer",
            "in the FROM before the stream",
        ),
        (
            f"select * from {ORDERS} where o.id in (select id from crm.customers)",
            "in the FROM before the stream",
        ),
        (
            f"select * from {ORDERS} right join crm.customers c on c.id = o.x",
            "so a RIGHT JOIN with it isn't possible",
        ),
        (
            f"select * from {ORDERS} full outer join crm.customers c on c.id = o.x",
            "so a FULL OUTER JOIN with it",
        ),
        (
            f"select * from {ORDERS} join crm.customers tablesample (10 percent) c on c.id = o.x",
            "Leave out what follows crm.customers",
        ),
        (
            f"select * from {ORDERS} join crm.customers version as of 3 c on c.id = o.x",
            "Leave out what follows crm.customers",
        ),
        (f"select * from {ORDERS} cross join crm.customers c", "so a join without ON isn't possible"),
        (f"select * from {ORDERS}, crm.customers c where c.id = o.x", "so a join without ON isn't possible"),
        (f"select * from {ORDERS} natural join crm.customers c", "name them, with USING"),
        (
            f"select * from {ORDERS} join crm.customers c on c.id > o.x",
            "compares no column of it for equality",
        ),
        (
            f"select * from {ORDERS} join crm.customers c on c.id <=> o.x",
            "compares no column of it for equality",
        ),
        (f"select * from {ORDERS} join crm.customers c on lower(c.id) = o.x", "compares no column of it for"),
        (
            f"select * from {ORDERS} join crm.customers c on c.id = o.x or c.id = o.y",
            "compares no column of it for",
        ),
        (f"select * from {ORDERS} join crm.customers c on id = x", "with the columns' names before it"),
        (f"select * from {ORDERS} join crm.customers c on c.id = 7", "compares no column of it for equality"),
        (
            f"select * from {ORDERS} join crm.customers c on c.id = o.x + rand()",
            "is non-deterministic or an aggregate",
        ),
        (
            f"select * from {ORDERS} join (select d.k, c.name from dim d join crm.customers c on c.id = d.k) x on x.k = o.x",
            "no stream is before it",
        ),
        (
            f"select * from {ORDERS} left join (crm.customers c join dim d on d.k = c.id) on c.id = o.x",
            "queried for the keys of a join only",
        ),
        (
            f"select * from {ORDERS} join ((crm.customers c join dim d on d.k = c.id) join m on m.k = c.id) on c.id = o.x",
            "queried for the keys of a join only",
        ),
        (
            f"select * from {ORDERS} join (dim d join (crm.customers c join m on m.k = c.id) on d.k = c.id) on d.k = o.x",
            "queried for the keys of a join only",
        ),
        (
            f"select o.id from {ORDERS} join crm.customers c on c.id = o.x join crm.prices p on p.k = c.k "
            f"union all select o.id from {ORDERS} join crm.prices p on p.k = o.x join crm.customers c on c.id = p.k",
            "wait for each other's answers",
        ),
    ],
)
def test_where_no_keys_can_be_asked_for_it_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(QueryError) as raised:
        program(text)
    assert sentence in str(raised.value) and "crm." in str(raised.value)


def source(config: Any) -> LookupSource:
    return LookupSource.from_config("crm.customers", "`spark_catalog`.`crm`.`customers`", config, "customers")
