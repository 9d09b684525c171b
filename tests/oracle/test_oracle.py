"""The rows Apache Flink gives for the same query: as models of a dbt project, whose input comes at once, and in batch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.cases import NO_ORACLE, ORACLE, case_names
from tests.oracle.compare import difference, read_expected
from tests.oracle.project import BATCH, Outcome, model_name, run_cases
from tests.spark_rows import rows_of
from tests.thorough import mostly_thorough

pytestmark = pytest.mark.skipif(ORACLE is None, reason=NO_ORACLE)

AT_ONCE = 1
RUNS = [(case, cuts) for case in case_names() for cuts in (AT_ONCE, BATCH)]
# Programs are run in `test_programs`, which needs a tenth of the time. This is what Spark makes of a few: grouping sets,
# sessions, a join, a ranking and first rows.
_IN_CI = [
    *("cumulate_grouping_sets", "nexmark_q20", "wtopn_agg", "dedup_unbounded_first"),
]


@pytest.fixture(scope="module")
def outcome(
    request: pytest.FixtureRequest,
    spark: Any,
    spark_target: dict[str, Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Outcome:
    assert ORACLE is not None
    # Only what was asked for: `-k session` shouldn't run all models.
    calls = [
        item.callspec.params
        for item in request.session.items
        if hasattr(item, "callspec") and item.path == request.path
    ]
    asked = {(call["case"], call["cuts"]) for call in calls}
    runs = [run for run in RUNS if run in asked]
    return run_cases(tmp_path_factory.mktemp("oracle"), ORACLE, "small", runs, spark_target)


@pytest.mark.parametrize("case", mostly_thorough(case_names(), {*_IN_CI} & {*case_names()}))
@pytest.mark.parametrize("cuts", [AT_ONCE, BATCH])
def test_a_model_has_the_rows_of_flink(spark: Any, outcome: Outcome, case: str, cuts: int) -> None:
    assert ORACLE is not None
    model = model_name(case, cuts)
    problem = outcome.problems[model]
    assert problem is None, f"dbt run of {model}: {problem}"
    table = spark.table(f"{outcome.schema}.{model}")
    header, expected = read_expected(ORACLE / "expected" / case / "small.csv")
    found = difference(table.columns, rows_of(table), header, expected)
    assert found is None, f"{model}: {found}"
