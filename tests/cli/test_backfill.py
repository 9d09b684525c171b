"""What `dbt-stream backfill` asks before it changes rows that a stream has read."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from dbt.adapters.spark_streaming.cli import backfill
from dbt.adapters.spark_streaming.cli.commands import main
from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.model import StreamModel

WINDOWS = ["--start", "2024-03-04", "--end", "2024-03-05"]


@pytest.mark.parametrize(
    ("read", "more", "answer", "asks", "fills"),
    [
        ("lake.db.m", [], "n\n", True, False),
        ("lake.db.m", [], "", True, False),  # nobody is there to answer
        ("lake.db.m", [], "y\n", True, True),
        ("lake.db.m", ["--yes"], "", False, True),
        ("lake.db.m__changes", [], "", False, True),
    ],
)
def test_streams_that_would_stop_are_named_first(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    read: str,
    more: list[str],
    answer: str,
    asks: bool,
    fills: bool,
) -> None:
    (tmp_path / "dbt_project.yml").touch()
    storage = Storage(str(tmp_path / "root"), lambda: None)
    storage.write_text(f"{storage.checkpoints}/lake.db.reader/offsets/0", "")
    storage.write_text(
        f"{storage.checkpoints}/lake.db.reader/sources.json", f'[{{"relation": "db.m", "reads": "{read}"}}]'
    )
    model = StreamModel("m", "lake.db.m", "lake.db.m__state", storage, ())
    monkeypatch.setattr(backfill, "owned_model", lambda project, name: (model, None))
    monkeypatch.setattr(backfill, "backfill_model", lambda *_: "m: 2 rows.")
    done = CliRunner().invoke(
        main, ["--project-dir", str(tmp_path), "backfill", "m", *WINDOWS, *more], input=answer
    )
    assert ("Streams over the table of m: lake.db.reader." in done.output) == asks
    assert ("`dbt run --full-refresh --select m+`" in done.output) == asks
    assert ("m: 2 rows." in done.output) == fills
    assert done.exit_code == (0 if fills else 1)
