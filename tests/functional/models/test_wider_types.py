"""Types that get wider under `sync_all_columns`: tables, feeds and state follow; what would lose values is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from dbt.tests.util import run_dbt

from tests.functional.stream.harness import sorted_rows

INCREMENTAL = "{{ config(materialized='incremental', on_schema_change='sync_all_columns', …) }}\n"
STREAM = (
    "{{ config(materialized='streaming_table', on_schema_change='sync_all_columns', changelog=true, …) }}\n"
)
NARROW = (
    "cast(v as int) as n, cast(v as float) as f, cast(v as decimal(5,2)) as d, named_struct('a', cast(v as int)) as s, "
    "array(named_struct('a', cast(v as int))) as l"
)
WIDE = (
    "cast(v as bigint) as n, cast(v as double) as f, cast(v as decimal(12,2)) as d, "
    "named_struct('x y', 'new', 'a', cast(v as bigint), 'b', cast(v as date)) as s, "
    "array(named_struct('a', cast(v as bigint), 'b', 'new')) as l"
)
WIDE = WIDE.replace("cast(v as date)", "date'2024-03-04'")
COLUMNS = "{% if var('wide', false) %}" + WIDE + "{% else %}" + NARROW + "{% endif %}"
KINDS = ["bigint", "double", "decimal(12,2)"]
BIG = 5_000_000_000


@pytest.mark.thorough
class TestWiderTypes:
    @pytest.fixture(scope="class")
    def models(self, spark: Any, unique_schema: str) -> dict[str, str]:
        source = {"name": "raw", "schema": unique_schema, "tables": [{"name": "src"}, {"name": "typed"}]}
        rows = "select k, " + COLUMNS + " from {{ source('raw', 'src') }} where v >= {{ var('from', 0) }}"
        streamed = "select k, " + COLUMNS + " from {{ stream(source('raw', 'src')) }}"
        groups = (
            "select k, max(v) as v, sum(v) as total, count(distinct v) as times "
            "from {{ stream(source('raw', 'typed')) }} group by k"
        )
        keyed = "constant_domains=['k']"
        narrowed = "select k, {% if var('wide', false) %}cast(v as int){% else %}v{% endif %} as v, "
        return {
            "sources.yml": yaml.safe_dump({"sources": [source]}),
            "added.sql": INCREMENTAL.replace("…", "incremental_strategy='append'") + rows,
            "merged.sql": INCREMENTAL.replace("…", "unique_key='k'") + rows,
            "refused.sql": INCREMENTAL.replace("…", "unique_key='k'")
            + "select k, {% if var('wide', false) %}cast(v as string) as v, 1 as more{% else %}v{% endif %} "
            "from {{ source('raw', 'src') }}",
            "narrowed.sql": INCREMENTAL.replace("…", "unique_key='k'")
            + narrowed
            + "1 as one from {{ source('raw', 'src') }} where v <> 1",
            "rows_.sql": STREAM.replace(", …", "") + streamed,
            "latest.sql": STREAM.replace("…", keyed)
            + f"select k, {COLUMNS} from (select *, row_number() over (partition by k order by v desc) as r "
            "from {{ stream(source('raw', 'src')) }}) where r = 1",
            "groups.sql": STREAM.replace("…", keyed) + groups,
            "as_it_is.sql": STREAM.replace("…", keyed).replace("sync_all_columns", "append_new_columns")
            + groups,
            "lists.sql": STREAM.replace("…", "constant_domains=['l']")
            + "select distinct l from {{ stream(source('raw', 'typed')) }}",
        }

    @pytest.fixture(scope="class", autouse=True)
    def tables(self, spark: Any, project: Any) -> None:
        schema = project.test_schema
        spark.sql(f"create table {schema}.src (k string, v bigint) using iceberg")
        spark.sql(f"create table {schema}.typed (k string, v int, l array<decimal(5,2)>) using iceberg")
        spark.sql(f"insert into {schema}.src values ('x', 1), ('y', 2)")
        spark.sql(f"insert into {schema}.typed values ('x', 1, array(1)), ('y', 2, array(2))")

    def run(self, *arguments: str, fails: bool = False, **variables: Any) -> dict[str, str]:
        results = run_dbt(["run", *arguments, "--vars", yaml.safe_dump(variables)], expect_pass=not fails)
        return {result.node.name: f"{result.status}: {result.message}" for result in results}

    @pytest.mark.thorough
    def test_columns_follow_the_query(self, spark: Any, project: Any) -> None:
        every = ("added", "merged", "refused", "narrowed", "rows_", "latest")
        self.run("--select", *every)
        spark.sql(f"insert into {project.test_schema}.src values ('x', 7), ('z', 30)")
        before = spark.table(f"{project.test_schema}.refused").columns
        said = self.run("--select", *every, fails=True, wide=True, **{"from": 3})
        assert {name for name, text in said.items() if not text.startswith("success")} == {"refused"}
        assert "Model refused: its query gives v as STRING, and in its table" in said["refused"]
        assert spark.table(f"{project.test_schema}.refused").columns == before
        for name in ("added", "merged", "rows_", "rows___changes", "latest", "latest__changes"):
            found = spark.table(f"{project.test_schema}.{name}")
            kinds = dict(found.dtypes)
            assert [kinds[each] for each in ("n", "f", "d")] == KINDS, name
            assert kinds["s"] == "struct<x y:string,a:bigint,b:date>", (name, kinds["s"])
            assert kinds["l"] == "array<struct<a:bigint,b:string>>"
            rows = {(row.k, row.n, row.s["x y"], row.s.a, row["l"][0].b) for row in found.collect()}
            assert {
                ("x", 7, "new", 7, "new"),
                ("z", 30, "new", 30, "new"),
                ("y", 2, None, 2, None),
            } <= rows, name
        found = spark.table(f"{project.test_schema}.narrowed")
        assert dict(found.dtypes)["v"] == "bigint" and {row.v for row in found.collect()} == {7, 2, 30}
        self.run("--select", "rows_", "latest", wide=True)

    def test_state_follows_the_source(self, spark: Any, project: Any) -> None:
        schema = project.test_schema
        self.run("--select", "groups", "as_it_is", "lists")
        spark.sql(f"alter table {schema}.typed alter column v type bigint")
        # Spark doesn't compare arrays of decimals of different precision.
        spark.sql(f"alter table {schema}.typed alter column l.element type decimal(10,2)")
        spark.sql(f"insert into {schema}.typed values ('x', {BIG}, array(1)), ('x', {BIG}, array(123456.25))")
        said = self.run("--select", "groups", "as_it_is", "lists", fails=True)
        assert said["groups"].startswith("success") and said["lists"].startswith("success"), said
        self.run("--select", "lists", flush=True)
        lists = spark.table(f"{schema}.lists")
        assert lists.dtypes == [("l", "array<decimal(10,2)>")]
        assert sorted(float(row.l[0]) for row in lists.collect()) == [1, 2, 123456.25]
        assert "on_schema_change='sync_all_columns'" in said["as_it_is"]
        for _ in range(2):
            rows = spark.sql(f"select * from {schema}.groups order by k").collect()
            assert [tuple(row) for row in rows] == [("x", BIG, 2 * BIG + 1, 2), ("y", 2, 2, 1)]
            changes = spark.sql(f"select max(v) from {schema}.groups__changes").first()
            assert (
                dict(spark.table(f"{schema}.groups__changes").dtypes)["v"] == "bigint" and changes[0] == BIG
            )
            self.run("--select", "groups")
        # By hand, as somebody may who wants no other columns to follow.
        spark.sql(f"alter table {schema}.as_it_is alter column v type bigint")
        self.run("--select", "as_it_is")
        assert spark.sql(f"select max(v) from {schema}.as_it_is__changes").first()[0] == BIG


KEYED, IDLE = "constant_domains=['k']", "state_ttl='90 days'"
STATES = {
    "g": (
        f"changelog=true, {KEYED}",
        "select k, max(i) as i, max(f) as f, sum(d) as d, max(s) as s from SRC group by k",
    ),
    "rows_": ("changelog=true", "select * from SRC"),
    "last": (
        KEYED,
        "select k, i, s from (select *, row_number() over (partition by k order by v desc) as r from SRC) "
        "where r = 1",
    ),
    "last_a": (
        KEYED,
        "select k, s.a as a from (select k, s, row_number() over (partition by k order by v desc) as r from SRC) "
        "where r = 1",
    ),
    "by_v": (KEYED, "select k, max_by(i, v) as i, max_by(s, v) as s, avg(d) as d from SRC group by k"),
    "values_": (KEYED, "select k, count(distinct d) as d, count(distinct s) as s from SRC group by k"),
    "of_g": ("constant_domains=['i']", "select i, count(*) as c, max(f) as f, sum(d) as d from G group by i"),
    "top_g": (KEYED, "select k, i, f, s from G order by i desc, k limit 3"),
    "star_g": ("", "select * from G where k is not null"),
    "joined": (
        "",
        "select a.k, a.i, b.i as j, b.s from G as a join {{ stream(ref('last')) }} as b on a.k = b.k",
    ),
    "on_struct": (
        IDLE,
        "select a.k, a.i, a.d, b.s, b.l from SRC as a join SRC as b on a.v = b.v + 1 and a.d > 0",
    ),
    "outer": (
        IDLE,
        "select a.k, b.i, b.f, b.d from SRC as a left join SRC as b on a.v = b.v + 1 and b.f > 1",
    ),
    "on_decimal": (IDLE, "select a.v, b.f, b.n from SRC as a join SRC as b on a.d = b.d and a.i = b.i"),
    "there": (
        IDLE,
        "select k, i, d from SRC as a where exists (select 1 from SRC as b where b.i > a.i and b.v = a.v + 1)",
    ),
    "absent": (
        IDLE,
        "select k, f, l from SRC as a where not exists (select 1 from SRC as b where b.i > a.i)",
    ),
    "two": (
        IDLE,
        "select * from (select k, i, f, d, l, row_number() over (partition by k order by f desc) as r from SRC) "
        "where r <= 2",
    ),
    "ranked": (
        IDLE,
        "select k, d, r from (select k, d, rank() over (partition by k order by d desc) as r from SRC) where r <= 2",
    ),
    "before": (
        IDLE,
        "select v, i, lag(i) over (partition by k order by at) as li, lag(d) over (partition by k order by at) as ld, "
        "sum(i) over (partition by k order by at) as si from SRC",
    ),
    "few": (IDLE, "select distinct i, f, d from SRC"),
    "few_lists": (IDLE, "select distinct l from SRC"),
    "by_list": (IDLE, "select l, n, count(*) as c, max(d) as d from SRC group by l, n"),
    "by_struct": (IDLE, "select s, count(*) as c from SRC group by s"),
    "either": (IDLE, "select i, d, l from SRC union select i, d, l from SRC where v > 1"),
    "but": (IDLE, "select i from SRC except select v from SRC"),
    "lists": (
        IDLE,
        "select k, max(l) as l, max_by(n, v) as n, sort_array(collect_list(d)) as ds from SRC group by k",
    ),
    "over_rows": (
        KEYED,
        "select k, sum(i) as i, max_by(s, v) as s, max(f) as f from {{ stream(ref('rows_')) }} group by k",
    ),
}
"""Streaming models over a source, and over each other: their configs and texts."""
ONE, TWO = ("named_struct('a', 3, 'b', 'new')", "named_struct('a', 4, 'b', null)")


@pytest.mark.thorough
class TestStatesGetWider:
    """A source's columns get wider, its struct gets a field: states, tables, changelogs and their readers follow."""

    rows = 0

    @pytest.fixture(scope="class")
    def models(self, unique_schema: str) -> dict[str, str]:
        tables = [{"name": "src", "config": {"event_time": "at"}}]
        source = {"name": "raw", "schema": unique_schema, "tables": tables}
        config = "{{ config(materialized='streaming_table', on_schema_change='sync_all_columns', … ) }}\n"
        return {
            "sources.yml": yaml.safe_dump({"sources": [source]}),
            **{
                f"{name}.sql": config.replace("…", more)
                + text.replace("SRC", "{{ stream(source('raw', 'src')) }}").replace(
                    "G ", "{{ stream(ref('g')) }} "
                )
                for name, (more, text) in STATES.items()
            },
        }

    def test_all_follow(self, spark: Any, project: Any) -> None:
        src = f"{project.test_schema}.src"
        spark.sql(
            f"create table {src} (k string, i int, f float, d decimal(5,2), s struct<a:int>, v bigint, at timestamp, "
            "l array<decimal(5,2)>, n struct<d:decimal(5,2),f:array<float>>) using iceberg"
        )

        def insert(*rows: str) -> None:
            """Each row with a time after those before it, and with what its decimal makes."""
            self.rows += 1
            at = f"timestamp'2024-03-04 00:{self.rows:02}:00' + make_interval(0, 0, 0, 0, 0, 0, cast(v as int))"
            spark.sql(
                f"insert into {src} select k, i, f, d, s, v, {at}, array(d), named_struct('d', d, 'f', array(f)) "
                f"from values {', '.join(rows)} as new(k, i, f, d, s, v)"
            )

        small = "named_struct('a', 1)"
        insert(f"('x', 1, 1.5f, 1.25bd, {small}, 1)", f"('y', 2, 0.1f, 2.25bd, {small}, 2)")
        self.run_and_compare(spark, project)
        for change in (
            "column i type bigint",
            "column f type double",
            "column d type decimal(12,2)",
            "column l.element type decimal(12,2)",
            "column n.d type decimal(12,2)",
            "column n.f.element type double",
        ):
            spark.sql(f"alter table {src} alter {change}")
        spark.sql(f"alter table {src} add column s.b string")
        insert(f"('x', {BIG}, 1e300d, 1234567.25bd, {ONE}, 3)", f"('z', 3, 2.5d, 1.00bd, {ONE}, 4)")
        self.run_and_compare(spark, project)
        insert(f"('y', {BIG}, 2e300d, 1234567.25bd, {TWO}, 5)", f"('y', 2, 0.1d, 2.25bd, {TWO}, 6)")
        self.run_and_compare(spark, project)

    def run_and_compare(self, spark: Any, project: Any) -> None:
        run_dbt(["run", "--vars", "flush: true"])
        schema = project.test_schema
        for name, (_, text) in STATES.items():
            text = text.replace("SRC", f"{schema}.src").replace("G ", f"{schema}.g ")
            for other in ("last", "rows_"):
                text = text.replace(f"{{{{ stream(ref('{other}')) }}}}", f"{schema}.{other}")
            expected, found = spark.sql(text), spark.table(f"{schema}.{name}")
            assert found.dtypes == expected.dtypes, name
            assert sorted_rows(found.collect()) == sorted_rows(expected.collect()), name


@pytest.mark.thorough
class TestDeclaredStructs:
    """A struct of a declared `schema` gets a field. What the records had there before is unknown, so a state that keeps the
    struct isn't continued; nothing has changed then, and the query can be put back."""

    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return tmp_path_factory.mktemp("declared")

    @pytest.fixture(scope="class")
    def models(self, folder: Path) -> dict[str, str]:
        schema = "s struct<a:{{ var('kind', 'int') }}{{ var('more', '') }}>, at timestamp"
        stream = {"format": "json", "options": {"path": str(folder)}, "schema": schema}
        table = {"name": "src", "config": {"event_time": "at", "meta": {"stream": stream}}}
        rows = "{{ tumble(source('raw', 'src'), 'at', '1 hour') }}"
        return {
            "sources.yml": yaml.safe_dump({"sources": [{"name": "raw", "tables": [table]}]}),
            "keyed.sql": STREAM.replace(", changelog=true, …", "")
            + f"select window_start, window_end, s, count(*) as n from {rows} group by all",
            "first.sql": STREAM.replace(", changelog=true, …", "")
            + f"select * from {rows} qualify row_number() over (partition by window_start, window_end order by at) = 1",
        }

    def test_they_are_put_back(self, project: Any, folder: Path) -> None:
        def run(number: int, *, fails: bool = False, **variables: Any) -> list[str]:
            row = f'{{"s": {{"a": {number}, "b": "new"}}, "at": "2024-03-04T00:0{number}:00Z"}}\n'
            (folder / f"{number}.json").write_text(row)
            results = run_dbt(["run", "--vars", yaml.safe_dump(variables)], expect_pass=not fails)
            return [str(result.message) for result in results]

        run(1)
        for number, kind in ((2, "int"), (3, "bigint")):
            for said in run(number, fails=True, kind=kind, more=",b:string"):
                assert "would be a STRUCT<" in said and "To rebuild it" in said, said
        run(4)
        run(5, kind="bigint", flush=True)
        found = project.run_sql("select s, n from {schema}.keyed order by s", fetch="all")
        assert [(row[0].asDict(), row[1]) for row in found] == [({"a": each}, 1) for each in range(1, 6)]
        (found,) = project.run_sql("select s from {schema}.first", fetch="all")
        assert found[0].asDict() == {"a": 1}
