"""What becomes of the state of a tree of operators when its query is edited."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query import expansion, planner, window_arguments
from dbt.adapters.spark_streaming.query.signature import signature
from dbt.adapters.spark_streaming.query.streams import Known
from dbt.adapters.spark_streaming.stream.differences import Evolution, carried_on, evolution

STREAM = expansion.expand_stream("events")
OPERATORS = "the operators that keep it up to date"


def signed(text: str, ttl: int | None = None, known: dict[str, Known] | None = None) -> dict[str, Any]:
    """The signature of a query, as it is read back."""
    found = planner.plan_any(text, known or {"events": Known("ts")}, ttl, ["k", "v", "n", "x"])
    made: dict[str, Any] = json.loads(json.dumps(signature(found, ttl)))
    made["text"] = text
    return made


def edited(*texts: str, **more: Any) -> Evolution:
    """What the last of some edits makes of the state."""
    state, found = signed(texts[0], **more), Evolution()
    for text in texts[1:]:
        new = signed(text, **more)
        found = evolution(state, new)
        if not found.refused:
            state = json.loads(json.dumps(carried_on(state, new, {}, (), found.replayed)))
    return found


def of_groups(rest: str = "group by n", upper: str = "n, count(*) as c", lower: str = "count(*) as n") -> str:
    return f"select {upper} from (select k, {lower} from {STREAM} group by k) as g {rest}"


LIKED = of_groups(
    f"where exists (select 1 from (select x, count(*) as t from {STREAM} group by x) as h where h.t = g.n) group by n"
)


def having(least: int) -> str:
    return of_groups(f"group by n having count(*) > {least}")


def test_edited_again_and_again() -> None:
    assert not edited(having(1), having(2)).refused
    assert not edited(having(1), having(2), having(3), having(1)).refused
    # Below what was replayed first.
    by_parity = of_groups("group by n % 2", "n % 2 as n, count(*) as c")
    found = edited(having(1), having(2), by_parity)
    assert (found.refused, len(found.replayed or ())) == ([], 1)
    assert found.replayed != edited(having(1), having(2)).replayed
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
    ((name, columns),) = found.begun.items()
    assert columns == {"count_all_where_x_1"} == found.dropped[name]
    assert found.own == set()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (having(1), of_groups("where k > 'a' group by n").replace("group by k", "where x > 1 group by k")),
        (f"select n from ({of_groups()})", f"select c from ({of_groups()})"),
        # Rows that nothing tells apart.
        (f"{LIKED} intersect {having(2)}", f"{LIKED} except {having(2)}"),
        (of_groups(), f"select k, count(*) as n from {STREAM} group by k"),
    ],
)
def test_refused(old: str, new: str) -> None:
    assert OPERATORS in edited(old, new).refused


def test_with_state_ttl() -> None:
    assert edited(having(1), having(2), ttl=1_000_000).refused == [
        f"{OPERATORS}; with state_ttl they aren't made anew"
    ]


def test_windows_are_numbered_as_they_are_read() -> None:
    def over(metric: str) -> str:
        window = expansion.expand("events", window_arguments.make("tumble", "ts", "10 minutes"))
        windows = f"select window_start, window_end, k, {metric} as m from {window} group by window_start, window_end, k"
        return f"(select k, max(m) as most from ({windows}) group by k)"

    one, other = over("sum(x)"), over("max(v)")
    old = f"select a.k, a.most as a, b.most as b from {one} as a join {other} as b on a.k = b.k"
    new = f"select a.k, a.most as a, b.most as b from {other} as b join {one} as a on a.k = b.k"
    assert OPERATORS in edited(old, new).refused
    # Nothing tells the rows of the join apart, so they can't be put out anew.
    assert OPERATORS in edited(old, old.replace("b.most as b", "b.most + 1 as b")).refused
    assert not edited(f"select k, most from {one}", f"select k, most + 1 as most from {one}").refused


def test_groups_that_nothing_reads_any_more_are_told() -> None:
    like = f"select 1 from (select x, max(v) as m from {STREAM} group by x) as h where h.m = a.n"
    without = f"select n, c from ({of_groups()}) as a"
    found = edited(f"{without} where exists ({like})", without)
    assert (found.refused, found.removed) == ([], ["MAX(v)"])
