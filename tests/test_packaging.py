"""What is installed is what is there."""

from __future__ import annotations

import importlib
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from dbt.task.init import InitTask

from dbt.adapters.spark_streaming.__version__ import version
from dbt.adapters.spark_streaming.credentials import SparkStreamingCredentials
from dbt.adapters.spark_streaming.environment.storage import is_local
from dbt.adapters.spark_streaming.util.lazy_import import LazyModule

ROOT = Path(__file__).parents[1]


def test_every_folder_of_the_adapter_is_installed() -> None:
    """The folders are named one by one; an editable install finds those too that aren't."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")  # Python 3.10 reads no TOML
    listed = re.findall(r'^    "(dbt\.[\w.]+)",$', text, re.MULTILINE)
    package = "dbt.adapters.spark_streaming"
    found = {
        ".".join([package, *file.parent.relative_to(ROOT / "adapter").parts])
        for file in (ROOT / "adapter").rglob("__init__.py")
        if "include" not in file.parts
    }
    assert {name for name in listed if name.startswith(package)} == found


def test_the_address_of_the_project_is_the_same_everywhere() -> None:
    """`[project.urls]` says it. In a fork, or after a move: replace ``OWNER/NAME`` in the files named here."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (address,) = re.findall(r'^Repository = "https://github.com/([\w.-]+/[\w.-]+)"$', project, re.MULTILINE)
    owner, name = address.split("/")
    own = re.compile(
        rf"https://(?:github\.com|raw\.githubusercontent\.com)/([\w.-]+/{name})\b|https://([\w.-]+)\.github\.io/"
    )
    for file in (
        "pyproject.toml",
        "README.md",
        "mkdocs.yml",
        "docs/operate/upgrading.md",
        "tests/test_docs.py",
    ):
        found = own.findall((ROOT / file).read_text(encoding="utf-8"))
        assert found, file
        assert {*found} <= {(address, ""), ("", owner)}, file


def test_links_of_the_readme_work_on_the_index() -> None:
    """There it isn't next to the files of the repository."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    assert len(targets) > 20
    assert [each for each in targets if not each.startswith("https://")] == []


def test_the_version_is_the_same_everywhere_and_in_the_changelog() -> None:
    """The newest release of the changelog is the version, of the examples' project, too."""
    for file in ("dbt_project.yml", "adapter/include/dbt_project.yml"):
        assert yaml.safe_load((ROOT / file).read_text())["version"] == version, file
    released = re.findall(r"^## \[(\d[\w.]*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert released[0] == version


def test_modules_that_are_named_as_text_are_there() -> None:
    """What imports them when they are asked for is no import that a type checker sees."""
    found = set()
    for file in (ROOT / "adapter").rglob("*.py"):
        if "import_lazily(" not in file.read_text():
            continue
        parts = file.relative_to(ROOT / "adapter").with_suffix("").parts
        module = importlib.import_module(".".join(("dbt.adapters.spark_streaming", *parts)))
        found |= {vars(each)["_name"] for each in vars(module).values() if type(each) is LazyModule}
    assert len(found) > 10
    for name in found:
        importlib.import_module(name)


def test_what_dbt_init_and_the_demo_need_is_installed() -> None:
    """`package-data` names files by patterns, which find no hidden ones."""
    listed = re.search(
        r'^"dbt\.include\.spark_streaming" = \[(.*)\]$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE
    )
    assert listed is not None
    include = ROOT / "adapter/include"
    found = {file for pattern in re.findall(r'"([^"]+)"', listed[1]) for file in include.glob(pattern)}
    needed = {file for file in include.rglob("*") if file.is_file() and file.suffix != ".pyc"}
    assert needed <= found | {include / "__init__.py"}
    assert not [file for file in needed if file.name.startswith(".")]


@pytest.mark.parametrize("choice", [1, 2, 3, 4])
def test_dbt_init_makes_a_profile_that_is_valid(choice: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each place that Spark may run at, with dbt's own questions."""
    template = yaml.safe_load((ROOT / "adapter/include/profile_template.yml").read_text())

    def answer(text: str, default: object = None, **_: object) -> object:
        return choice if text.startswith("[1]") else "sc://there:15002" if default is None else default

    monkeypatch.setattr("click.prompt", answer)
    asked: Any = InitTask.generate_target_from_input
    target = asked(SimpleNamespace(generate_target_from_input=partial(asked, None)), template["prompts"], {})
    made = SparkStreamingCredentials.from_dict(target)
    assert (made.schema, made.method) == ("analytics", "connect" if choice == 4 else "session")


def test_dbt_init_names_the_variables_that_a_profile_reads() -> None:
    template = yaml.safe_load((ROOT / "adapter/include/profile_template.yml").read_text())
    for choice, asked in template["prompts"]["_choose_where_Spark_runs"].items():
        read = re.findall(r"env_var\('(\w+)'\)", str(asked))
        assert all(name in choice for name in read), choice


def test_the_sample_profiles_are_valid() -> None:
    """dbt renames the first line's profile, so that has to be the only one."""
    samples = yaml.safe_load((ROOT / "adapter/include/sample_profiles.yml").read_text())
    (profile,) = samples.values()
    for target in profile["outputs"].values():
        assert target.pop("type") == "spark_streaming"
        assert target.pop("threads") == 2
        SparkStreamingCredentials.validate(target)
        made = SparkStreamingCredentials.from_dict(target)
        assert is_local(made.storage_root) or made.catalog_options, (
            "The embedded catalog is a file on this machine."
        )
