"""dbt's own suite: hooks."""

from pathlib import Path
from typing import Any

import pytest
from dbt.tests.adapter.hooks import test_model_hooks
from dbt.tests.adapter.hooks.test_model_hooks import (
    BaseDuplicateHooksInConfigs,
    BaseHookRefs,
    BaseHooksRefsOnSeeds,
    BasePrePostModelHooks,
    BasePrePostModelHooksInConfig,
    BasePrePostModelHooksInConfigKwargs,
    BasePrePostModelHooksInConfigWithCount,
    BasePrePostModelHooksOnSeeds,
    BasePrePostModelHooksOnSeedsPlusPrefixed,
    BasePrePostModelHooksOnSeedsPlusPrefixedWhitespace,
    BasePrePostModelHooksOnSnapshots,
    BasePrePostSnapshotHooksInConfigKwargs,
)
from dbt.tests.adapter.hooks.test_run_hooks import BaseAfterRunHooks, BasePrePostRunHooks

# dbt's own, of what dbt-spark does and this adapter leaves as it is.
pytestmark = pytest.mark.thorough


class InOurProfile:
    """The target's values that hooks see are ours, not Postgres'."""

    table = "on_model_hook"

    @pytest.fixture(scope="class")
    def test_data_dir(self) -> Path:
        return Path(test_model_hooks.__file__).parent / "data"

    def check_hooks(self, state: str, project: Any, host: str | None, count: int = 1) -> None:
        rows = project.run_sql(
            f"select target_name, target_schema, target_threads, target_type, run_started_at, invocation_id, "
            f"thread_id from {project.test_schema}.{self.table} where test_state = '{state}'",
            fetch="all",
        )
        assert len(rows) == count
        for name, schema, threads, kind, started, invocation, thread in rows:
            assert (name, schema, threads, kind) == ("default", project.test_schema, 2, "spark_streaming")
            assert started
            assert invocation
            assert thread.startswith("Thread-") or thread == "MainThread"


class TestPrePostModelHooks(InOurProfile, BasePrePostModelHooks):
    pass


class TestHookRefs(InOurProfile, BaseHookRefs):
    pass


class TestPrePostModelHooksOnSeeds(BasePrePostModelHooksOnSeeds):
    pass


class TestHooksRefsOnSeeds(BaseHooksRefsOnSeeds):
    pass


class TestPrePostModelHooksOnSeedsPlusPrefixed(BasePrePostModelHooksOnSeedsPlusPrefixed):
    pass


class TestPrePostModelHooksOnSeedsPlusPrefixedWhitespace(BasePrePostModelHooksOnSeedsPlusPrefixedWhitespace):
    pass


class TestPrePostModelHooksOnSnapshots(BasePrePostModelHooksOnSnapshots):
    pass


class TestPrePostModelHooksInConfig(InOurProfile, BasePrePostModelHooksInConfig):
    pass


class TestPrePostModelHooksInConfigWithCount(InOurProfile, BasePrePostModelHooksInConfigWithCount):
    pass


class TestPrePostModelHooksInConfigKwargs(InOurProfile, BasePrePostModelHooksInConfigKwargs):
    pass


class TestPrePostSnapshotHooksInConfigKwargs(BasePrePostSnapshotHooksInConfigKwargs):
    pass


class TestDuplicateHooksInConfigs(BaseDuplicateHooksInConfigs):
    pass


class TestPrePostRunHooks(InOurProfile, BasePrePostRunHooks):
    table = "on_run_hook"

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        """As the base, with Spark's name of the type text."""
        column = "create table {{ target.schema }}"
        return {
            "on-run-start": [
                "{{ custom_run_hook('start', target, run_started_at, invocation_id) }}",
                f"{column}.start_hook_order_test (id int)",
                "drop table {{ target.schema }}.start_hook_order_test",
                "{{ log(env_var('TERM_TEST'), info=True) }}",
            ],
            "on-run-end": [
                "{{ custom_run_hook('end', target, run_started_at, invocation_id) }}",
                f"{column}.end_hook_order_test (id int)",
                "drop table {{ target.schema }}.end_hook_order_test",
                f"{column}.schemas (schema string)",
                "insert into {{ target.schema }}.schemas values "
                "{% for schema in schemas %}('{{ schema }}'){{ ',' if not loop.last }}{% endfor %}",
            ],
            "seeds": {"quote_columns": False},
        }

    def assert_used_schemas(self, project: Any) -> None:
        """As the base, without databases."""
        rows = project.run_sql(f"select * from {project.test_schema}.schemas", fetch="all")
        assert [tuple(row) for row in rows] == [(project.test_schema,)]


class TestAfterRunHooks(BaseAfterRunHooks):
    pass
