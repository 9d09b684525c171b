"""cleanSource is refused where somebody else needs the files, or the model would read them again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming import source_tables, stream_source
from dbt.adapters.spark_streaming.cleaned_sources import check_cleaned
from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.model import StreamModel, StreamSource


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    stream_source.forget_all()
    for name, folder in (("bids", "/in/bids"), ("same", "/in/bids/"), ("asks", "/in/asks")):
        stream_source.register(
            stream_source.StreamSource(f"raw.{name}", relation(name), "json", {"path": folder})
        )
    yield
    stream_source.forget_all()


def relation(name: str) -> str:
    return source_tables.table_name(source_tables.schema_name("raw", name, {}), name)


def graph(**reads: str) -> dict[str, Any]:
    nodes = {
        name: {
            "unique_id": name,
            "name": name,
            "resource_type": "test" if name.startswith("test") else "model",
            "config": {"materialized": "ephemeral" if name.startswith("stg") else "table"},
            "depends_on": {"nodes": read.split()},
        }
        for name, read in reads.items()
    }
    sources = {f"source.{name}": {"relation_name": relation(name)} for name in ("bids", "same", "asks")}
    return {"nodes": nodes, "sources": sources}


def problem(tmp_path: Path, graph: dict[str, Any], anew: bool = False, **options: str) -> str | None:
    source = StreamSource(relation("bids"), "/in/bids", "json", options=options or {"cleanSource": "archive"})
    storage = Storage(str(tmp_path), lambda: None)
    model = StreamModel("m", "lake.db.m", "lake.db.m__state", storage, (source,))
    try:
        check_cleaned(model, {"unique_id": "m"}, graph, anew)
    except DbtRuntimeError as problem:
        return str(problem.msg)
    return None


def test_one_reader_may(tmp_path: Path) -> None:
    alone = graph(m="source.bids", other="source.asks m", test_of_bids="source.bids")
    assert problem(tmp_path, alone) is problem(tmp_path, alone, anew=True) is None
    assert problem(tmp_path, graph(stg="source.bids", m="stg")) is None


@pytest.mark.parametrize("option", [{"cleanSource": "delete"}, {"CLEANSOURCE": "Archive"}])
@pytest.mark.parametrize(
    "others",
    [{"other": "source.bids"}, {"other": "source.same"}, {"stg": "source.bids", "other": "stg"}],
)
def test_others_that_read_the_folder_are_named(
    tmp_path: Path, option: dict[str, str], others: dict[str, str]
) -> None:
    said = problem(tmp_path, graph(m="source.bids", **others), False, **option)
    assert said is not None
    assert "Model m: its source raw.bids has the option cleanSource: " in said
    assert "and other reads them too" in said
    assert problem(tmp_path, graph(m="source.bids", **others), cleanSource="off") is None


def test_a_model_that_has_read_isnt_built_again(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoints" / "lake.db.m"
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id": "x"}')
    (checkpoint / "offsets" / "0").write_text("v1")
    assert problem(tmp_path, graph(m="source.bids")) is None
    said = problem(tmp_path, graph(m="source.bids"), anew=True)
    assert said is not None
    assert "a table that is built again would lack their rows" in said
