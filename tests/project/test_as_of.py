"""The arguments of ``as_of()``."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.project.as_of import as_of_arguments
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.frontend.streams import Known


@pytest.mark.parametrize("key", [[], [""], " ", 4, ["a", 4]])
def test_a_key_is_columns(key: object) -> None:
    with pytest.raises(QueryError, match=r"as_of\(\) over rates: key is .*; write a column or a list"):
        as_of_arguments("rates", "o.at", key, Known("changed_at"))
