"""A table that was built anew under a stream is told with what to select."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.iceberg.owner import Owner
from dbt.adapters.spark_streaming.stream.sources import upstream
from dbt.adapters.spark_streaming.stream.sources.upstream import readers, readers_beyond, replaced_message

MODEL = StreamModel("m", "lake.`dbt-dev`.`my-model`", "s", Storage("/root", lambda: None), ())


def test_advice_names_what_dbt_can_select() -> None:
    model = replace(MODEL, upstream={"pages_v2": "pages"})
    assert model.rebuild_command("lake.db.pages_v2__changes") == "`dbt run --full-refresh --select pages+`"
    of_others = model.rebuild_command("lake.raw.events")
    assert of_others.startswith(
        f"`dbt run --full-refresh --select {MODEL.name}+`, after that table is rebuilt"
    )


def test_advice_on_a_seed() -> None:
    model = replace(MODEL, upstream={"given_rows": "given", "t": "t"}, seeds=frozenset(["given_rows"]))
    assert model.rebuild_command("lake.db.Given_Rows") == "`dbt build --full-refresh --select given+`"
    said = replaced_message(model, "lake.db.given_rows", from_scratch=True)
    assert "the table lake.db.given_rows of the seed that it streams from was recreated" in said
    assert (
        f"Rebuild this model too: {model.rebuild}; with all models that read the seed in turn: `dbt build"
        in said
    )
    assert "the table lake.db.t that it streams from was rebuilt" in replaced_message(
        model, "lake.db.t", True
    )


def test_of_two_tables_with_one_alias_the_right_one_is_named() -> None:
    upstream = {"`eu`.`orders`": "shop_eu.orders", "`us`.`orders`": "orders_us"}
    model = replace(MODEL, upstream=upstream, seeds=frozenset({"`us`.`orders`"}), selector="shop.m")
    assert model.rebuild_command("lake.us.orders") == "`dbt build --full-refresh --select orders_us+`"
    assert (
        model.rebuild_command("lake.`EU`.orders__changes")
        == "`dbt run --full-refresh --select shop_eu.orders+`"
    )
    assert not model.is_seed("lake.eu.orders") and model.is_seed("lake.us.orders")
    assert "--select shop.m+`, after that table" in model.rebuild_command("lake.asia.orders")


def test_readers_are_named_by_their_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of a model of an odd name have another one."""
    storage = Storage(str(tmp_path), lambda: None)
    found = {"known": Owner("lake.db.`my größe`", {}, None), "unknown": None}
    for key in (*found, "unreadable"):
        offset = '{"snapshot_id": 1, "position": 1}'
        storage.write_text(f"{storage.checkpoints}/{key}/offsets/0", f"v1\n{{}}\n{offset}")
        sources = '[{"relation": "t", "reads": "lake.db.t"}]'
        storage.write_text(f"{storage.checkpoints}/{key}/sources.json", sources)

    def read(_: Storage, key: str) -> Owner | None:
        if key not in found:
            raise StreamError("it can't be read")
        return found[key]

    monkeypatch.setattr(upstream.owner, "read_owner", read)
    table: Any = SimpleNamespace(name="lake.db.t", has_ancestor=lambda snapshot: False)
    names = ["lake.db.`my größe`", "unknown", "unreadable"]
    assert [*readers_beyond(storage, table, None)] == [*readers(storage, "lake.`db`.t")] == names
    assert readers(storage, "lake.db.t__changes") == ()


def test_a_stream_whose_checkpoint_cannot_be_read_may_be_a_reader(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path), lambda: None)
    sources = '[{"relation": "t", "reads": "lake.db.t"}, {"relation": "u", "reads": "lake.db.u"}]'
    offset = '{"snapshot_id": 1, "position": 1}'
    for key, noted, offsets in (
        ("readable", sources, f"v1\n{{}}\n{offset}\n{offset}"),
        ("other", '[{"relation": "u", "reads": "lake.db.u"}]', ""),
        ("cut", sources, f"v1\n{{}}\n{offset}"),
        ("emptied", sources, ""),
        ("half", "[{", f"v1\n{{}}\n{offset}"),
    ):
        storage.write_text(f"{storage.checkpoints}/{key}/offsets/0", offsets)
        storage.write_text(f"{storage.checkpoints}/{key}/sources.json", noted)
    storage.write_text(f"{storage.checkpoints}/.DS_Store", "of a file manager")
    table: Any = SimpleNamespace(name="lake.db.t", has_ancestor=lambda snapshot: True)
    unread = " (its checkpoint can't be read)"
    assert readers_beyond(storage, table) == (f"cut{unread}", f"emptied{unread}", f"half{unread}")
    assert readers(storage, "lake.db.t") == ("cut", "emptied", f"half{unread}", "readable")
