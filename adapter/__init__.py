"""dbt's entrance: names the adapter's parts."""

from dbt.adapters.base import AdapterPlugin
from dbt.include import spark_streaming  # type: ignore[attr-defined]

from dbt.adapters.spark_streaming.credentials import SparkStreamingCredentials
from dbt.adapters.spark_streaming.impl import SparkStreamingAdapter

Plugin = AdapterPlugin(
    adapter=SparkStreamingAdapter,
    credentials=SparkStreamingCredentials,
    include_path=spark_streaming.PACKAGE_PATH,
    # Not the name dbt would derive from the folder, which differs in an editable install.
    project_name="dbt_spark_streaming",
    dependencies=["spark"],
)
