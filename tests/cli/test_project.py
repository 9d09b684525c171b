"""Which of dbt's results are errors."""

from __future__ import annotations

from types import SimpleNamespace

from dbt.adapters.spark_streaming.cli.project import has_failed


def test_what_went_well_is_not_told_as_an_error() -> None:
    entries = [
        SimpleNamespace(status="success", message="STREAM (18 rows in, 12 out, 2 batches)"),
        SimpleNamespace(status="error", message="Model m: bad row"),
        SimpleNamespace(status="skipped", message=""),
        SimpleNamespace(status="skipped", message="its upstream failed"),
        SimpleNamespace(status="pass", message="spark_streaming.on-run-end.0 passed"),
    ]
    assert [entry.message for entry in entries if has_failed(entry)] == ["Model m: bad row"]
