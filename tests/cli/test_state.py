"""What `dbt-stream state` and `status` print, and how `state.bootstrap_model` runs a model."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.cli import savepoints, state, status
from dbt.adapters.spark_streaming.cli.project import DbtProject

PROJECT = DbtProject(Path("."), None, None, None, None)
IN_BRACKETS = "[/usr/bin] and m[key]"
"""A text that rich would take for markup."""
NUMBERS = dict.fromkeys(("rows_read", "rows_written", "rows_deleted", "hits", "misses", "lookups"), 0)
SIZES = dict.fromkeys(("bytes_read", "bytes_written", "bytes_deleted"), 0)


def test_texts_in_brackets_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    size = {"rows": 1, "bytes": 1, "files": 1}
    column = {"name": "v", "type": "string", "what": IN_BRACKETS}
    shown = {"model": "m", "state": "s", "batch": 0, "watermark": None, "seconds_since_written": 1.0}
    shown |= {"snapshots": 1, **size, "parts": [{"name": "p", **size}], "columns": [column]}
    state.print_state({**shown, "sample": {"p": [{"v": IN_BRACKETS}]}})
    assert capsys.readouterr().out.count(IN_BRACKETS) == 2

    changed: Mapping[str, Any] = {"add": {}, "drop": [], "rename": {}, "forget_parts": []}
    texts: dict[str, list[str]] = {
        "kept": [IN_BRACKETS],
        "new": [],
        "removed": [],
        "made_anew": [],
        "shortened": [],
    }
    differs = {"model": "m", "verdict": "migrated", "reason": None, "history": None, "undo": None}
    state.print_diff({**differs, **texts, "state": changed, "table": changed})
    assert IN_BRACKETS in capsys.readouterr().out

    part = {"part": "p", "operator": IN_BRACKETS, "holds": IN_BRACKETS, **size, "last": NUMBERS | SIZES}
    status.print_state_activity([{"model": "m", "progress": {"state": {"parts": [part]}}}])
    assert capsys.readouterr().out.count(IN_BRACKETS) == 2

    saved = {
        "name": "s",
        "made": "now",
        "taken_before": IN_BRACKETS,
        "kept_until": "then",
        "batch": 1,
        "watermark": None,
    }
    savepoints.print_savepoints("m", [saved])
    assert f"before a {IN_BRACKETS}, kept until then" in capsys.readouterr().out


def test_a_bootstrap_keeps_variables_that_json_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[dict[str, Any]] = []
    monkeypatch.setattr(DbtProject, "streaming_model", lambda *_: {"name": "m"})
    monkeypatch.setattr(DbtProject, "run", lambda project, *_: ran.append(project.parsed_variables()))
    state.bootstrap_model(replace(PROJECT, variables="{since: 2024-01-02}"), "m", "shop.old")
    assert ran == [{"since": datetime.date(2024, 1, 2), "bootstrap": {"m": "shop.old"}}]
