"""Which places of a ranking a condition lets through, in whatever words it says so."""

from __future__ import annotations

from random import Random

import duckdb
import pytest

from dbt.adapters.spark_streaming.query.normalize.rankings.rank_bounds import RankBounds, bounds_of_condition
from dbt.adapters.spark_streaming.query.sql.dialect import parse
from tests.differential.duck import translated


def places(condition: str) -> RankBounds | None:
    where = parse(f"select 1 from t where {condition}").args["where"].this
    return bounds_of_condition(where).get(("", "rn"))


@pytest.mark.parametrize(
    ("condition", "first", "last"),
    [
        ("1 + rn <= 3", None, 2),
        ("rn - 1 - 1 < 3", None, 4),
        ("5 > rn + 1", None, 3),
        ("-rn >= -2", None, 2),
        ("10 - rn >= 7", None, 3),
        ("rn - 1 between 0 and 2", 1, 3),
        ("rn in (1, 2L)", 1, 2),
        ("not not rn <= 3", None, 3),
        ("not (rn > 3 or x)", None, 3),
        ("not (rn > 3 or (x and rn > 2))", None, 3),
        ("not (rn not between 2 and 4)", 2, 4),
        ("not rn not in (1, 3)", 1, 3),
        ("rn <=> 1", 1, 1),
        ("rn is not distinct from 1", 1, 1),
        ("rn <= 3.0", None, 3),
        ("rn < 3.0", None, 2),
        ("rn < 3.5", None, 3),
        ("rn >= 1.5 and rn < 3.5D", 2, 3),
        ("rn <= 3D", None, 3),
        ("rn < 3.0BD", None, 2),
        ("rn <= 2e0", None, 2),
        ("rn <= '3'", None, 3),
        ("cast(rn as double) < 2.5", None, 2),
        ("cast(rn as decimal(10, 0)) <= 2", None, 2),
        ("(rn <= 2) is true", None, 2),
        ("(rn > 2) = false", None, 2),
        ("coalesce(rn <= 2, false)", None, 2),
        ("if(x, rn <= 2, rn = 4)", None, 4),
        ("case when x then rn <= 1 when rn < 3 then true else false end", None, 2),
        ("rn <= 2 or false", None, 2),
        ("rn <= -4", None, 0),
        # Of DOUBLEs it may be another number than it is written as, so one place more is asked for.
        ("rn <= 2.99999999999999999D", None, 3),
    ],
)
def test_places(condition: str, first: int | None, last: int) -> None:
    assert places(condition) == RankBounds(first, last)


@pytest.mark.parametrize(
    "condition",
    [
        "rn <> 3",
        "rn >= 3",
        "rn <= 3 or x",
        "rn <= x",
        "rn + x <= 3",
        "rn + rn <= 3",
        "(rn > 3) is not true",
        "not (rn <=> 1)",
        "not (rn > 3 and x)",
        "coalesce(rn <= 2, true)",
        "case when rn > 3 then false else true end",
        "cast(rn as tinyint) <= 3",
        "cast(rn + 0.5 as int) <= 3",
        # As an INT it would come to a negative number some day.
        "rn + 2000000000 <= 3",
        "rn <= '3.5'",
        "rn <= interval 3 days",
        "rn in (select n from other)",
    ],
)
def test_no_places(condition: str) -> None:
    found = places(condition)
    assert found is None or found.last is None


def test_columns_of_several_relations() -> None:
    where = parse("select 1 from r where not (R.rn > 3 or o.rn > 2 or x)").args["where"].this
    assert bounds_of_condition(where) == {("r", "rn"): RankBounds(None, 3), ("o", "rn"): RankBounds(None, 2)}


def _number(chance: Random) -> str:
    return chance.choice(["0", "1", "2", "3", "5", "2L", "3.0", "2.5", "4.5D", "1e0", "-1", "(1 + 1)"])


def _side(chance: Random) -> str:
    return chance.choice(
        ["rn", "rn", "rn + {}", "{} + rn", "rn - {}", "{} - rn", "-rn", "cast(rn as bigint)", "{}", "x"]
    ).format(_number(chance))


def _condition(chance: Random, depth: int = 3) -> str:
    if depth and chance.random() < 0.7:
        one, other = (_condition(chance, depth - 1) for _ in range(2))
        return chance.choice(
            [
                f"({one} and {other})",
                f"({one} or {other})",
                f"(not {one})",
                f"coalesce({one}, {other})",
                f"(case when {one} then {other} else {_condition(chance, 0)} end)",
                f"({one} is true)",
                f"({one} is not false)",
                f"({one} = true)",
                f"(false <=> {one})",
            ]
        )
    comparison = chance.choice(["<", "<=", ">", ">=", "=", "<>", "<=>"])
    return chance.choice(
        [
            f"({_side(chance)} {comparison} {_number(chance)})",
            f"({_number(chance)} {comparison} {_side(chance)})",
            f"({_side(chance)} between {_number(chance)} and {_number(chance)})",
            f"({_side(chance)} in ({_number(chance)}, {_number(chance)}))",
            "y",
            "false",
            "null",
        ]
    )


def test_a_random_condition_lets_no_other_place_through() -> None:
    """A rank that is NULL, as an outer join makes it, included."""
    database = duckdb.connect()
    chance, bounded = Random("places"), 0
    for _ in range(400):
        condition = _condition(chance)
        found = places(condition)
        if found is None:
            continue
        bounded += found.last is not None
        text = f"""select rn from (select * from unnest(array[null, 1, 2, 3, 4, 5, 6, 7, 8, 9]) as r (rn),
          unnest(array[null, 1, 4]) as a (x), unnest(array[null, true, false]) as b (y)) where {condition}"""
        text = text.replace("array[", "array(").replace("])", "))")
        for (rank,) in database.execute(translated(text)).fetchall():
            assert rank is not None, condition
            assert (found.first or 1) <= rank <= (found.last if found.last is not None else rank), condition
    assert bounded > 40
