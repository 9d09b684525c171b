"""The rows Apache Flink gives for the same query, however the input is cut into micro-batches."""

from __future__ import annotations

from typing import Any

import pytest

from tests.functional.quick import many_rows
from tests.oracle.cases import NO_ORACLE, ORACLE, case_names
from tests.oracle.compare import difference, read_expected
from tests.oracle.streams import Case, Input
from tests.spark_rows import rows_of

__all__ = ["many_rows"]  # a fixture

pytestmark = pytest.mark.skipif(ORACLE is None, reason=NO_ORACLE)

IN_MANY_PIECES = ["cumulate_agg", "wjoin_topn"]
# All of the 20,000 rows, and 200 rows in so many pieces that most micro-batches close no window.
RUNS = [
    *((case, "small", cuts) for case in case_names() for cuts in (3, 7)),
    *((case, "tiny", 12) for case in case_names() if case in IN_MANY_PIECES),
]
# All are cut in `test_programs`, which needs a tenth of the time. This is what Spark makes of them, with code for whole
# stages and in several tasks; in CI `functional/query/test_operators.py` and `property/test_streams.py` are run so.


@pytest.fixture(scope="module")
def cases(spark: Any, storage_root: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Gives a case over an input, planned once for all its cuts."""
    assert ORACLE is not None
    inputs = {
        size: Input(spark, storage_root, ORACLE, size, tmp_path_factory.mktemp(size))
        for size in ("small", "tiny")
    }
    found: dict[tuple[str, str], Case] = {}

    def case(name: str, size: str) -> Case:
        if (name, size) not in found:
            found[name, size] = Case(inputs[size], name)
        return found[name, size]

    return case


@pytest.mark.thorough
@pytest.mark.parametrize("run", RUNS, ids=lambda run: "-".join(map(str, run)))
def test_a_stream_has_the_rows_of_flink(cases: Any, run: tuple[str, str, int]) -> None:
    case, size, cuts = run
    assert ORACLE is not None
    table = cases(case, size).run(cuts)
    header, expected = read_expected(ORACLE / "expected" / case / f"{size}.csv")
    found = difference(table.columns, rows_of(table), header, expected)
    assert found is None, f"{case} in {cuts} pieces: {found}"
