"""dbt's entrance: names the adapter's parts."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dbt.adapters.base import AdapterPlugin

    Plugin: AdapterPlugin


def __getattr__(name: str) -> Any:
    """`Plugin`, as dbt asks for it; made then, because what only prints a help text does without dbt, and once."""
    if name != "Plugin":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dbt.adapters.base import AdapterPlugin
    from dbt.include import spark_streaming  # type: ignore[attr-defined]

    from dbt.adapters.spark_streaming.credentials import SparkStreamingCredentials
    from dbt.adapters.spark_streaming.impl import SparkStreamingAdapter

    made = AdapterPlugin(
        adapter=SparkStreamingAdapter,
        credentials=SparkStreamingCredentials,
        include_path=spark_streaming.PACKAGE_PATH,
        # Not the name dbt would derive from the folder, which differs in an editable install.
        project_name="dbt_spark_streaming",
        dependencies=["spark"],
    )
    # What has been imported by now, some 130,000 objects, stays. Else Python's garbage collector goes through all of it
    # several times while dbt reads its manifest: a tenth of `dbt parse`.
    gc.freeze()
    globals()["Plugin"] = made
    return made
