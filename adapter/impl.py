"""dbt's adapter."""

from __future__ import annotations

import os
from typing import TypeAlias

from dbt.adapters.spark.impl import SparkAdapter

from dbt.adapters.spark_streaming.connections import SparkStreamingConnectionManager
from dbt.adapters.spark_streaming.environment import Environment, get_environment
from dbt.adapters.spark_streaming.relation import SparkStreamingRelation


class SparkStreamingAdapter(SparkAdapter):
    """What dbt-spark does, in a session of our own, with Iceberg as the default."""

    Relation: TypeAlias = SparkStreamingRelation
    ConnectionManager: TypeAlias = SparkStreamingConnectionManager

    def __init__(self, config, mp_context) -> None:
        super().__init__(config, mp_context)
        # `dbt debug` has no project in its hands; it runs in the project's folder then.
        config.credentials.start_at(getattr(config, "project_root", None) or os.getcwd())

    @property
    def environment(self) -> Environment:
        """Where Spark runs."""
        return get_environment(self.config.credentials)
