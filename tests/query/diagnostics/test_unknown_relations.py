"""`dbt-stream explain` refuses a name that is neither a CTE nor has a schema."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.diagnostics.unknown_relations import check_relation_names
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.windows import expansion

PAID = "with paid as (select * from raw.orders)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"{PAID} select * from {expansion.expand_stream('payd')}",
            "The query reads payd, and no CTE has this name; did you mean 'paid'? A model is read by ref('…')",
        ),
        (
            f"select * from {expansion.expand_stream('text')}",
            "The query reads text, and no CTE has this name. A model",
        ),
        (f"{PAID} select * from paid join cities using (city)", "The query reads cities, and no CTE"),
    ],
)
def test_a_name_that_nothing_has(text: str, message: str) -> None:
    with pytest.raises(QueryError) as problem:
        check_relation_names(text, ["raw.orders"])
    assert message in str(problem.value)


@pytest.mark.parametrize(
    "text",
    [
        f"{PAID} select * from {expansion.expand_stream('PAID')}",
        "select * from raw.orders join range(3) lateral view explode(array(1)) t as tag",
        "select * from (values (1)) as t (a)",
        "select * from declared",
    ],
)
def test_what_is_known(text: str) -> None:
    check_relation_names(text, ["raw.orders", "declared"])
