"""The rows Apache Flink gives, by the planner's programs alone, on DuckDB: each case cut in several ways."""

from __future__ import annotations

from typing import Any

import jinja2
import pytest

from dbt.adapters.spark_streaming import streaming
from dbt.adapters.spark_streaming.query.streams import Known
from tests.differential import duck
from tests.differential.tree import Column, Model, Written
from tests.oracle.cases import NO_ORACLE, ORACLE, case_names
from tests.oracle.compare import difference, read_expected
from tests.oracle.project import settings_of
from tests.oracle.streams import MACROS
from tests.oracle.translate import model_text

pytestmark = pytest.mark.skipif(ORACLE is None, reason=NO_ORACLE)

CUTS = (3, 7)


@pytest.fixture(scope="module")
def laboratory() -> duck.Laboratory:
    """Flink's input."""
    assert ORACLE is not None
    made = duck.Laboratory()
    for path in (ORACLE / "data" / "small").glob("*.parquet"):
        made.read(path.stem, str(path))
    return made


@pytest.mark.parametrize("case", case_names())
def test_a_program_has_the_rows_of_flink(laboratory: duck.Laboratory, case: str) -> None:
    assert ORACLE is not None
    tables = frozenset(laboratory.rows_of)
    text = model_text((ORACLE / "cases" / f"{case}.sql").read_text(), tables, "raw")
    node: dict[str, Any] = {"name": case, "config": settings_of(case)}
    plan = streaming.plan(
        node, jinja2.Template(text).render(MACROS), {table: Known("ts") for table in tables}
    )
    program = streaming.program(node, plan)
    header, expected = read_expected(ORACLE / "expected" / case / "small.csv")
    model = Model(Written("", tuple(Column(name, "") for name in header)))
    for cuts in CUTS:
        laboratory.cut(cuts)
        stream = duck.Streamed(
            model, program, laboratory.base.cursor(), fold=True, delay=streaming.config(node).watermark
        )
        for number in range(cuts):
            stream.take((number, number + 1))
        stream.flush()
        found = difference(header, stream.target, header, expected)
        assert found is None, f"{case} in {cuts} pieces: {found}"
