"""Names of a model's tables and files, and which files a source holds."""

from __future__ import annotations

from dataclasses import replace

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource, changelog_name


def test_a_file_is_found_in_its_source_whichever_way_it_is_written() -> None:
    source = StreamSource("events", "/data/events", "parquet")
    assert source.holds("file:///data/events/a.parquet")
    assert source.holds("/data/events/day=1/a.parquet")
    assert not source.holds("/data/events2/a.parquet")


MODEL = StreamModel("m", "lake.`dbt-dev`.`my-model`", "s", Storage("/root", lambda: None), ())


def test_what_lies_beside_a_table() -> None:
    assert changelog_name(MODEL.target) == "lake.`dbt-dev`.`my-model__changes`"
    assert (
        MODEL.rebuild_command(changelog_name(MODEL.target)) == "`dbt run --full-refresh --select my-model+`"
    )


def test_names_of_files_differ_as_those_of_tables_do() -> None:
    names = [
        "lake.d.m",
        "lake.d.`m m`",
        "lake.d.m_m",
        "lake.d.`m/m`",
        "lake.`d.m`.m",
        "lake.d.m.m",
        "lake.d.`m-m`",
    ]
    keys = [replace(MODEL, target=name).key for name in names]
    assert len(set(keys)) == len(names) and keys[0] == "lake.d.m" and keys[-1] == "lake.d.m-m"
    assert all("/" not in key and " " not in key for key in keys)
