"""One Spark for all tests of a run."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ["dbt.tests.fixtures.project"]

# Tests look at tables, not at usage statistics.
os.environ.setdefault("DBT_SEND_ANONYMOUS_USAGE_STATS", "false")
# Most code runs a few times only, on a few rows: Java's optimizing compiler takes half of the CPU time and never earns
# it back. Its quick compiler needs more room for the code.
os.environ.setdefault(
    "JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=400m -XX:+UseSerialGC -Xmn600m"
)


# The processes of pytest have a width, by which tables would be cut.
os.environ.pop("COLUMNS", None)
# Trees of SQL are made and dropped by the million, and to look for cycles in them took up to a tenth of the time.
gc.set_threshold(100_000, 20, 50)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Refuses test names that hold an object's address: the processes of one run would collect different tests. Keeps the
    tests of CI that come before a thorough one in its class, where `-m thorough` leaves them out: many tests of a class
    are steps with one project."""
    if addresses := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError(f"give the values of a parametrized test ids: {addresses[0]}")
    collected = [*items]
    yield
    selected, wanted = {id(item) for item in items}, set[int]()
    classes_with_thorough = set[object]()
    for item in reversed(collected):
        around = item.getparent(pytest.Class)
        if item.get_closest_marker("thorough") is not None:
            if around is not None and id(item) in selected:
                classes_with_thorough.add(around)
        elif around in classes_with_thorough:
            wanted.add(id(item))
    if wanted - selected:
        items[:] = [item for item in collected if id(item) in selected | wanted]


@pytest.fixture(scope="session")
def storage_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The storage root of the run: warehouse, catalog and state of all tests."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="session")
def spark_target(storage_root: Path) -> dict[str, Any]:
    """The profile's target of all tests; dbt in this process shares `spark` through it."""
    return {
        "type": "spark_streaming",
        "threads": 2,
        "storage_root": str(storage_root),
        "master": "local[2]",
        # A thousand tests leave more behind than the models of a project do.
        "server_side_parameters": {
            "spark.driver.memory": "4g",
            "spark.sql.codegen.cache.maxEntries": "300",
            # A stage of a handful of rows is over before its code is compiled. The examples and the integration project
            # have it compiled.
            "spark.sql.codegen.wholeStage": "false",
        },
    }


@pytest.fixture(scope="session", autouse=True)
def nobody_looks_for_callers() -> Iterator[None]:
    """dbt looks through all callers' source files, for each of its flags, each time it makes an adapter."""
    from dbt_common.behavior_flags import BehaviorFlagRendered

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BehaviorFlagRendered, "_default_source", staticmethod(lambda: "tests"))
        yield


@pytest.fixture(scope="class", autouse=True)
def adapters_of_others_are_gone() -> None:
    """A dbt that ran in this process before leaves its adapter, which dbt's own fixtures would take for theirs."""
    from dbt.adapters.factory import reset_adapters

    reset_adapters()


@pytest.fixture(scope="class")
def dbt_profile_target(spark_target: dict[str, Any]) -> dict[str, Any]:
    """What dbt's own test classes ask for."""
    return dict(spark_target)


@pytest.fixture(scope="session")
def spark_environment(spark_target: dict[str, Any]) -> Iterator[Any]:
    """Where Spark runs in this test run."""
    from dbt.adapters.spark_streaming.credentials import SparkStreamingCredentials
    from dbt.adapters.spark_streaming.environment import close_environments, get_environment

    options = {key: value for key, value in spark_target.items() if key not in ("type", "threads")}
    yield get_environment(SparkStreamingCredentials(schema="default", **options))
    close_environments()


@pytest.fixture(scope="session")
def spark(spark_environment: Any) -> Any:
    """The Spark session, with Iceberg, that dbt in this process uses too."""
    return spark_environment.session()
