"""Sources that are files, read in batch."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt, write_file
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.environment.file_sources import create_view_sql, records_of
from dbt.adapters.spark_streaming.sources import stream_source
from dbt.adapters.spark_streaming.sources.stream_source import DeclaredSource

SOURCES = """
sources:
  - name: raw
    tables:
      - name: bid
        config:
          event_time: ts
          meta:
            stream:
              format: csv
              options: {path: data/bids, header: true}
              schema: {id: int, ts: timestamp, price: "decimal(10, 2)"}
      - name: shop
        config:
          meta:
            stream:
              format: json
              path: data/shops
      - name: counted
        config:
          meta:
            stream: {format: orc, path: data/counted, schema: {id: int, cents: bigint}}
      - name: gone
        config:
          meta:
            stream: {format: parquet, path: data/gone}
      - name: packed
        config:
          meta:
            stream: {format: avro, path: data/bids, schema: {id: int}}
      - name: topic
        config:
          meta:
            stream:
              format: kafka
              options: {kafka.bootstrap.servers: "127.0.0.1:1", subscribe: bids}
              value_format: json
              schema: {id: int, ts: timestamp}
"""


def bids(project: Any, name: str, *rows: str) -> None:
    folder = Path(project.project_root) / "data" / "bids"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join(["id,ts,price", *rows]) + "\n")


def forget(project: Any, spark: Any) -> None:
    """As in a process that has made no table yet."""
    for (schema,) in spark.sql("show schemas in spark_catalog like 'dbt_source_*'").collect():
        spark.sql(f"drop schema spark_catalog.`{schema}` cascade")
    project.adapter.environment.declared._made.clear()


class TestFileSources:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": SOURCES,
            "total.sql": (
                "{{ config(materialized='table') }}\n"
                "select count(*) n, sum(price) s from {{ source('raw', 'bid') }}"
            ),
            "bids.sql": "{{ config(materialized='view') }}\nselect * from {{ source('raw', 'bid') }}",
            "of_view.sql": "{{ config(materialized='table') }}\nselect max(price) m from {{ ref('bids') }}",
            "shops.sql": "{{ config(materialized='table') }}\nselect * from {{ source('raw', 'shop') }} order by id",
            "counted.sql": "select cents from {{ source('raw', 'counted') }}",
            "gone.sql": "select * from {{ source('raw', 'gone') }}",
            "packed.sql": "{{ config(materialized='streaming_table') }} select * from {{ stream(source('raw', 'packed')) }}",
            "topic.sql": "{{ config(materialized='streaming_table') }} select * from {{ stream(source('raw', 'topic')) }}",
            "python_total.py": (
                "def model(dbt, session):\n"
                "    dbt.config(materialized='table')\n"
                "    return dbt.source('raw', 'bid').groupBy().count()\n"
            ),
        }

    @pytest.fixture(scope="class", autouse=True)
    def files(self, project: Any) -> None:
        bids(project, "a.csv", "1,2024-01-01 00:00:00,1.50", "2,2024-01-02 00:00:00,2.25")
        folder = Path(project.project_root) / "data" / "shops" / "region=north"
        folder.mkdir(parents=True)
        (folder / "a.json").write_text('{"id": 1, "name": "Aue"}\n{"id": 2, "name": "Bär"}\n')

    def rows(self, project: Any, relation: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in project.run_sql(f"select * from {{schema}}.{relation}", fetch="all")]

    def test_a_folder_is_a_table_and_new_files_are_seen(self, project: Any) -> None:
        run_dbt(["run", "--select", "total", "bids", "of_view"])
        assert self.rows(project, "total")[0][0] == 2
        bids(project, "b.csv", "3,2024-01-03 00:00:00,9.00")
        run_dbt(["run", "--select", "total", "of_view"])
        assert [str(value) for value in self.rows(project, "total")[0]] == ["3", "12.75"]
        assert str(self.rows(project, "of_view")[0][0]) == "9.00"

    def test_a_view_on_files_outlives_the_session(self, project: Any, spark: Any) -> None:
        """The next process has no such table until a statement fails for the want of it."""
        run_dbt(["run", "--select", "bids"])
        forget(project, spark)
        run_dbt(["run", "--select", "of_view"])
        assert self.rows(project, "of_view")

    def test_schema_and_partitions_are_found(self, project: Any) -> None:
        run_dbt(["run", "--select", "shops"])
        assert self.rows(project, "shops") == [(1, "Aue", "north"), (2, "Bär", "north")]

    def test_python_models_read_them_too(self, project: Any) -> None:
        run_dbt(["run", "--select", "python_total"])
        assert self.rows(project, "python_total")[0][0] >= 2

    @pytest.mark.parametrize(
        "flag", [["--empty"], ["--sample", "{'start': '2024-01-02', 'end': '2024-01-03'}"]]
    )
    def test_less_of_it(self, project: Any, flag: list[str]) -> None:
        run_dbt(["run", "--select", "total", *flag])
        assert self.rows(project, "total")[0][0] == (0 if flag == ["--empty"] else 1)

    def test_a_missing_folder_is_named(self, project: Any) -> None:
        results = run_dbt(["run", "--select", "gone"], expect_pass=False)
        path = Path(project.project_root) / "data" / "gone"
        assert f"Source raw.gone: there is no folder {path}." in results.results[0].message

    def test_a_file_that_is_something_else_is_named(self, project: Any) -> None:
        folder = Path(project.project_root) / "data" / "gone"
        folder.mkdir()
        (folder / "x.parquet").write_text("no parquet")
        try:
            results = run_dbt(["run", "--select", "gone"], expect_pass=False)
            assert f"Source raw.gone can't be read as parquet ({folder})" in results.results[0].message
        finally:
            (folder / "x.parquet").unlink()
            folder.rmdir()

    def test_a_file_of_orc_with_another_type_is_named(self, project: Any, spark: Any) -> None:
        """Spark would make NULL of its values."""
        folder = Path(project.project_root) / "data" / "counted"
        spark.sql("select 1S as id, 5 as Cents").write.orc(str(folder / "day=a b%20"))
        run_dbt(["run", "--select", "counted"])
        assert self.rows(project, "counted") == [(5,)]
        spark.sql("select 1 as id, 'a lot' as cents").write.orc(str(folder / "day=1"))
        results = run_dbt(["run", "--select", "counted"], expect_pass=False)
        message = results.results[0].message
        assert "Source raw.counted: the file " in message and "/day=1/" in message
        assert "has the column cents as STRING, and it is to be read as BIGINT" in message

    def test_kafka_needs_sparks_connector(self, project: Any) -> None:
        results = run_dbt(["run", "--select", "topic"], expect_pass=False)
        message = results.results[0].message
        assert "Runtime Error in model topic " in message
        assert (
            "Source raw.topic can't be read as kafka: Spark's connector for Kafka is missing. Name it in the profile: "
            "packages: [kafka]"
        ) in message
        assert "Exception" not in message

    @pytest.mark.parametrize("kind", ["streaming_table", "table"])
    def test_a_missing_package_for_avro_is_named(self, project: Any, kind: str) -> None:
        query = "select * from {{ stream(source('raw', 'packed')) }}"
        write_file(
            f"{{{{ config(materialized='{kind}') }}}} {query}", project.project_root, "models", "packed.sql"
        )
        (found,) = run_dbt(["run", "--select", "packed"], expect_pass=False)
        assert (
            "Spark's connector for Avro is missing. Name it in the profile: packages: [avro]" in found.message
        )
        assert "Exception" not in found.message and "Failed to find" not in found.message

    def test_messages_are_taken_apart(self, spark: Any) -> None:
        said = {"format": "kafka", "value_format": "json", "schema": "id INT, ts TIMESTAMP"}
        options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "bids"}
        topic = DeclaredSource.from_config(
            "raw.t", "spark_catalog.default.taken", {**said, "options": options}
        )
        values = """ values ('{"id": 1, "ts": "2024-01-01T00:00:00Z"}'), ('{"id": 2}'), ('{id'), (null) as t(value)"""
        sent = "cast(value as binary) as value, 't' as topic, 0 as `partition`, 7L as `offset`"
        spark.sql(f"select {sent} from {values}").createOrReplaceTempView("sent")
        spark.sql("create table spark_catalog.default.sent using parquet as select * from sent")
        records = records_of(spark, topic)
        assert records is not None
        spark.sql(create_view_sql(topic, "spark_catalog.default.sent", records, "abc"))
        found = spark.sql("select id, date(ts) as day from spark_catalog.default.taken").collect()
        assert sorted(((row[0], str(row[1])) for row in found), key=repr) == [
            (1, "2024-01-01"),
            (2, "None"),
            (None, "None"),
            (None, "None"),
        ]

    @pytest.mark.thorough
    def test_a_changed_declaration_counts(self, project: Any, spark: Any) -> None:
        run_dbt(["run", "--select", "total", "bids"])
        write_file(SOURCES.replace("decimal(10, 2)", "double"), project.project_root, "models", "sources.yml")
        run_dbt(["run", "--select", "total"])
        described = project.run_sql("describe table {schema}.total", fetch="all")
        assert {row[0]: row[1] for row in described}["s"] == "double"
        forget(project, spark)
        results = run_dbt(["run", "--select", "of_view"], expect_pass=False)
        assert (
            "reads source raw.bid as it was declared when the view was built." in results.results[0].message
        )


SAME_NAME = """
sources:
  - name: eu
    schema: raw
    tables: [{name: orders, config: {meta: {stream: {format: csv, path: data/eu, schema: id int}}}}]
  - name: us
    schema: raw
    tables: [{name: orders, config: {meta: {stream: {format: csv, path: data/us, schema: id int}}}}]
  - name: raw
    tables:
      - {name: Ev, config: {meta: {stream: {format: csv, path: data/eu, schema: id int}}}}
      - {name: ev, config: {meta: {stream: {format: csv, path: data/us, schema: id int}}}}
"""
BOTH = "select id from {{ %s }} union all select id from {{ %s }}"
READS = {
    "of_blocks": ("source('eu', 'orders')", "source('us', 'orders')"),
    "of_cases": ("source('raw', 'Ev')", "source('raw', 'ev')"),
}


class TestSourcesOfOneName:
    """A source is what it reads, never its name; and what others have made stays."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        models = {"sources.yml": SAME_NAME, "one.sql": "select orders.id from {{ source('us', 'orders') }}"}
        for name, (one, other) in READS.items():
            models[f"{name}.sql"] = "{{ config(materialized='table') }}" + BOTH % (one, other)
            streams = (f"stream({one})", f"stream({other})")
            models[f"stream_{name}.sql"] = "{{ config(materialized='streaming_table') }}" + BOTH % streams
        return models

    @pytest.fixture(scope="class", autouse=True)
    def files(self, project: Any) -> None:
        for name, number in (("eu", 1), ("us", 2)):
            folder = Path(project.project_root) / "data" / name
            folder.mkdir(parents=True)
            (folder / "a.csv").write_text(f"{number}\n")

    def rows(self, project: Any, name: str) -> list[int]:
        return sorted(row[0] for row in project.run_sql(f"select id from {{schema}}.{name}", fetch="all"))

    def test_each_is_read_by_batch_and_stream(self, project: Any) -> None:
        run_dbt(["run", "--threads", "4"])
        for name in READS:
            assert self.rows(project, name) == self.rows(project, f"stream_{name}") == [1, 2]
        assert self.rows(project, "one") == [2]

    def test_another_run_of_the_process_reads_its_own(self, project: Any) -> None:
        shutil.copytree(f"{project.project_root}/data/eu", f"{project.project_root}/data/third")
        moved = SAME_NAME.replace("data/us", "data/third")
        write_file(moved, project.project_root, "models", "sources.yml")
        try:
            run_dbt(["run", "--select", "one"])
            assert self.rows(project, "one") == [1]
            message = run_dbt(["run", "--select", "stream_of_blocks"], expect_pass=False).results[0].message
            assert "Model stream_of_blocks: its source us.orders was the folder" in message
        finally:
            write_file(SAME_NAME, project.project_root, "models", "sources.yml")

    def test_a_managed_table_of_the_name_keeps_its_files(self, project: Any, spark: Any) -> None:
        spark.sql("create schema if not exists spark_catalog.raw")
        folder = Path(project.project_root) / "data" / "us"
        before = sorted(folder.iterdir())
        spark.sql("create table spark_catalog.raw.orders (id int) using csv")
        spark.sql("insert into spark_catalog.raw.orders values (7)")
        # As in a metastore whose table is managed, and lies where the source does.
        identifier = spark._jvm.org.apache.spark.sql.catalyst.TableIdentifier
        catalog = spark._jsparkSession.sessionState().catalog()
        found = catalog.getTableMetadata(identifier("orders", spark._jvm.scala.Option.apply("raw")))
        assert found.tableType().name() == "MANAGED"
        own = Path(str(found.location().getPath()))
        sources = SAME_NAME.replace("path: data/us", f"path: '{own}'")
        write_file(sources, project.project_root, "models", "sources.yml")
        try:
            run_dbt(["run", "--select", "one"])
            assert self.rows(project, "one") == [7]
            assert spark.sql("select * from spark_catalog.raw.orders").collect() == [(7,)]
            assert sorted(folder.iterdir()) == before
        finally:
            spark.sql("drop table spark_catalog.raw.orders")
            write_file(SAME_NAME, project.project_root, "models", "sources.yml")

    def test_what_has_our_name_and_isnt_ours_is_left_alone(self, project: Any, spark: Any) -> None:
        run_dbt(["run", "--select", "one"])
        (table,) = (
            source.relation
            for source in stream_source._registry.by_schema.values()
            if source.name == "us.orders"
        )
        forget(project, spark)
        spark.sql(f"create schema {table.rpartition('.')[0]}")
        spark.sql(f"create table {table} using csv as select 9 as id")
        message = run_dbt(["run", "--select", "one"], expect_pass=False).results[0].message
        assert "Source us.orders is read through the table" in message
        assert "but dbt-spark-streaming didn't create what has that name, and leaves it unchanged." in message
        assert spark.table(table).collect() == [(9,)]
        forget(project, spark)


UNIT_TESTS = """
unit_tests:
  - name: of_a_folder
    model: of_bids
    given: [{input: "source('raw', 'bid')", rows: [{id: 1, price: 2.5}, {id: 2, price: 3.5}]}]
    expect: {rows: [{n: 2, s: 6.0}]}
  - name: of_a_folder_without_a_schema
    model: of_shops
    given: [{input: "source('raw', 'shop')", rows: [{id: 7, region: south}]}]
    expect: {rows: [{id: 7, name: null, region: south}]}
  - name: of_a_folder_to_come
    model: of_future
    given: [{input: "source('raw', 'to_come')", rows: [{id: 1, ts: "2024-01-01 00:01:00"}]}]
    expect: {rows: [{window_end: "2024-01-01 00:10:00", n: 1}]}
  - name: of_a_topic
    model: of_topic
    given: [{input: "source('raw', 'topic')", rows: [{id: 1, ts: "2024-01-01 00:01:00"}, {id: 1}]}]
    expect: {rows: [{window_end: "2024-01-01 00:10:00", n: 1}]}
"""
TO_COME = """
      - name: to_come
        config:
          meta:
            stream: {format: csv, path: data/to_come, schema: {id: int, ts: timestamp}}
"""
WINDOWS = """
select window_start, window_end, count(*) as n from {{ tumble(source('raw', 'NAME'), 'ts', '10 minutes') }}
group by window_start, window_end"""


@pytest.mark.thorough
class TestUnitTests:
    """They give rows in the place of a source; what columns it has, it says or its files do."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": SOURCES + TO_COME.lstrip("\n"),
            "unit.yml": UNIT_TESTS,
            "of_bids.sql": "select count(*) as n, sum(price) as s from {{ source('raw', 'bid') }}",
            "of_shops.sql": "select * from {{ source('raw', 'shop') }}",
            "of_future.sql": WINDOWS.replace("NAME", "to_come"),
            "of_topic.sql": WINDOWS.replace("NAME", "topic"),
        }

    def test_of_folders_and_of_a_topic_without_a_broker(self, project: Any) -> None:
        bids(project, "a.csv", "1,2024-01-01 00:00:00,1.50")
        folder = Path(project.project_root) / "data" / "shops" / "region=north"
        folder.mkdir(parents=True)
        (folder / "a.json").write_text('{"id": 1, "name": "Aue"}\n')
        assert len(run_dbt(["test"])) == 4


class TestUnknownKey:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"sources.yml": SOURCES.replace("path: data/shops", "pfad: data/shops")}

    def test_it_is_named_at_once(self, project: Any) -> None:
        with pytest.raises(DbtRuntimeError, match=r"Source raw\.shop: 'pfad' is not a key of 'stream'"):
            run_dbt(["parse"])
