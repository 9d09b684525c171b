"""A Spark Connect server that isn't there is named."""

from __future__ import annotations

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.credentials import SparkStreamingCredentials


def test_a_server_that_is_not_there_is_named() -> None:
    from dbt.adapters.spark_streaming.environment.connect import ConnectEnvironment

    credentials = SparkStreamingCredentials(schema="s", method="connect", host="sc://localhost:1")
    with pytest.raises(DbtRuntimeError) as refused:
        ConnectEnvironment(credentials).session()
    told = str(refused.value)
    assert "There is no Spark Connect server at sc://localhost:1" in told or "[connect]" in told
