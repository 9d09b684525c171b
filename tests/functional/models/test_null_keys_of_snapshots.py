"""Snapshots find rows by keys of which columns are NULL: a run without changes leaves a snapshot as it is."""

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


class TestNullKeys:
    @pytest.fixture(scope="class", params=mostly_thorough(DELETES, ["new_record"]))
    def deletes(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture(scope="class")
    def models(self, deletes: str) -> dict[str, str]:
        listed = [snapshot(name, configs, deletes, "[a, b]") for name, configs in WAYS.items()]
        listed.append(snapshot("single", WAYS["by_time"], deletes, "w"))
        listed.append(
            snapshot(
                "until",
                [*WAYS["by_check"], "dbt_valid_to_current: \"timestamp'2999-01-01'\""],
                deletes,
                "[a, b]",
            )
        )
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

    def test_rows_come_once_and_change_once(self, project: Any, deletes: str) -> None:
        names = [*(f"{name}_{deletes}" for name in WAYS), f"single_{deletes}", f"until_{deletes}"]
        first = [(1, None, 10), (1, "", 11), (None, None, 12), (None, "x", 13), (2, "a|b", 14), (3, "a", 15)]
        for _ in range(2):
            self.run()
            for name in names:
                assert self.states(project, name) == Counter((*row, False) for row in first), name

        changed = ROWS.replace("(1, null, 10)", "(1, null, 20)").replace("(null, null, 12), ", "")
        for _ in range(2):
            self.run(changed)
            for name in names[1:3]:
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
            assert self.states(project, names[1])[None, None, 12, False] == 1
