"""Snapshots find rows by keys of which columns are NULL, and fields by name: a run without changes changes nothing."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from tests.functional.quick import few_rows
from tests.thorough import mostly_thorough

__all__ = ["few_rows"]

WAYS = {
    "by_time": ["strategy: timestamp", "updated_at: at"],
    "by_check": ["strategy: check", "check_cols: [v]"],
    "by_all": ["strategy: check", "check_cols: all"],
}
DELETES = ("ignore", "invalidate", "new_record")
ROWS = "(1, null, 10), (1, '', 11), (null, null, 12), (null, 'x', 13), (2, 'a|b', 14), (3, 'a', 15)"


def snapshot(name: str, configs: list[str], deletes: str, key: str) -> str:
    listed = "".join(
        f"      {each}\n" for each in [*configs, f"hard_deletes: {deletes}", f"unique_key: {key}"]
    )
    return f"  - name: {name}_{deletes}\n    relation: ref('rows')\n    config:\n{listed}"


CASES = [*((name, deletes) for deletes in DELETES for name in ("by_check", "the others"))]


class TestNullKeys:
    @pytest.fixture(scope="class", params=mostly_thorough(CASES, [("by_check", "new_record")]), ids="-".join)
    def case(self, request: pytest.FixtureRequest) -> tuple[str, str]:
        name, deletes = request.param
        return str(name), str(deletes)

    @pytest.fixture(scope="class")
    def deletes(self, case: tuple[str, str]) -> str:
        return case[1]

    @pytest.fixture(scope="class")
    def names(self, case: tuple[str, str]) -> list[str]:
        names = ["by_check"] if case[0] == "by_check" else ["by_time", "by_all", "single", "until"]
        return [f"{name}_{case[1]}" for name in names]

    @pytest.fixture(scope="class")
    def models(self, deletes: str, names: list[str]) -> dict[str, str]:
        until = [*WAYS["by_check"], "dbt_valid_to_current: \"timestamp'2999-01-01'\""]
        every = {name: snapshot(name, configs, deletes, "[a, b]") for name, configs in WAYS.items()}
        every["single"] = snapshot("single", WAYS["by_time"], deletes, "w")
        every["until"] = snapshot("until", until, deletes, "[a, b]")
        listed = [text for name, text in every.items() if f"{name}_{deletes}" in names]
        return {
            "rows.sql": f"select *, timestamp'2024-03-04 00:00:00' as at, nullif(v, 12) as w "
            f"from values {{{{ var('rows', \"{ROWS}\") }}}} as t(a, b, v)",
            "snapshots.yml": "snapshots:\n" + "".join(listed),
        }

    def run(self, rows: str = ROWS, at: str = "00:00:00") -> None:
        made = rows.replace('"', "'")
        run_dbt(["run", "--vars", f'{{rows: "{made}"}}'])
        run_dbt(["snapshot"])

    def states(self, project: Any, name: str) -> Counter[tuple[Any, ...]]:
        found = project.run_sql(
            f"select a, b, v, coalesce(dbt_valid_to < timestamp'2900-01-01', false) from {project.test_schema}.{name}",
            fetch="all",
        )
        return Counter(map(tuple, found))

    def test_rows_come_once_and_change_once(self, project: Any, deletes: str, names: list[str]) -> None:
        first = [(1, None, 10), (1, "", 11), (None, None, 12), (None, "x", 13), (2, "a|b", 14), (3, "a", 15)]
        for _ in range(2):
            self.run()
            for name in names:
                assert self.states(project, name) == Counter((*row, False) for row in first), name

        changed = ROWS.replace("(1, null, 10)", "(1, null, 20)").replace("(null, null, 12), ", "")
        for _ in range(2):
            self.run(changed)
            by_values = [name for name in names if name.startswith(("by_check", "by_all"))]
            for name in by_values:
                found = self.states(project, name)
                assert (found[1, None, 10, True], found[1, None, 20, False]) == (1, 1), name
                gone = {
                    "ignore": [(None, None, 12, False)],
                    "invalidate": [(None, None, 12, True)],
                    "new_record": [(None, None, 12, True), (None, None, 12, False)],
                }[deletes]
                assert all(found[row] == 1 for row in gone), name
                assert found.total() == 6 + len(gone), name
        self.run()
        if deletes != "ignore":
            assert self.states(project, by_values[0])[None, None, 12, False] == 1


class TestFieldsInAnotherOrder:
    """Spark compares and unites structs by position."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        first = "select id, named_struct('a', id, 'b', 100) as s from values (1), (2) as t(id)"
        then = "select id, named_struct('b', 100, 'a', id) as s from values (1) as t(id)"
        return {"rows.sql": f"{{% if var('then', false) %}}{then}{{% else %}}{first}{{% endif %}}"}

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        query = "select * from {{ ref('rows') }}"
        configs = "unique_key='id', strategy='check', check_cols='all', hard_deletes='new_record'"
        return {"kept.sql": f"{{% snapshot kept %}}{{{{ config({configs}) }}}} {query} {{% endsnapshot %}}"}

    def test_they_are_found_by_name(self, project: Any) -> None:
        run_dbt(["build"])
        run_dbt(["build", "--vars", "{then: true}"])
        found = project.run_sql(
            f"select id, s.a, s.b, dbt_valid_to is null, dbt_is_deleted from {project.test_schema}.kept",
            fetch="all",
        )
        assert sorted(map(tuple, found)) == [
            (1, 1, 100, True, "False"),
            (2, 2, 100, False, "False"),
            (2, 2, 100, True, "True"),
        ]
