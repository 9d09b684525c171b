"""What `dbt-stream status` says where it shows no model."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.cli.project import Selection
from dbt.adapters.spark_streaming.cli.status import print_table


def test_a_selection_that_matches_nothing_is_told_from_a_project_without_streams(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table([], Selection(select=("nope", "tag:x"), exclude=("y",)))
    assert capsys.readouterr().out == (
        "No streaming model is selected by --select nope tag:x --exclude y; `dbt-stream status` lists those there are.\n"
    )
    print_table([], Selection())
    assert capsys.readouterr().out == "The project has no streaming models.\n"
