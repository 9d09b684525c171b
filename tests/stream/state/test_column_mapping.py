"""What columns of the state are called where one name is of several types."""

from __future__ import annotations

import itertools
from functools import partial

import pytest

from dbt.adapters.spark_streaming.query.state_signature import (
    AggregateState,
    BufferState,
    DistinctState,
    GroupState,
    MetricState,
    Signature,
    TreeState,
    WindowOperatorState,
)
from dbt.adapters.spark_streaming.stream.evolution.compare import evolution
from dbt.adapters.spark_streaming.stream.run.evolve import new_columns
from dbt.adapters.spark_streaming.stream.state.column_mapping import (
    TwoTypesError,
    physical_names,
    renamed_columns,
    signature_with_physical_names,
    visible_columns,
)
from dbt.adapters.spark_streaming.stream.state.schema import KnownColumns

_WANTS: dict[str, dict[str, str | None]] = {
    "a": {"step": "bigint", "k": "timestamp", "n": "bigint"},
    "b": {"step": "bigint", "k": "date", "n": "bigint"},
    "c": {"step": "bigint", "k": "date", "n": None},
}


def test_the_order_of_parts_is_no_matter() -> None:
    expected = {
        "a": {"step": "step", "k": "k__timestamp", "n": "n"},
        "b": {"step": "step", "k": "k__date", "n": "n"},
        "c": {"step": "step", "k": "k__date", "n": "n"},
    }
    for parts in itertools.permutations(_WANTS):
        assert physical_names({part: _WANTS[part] for part in parts}) == expected
    assert renamed_columns(expected) == {
        "a": {"k": "k__timestamp"},
        "b": {"k": "k__date"},
        "c": {"k": "k__date"},
    }


def test_what_goes_on_keeps_its_column() -> None:
    has = {"part": "string", "step": "bigint", "k": "timestamp", "n": "bigint"}
    continued = {"a": {"step": "step", "k": "k", "n": "n"}}
    found = physical_names(_WANTS, continued=continued, has=has)
    assert found["a"] == {"step": "step", "k": "k", "n": "n"}
    assert found["b"]["k"] == found["c"]["k"] == "k__date"
    # And so does what is the only one left; what comes has the column of its type, or another one than that.
    has = {"part": "string", "step": "bigint", "k__date": "date"}
    wants: dict[str, dict[str, str | None]] = {"b": {"k": "date"}, "d": {"k": "date"}, "e": {"k": "int"}}
    found = physical_names(wants, continued={"b": {"k": "k__date"}}, has=has)
    assert found == {"b": {"k": "k__date"}, "d": {"k": "k__date"}, "e": {"k": "k__int"}}


def test_a_part_that_wants_another_type_is_refused() -> None:
    """Its rows would be read as another type, though another part is of that of the column."""
    wants: dict[str, dict[str, str | None]] = {"b": {"k": "date"}, "a": {"k": "bigint"}}
    for parts in (["a"], ["a", "b"], ["b", "a"]):
        with pytest.raises(TwoTypesError, match=r"k of its state \(k of a\) is a DATE and would be a BIGINT"):
            physical_names(
                {part: wants[part] for part in parts},
                continued={part: {"k": "k"} for part in parts},
                has={"k": "date"},
            )


def test_null_is_of_the_type_that_is_read_with_it() -> None:
    wants: dict[str, dict[str, str | None]] = {
        "a": {"k": "date"},
        "b": {"k": "timestamp"},
        "b_2": {"k": None},
    }
    found = physical_names(wants, [("b", "b_2"), ("a",)])
    assert found["b_2"] == {"k": "k__timestamp"}
    assert physical_names({"a": {"k": None}}) == {"a": {"k": "k"}}


def test_two_types_in_one_text() -> None:
    with pytest.raises(
        ValueError,
        match=r"operators of the query keep a column k, one as (DATE|INT) and the other as (DATE|INT)",
    ):
        physical_names({"a": {"k": "date"}, "b": {"k": "int"}}, [("a", "b")])


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("decimal(20,2)", "k__decimal_20_2"),
        ("array<int>", "k__array_"),
        ("struct<`a b`:int,c:struct<d:date>>", "k__struct_"),
        ("string collate UTF8_LCASE", "k__string_"),
    ],
)
def test_names_of_types(kind: str, name: str) -> None:
    found = physical_names({"a": {"k": kind}, "b": {"k": "int"}})["a"]["k"]
    assert found.startswith(name) and found.replace("_", "").isalnum() and len(found) < 40


def test_types_that_begin_alike() -> None:
    found = physical_names({"a": {"k": "array<int>"}, "b": {"k": "array<date>"}})
    assert found["a"] != found["b"]


def test_a_name_that_is_taken() -> None:
    wants: dict[str, dict[str, str | None]] = {
        "a": {"k": "date", "k__date": "int"},
        "b": {"k": "int", "k__int": "int"},
    }
    found = physical_names(wants)
    columns = [found["a"]["k"], found["b"]["k"], "k__date", "k__int"]
    assert len({*columns}) == 4 and found["a"]["k__date"] == "k__date" and found["b"]["k__int"] == "k__int"


def test_columns_of_the_protocol_have_their_names() -> None:
    found = physical_names({"a": {"step": "bigint"}, "b": {"step": "string"}})
    assert found == {"a": {"step": "step"}, "b": {"step": "step__string"}}


def test_what_texts_see() -> None:
    names = ["part", "K", "k__date", "k__int", "n"]
    noted = {"b": {"k": "k__date"}, "c": {"k": "k__int"}}
    assert visible_columns(names, noted, ["c"]) == [("part", "part"), ("k__int", "k"), ("n", "n")]
    assert visible_columns(names, noted, ["a"]) == [("part", "part"), ("K", "K"), ("n", "n")]
    # One that doesn't say what it reads must not see another's.
    assert visible_columns(names, noted, []) == [("part", "part"), ("n", "n")]


def test_signatures() -> None:
    metric, values = MetricState("SUM(k)", ("k", "n")), DistinctState(columns=("k",))
    operator = WindowOperatorState(
        "window_1", aggregates=AggregateState({"k": "k"}, metrics={"SUM(k)": metric})
    )
    ranking = WindowOperatorState("window_10", buffer=BufferState("window_10_row"))
    group = GroupState(aggregates=AggregateState(distinct_sets={"k": values}))
    signature = Signature((operator, ranking), TreeState(groups={"group_1": group}))
    noted = {"window_1_groups": {"k": "k__int"}, "group_1_distinct_k": {"k": "k__date"}}
    found = signature_with_physical_names(signature, noted)
    assert found.aggregates["window_1"].metrics == {"SUM(k)": MetricState("SUM(k)", ("k__int", "n"))}
    assert found.aggregates["window_1"].keys == {"k": "k"} and found.windows[1] == ranking
    assert found.aggregates["group_1"].distinct_sets == {"k": DistinctState(columns=("k__date",))}
    assert signature_with_physical_names(signature, noted, keys=True).aggregates["window_1"].keys == {
        "k__int": "k"
    }
    assert signature_with_physical_names(signature, {}) == signature


def test_a_part_that_comes_has_no_column_yet() -> None:
    """Its keys go where the window operator has them, not into a column that is called so."""

    def operator(**sets: DistinctState) -> Signature:
        aggregates = AggregateState({"k": "k"}, distinct_sets=sets)
        return Signature((WindowOperatorState("window_1", aggregates=aggregates),))

    found = evolution(operator(), operator(v=DistinctState("window_1_distinct_v", ("v",))))
    known = KnownColumns(
        {"k": "date", "k__int": "int"}, {"window_1_groups": {"k": "k__int"}}, partial(new_columns, found)
    )
    wants: dict[str, dict[str, str | None]] = {
        "window_1_groups": {"k": "int"},
        "window_1_distinct_v": {"k": "int", "v": "int"},
        "window_2_groups": {"k": "date"},
    }
    continued = known.continued_names(wants)
    assert continued == {"window_1_groups": {"k": "k__int"}, "window_2_groups": {"k": "k"}}
    together = [("window_1_groups", "window_1_distinct_v")]
    assert physical_names(wants, together, continued, known.types)["window_1_distinct_v"] == {
        "k": "k__int",
        "v": "v",
    }
