"""An incremental model's contract holds of its new rows too, and a key that is NULL is matched as any other."""

from __future__ import annotations

from pathlib import Path
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


class ContractsAndNullKeys:
    """A project with models of some strategies."""

    STRATEGIES: tuple[str, ...] = ()
    KEYED: tuple[str, ...] = ()

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        made = {}
        for strategy in self.STRATEGIES:
            configs = STRATEGIES[strategy]
            made[f"{named(strategy)}.sql"] = (
                "{{ config(materialized='incremental', on_schema_change='fail', "
                f"incremental_strategy='{strategy}'{', ' + configs if configs else ''}) }}}}\n{ROWS}"
            )
        for strategy in self.KEYED:
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
            for strategy in self.STRATEGIES
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
        for strategy in self.KEYED:
            for name in KEYS:
                table = f"n_{named(strategy)}_{name}"
                found = project.run_sql(f"select k, v from {{schema}}.{table} order by v", fetch="all")
                assert [tuple(row) for row in found] == [(None, 1), ("a", 2)], table


ROW = {"k": "string", "v": "int"}


def enforced(name: str, columns: dict[str, str]) -> dict[str, Any]:
    listed: list[dict[str, Any]] = [{"name": each, "data_type": kind} for each, kind in columns.items()]
    for each in listed:
        if each["name"] == "k":
            each["constraints"] = [{"type": "not_null", "warn_unsupported": False}]
        if each["name"] == "v":
            each["constraints"] = [{"type": "check", "name": "few", "expression": "v < 3"}]
    return {"name": name, "config": {"contract": {"enforced": True}}, "columns": listed}


DROPPED = {
    "join": "select a.k, a.v from {{ ref('some') }} as a join (select 'a' as k) as b on a.k = b.k",
    "semi": "select k, v from {{ ref('some') }} where k in (select 'a' union all select 'x' || rand())",
    "having": "select k, v from {{ ref('some') }} group by k, v having max(v) < 3 and count(k) > 0",
}
"""Queries that drop rows which break their contract, after a scan that Spark could ask it of."""


class TestContractsAndNullKeys(ContractsAndNullKeys):
    STRATEGIES = ("merge", "microbatch")
    KEYED = ("merge",)

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        both = {
            "table": "materialized='table'",
            "incremental": "materialized='incremental', on_schema_change='fail'",
        }
        made = {
            f"d_{name}_{kind}": (config, text)
            for name, text in DROPPED.items()
            for kind, config in both.items()
        }
        listed = [enforced(name, ROW) for name in made]
        listed[0]["columns"][1]["constraints"][0]["expression"] = "v < 3 -- few, and not more"
        return {
            **super().models.__wrapped__(self),  # type: ignore[attr-defined]
            "some.sql": "{{ config(materialized='table') }} select * from values ('a', 1), ('b', 4), (null, 1) as t(k, v)",
            **{f"{name}.sql": f"{{{{ config({config}) }}}}\n{text}" for name, (config, text) in made.items()},
            "dropped.yml": yaml.safe_dump({"models": listed}),
        }

    def test_rows_that_the_query_drops_break_no_contract(self, project: Any) -> None:
        for _ in range(2):
            run_dbt(["run", "-s", "some", "d_*"])
        for name in DROPPED:
            assert project.run_sql(f"select k, v from {{schema}}.d_{name}_table", fetch="one") == ("a", 1), (
                name
            )


@pytest.mark.thorough
class TestContractsAndNullKeysOfOtherStrategies(ContractsAndNullKeys):
    STRATEGIES = ("append", "delete+insert", "insert_overwrite")
    KEYED = ("delete+insert",)


EVENTS = "{{ tumble(ref('events'), 'at', '1 hour') }}"
WINDOWS = f"select window_start, window_end, k, cast(sum(v) as int) as v from {EVENTS} group by all"
PLANNED = {
    "windows": ("incremental_strategy='window_overwrite', lookback=0", WINDOWS),
    "merged_windows": ("unique_key=['window_end', 'k']", WINDOWS),
    "best": (
        "incremental_strategy='append'",
        f"select * except (n) from (select *, row_number() over (partition by k order by v desc) as n from ({WINDOWS})) "
        "where n = 1",
    ),
    "of_few": (
        "unique_key='k', enum_distinct=true",
        "select max(window_start) as window_start, max(window_end) as window_end, k, "
        f"cast(count(distinct v) + max(v) as int) as v from {EVENTS} where k in ('a', 'b') group by k",
    ),
}
"""Incremental models whose text is planned before it runs: their configs and texts."""


@pytest.mark.thorough
class TestContractsOfPlannedQueriesAndSnapshots:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        windows = {"window_start": "timestamp", "window_end": "timestamp", **ROW}
        return {
            "events.sql": "{{ config(materialized='table') }}\n"
            "select * from values {{ var('rows') }} as v(k, v, at)",
            "schema.yml": yaml.safe_dump({"models": [enforced(name, windows) for name in PLANNED]}),
            **{
                f"{name}.sql": f"{{{{ config(materialized='incremental', on_schema_change='fail', {configs}) }}}}\n{text}"
                for name, (configs, text) in PLANNED.items()
            },
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        kept = {"dbt_scd_id": "string", "dbt_updated_at": "timestamp"}
        kept |= {"dbt_valid_from": "timestamp", "dbt_valid_to": "timestamp"}
        snapshot = enforced("history", ROW | {"at": "timestamp"} | kept)
        snapshot["relation"] = "ref('events')"
        snapshot["config"] |= {"unique_key": "at", "strategy": "check", "check_cols": ["k", "v"]}
        return {"history.yml": yaml.safe_dump({"snapshots": [snapshot]})}

    def test_a_row_that_breaks_a_contract_ends_the_run(self, project: Any) -> None:
        def build(*rows: str, passes: bool = True) -> list[Any]:
            said = yaml.safe_dump({"rows": ", ".join(rows)})
            run_dbt(["run", "-s", "events", "--vars", said])
            return list(run_dbt(["build", "--exclude", "events", "--vars", said], expect_pass=passes))

        def kept() -> dict[str, list[tuple[Any, ...]]]:
            tables = [*PLANNED, "history"]
            return {
                name: [
                    tuple(row) for row in project.run_sql(f"select k, v from {{schema}}.{name}", fetch="all")
                ]
                for name in tables
            }

        build("('a', 1, timestamp'2025-06-01 10:00:00')")
        before = kept()
        assert before == {name: [("a", 1)] for name in before} | {"of_few": [("a", 2)]}
        results = build(
            "('a', 1, timestamp'2025-06-01 10:00:00')",
            "('b', 4, timestamp'2025-06-01 11:00:00')",
            passes=False,
        )
        assert len(results) == len(before)
        for each in results:
            assert (
                f"Constraint few is broken: v < 3, says the contract of {each.node.name}." in each.message
            ), each.message
        assert kept() == before
        build("('a', 1, timestamp'2025-06-01 10:00:00')", "('b', 1, timestamp'2025-06-01 11:00:00')")
        assert all(("b", 1 if name != "of_few" else 2) in rows for name, rows in kept().items())

    def test_a_contract_that_was_edited_is_asked_of_new_rows(self, project: Any) -> None:
        path = Path(project.project_root) / "snapshots" / "history.yml"
        path.write_text(path.read_text().replace("v < 3", "v > 1"))
        kept = ["('a', 1, timestamp'2025-06-01 10:00:00')", "('b', 1, timestamp'2025-06-01 11:00:00')"]

        def snapshot(*rows: str, passes: bool = True) -> str:
            said = yaml.safe_dump({"rows": ", ".join(rows)})
            run_dbt(["run", "-s", "events", "--vars", said])
            (found,) = run_dbt(["snapshot"], expect_pass=passes)
            return str(found.message)

        snapshot(*kept)
        snapshot(kept[0].replace("1,", "5,"), kept[1])
        said = snapshot(*kept, "('c', 1, timestamp'2025-06-01 12:00:00')", passes=False)
        assert "Constraint few is broken: v > 1, says the contract of history." in said
        rows = project.run_sql("select k, v from {schema}.history order by k, v", fetch="all")
        assert [tuple(row) for row in rows] == [("a", 1), ("a", 5), ("b", 1)]
