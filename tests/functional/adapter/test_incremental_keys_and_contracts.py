"""An incremental model's contract holds of its new rows too, and a key that is NULL is matched as any other."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from dbt.tests.util import run_dbt

STRATEGIES = {
    "append": "",
    "merge": "unique_key='k'",
    "delete+insert": "unique_key='k'",
    "insert_overwrite": "",
    "microbatch": "event_time='at', begin='2025-06-01', batch_size='day', lookback=0",
}
ROWS = "select {{ var('k') }} as k, {{ var('v') }} as v, timestamp'2025-06-01 10:00:00' as at"
KEYS = {"one": "'k'", "two": "['k', 'v']"}


def named(strategy: str) -> str:
    return "c_" + strategy.replace("+", "_")


class TestContractsAndNullKeys:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        made = {}
        for strategy, configs in STRATEGIES.items():
            made[f"{named(strategy)}.sql"] = (
                "{{ config(materialized='incremental', on_schema_change='fail', "
                f"incremental_strategy='{strategy}'{', ' + configs if configs else ''}) }}}}\n{ROWS}"
            )
        for strategy in ("merge", "delete+insert"):
            for name, key in KEYS.items():
                made[f"n_{named(strategy)}_{name}.sql"] = (
                    f"{{{{ config(materialized='incremental', incremental_strategy='{strategy}', unique_key={key}) }}}}"
                    "\nselect cast(null as string) as k, 1 as v union all select 'a', 2"
                )
        contracts: list[dict[str, Any]] = [
            {
                "name": named(strategy),
                "config": {"contract": {"enforced": True}},
                "constraints": [{"type": "check", "name": "few", "expression": "v < 3"}],
                "columns": [
                    {"name": "k", "data_type": "string", "constraints": [{"type": "not_null"}]},
                    {"name": "v", "data_type": "int"},
                    {"name": "at", "data_type": "timestamp"},
                ],
            }
            for strategy in STRATEGIES
        ]
        return made | {"schema.yml": yaml.safe_dump({"models": contracts})}

    def test_a_row_that_breaks_a_contract_ends_the_second_run(self, project: Any) -> None:
        window = ["--event-time-start", "2025-06-01", "--event-time-end", "2025-06-02"]

        def run(k: str, v: int, passes: bool) -> list[Any]:
            said = yaml.safe_dump({"k": k, "v": v})
            return list(run_dbt(["run", "-s", "c_*", "--vars", said, *window], expect_pass=passes))

        run("'a'", 1, True)
        for k, v in (("cast(null as string)", 1), ("'b'", 3)):
            results = run(k, v, False)
            assert {str(each.status) for each in results} & {"success", "pass"} == set()
            for each in results:
                if each.node.name != "c_microbatch":
                    assert f"says the contract of {each.node.name}." in each.message
                found = project.run_sql(f"select k, v from {{schema}}.{each.node.name}", fetch="all")
                assert [tuple(row) for row in found] == [("a", 1)], each.node.name
        run("'b'", 2, True)

    def test_a_row_whose_key_is_null_comes_once(self, project: Any) -> None:
        for _ in range(2):
            run_dbt(["run", "-s", "n_*"])
        for strategy in ("merge", "delete+insert"):
            for name in KEYS:
                table = f"n_{named(strategy)}_{name}"
                found = project.run_sql(f"select k, v from {{schema}}.{table} order by v", fetch="all")
                assert [tuple(row) for row in found] == [(None, 1), ("a", 2)], table
