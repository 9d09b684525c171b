"""Which columns identify a row."""

from __future__ import annotations

import pytest

from tests.query.trees import GROUPS, STREAM, flow


@pytest.mark.parametrize(
    "items, key",
    [
        ("*", ("k", "rn")),
        ("k, v", ("k", "rn")),
        ("* except (k), v as k", None),
        ("* except (k)", None),
        ("v as k, u", None),
        ("k as v, u", ("rn", "v")),
        ("k, explode(array(1, 1)) as e", None),
    ],
)
def test_a_rank_identifies_rows_with_what_it_counts_within(items: str, key: tuple[str, ...] | None) -> None:
    ranked = f"select {items}, row_number() over (partition by k order by v, ts) as rn from {STREAM} as t"
    assert flow(f"select * from ({ranked}) where rn <= 3").key == key


def test_a_key_is_none_where_rows_are_multiplied() -> None:
    exploded = f"({GROUPS}) as g lateral view explode(array(1, 1)) as e"
    assert flow(f"select g.k, g.n, sum(g.n) over (partition by g.n) as s from {exploded}").key is None
    joined = f"from ({GROUPS}) as a join ({GROUPS.replace('db.s', 'db.t')}) as b on a.k = b.k"
    assert flow(f"select a.k, b.k as k2, a.n {joined}").key == ("k", "k2")
    assert flow(f"select a.k, b.k as k2, explode(array(1, 1)) as e {joined}").key is None
