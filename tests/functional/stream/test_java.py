"""What Java is asked."""

from __future__ import annotations

from typing import Any

from dbt.adapters.spark_streaming.stream.common.session import static_method


def test_static_methods_beside_ones_of_objects(spark: Any) -> None:
    """As Iceberg's cache of tables has them. Which of them Java lists first is another thing in each JVM."""
    assert static_method(spark, "java.lang.Integer", "toString")(7) == "7"
    assert static_method(spark, "java.lang.Double", "isNaN")(float("nan")) is True
    cache = static_method(spark, "org.apache.iceberg.spark.SparkTableCache", "get")()
    assert cache.get("no such table") is None
