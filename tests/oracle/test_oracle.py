"""The rows Apache Flink gives for the same query, however the input is cut, and in batch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.cases import NO_ORACLE, ORACLE, case_names
from tests.oracle.compare import difference, read_expected
from tests.oracle.project import BATCH, Outcome, model_name, run_cases
from tests.spark_rows import rows_of

pytestmark = pytest.mark.skipif(ORACLE is None, reason=NO_ORACLE)

# All of the 20,000 rows, and 200 rows in so many pieces that most micro-batches close no window.
RUNS = {"small": [1, 3, 7, BATCH], "tiny": [12]}
# One of each kind of query; the others differ in what one batch does, not in how batches follow.
IN_MANY_PIECES = ["cumulate_agg", "hop_agg", "wjoin_topn"]


def runs_of(size: str) -> list[tuple[str, int]]:
    cases = case_names() if size == "small" else IN_MANY_PIECES
    return [(case, cuts) for case in cases for cuts in RUNS[size]]


@pytest.fixture(scope="module", params=RUNS)
def outcome(
    request: pytest.FixtureRequest,
    spark: Any,
    spark_target: dict[str, Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Outcome:
    assert ORACLE is not None
    size = request.param
    # Only what was asked for: `-k session` shouldn't run all models.
    calls = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    asked = {(call.get("case"), call.get("cuts")) for call in calls if call.get("outcome") == size}
    runs = [run for run in runs_of(size) if run in asked]
    return run_cases(tmp_path_factory.mktemp(f"oracle_{size}"), ORACLE, size, runs, spark_target)


def check(spark: Any, outcome: Outcome, size: str, case: str, cuts: int) -> None:
    assert ORACLE is not None
    model = model_name(case, cuts)
    problem = outcome.problems[model]
    assert problem is None, f"dbt run of {model}: {problem}"
    table = spark.table(f"{outcome.schema}.{model}")
    header, expected = read_expected(ORACLE / "expected" / case / f"{size}.csv")
    found = difference(table.columns, rows_of(table), header, expected)
    assert found is None, f"{model}: {found}"


@pytest.mark.parametrize("outcome", ["small"], indirect=True)
@pytest.mark.parametrize(("case", "cuts"), runs_of("small"))
def test_small(spark: Any, outcome: Outcome, case: str, cuts: int) -> None:
    check(spark, outcome, "small", case, cuts)


@pytest.mark.parametrize("outcome", ["tiny"], indirect=True)
@pytest.mark.parametrize(("case", "cuts"), runs_of("tiny"))
def test_tiny_in_many_pieces(spark: Any, outcome: Outcome, case: str, cuts: int) -> None:
    check(spark, outcome, "tiny", case, cuts)
