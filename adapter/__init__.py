"""dbt's entry point: provides `Plugin`."""

from __future__ import annotations

import gc
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dbt.adapters.base import AdapterPlugin

    Plugin: AdapterPlugin


def __getattr__(name: str) -> Any:
    """Creates `Plugin` when dbt first reads it, so that `dbt-stream --help` doesn't import dbt."""
    if name != "Plugin":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dbt.adapters.spark_streaming.util.platforms import unsupported_system_message

    if why := unsupported_system_message():
        from dbt_common.exceptions import DbtRuntimeError

        raise DbtRuntimeError(why)

    from dbt.adapters.base import AdapterPlugin

    from dbt.adapters.spark_streaming.credentials import SparkStreamingCredentials
    from dbt.adapters.spark_streaming.impl import SparkStreamingAdapter

    plugin = AdapterPlugin(
        adapter=SparkStreamingAdapter,
        credentials=SparkStreamingCredentials,
        # Imported by name: mypy finds this package (the folder macros/) in some kinds of install only.
        include_path=importlib.import_module("dbt.include.spark_streaming").PACKAGE_PATH,
        # dbt would derive the name from the folder, which differs in an editable install.
        project_name="dbt_spark_streaming",
        dependencies=["spark"],
    )
    # The imports so far created 130,000 objects that are never freed. Without freezing them the garbage collector scans
    # them several times while dbt reads its manifest, which takes a tenth of the time of `dbt parse`.
    gc.freeze()
    globals()["Plugin"] = plugin
    return plugin
