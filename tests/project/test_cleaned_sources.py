"""cleanSource is refused where somebody else needs the files, or the model would read them again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.project.cleaned_sources import check_cleaned_sources
from dbt.adapters.spark_streaming.sources import source_tables, stream_source
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.sources.cleaned_files import forget_cleaned_files, note_cleaned


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    stream_source.forget_sources()
    for name, folder in (("bids", "/in/bids"), ("same", "/in/bids/"), ("asks", "/in/asks")):
        stream_source.register(
            stream_source.DeclaredSource(f"raw.{name}", relation(name), "json", {"path": folder})
        )
    yield
    stream_source.forget_sources()


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


def model(tmp_path: Path, **options: str) -> StreamModel:
    source = StreamSource(
        relation("bids"), "file:///in/bids/", "json", options=options or {"cleanSource": "archive"}
    )
    storage = Storage(str(tmp_path), lambda: None)
    return StreamModel("m", "lake.db.m", "lake.db.m__state", storage, (source,))


def problem(tmp_path: Path, graph: dict[str, Any], is_new: bool = False, **options: str) -> str | None:
    try:
        check_cleaned_sources(model(tmp_path, **options), {"unique_id": "m"}, graph, is_new)
    except DbtRuntimeError as problem:
        return str(problem.msg)
    return None


def test_one_reader_may(tmp_path: Path) -> None:
    alone = graph(m="source.bids", other="source.asks m", test_of_bids="source.bids")
    assert problem(tmp_path, alone) is problem(tmp_path, alone, is_new=True) is None
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


@pytest.mark.parametrize(
    ("path", "shared"),
    [
        ("/in/*", True),
        ("/in/{bids,asks}/*.json", True),
        ("/in/bids/day=1/hour=2", True),
        ("/in/x/../bids", True),
        ("/in/bids2", False),
        ("/in/a*", False),
        ("/in/bids/old", False),
    ],
)
def test_folders_that_overlap_are_the_same_files(tmp_path: Path, path: str, shared: bool) -> None:
    declared = stream_source.DeclaredSource("raw.over", relation("over"), "json", {"path": path})
    stream_source.register(stream_source.with_absolute_path(declared, tmp_path))
    others = graph(m="source.bids", other="source.over")
    others["sources"]["source.over"] = {"relation_name": relation("over")}
    assert (problem(tmp_path, others) is not None) is shared


def test_nor_may_another_model_clean_what_this_one_reads(tmp_path: Path) -> None:
    cleans = stream_source.DeclaredSource(
        "raw.over", relation("over"), "json", {"path": "/in/*", "cleanSource": "delete"}
    )
    stream_source.register(cleans)
    nodes = graph(m="source.bids", other="source.over")
    assert problem(tmp_path, nodes, maxFilesPerTrigger="1") is None
    nodes["sources"]["source.over"] = {"relation_name": relation("over")}
    said = problem(tmp_path, nodes, maxFilesPerTrigger="1")
    assert said is not None and "are removed once other has read them" in said
    del nodes["nodes"]["other"]
    assert problem(tmp_path, nodes, maxFilesPerTrigger="1") is None, "nobody reads it"


def test_two_sources_of_one_model(tmp_path: Path) -> None:
    made = model(tmp_path)
    more = StreamSource(relation("same"), "/in/bids", "json", name="raw.same")
    with pytest.raises(DbtRuntimeError, match=r"its other source raw\.same reads them too"):
        check_cleaned_sources(
            replace(made, sources=(*made.sources, more)), {"unique_id": "m"}, graph(m="source.bids"), False
        )


def plan(
    model: StreamModel, files: str = '{"path": "file:///in/bids/a", "timestamp": 1, "batchId": 0}'
) -> None:
    for name, text in (
        ("metadata", '{"id": "x"}'),
        ("offsets/0", 'v1\n{}\n{"logOffset":0}'),
        ("sources/0/0", f"v1\n{files}"),
    ):
        model.storage.write_text(f"{model.checkpoint}/{name}", text)


def test_a_model_that_has_read_isnt_built_again(tmp_path: Path) -> None:
    plan(model(tmp_path))
    assert problem(tmp_path, graph(m="source.bids")) is None
    said = problem(tmp_path, graph(m="source.bids"), is_new=True)
    assert said is not None
    assert "a rebuilt table would lack their rows" in said
    assert said.endswith(
        "(without the files, it begins with those that are there), or let the model continue without a rebuild."
    )
    table = replace(model(tmp_path), bootstrap="lake.db.rows_so_far")
    check_cleaned_sources(table, {"unique_id": "m"}, graph(m="source.bids"), True)


def test_nor_is_one_that_was_reset(tmp_path: Path) -> None:
    made = model(tmp_path)
    plan(made, files="")
    note_cleaned(made, 0)
    made.storage.delete(made.checkpoint)
    assert problem(tmp_path, graph(m="source.bids"), is_new=True) is None, "it has read no file"

    plan(made)
    note_cleaned(made, 0)
    made.storage.delete(made.checkpoint)
    forget_cleaned_files(made)
    said = problem(tmp_path, graph(m="source.bids"), is_new=True)
    assert said is not None
    assert said.endswith("(without the files, it begins with those that are there).")

    # It begins with the files that were put back.
    kept = model(tmp_path, cleanSource="off")
    check_cleaned_sources(kept, {"unique_id": "m"}, graph(m="source.bids"), True)
    forget_cleaned_files(kept)
    assert problem(tmp_path, graph(m="source.bids"), is_new=True) is None


@pytest.mark.parametrize(
    ("was", "becomes", "shared"),
    [
        ("/in/bids", "/in/*", True),
        ("/in/bids", "/in/{asks,bids}", True),
        ("/in/bids", "/in/bids/*.json", True),
        ("/in/bids", "/in/bids/day=1", True),
        ("/in/*", "/in/bids", True),
        ("/in/bids", "/in/a*", False),
        ("/in/bids", "/in/asks", False),
    ],
)
def test_nor_one_that_was_reset_and_reads_the_folder_by_another_path(
    tmp_path: Path, was: str, becomes: str, shared: bool
) -> None:
    made = at(tmp_path, was)
    plan(made)
    note_cleaned(made, 0)
    made.storage.delete(made.checkpoint)
    assert (new_problem(at(tmp_path, becomes)) is not None) is shared


def test_nor_one_that_was_reset_and_had_read_all_subfolders(tmp_path: Path) -> None:
    made = at(tmp_path, "/in", recursiveFileLookup="true")
    plan(made)
    note_cleaned(made, 0)
    made.storage.delete(made.checkpoint)
    assert new_problem(at(tmp_path, "/in/bids/x")) is not None
    forget_cleaned_files(at(tmp_path, "/in", recursiveFileLookup="true", cleanSource="off"))
    assert new_problem(at(tmp_path, "/in/bids/x")) is None


def test_nor_one_that_was_renamed(tmp_path: Path) -> None:
    made = at(tmp_path, "/in/bids")
    plan(made)
    note_cleaned(made, 0)
    renamed = replace(at(tmp_path, "/in/bids"), name="n", target="lake.db.n")
    said = new_problem(renamed)
    assert said is not None and "files were removed once lake.db.m had read them" in said
    assert new_problem(replace(renamed, sources=at(tmp_path, "/in/asks").sources)) is None
    check_cleaned_sources(renamed, {"unique_id": "m"}, graph(), is_new=False)


def at(tmp_path: Path, path: str, **options: str) -> StreamModel:
    source = StreamSource(relation("bids"), path, "json", options={"cleanSource": "delete", **options})
    return replace(model(tmp_path), sources=(source,))


def new_problem(model: StreamModel) -> str | None:
    try:
        check_cleaned_sources(model, {"unique_id": "m"}, graph(), is_new=True)
    except DbtRuntimeError as problem:
        return str(problem.msg)
    return None
