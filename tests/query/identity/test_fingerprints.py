"""State tables of two plans are matched by what is in them, not by how their queries are written."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from dbt.adapters.spark_streaming.query.state_signature import Fingerprints
from tests.planned import tree_of
from tests.query.trees import KNOWN, OTHER, STREAM

JOINED = "select a.k, b.v from {} as a join {} as b on a.k = b.k"


def alike(text: str) -> Fingerprints:
    found = generate.generate_program(tree_of(text, KNOWN, DAY, ("k",)), ttl=DAY).fingerprints
    assert found is not None
    return found()


@pytest.mark.parametrize(
    "other",
    [
        "select x.k, y.v from {} as x join {} as y on y.k = x.k",
        "with b as (select * from {1}) select a.k, b.v from {0} as a join b on a.k = b.k",
    ],
    ids=["other aliases", "a CTE"],
)
def test_words_make_no_difference(other: str) -> None:
    one, same = alike(JOINED.format(STREAM, OTHER)), alike(other.format(STREAM, OTHER))
    assert sorted(one.parts.values()) == sorted(same.parts.values())
    assert one.meaning == same.meaning


def test_rows_that_are_left_out_do() -> None:
    one, other = alike(JOINED.format(STREAM, OTHER)), alike(f"{JOINED.format(STREAM, OTHER)} where b.v > 0")
    assert {*one.parts.values()} != {*other.parts.values()}


def test_a_ranking_of_fewer_rows_finds_its_rows() -> None:
    ranks = f"(select k, v, row_number() over (partition by k order by v, ts) as rn from {STREAM})"
    five, three = (alike(f"select k, v from {ranks} where rn <= {rows}") for rows in (5, 3))
    assert [*five.parts.values()] == [*three.parts.values()] != []
    assert five.meaning != three.meaning
