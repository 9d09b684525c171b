"""Names of tables and their parts, whatever is in them."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.stream.common.identifiers import joined_name, parts


@pytest.mark.parametrize("name", ["a.b.c", "a.`b-c`.`d.e`", "`with space`.`tick``s`", "größe.`1x`"])
def test_names_and_their_parts(name: str) -> None:
    assert parts(joined_name(parts(name))) == parts(name)
