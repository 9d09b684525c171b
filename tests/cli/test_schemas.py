"""`dbt-stream schemas`: the files that it writes, and what it says of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from dbt.adapters.spark_streaming.cli.commands import main

ROOT = Path(__file__).parents[2]
PACKAGED = ROOT / "adapter/include/schemas"
EDITOR = ROOT / "docs/guides/editor.md"
"""The page that shows what the command prints."""


def test_it_writes_the_schemas_and_says_how_an_editor_finds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):  # Over those that are there.
        done = CliRunner().invoke(main, ["schemas"])
    assert done.exit_code == 0
    for file in PACKAGED.iterdir():
        assert Path("schemas", file.name).read_text() == file.read_text()
    found = json.loads(done.output.split(".vscode/settings.json:\n")[1])["yaml.schemas"]
    assert all(Path(name).exists() for name in found)
    assert found["./schemas/project.json"] == "dbt_project.yml"
    assert f"```\n{done.output}```" in EDITOR.read_text()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    done = CliRunner().invoke(main, ["schemas", str(tmp_path / "taken")])
    assert done.exit_code == 2
    assert f"The schemas can't be written to {tmp_path / 'taken'}: " in done.output


@pytest.mark.parametrize("text", [b"{}", b"mine", b'{"title": "Mine"}', b"[]", b"\xff\xfe"])
def test_files_of_others_are_left_alone(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "profiles.json").write_bytes(text)
    done = CliRunner().invoke(main, ["schemas", str(tmp_path)])
    assert done.exit_code == 2
    assert f"{tmp_path / 'profiles.json'} isn't a schema that this command wrote" in done.output
    assert [file.name for file in tmp_path.iterdir()] == ["profiles.json"]
    assert (tmp_path / "profiles.json").read_bytes() == text
