"""What becomes of the state of a tree of operators when its query is edited."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.identity.fingerprints import lineages
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.query.state_signature import Signature
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.evolution.compare import evolution
from dbt.adapters.spark_streaming.stream.evolution.effect import Evolution
from dbt.adapters.spark_streaming.stream.evolution.match_parts import program_with_state_names
from dbt.adapters.spark_streaming.stream.evolution.migration import migrated_signature
from tests.planned import signature_of, tree_of

STREAM = expansion.expand_stream("events")
OPERATORS = "the operators that keep it up to date"


def signed(text: str, ttl: int | None = None, known: dict[str, RelationInfo] | None = None) -> Signature:
    """The signature of a query."""
    found = plan_query.plan(text, known or {"events": RelationInfo("ts")}, ttl, ["k", "v", "n", "x"])
    return replace(signature_of(found, ttl), text=text)


def edited(*texts: str, **more: Any) -> Evolution:
    """What the last of some edits makes of the state."""
    state, found = signed(texts[0], **more), Evolution()
    for text in texts[1:]:
        new = signed(text, **more)
        found = evolution(state, new)
        if not found.refused:
            state = migrated_signature(state, new, {}, (), found.rebuilt_from)
    return found


def of_groups(rest: str = "group by n", upper: str = "n, count(*) as c", lower: str = "count(*) as n") -> str:
    return f"select {upper} from (select k, {lower} from {STREAM} group by k) as g {rest}"


LIKED = of_groups(
    f"where exists (select 1 from (select x, count(*) as t from {STREAM} group by x) as h where h.t = g.n) group by n"
)


def having(least: int) -> str:
    return of_groups(f"group by n having count(*) > {least}")


@pytest.mark.parametrize("other", ["sum(x)", "max(v)", "count(v)", "avg(v)"])
def test_totals_of_other_values_are_other_ones(other: str) -> None:
    totals = f"select k, ts, {{}} over (partition by k order by ts) as s from {STREAM}"
    assert not edited(totals.format("sum(v)"), totals.format("sum( v )")).refused
    assert edited(totals.format("sum(v)"), totals.format(other)).refused


def test_edited_again_and_again() -> None:
    assert not edited(having(1), having(2)).refused
    assert not edited(having(1), having(2), having(3), having(1)).refused
    # Below what was replayed first.
    by_parity = of_groups("group by n % 2", "n % 2 as n, count(*) as c")
    found = edited(having(1), having(2), by_parity)
    assert (found.refused, len(found.rebuilt_from or ())) == ([], 1)
    assert found.rebuilt_from != edited(having(1), having(2)).rebuilt_from
    assert not edited(having(1), by_parity).refused


def test_two_groupings_of_the_same_rows() -> None:
    """What the state of one is called changes with the other."""
    inner = f"(select n, c from ({of_groups()}) as a)"
    twice = (
        f"select n, c from {inner} as a where exists "
        f"(select 1 from (select k, max(x) as m from {STREAM} group by k) as h where h.m = a.n)"
    )
    assert edited(twice, f"select n, c from {inner} as a").refused == [OPERATORS]


def test_of_one_name() -> None:
    """An aggregate that is kept under the name that another one had is begun."""
    lower = "count(*) filter (where x > 1) as n"
    found = edited(of_groups(lower=lower), of_groups(lower=lower.replace(">", "<")))
    assert found.refused == []
    ((name, columns),) = found.new_columns.items()
    assert columns == {"count_all_where_x_1"} == found.dropped_columns[name]
    assert found.kept_columns == set()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (having(1), of_groups("where k > 'a' group by n").replace("group by k", "where x > 1 group by k")),
        (
            f"select n from (select k, n from {STREAM})",
            f"select n + 1 as n from (select distinct k, n from {STREAM})",
        ),
    ],
)
def test_refused(old: str, new: str) -> None:
    assert OPERATORS in edited(old, new).refused


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f"select n from ({of_groups()})", f"select c from ({of_groups()})"),
        (f"{LIKED} intersect {having(2)}", f"{LIKED} except {having(2)}"),
    ],
)
def test_rows_that_nothing_tells_apart_are_made_anew(old: str, new: str) -> None:
    found = edited(old, new)
    assert (found.refused, found.rebuilt) == ([], ["what is computed of its groups"])


def test_with_state_ttl() -> None:
    assert not edited(having(1), having(2), ttl=1_000_000).refused
    assert edited(
        having(1), of_groups("group by n % 2", "n % 2 as n, count(*) as c"), ttl=1_000_000
    ).refused == [f"{OPERATORS}; with state_ttl they aren't rebuilt"]


def test_windows_are_numbered_as_they_are_read() -> None:
    def over(metric: str) -> str:
        window = expansion.expand_window("events", window_arguments.make_window("tumble", "ts", "10 minutes"))
        windows = f"select window_start, window_end, k, {metric} as m from {window} group by window_start, window_end, k"
        return f"(select k, max(m) as most from ({windows}) group by k)"

    one, other = over("sum(x)"), over("max(v)")
    old = f"select a.k, a.most as a, b.most as b from {one} as a join {other} as b on a.k = b.k"
    new = f"select a.k, a.most as a, b.most as b from {other} as b join {one} as a on a.k = b.k"
    assert OPERATORS in edited(old, new).refused
    # Also where nothing tells the rows of the join apart.
    apart = old.replace("on a.k = b.k", "on a.most = b.most")
    assert not edited(apart, apart.replace("b.most as b", "b.most + 1 as b")).refused
    assert not edited(old, old.replace("b.most as b", "b.most + 1 as b")).refused
    assert not edited(f"select k, most from {one}", f"select k, most + 1 as most from {one}").refused


def test_groups_that_nothing_reads_any_more_are_told() -> None:
    like = f"select 1 from (select x, max(v) as m from {STREAM} group by x) as h where h.m = a.n"
    without = f"select n, c from ({of_groups()}) as a"
    found = edited(f"{without} where exists ({like})", without)
    assert (found.refused, found.removed) == ([], ["MAX(v)"])


# -- told by lineage -------------------------------------------------------------------------------


def lineage(*texts: str) -> list[Any]:
    """What rows each query gives, and what its columns are."""
    found = []
    for text in texts:
        made = tree_of(text, {"events": RelationInfo("ts")}, 1_000_000)
        found.append(lineages(made.dataflow)[made.dataflow.root.name])
    return found


def window(kind: str = "tumble", *sizes: str, alias: str = "", **options: str) -> str:
    made = window_arguments.make_window(kind, "ts", *(sizes or ("10 minutes",)), **options)
    return expansion.expand_window("events", made) + alias


def per_window(metrics: str = "count(*) as n, sum(v) as s", rest: str = "", of: str = "") -> str:
    keys = "window_start, window_end, k"
    return f"(select {keys}, {metrics} from {of or window()} group by {keys} {rest})"


EXCEPT = f"select k from {STREAM} except select x from {STREAM}"
FULL = f"full join {STREAM} as c on a.k = c.k and b.k = c.k"
JOINED = f"select a.k, a.v, b.x from {STREAM} as a join (select k, x, v from {STREAM} where v > 1) as b on a.k = b.k"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (JOINED, JOINED.replace("a.", "c.").replace("as a", "as c")),
        (
            JOINED,
            f"select a.k, a.v, b.x from (select x, v, k from {STREAM} where v > 1) as b join {STREAM} as a on b.k = a.k",
        ),
        (
            f"select k, max(n) as m from {per_window()} group by k",
            f"select g.k, max(g.n) as m from {per_window('sum(x) as more, count(*) as n')} as g group by g.k",
        ),
        (
            f"select k, max(n) as m from {per_window()} group by k",
            f"with w as (select * from {window()}), g as {per_window(of='w')} select k, max(n) as m from g group by k",
        ),
        (
            EXCEPT,
            f"select a.k from {STREAM} as a except select x from {STREAM} as b",
        ),
    ],
)
def test_of_the_same_lineage(one: str, other: str) -> None:
    was, now = lineage(one, other)
    assert (was.rows, was.columns) == (now.rows, now.columns)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # Of a join of a stream with itself nothing but its place tells a side.
        (
            f"select a.k, b.v from {STREAM} as a join {STREAM} as b on a.v < b.v",
            f"select a.k, b.v from {STREAM} as a join {STREAM} as b on b.v < a.v",
        ),
        (
            f"select a.k, b.v from {STREAM} as a join {STREAM} as b on a.v < b.v",
            f"select b.k, a.v from {STREAM} as a join {STREAM} as b on a.v < b.v",
        ),
        (JOINED + " and a.v < b.v", JOINED + " and b.v < a.v"),
        (JOINED, JOINED.replace("b.x", "a.x")),
        (JOINED, JOINED.replace("v > 1", "x > 1")),
        (JOINED, JOINED.replace(" join ", " left join ")),
        (
            f"select a.k from {STREAM} as a left join {STREAM} as b on a.k = b.k and a.v > 1",
            f"select a.k from {STREAM} as a left join {STREAM} as b on a.k = b.k where a.v > 1",
        ),
        (
            f"select a.k from {STREAM} as a join {STREAM} as b on a.v > 1 {FULL}",
            f"select a.k from {STREAM} as a join {STREAM} as b on true {FULL} and a.v > 1",
        ),
        # A name that stands before in the select list, or a column of the stream.
        (
            f"select p, count(*) as n from (select v + 1 as b, b * 2 as p from {STREAM}) group by p",
            f"select p, count(*) as n from (select v + 2 as b, b * 2 as p from {STREAM}) group by p",
        ),
        (
            f"select k, sum(n) as n from {per_window()} group by k",
            f"select k, sum(n) as n from {per_window('count(v) as n, sum(v) as s')} group by k",
        ),
        (
            f"select k, sum(n) as n from {per_window()} group by k",
            f"select k, sum(n) as n from {per_window(rest='having count(*) > 1')} group by k",
        ),
        (
            f"select k, sum(n) as n from {per_window()} group by k",
            f"select k, sum(n) as n from {per_window(of=window('tumble', '5 minutes'))} group by k",
        ),
        (
            EXCEPT,
            f"select k from {STREAM} except select v as x from {STREAM}",
        ),
        (
            EXCEPT,
            f"select x from {STREAM} except select k from {STREAM}",
        ),
        (
            f"select k, n from (select k, count(*) as n from {STREAM} group by k)",
            f"select k, n from (select k, count(*) as n from {STREAM} group by k, v)",
        ),
        (
            f"select distinct k, v from {STREAM}",
            f"select distinct v as k, k as v from {STREAM}",
        ),
        (
            f"select k, v from (select k, v from {STREAM} union all select k, x from {STREAM})",
            f"select k, v from (select k, v from {STREAM} union all select x, k from {STREAM})",
        ),
    ],
)
def test_of_another_lineage(one: str, other: str) -> None:
    was, now = lineage(one, other)
    assert (was.rows, was.columns) != (now.rows, now.columns)


def program_of(text: str, ttl: int | None = None) -> Program:
    plan = plan_query.plan(text, {"events": RelationInfo("ts")}, ttl, ["k", "v", "n", "x", "m"])
    return generate.generate_program(plan, ttl=ttl)


def noted(text: str, had: Signature | None = None, ttl: int | None = None) -> Signature:
    """The signature of a query, with what its state is of, as a run notes it."""
    program = program_of(text, ttl)
    program = program_with_state_names(had or Signature(), program)
    return replace(
        program.signature,
        row_key=None if program.upsert is None else program.upsert.row_key,
        fingerprints=None if program.fingerprints is None else program.fingerprints(),
    )


def becomes(old: str, new: str) -> Evolution:
    had = noted(old)
    return evolution(had, noted(new, had))


def over_windows(metrics: str, upper: str = "max(n) as m") -> str:
    return f"select k, {upper} from {per_window(metrics)} group by k"


def test_aggregates_of_windows_below_a_group() -> None:
    old = over_windows("count(*) as n, sum(x) as s")
    found = becomes(old, over_windows("max(v) as x, count(*) as n"))
    assert (found.refused, found.new, found.removed) == ([], ["MAX(v)"], ["SUM(x)"])
    assert sorted(found.kept) == ["COUNT(*)", "MAX(n)"]
    # What stands on the group is what it was: nothing is made anew.
    assert (found.rebuilt_from, found.dropped_parts, found.changed_output) == (None, [], [])
    # One of the group, of a column that comes.
    found = becomes(old, over_windows("max(v) as x, count(*) as n", "max(n) as m, max(x) as most"))
    assert (found.refused, sorted(found.new)) == ([], ["MAX(v)", "MAX(x)"])
    # What comes out is read from the groups: the state has no copy of it.
    assert (found.changed_output, found.dropped_parts) == ([], [])
    # Under the same name it is of something else.
    found = becomes(old, over_windows("count(v) as n"))
    assert sorted(found.new) == ["COUNT(v)", "MAX(n)"]
    assert sorted(found.removed) == ["COUNT(*)", "MAX(n)", "SUM(x)"]
    assert found.new_columns.keys() == found.dropped_columns.keys()


def test_distinct_values_of_other_columns_below_are_refused() -> None:
    found = becomes(
        over_windows("count(*) as n", "count(distinct n) as m"),
        over_windows("count(v) as n", "count(distinct n) as m"),
    )
    assert "what COUNT(DISTINCT n) is made of, below the aggregates" in found.refused


def test_windows_that_only_their_aggregates_tell_apart_keep_their_places() -> None:
    one, other = (
        f"(select k, max(n) as m from {per_window(each)} group by k)"
        for each in ("count(*) as n", "sum(x) as n")
    )
    old = f"select a.k, a.m as one, b.m as other from {one} as a join {other} as b on a.k = b.k"
    new = f"select a.k, a.m as one, b.m as other from {other} as b join {one} as a on a.k = b.k"
    assert OPERATORS in becomes(old, new).refused


ROWS_OF_WINDOWS = (
    "select k, count(*) as c, max(window_end) as e from (select k, v, window_end from {}) as z group by k"
)
AS_NAMED = f"""select c, count(*) as n from (select k, sum(x) as c from (select v as x, * from {STREAM} where n > 1
    union all select {{}} from {STREAM}) group by k) group by c"""
OF_CHANCE = f"select {{}} intersect select k, v as r, v as s from {STREAM}"
OTHERS = {
    "longer windows, whose rows are read": (
        ROWS_OF_WINDOWS.format(window("tumble", "10 minutes")),
        ROWS_OF_WINDOWS.format(window("tumble", "5 minutes")),
    ),
    "windows of another kind": (
        ROWS_OF_WINDOWS.format(window("tumble", "10 minutes")),
        ROWS_OF_WINDOWS.format(window("hop", "5 minutes", "10 minutes")),
    ),
    "windows that begin at another time": (
        ROWS_OF_WINDOWS.format(window("tumble", "10 minutes")),
        ROWS_OF_WINDOWS.format(window("tumble", "10 minutes", offset="1 minute")),
    ),
    "windows of a zone": (
        ROWS_OF_WINDOWS.format(window("tumble", "10 minutes")),
        ROWS_OF_WINDOWS.format(window("tumble", "10 minutes", time_zone="Europe/Berlin")),
    ),
    "a star at another place": (AS_NAMED.format("v as x, *"), AS_NAMED.format("*, v as x")),
    "one value of chance, or two": (
        OF_CHANCE.format(f"k, r, r as s from (select k, rand() as r from {STREAM})"),
        OF_CHANCE.format(f"k, rand() as r, rand() as s from {STREAM}"),
    ),
    "other values of chance": (
        OF_CHANCE.format(f"k, q as r, q as s from (select k, rand() as q from {STREAM})"),
        OF_CHANCE.format(f"k, rand() as r, rand() as s from {STREAM}"),
    ),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("ttl", [None, 60 * 60_000_000])
def test_what_means_something_else_is_not_gone_on_with(name: str, ttl: int | None) -> None:
    old, new = OTHERS[name]
    if "chance" in name and ttl is None:
        pytest.skip("without a bound it is refused")
    had = noted(old, ttl=ttl)
    found = evolution(had, noted(new, had, ttl))
    assert found.refused or found.is_migration


def test_a_name_that_both_have_is_of_the_same() -> None:
    had = noted(having(1))
    new = noted(having(2), had)
    assert not evolution(had, new).refused
    assert had.fingerprints is not None and new.fingerprints is not None
    if had.fingerprints.parts:
        others = {part: "something else" for part in had.fingerprints.parts}
        new = replace(new, fingerprints=replace(new.fingerprints, parts={**new.fingerprints.parts, **others}))
        assert OPERATORS in evolution(had, new).refused or evolution(had, new).rebuilt
