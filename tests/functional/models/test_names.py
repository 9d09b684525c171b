"""Names that need quotes, and names that we use ourselves: of schemas, models, CTEs, columns and fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt, write_file

COLUMNS = (
    *("order", "select", "with space", "a.b", "größe", "Upper", "semi;colon", "quote's", "old x", "new x"),
    *(
        "state",
        "clock",
        "part",
        "step",
        "rows",
        "place",
        "sign",
        "times",
        "old_there",
        "event_time",
        "expires_at",
    ),
    *(
        "slice_end",
        "grouping_id",
        "input",
        "session",
        "row",
        "start_micros",
        "end_micros",
        "last_micros",
        "next_slice",
        "condition",
        "fresh",
        "batch_id",
        "watermark_after",
        "since",
        "until",
        "__late",
        "__row_time",
        "__sign",
        "__times",
        "__stream_weight",
        "__row",
        "__there",
        "__known",
    ),
)
STREAMING = "{{ config(materialized='streaming_table') }}\n"


def quoted(*names: str) -> str:
    return ", ".join(f"`{name}`" for name in names)


EVENTS = "{{ source('raw', 'events') }}"
KEYS = quoted(*COLUMNS)
WINDOWED = (
    "with `state` as (select * from {events}), clock as (select * from `state`)\n"
    "select window_start, window_end, {keys}, count(*) as n, count(distinct v) as `count`\n"
    "from {{{{ cumulate('clock', 'ts', '30 minutes', '1 hour') }}}} as step group by window_start, window_end, {keys}"
)
STREAM = "{{{{ stream(source('raw', 'events')) }}}}"
GROUPED = f"select {{keys}}, count(*) as n, max(s) as s from {STREAM} as `select` group by {{keys}}"
MODELS = {
    "my-model": "{{{{ config(alias='my größe') }}}}\n" + WINDOWED,
    "my_model": WINDOWED,
    "grouped": "{{{{ config(changelog=true, constant_domains={domains}) }}}}\n" + GROUPED,
    "of_groups": "{{{{ config(state_ttl='30 days') }}}}\nselect {keys}, sum(n) as n, max(m) as m from (select {keys}, v, "
    f"count(*) as n, min(`__row_time`) as m from {STREAM} as t group by {{keys}}, v) group by {{keys}}",
    "in-between": "{{{{ config(materialized='ephemeral') }}}}\nselect * from " + STREAM,
    "named": "{{{{ config(alias='with space') }}}}\nselect *, `s`.`a b` as ab from {{{{ ref('in-between') }}}}",
    "below": "select n, `order` from {{{{ stream(ref('my-model')) }}}}",
}


WINDOWS = [("2024-03-04 00:30:00", 3), ("2024-03-04 01:00:00", 6)]


class Names:
    """A project with some of the models."""

    NAMES: tuple[str, ...] = ()

    @pytest.fixture(scope="class")
    def unique_schema(self) -> str:
        return "dbt-dev names"

    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return tmp_path_factory.mktemp("events")

    def write(self, spark: Any, folder: Path, name: str, minute: int, more: str = "") -> None:
        keys = ", ".join(f"'{n}' as `{column}`" for n, column in enumerate(COLUMNS))
        spark.sql(
            f"select timestamp'2024-03-04 00:00:00' + make_interval(0, 0, 0, 0, 0, {minute} + id) as ts, id as v, {keys}, "
            f"named_struct('a b', id, '@c', named_struct('d-e', 'x')) as s{more} from range(3)"
        ).coalesce(1).write.json(str(folder / name))

    @pytest.fixture(scope="class")
    def models(self, spark: Any, folder: Path) -> dict[str, str]:
        self.write(spark, folder, "a", 0)
        columns = ", ".join(f"`{column}` string" for column in COLUMNS)
        sources = f"""
sources:
  - name: raw
    tables:
      - name: events
        config:
          event_time: ts
          meta:
            stream:
              format: json
              options: {{path: "{folder}/*"}}
              schema: "ts timestamp, v bigint, {columns}, s struct<`a b`: bigint, `@c`: struct<`d-e`: string>>"
"""
        made = {
            f"{name}.sql": STREAMING + text.format(events=EVENTS, keys=KEYS, domains=list(COLUMNS))
            for name, text in MODELS.items()
            if name in self.NAMES
        }
        tags = "select `order`, max_by(map(v, s), v) as tags"
        refused = f"{STREAMING}{tags} from {{{{ stream(source('raw', 'events')) }}}} group by `order`"
        refused = refused.replace("streaming_table'", "streaming_table', constant_domains=['order']")
        return {"sources.yml": sources, **({"tagged.sql": refused} if "named" in self.NAMES else {}), **made}

    def rows(self, project: Any, text: str) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, project.run_sql(text, fetch="all")), key=repr)

    def run(self, *arguments: str) -> set[str]:
        return {str(result.status) for result in run_dbt(["run", "--exclude", "tagged", *arguments])}

    def run_twice(self, spark: Any, project: Any, folder: Path) -> str:
        """Two runs, of three rows each; gives the schema."""
        assert self.run() == {"success"}
        self.write(spark, folder, "b", 30)
        assert self.run("--vars", "{flush: true}") == {"success"}
        return f"`{project.test_schema}`"


class TestNames(Names):
    NAMES = ("my-model", "in-between", "named")

    @pytest.mark.thorough
    def test_windows_and_rows(self, spark: Any, project: Any, folder: Path) -> None:
        schema = self.run_twice(spark, project, folder)
        assert self.rows(project, f"select string(window_end), n from {schema}.`my größe`") == WINDOWS
        assert self.rows(project, f"select count(*), max(`a.b`), sum(ab) from {schema}.`with space`") == [
            (6, "3", 6)
        ]

    @pytest.mark.thorough
    def test_columns_that_a_table_can_not_take(self, spark: Any, project: Any, folder: Path) -> None:
        (result,) = run_dbt(["run", "--select", "tagged"], expect_pass=False)
        assert "its query compares or orders MAPs, which Spark can't" in str(result.message)
        # A column of a source that came later.
        file = Path(project.project_root) / "models" / "sources.yml"
        write_file(file.read_text().replace("v bigint,", "v bigint, later string,"), file)
        self.write(spark, folder, "c", 90, ", 'x' as later")
        run_dbt(["run", "--select", "named"])
        # The rows before it have no value there.
        counts = "count(later), count(*) > count(later)"
        found = self.rows(project, f"select {counts} from `{project.test_schema}`.`with space`")
        assert found == [(3, True)]
        assert self.rows(project, f"select * from `{project.test_schema}`.tagged") == []


@pytest.mark.thorough
class TestNamesOfOtherKinds(Names):
    NAMES = ("my-model", "my_model", "grouped", "of_groups", "below")

    def test_all_of_them(self, spark: Any, project: Any, folder: Path) -> None:
        schema = self.run_twice(spark, project, folder)
        for name in ("my größe", "my_model"):
            assert self.rows(project, f"select string(window_end), n from {schema}.`{name}`") == WINDOWS
        assert self.rows(project, f"select n, s.`@c`.`d-e` from {schema}.grouped") == [(6, "x")]
        assert self.rows(project, f"select n, m, `__row_time` from {schema}.of_groups") == [
            (6, str(COLUMNS.index("__row_time")), str(COLUMNS.index("__row_time")))
        ]
        assert self.rows(project, f"select n, `order` from {schema}.below") == [(3, "0"), (6, "0")]
        kinds = self.rows(project, f"select _change_type, n from {schema}.grouped__changes")
        assert kinds == [("insert", 3), ("update_after", 6), ("update_before", 3)]
