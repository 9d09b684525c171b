"""A ranking with an end is a Top-N where rows only come, or where groups have all that it needs."""

from __future__ import annotations

import pytest

from tests.query.trees import GROUPS, OTHER, STREAM, flow, kinds


def ranked(rows: str, order: str, columns: str = "*") -> str:
    ranks = f"select {columns}, row_number() over (partition by k order by {order}) as rn from {rows}"
    return f"select * from ({ranks}) where rn <= 2"


@pytest.mark.parametrize(
    ("text", "is_top_n"),
    [
        (ranked(STREAM, "v, ts"), True),
        (ranked(f"({GROUPS})", "n desc"), True),
        (ranked(f"(select k, n + 1 as more from ({GROUPS}))", "more desc"), True),
        (
            ranked(f"(select g.k, g.n, o.v from ({GROUPS}) as g join {OTHER} as o on o.k = g.k)", "n, v"),
            False,
        ),
    ],
    ids=["rows", "groups", "values made of groups", "joined groups"],
)
def test_what_is_ranked_decides(text: str, is_top_n: bool) -> None:
    assert ("TopN" in kinds(flow(text))) is is_top_n
