"""The reference pages and the schemas are those that the code makes, and the schemas accept what the code accepts."""

from __future__ import annotations

import json
import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from dbt.parser.schemas import is_valid_type
from jsonschema import Draft7Validator

from dbt.adapters.spark_streaming import credentials
from dbt.adapters.spark_streaming.cli.commands import main as cli
from dbt.adapters.spark_streaming.credentials import SparkStreamingCredentials
from dbt.adapters.spark_streaming.project.model_configs import INCREMENTAL, STREAMING, TABLES
from dbt.adapters.spark_streaming.query.windows import windows
from dbt.adapters.spark_streaming.sources import stream_source
from dbt.adapters.spark_streaming.stream.common import lookup_source
from tests import reference_messages, reference_pages
from tests.reference_pages import PAGES, ROOT, SCHEMAS

MODELS = {each.name: each for each in (*STREAMING, *TABLES, *INCREMENTAL)}


def errors(schema: str, text: str) -> list[str]:
    checked = Draft7Validator(json.loads((SCHEMAS / f"{schema}.json").read_text()))
    return [error.json_path for error in checked.iter_errors(yaml.safe_load(text))]


@pytest.mark.parametrize("path", sorted(reference_pages.made()), ids=lambda path: path.name)
def test_it_is_what_the_code_makes(path: Path) -> None:
    """`python -m tests.reference_pages` writes it."""
    assert path.read_text() == reference_pages.made()[path]


def test_each_setting_command_and_macro_is_in_its_page() -> None:
    pages = {page.stem: page.read_text() for page in PAGES.glob("*.md")}
    of = {
        "configs": MODELS,
        "profile": credentials.KEYS,
        "sources": (*stream_source.KEYS, *lookup_source.KEYS),
    }
    for page, names in of.items():
        for name in {*names} - {"database"}:
            assert f"\n| `{name}` |" in pages[page], name
    for name, command in reference_pages.commands():
        assert f"\n`dbt-stream {name}" in pages["cli"], name
        assert command.help, name
    for name in (*windows.KINDS, windows.STREAM, "as_of", "enum_distinct", "split_distinct", "split_topn"):
        assert f"\n### {name}\n\n`{name}(" in pages["macros"], name


def test_each_argument_of_a_macro_is_described() -> None:
    """As dbt checks it: in order, and of a type that it knows."""
    for folder in ("windows", "rewrites", "operations", "incremental"):
        for macro, signature in reference_pages.macros_of(folder):
            described = [each["name"] for each in macro.get("arguments", ())]
            assert described == re.findall(r"[(,] ?(\w+)(?==|,|\))", signature), macro["name"]
            for each in macro.get("arguments", ()):
                assert is_valid_type(each["type"]), (macro["name"], each)


def test_defaults_of_the_profile_are_those_of_the_code() -> None:
    defaults = {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(SparkStreamingCredentials)
    }
    for each in credentials.SETTINGS:
        if each.default is not None:
            assert defaults[each.name] == each.default, each.name
        else:
            assert defaults[each.name] in (None, {}, [], "local", MISSING), each.name


def test_defaults_of_sources_are_those_of_the_code() -> None:
    given = {each.name: each.default for each in stream_source.SETTINGS if each.default is not None}
    of = stream_source.DeclaredSource.from_config
    assert of("s", "s", {"format": given.pop("format")}) == of("s", "s", {})
    csv = {"format": "csv", "path": "x"}
    assert of("s", "s", csv | given) == of("s", "s", csv)
    given = {each.name: each.default for each in lookup_source.SETTINGS if each.default is not None}
    lookup = lookup_source.LookupSource.from_config
    url = {"url": "jdbc:h2:mem"}
    assert lookup("s", "s", url | given, "t") == lookup("s", "s", url, "t")


VALUES: list[Any] = [
    None,
    "",
    " ",
    "x",
    "10 minutes",
    [],
    ["a"],
    {},
    {"a": 1},
    {"a": [1]},
    0,
    1,
    -1,
    64,
    1.5,
    True,
    False,
]


@pytest.mark.parametrize("name", MODELS)
def test_the_schema_accepts_what_the_code_accepts(name: str) -> None:
    checked = Draft7Validator(reference_pages.value_schema(MODELS[name]))
    kind = MODELS[name].kind
    for value in (*VALUES, MODELS[name].default):
        if kind.is_valid is not None and kind.problem(value) is None:
            assert checked.is_valid(value), value
    assert checked.is_valid("{{ var('x') }}")
    assert not all(checked.is_valid(value) for value in VALUES)


def test_an_editor_is_told_of_mistakes_in_models_and_sources() -> None:
    text = """
models:
  - name: a
    config: {materialized: topn, watermark: 5 minutes, changelog: true, meta: {mine: 1}}
  - name: b
    config: {watermark: 5, changelog: maybe, on_running: wait, max_snapshots: 0}
sources:
  - name: raw
    tables:
      - name: orders
        config: {event_time: at, meta: {stream: {format: json, options: {path: x}}, mine: 1}}
      - name: views
        config: {meta: {stream: {fromat: json, on_error: ignore}}}
      - name: customers
        config: {meta: {lookup: {url: 'jdbc:x', retries: -1, table: t}}}
"""
    assert sorted(errors("properties", text)) == [
        "$.models[1].config.changelog",
        "$.models[1].config.max_snapshots",
        "$.models[1].config.on_running",
        "$.models[1].config.watermark",
        "$.sources[0].tables[1].config.meta.stream",
        "$.sources[0].tables[1].config.meta.stream.on_error",
        "$.sources[0].tables[2].config.meta.lookup",
        "$.sources[0].tables[2].config.meta.lookup.retries",
    ]


def test_an_editor_is_told_of_mistakes_in_the_project_and_the_profile() -> None:
    assert errors("project", "models: {shop: {+watermark: 5 minutes, staging: {+changelog: maybe}}}") == [
        "$.models.shop.staging['+changelog']"
    ]
    other = "{type: postgres, anything: 1}"
    wrong = "{type: spark_streaming, schema: s, storage_rot: x, method: thrift}"
    assert errors("profiles", f"shop: {{target: a, outputs: {{a: {other}}}}}") == []
    assert sorted(errors("profiles", f"shop: {{outputs: {{a: {wrong}}}}}")) == [
        "$.shop.outputs.a",
        "$.shop.outputs.a.method",
    ]


@pytest.mark.parametrize("name", ["watermak", "evnt_time", "constant_domain"])
def test_an_editor_is_told_of_a_misspelt_config_of_a_streaming_model(name: str) -> None:
    """Other models may have configs that nobody here knows."""
    for kind, wrong in {"streaming_table": True, "table": False}.items():
        block = f"{{materialized: {kind}, {name}: x, tags: [a], meta: {{mine: 1}}, pre-hook: x}}"
        found = errors("properties", f"models: [{{name: m, config: {block}}}]")
        assert found == ["$.models[0].config"] * wrong
        block = f"{{+materialized: {kind}, +{name}: x, +tags: [a], staging: {{+watermark: 5 minutes}}}}"
        assert errors("project", f"models: {{shop: {block}}}") == ["$.models.shop"] * wrong


def test_an_editor_is_told_of_a_misspelt_config_of_a_source() -> None:
    """A stream without its event_time has no windows, and dbt says nothing of a name that it doesn't know."""
    for name, path in {"event_time": [], "evnt_time": ["config"], "loaded_at_field": []}.items():
        config = f"{{{name}: at, meta: {{mine: 1}}}}"
        table = f"sources: [{{name: raw, tables: [{{name: t, config: {config}}}]}}]"
        assert errors("properties", table) == [f"$.sources[0].tables[0].{each}" for each in path]
        source = f"sources: [{{name: raw, config: {config}, tables: [{{name: t}}]}}]"
        assert errors("properties", source) == [f"$.sources[0].{each}" for each in path]


@pytest.mark.parametrize(
    ("schema", "file"),
    [
        ("profiles", "adapter/include/sample_profiles.yml"),
        ("profiles", "adapter/include/demo/profiles.yml"),
        ("properties", "adapter/include/demo/models/sources.yml"),
        ("properties", "adapter/include/demo/models/schema.yml"),
        ("project", "adapter/include/demo/dbt_project.yml"),
        ("project", "dbt_project.yml"),
        ("profiles", "profiles.yml"),
        *(("properties", str(path.relative_to(ROOT))) for path in sorted((ROOT / "models").rglob("*.yml"))),
        *(
            ("properties", str(path.relative_to(ROOT)))
            for path in sorted((ROOT / "integration_tests/models").rglob("*.yml"))
        ),
    ],
)
def test_our_own_files_are_right(schema: str, file: str) -> None:
    assert errors(schema, (ROOT / file).read_text()) == []


def test_each_module_with_messages_is_in_a_topic_of_the_page() -> None:
    topics = reference_messages.MARKER.findall(reference_messages.PAGE.read_text())
    found = {module: reference_messages.topic_of(module, topics) for module in reference_messages.messages()}
    assert [module for module, topic in found.items() if topic is None] == []
    assert {*found.values()} == {*topics}
    for place in " ".join(topics).split():
        assert any(module.startswith(place) for module in found), place


@pytest.mark.parametrize(
    "text",
    [
        "The query reads no stream",  # Raised where it is written.
        "its query has changed in what its state depends on",  # Put together in functions.
        "SET and table.exec.… are Flink's",  # In a table.
        "another run of it is in progress",
        "it is ingested in … pieces",  # A warning.
        "There is no model '…' in the project",  # A mistake in a command.
    ],
)
def test_the_page_has_messages_from_wherever_they_are_written(text: str) -> None:
    assert text in reference_messages.PAGE.read_text()


def test_the_page_has_no_code_and_no_helps() -> None:
    texts = [text for module in reference_messages.messages().values() for text in module]
    wrong = re.compile(
        r"\\b|\(\?:|(?i:left join \(|select \* from \(\n|lateral view explode\(array)|Default:"
    )
    assert [text for text in texts if wrong.search(text)] == []


def test_help_has_no_words_of_its_library() -> None:
    """A type that click names, such as INTEGER RANGE, says less than a word for the value."""
    for name, command in (*reference_pages.commands(), ("", cli)):
        text = command.get_help(click.Context(command))
        assert not re.search(r"RANGE|DIRECTORY|FLOAT|%Y", text), name
