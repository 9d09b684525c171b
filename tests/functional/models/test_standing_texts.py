"""A model's text gives the same rows wherever it is run: ties are broken alike in streams, tables, views, `dbt show`, unit
tests, snapshots and incremental models; and it may end in a semicolon or have a WINDOW clause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from tests.functional.quick import few_rows

__all__ = ["few_rows"]

EVENTS = """{{ config(materialized='incremental', incremental_strategy='append', event_time='ts') }}
select timestamp'2024-03-04 00:00:00' + make_dt_interval(0, 0, pmod(hash(id), 3)) as ts, pmod(hash(id, 1), 4) as k,
  pmod(hash(id, 2), 50) as v, 50 - pmod(hash(id, 3), 50) as w from range(200)"""
S = "{{ stream(ref('events')) }}"
HOURS = "{{ tumble(ref('events'), 'ts', '1 hour') }}"
QUERIES = {
    "ranked": f"""select k, v, w from (
  select k, v, w, row_number() over (partition by k order by ts) as rn from {S}) where rn <= 2""",
    "extreme": f"select k, max_by(v, ts) as v, min_by(w, ts) as w from {S} group by k",
    "windowed": f"""select k, v, w from (select k, v, w,
  row_number() over (partition by window_start, window_end, k order by ts) as rn from {HOURS}) where rn <= 2""",
}
KINDS = {
    "stream": "materialized='streaming_table', constant_domains=['k']",
    "table": "materialized='table'",
    "view": "materialized='view'",
    "appended": "materialized='incremental', incremental_strategy='append'",
    "merged": "materialized='incremental', incremental_strategy='merge', unique_key=['k', 'v', 'w']",
    "replaced": "materialized='incremental', incremental_strategy='delete+insert', unique_key='k'",
    "overwritten": "materialized='incremental', incremental_strategy='insert_overwrite'",
    "batched": "materialized='incremental', incremental_strategy='microbatch', event_time='ts', batch_size='day', "
    "begin='2024-03-04'",
}
ENDS = "; -- done;\n;"


IN_CI = ("stream", "table", "view", "appended", "merged")


def text(name: str, kind: str) -> str:
    query = QUERIES[name]
    config = KINDS[kind].replace(", constant_domains=['k']", "") if name == "windowed" else KINDS[kind]
    if kind == "batched":
        query = f"select *, timestamp'2024-03-04 00:00:00' as ts from ({query})"
    return f"{{{{ config({config}) }}}}\n{query}{ENDS}"


class StandingTexts:
    """A project with some of the queries."""

    NAMES: tuple[str, ...] = ()
    KINDS: Collection[str] = tuple(KINDS)
    HAS_SNAPSHOT = False

    def kinds_of(self, name: str) -> list[str]:
        """Batches of windows have to tell the windows."""
        return [kind for kind in self.KINDS if (name, kind) != ("windowed", "batched")]

    def of_each_kind(self) -> dict[str, str]:
        kinds = {
            f"{name}_{kind}.sql": text(name, kind) for name in self.NAMES for kind in self.kinds_of(name)
        }
        return {"events.sql": EVENTS, **kinds}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return self.of_each_kind()

    @pytest.fixture(scope="class", autouse=True)
    def built(self, project: Any) -> None:
        days = ["--event-time-start", "2024-03-04", "--event-time-end", "2024-03-05"]
        for _ in range(2):
            run_dbt(["run", "--vars", "{flush: true}", *days, *([] if _ == 0 else ["--exclude", "events"])])
            if self.HAS_SNAPSHOT:
                run_dbt(["snapshot"])

    def rows(self, project: Any, table: str) -> Counter[tuple[Any, ...]]:
        return Counter(
            map(tuple, project.run_sql(f"select k, v, w from {project.test_schema}.{table}", fetch="all"))
        )

    def test_the_same_rows_everywhere(self, project: Any) -> None:
        for name in self.NAMES:
            expected = self.rows(project, f"{name}_stream")
            assert expected.total() in (4, 8, 24), name
            found = {kind: self.rows(project, f"{name}_{kind}") for kind in self.kinds_of(name)}
            found["appended"] = (
                Counter(dict.fromkeys(found["appended"], 1)) if expected == found["table"] else Counter()
            )
            assert {
                kind: rows for kind, rows in found.items() if rows != Counter(dict.fromkeys(expected, 1))
            } == {}, name
            shown = run_dbt(["show", "--select", f"{name}_stream", "--limit", "50"])
            table = shown.results[0].agate_table
            assert Counter((int(row["k"]), int(row["v"]), int(row["w"])) for row in table.rows) == expected, (
                name
            )


class TestStandingTexts(StandingTexts):
    NAMES = ("ranked",)
    KINDS = IN_CI
    HAS_SNAPSHOT = True

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            **self.of_each_kind(),
            "below.sql": "{{ config(materialized='ephemeral') }}" + QUERIES["ranked"] + ENDS,
            "above.sql": "{{ config(materialized='table') }} select * from {{ ref('below') }}; /* ; */",
            "above_in_view.sql": "{{ config(materialized='view') }} select * from {{ ref('below') }};",
            "named.sql": "{{ config(materialized='view') }} select k, v, row_number() over w as rn from {{ ref('events') }} "
            "window w as (partition by k order by v, ts)" + ENDS,
            "tests.yml": """
unit_tests:
  - name: ties
    model: ranked_stream
    given:
      - input: ref('events')
        rows: [{ts: "2024-03-04 00:00:00", k: 1, v: 9, w: 1}, {ts: "2024-03-04 00:00:00", k: 1, v: 2, w: 7},
          {ts: "2024-03-04 00:00:00", k: 1, v: 2, w: 3}, {ts: "2024-03-04 00:00:00", k: 1, v: 5, w: 5}]
    expect: {rows: [{k: 1, v: 2, w: 3}, {k: 1, v: 2, w: 7}]}
""",
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        config = "{{ config(strategy='check', check_cols=['v', 'w'], unique_key=['k', 'v', 'w']) }}"
        return {"held.sql": f"{{% snapshot held %}}{config} {QUERIES['ranked']}{ENDS}{{% endsnapshot %}}"}

    @pytest.fixture(scope="class")
    def tests(self) -> dict[str, str]:
        return {"none_missing.sql": f"select * from ({QUERIES['extreme']}) where v is null{ENDS}"}

    def test_ephemeral_models_and_snapshots(self, project: Any) -> None:
        expected = self.rows(project, "ranked_stream")
        for name in ("above", "above_in_view", "held"):
            assert self.rows(project, name) == expected, name

    def test_unit_and_data_tests(self, project: Any) -> None:
        assert all(result.status == "pass" for result in run_dbt(["test"]))

    def test_a_named_window_in_a_view(self, project: Any) -> None:
        found = project.run_sql(f"select max(rn), count(*) from {project.test_schema}.named", fetch="one")
        assert found[1] == 200


@pytest.mark.thorough
class TestOtherStandingTexts(StandingTexts):
    NAMES = ("ranked", "extreme", "windowed")
