"""The rows Apache Flink gives, by the planner's programs alone, on DuckDB: each case cut in several ways."""

from __future__ import annotations

import pytest

from tests.differential import duck
from tests.differential.tree import Column, Model, Written
from tests.oracle.cases import NO_ORACLE, ORACLE, case_names
from tests.oracle.compare import difference, read_expected
from tests.oracle.streams import planned
from tests.thorough import mostly_thorough

pytestmark = pytest.mark.skipif(ORACLE is None, reason=NO_ORACLE)

CUTS = (5,)


@pytest.fixture(scope="module")
def laboratory() -> duck.Laboratory:
    """Flink's input."""
    assert ORACLE is not None
    made = duck.Laboratory()
    for path in (ORACLE / "data" / "small").glob("*.parquet"):
        made.read(path.stem, str(path))
    return made


# Cases that differ in operator, and beside those that `test_oracle` runs on Spark.
_IN_CI = [
    "tumble_offset",
    "cumulate_gap",
    "tvf_hop",
    "enum_distinct",
    "wtopn_raw",
    "wdedup_first",
    "nexmark_q8",
]


@pytest.mark.parametrize("case", mostly_thorough(case_names(), {*_IN_CI} & {*case_names()}))
def test_a_program_has_the_rows_of_flink(laboratory: duck.Laboratory, case: str) -> None:
    assert ORACLE is not None
    _, _, program, delay = planned(ORACLE, case, laboratory.rows_of.keys())
    header, expected = read_expected(ORACLE / "expected" / case / "small.csv")
    model = Model(Written("", tuple(Column(name, "") for name in header)))
    for cuts in CUTS:
        laboratory.cut(cuts)
        stream = duck.Streamed(model, program, laboratory.base.cursor(), fold=True, delay=delay)
        for number in range(cuts):
            stream.take((number, number + 1))
        stream.flush()
        found = difference(header, stream.target, header, expected)
        assert found is None, f"{case} in {cuts} pieces: {found}"
