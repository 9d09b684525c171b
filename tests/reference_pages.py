"""The reference pages and the schemas for editors, made from the code.

    python -m tests.reference_pages      # writes them

A page has text that somebody wrote, and parts that this module fills in, each between two comments:
``<!-- made: KIND NAME -->`` and ``<!-- end -->``. The facts are the tables `SETTINGS` of the profile and of sources,
`model_configs`, the descriptions of macros in macros/, the commands of ``dbt-stream``, and the messages in adapter/.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import click
import yaml
from dbt.artifacts.resources.v1.model import ModelConfig as DbtConfig
from dbt.artifacts.resources.v1.source_definition import SourceConfig

from dbt.adapters.spark_streaming import credentials
from dbt.adapters.spark_streaming.cli.commands import main as cli
from dbt.adapters.spark_streaming.project import model_configs
from dbt.adapters.spark_streaming.project.model_configs import (
    ALL,
    INCREMENTAL,
    STREAMING,
    TABLES,
    ModelConfig,
)
from dbt.adapters.spark_streaming.sources import connectors, file_options, stream_source
from dbt.adapters.spark_streaming.stream.common import lookup_source
from dbt.adapters.spark_streaming.util.settings import SettingInfo, ValueType
from tests import reference_messages

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "reference"
SCHEMAS = ROOT / "adapter" / "include" / "schemas"
MADE = re.compile(r"(<!-- made: (\w+) ?([^\n]*?) -->\n).*?(<!-- end -->)", re.DOTALL)
SIGNATURE = r"^{%-? macro (NAME\(.*?\)) -?%}"
LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
DRAFT = "http://json-schema.org/draft-07/schema#"
JINJA = {"type": "string", "pattern": "\\{\\{"}
"""A value that Jinja makes, which no editor can check."""


@cache
def made() -> dict[Path, str]:
    """Returns each file's text as it should be."""
    pages = {page: filled(page.read_text()) for page in sorted(PAGES.glob("*.md"))}
    schemas = {
        SCHEMAS / f"{name}.json": json.dumps(schema, indent=1, ensure_ascii=False) + "\n"
        for name, schema in (("properties", properties()), ("project", project()), ("profiles", profiles()))
    }
    return pages | schemas


def filled(page: str) -> str:
    """Returns a page with its made parts."""
    return MADE.sub(lambda found: f"{found[1]}\n{PARTS[found[2]](found[3])}\n{found[4]}", page)


# Tables


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n".replace("  |", " |") for line in lines)


def type_of(kind: ValueType) -> str:
    return f"{kind.name} ({kind.unit})" if kind.unit and "interval" not in kind.name else kind.name


def shown(value: Any) -> str:
    """A value as an author writes it in ``config(…)``."""
    return f"`{json.dumps(value)}`".replace('"', "'")


def default_of(setting: SettingInfo) -> str:
    return setting.default_text or ("none" if setting.default is None else shown(setting.default))


def settings(rows: Iterable[SettingInfo], name: str = "key") -> str:
    listed = [[f"`{each.name}`", type_of(each.kind), default_of(each), each.meaning] for each in rows]
    return table([name, "type", "default", "meaning"], listed)


def configs(group: str) -> str:
    found = [each for each in (*STREAMING, *TABLES, *INCREMENTAL) if each.group == group]
    if all(each.models == ALL for each in found):
        return settings(found, "config")
    rows = [
        [f"`{each.name}`", type_of(each.kind), default_of(each), each.models, each.meaning] for each in found
    ]
    return table(["config", "type", "default", "models", "meaning"], rows)


def runs(_: str) -> str:
    rows = [
        [
            f"`{each.name}`",
            *(getattr(each.runs, run) for run in ("first", "again", "changed", "edited", "refresh", "empty")),
        ]
        for each in (*STREAMING, *(each for each in TABLES if each.models == ALL))
    ]
    header = [
        "config",
        "first run",
        "later run",
        "run after its value changed",
        "run after the query changed",
    ]
    return table([*header, "`--full-refresh`", "`--empty`"], rows)


def strategies(_: str) -> str:
    rows = [[f"`{name}`", what] for name, what in model_configs.STRATEGIES.items()]
    return table(["`incremental_strategy`", "a run"], rows)


def source_keys(name: str) -> str:
    return settings({"stream": stream_source.SETTINGS, "lookup": lookup_source.SETTINGS}[name])


def profile(_: str) -> str:
    threads = SettingInfo("threads", ValueType("number", {}), "models that are built at once; dbt's own", 1)
    return settings((*credentials.SETTINGS, threads))


def short_names(_: str) -> str:
    rows = [
        [f"`{name}`", each.meaning, ", ".join(f"`{package}`" for package in each.coordinates)]
        for name, each in connectors.CONNECTORS.items()
    ]
    return table(["name", "for", "packages"], rows)


# Macros


def macros_of(folder: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yields the macros that a folder of macros/ describes, each with its signature."""
    (described,) = (ROOT / "macros" / folder).glob("*.yml")
    code = "".join(file.read_text() for file in sorted((ROOT / "macros" / folder).glob("*.sql")))
    for macro in yaml.safe_load(described.read_text())["macros"]:
        found = re.search(SIGNATURE.replace("NAME", macro["name"]), code, re.MULTILINE)
        assert found is not None, macro["name"]
        yield macro, found[1]


def macros(folder: str) -> str:
    parts = []
    for macro, signature in macros_of(folder):
        text = " ".join(macro["description"].split("{% raw %}")[0].split())
        arguments = [
            [f"`{each['name']}`", each["type"], " ".join(each["description"].split())]
            for each in macro.get("arguments", ())
        ]
        listed = "\n" + table(["argument", "type", "meaning"], arguments) if arguments else ""
        parts.append(f"### {macro['name']}\n\n`{signature}`\n\n{text}\n{listed}")
    return "\n".join(parts)


def operations(_: str) -> str:
    rows = []
    for macro, signature in macros_of("operations"):
        (command,) = re.findall(r"`(dbt-stream [a-z ]+?)(?: --yes)?`", macro["description"])
        rows.append([f"`{signature}`", f"`{command}`"])
    return table(["operation", "does what this does"], rows)


# Commands


def commands(path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yields all commands of ``dbt-stream`` with their names."""
    group = cli
    for word in path.split():
        found = group.commands[word]
        assert isinstance(found, click.Group)
        group = found
    for name, command in group.commands.items():
        full = f"{path} {name}".strip()
        if isinstance(command, click.Group):
            yield from commands(full)
        else:
            yield full, command


def option_rows(command: click.Command) -> list[list[str]]:
    rows = []
    for each in command.params:
        if isinstance(each, click.Option) and not each.hidden:
            context = click.Context(command)
            _, text = each.get_help_record(context) or ("", "")
            default = each.get_default(context)
            is_shown = each.show_default and default is not None
            text = re.sub(r"\s*\[(default|required|x>)[^\]]*\]", "", text)
            said = f"{default}" if is_shown else "required" if each.required else ""
            if isinstance(each.type, click.Choice):
                text = f"{text} One of {', '.join(each.type.choices)}."
            # Not every reader of Markdown takes \\| in code for |.
            assert "|" not in f"{named(each)}{text}"
            rows.append([f"`{named(each)}`", said, text.strip()])
    return rows


def named(option: click.Option) -> str:
    """An option's names, and what is written after them."""
    names = ", ".join(sorted(option.opts, key=len))
    if option.is_flag:
        return names
    kind = "NAME" if isinstance(option.type, click.Choice) else option.type.name.upper()
    return f"{names} {option.metavar or kind}"


def command(name: str) -> str:
    """The usage of a command, its sentence, and its options."""
    found = dict(commands())[name]
    arguments = " ".join(
        each.make_metavar(click.Context(found)) for each in found.params if isinstance(each, click.Argument)
    )
    rows = option_rows(found)
    usage = " ".join(filter(None, ["dbt-stream", name, "[OPTIONS]" if rows else "", arguments]))
    listed = "\n" + table(["option", "default", "meaning"], rows) if rows else ""
    return f"`{usage}`: {' '.join((found.help or '').split())}\n{listed}"


def global_options(_: str) -> str:
    return table(["option", "default", "meaning"], option_rows(cli))


PARTS: Mapping[str, Callable[[str], str]] = {
    "configs": configs,
    "runs": runs,
    "strategies": strategies,
    "source": source_keys,
    "profile": profile,
    "connectors": short_names,
    "macros": macros,
    "operations": operations,
    "options": global_options,
    "command": command,
    "messages": lambda topic: reference_messages.listed(topic, reference_messages.PAGE.read_text()),
}


# Schemas


def plain(text: str) -> str:
    """Markdown without its links and escapes, for an editor."""
    return LINK.sub(r"\1", text).replace("\\|", "|")


def value_schema(setting: SettingInfo) -> dict[str, Any]:
    """The schema of a setting's value, which may be null or Jinja, too."""
    described = f"{plain(setting.meaning)}. Default: {plain(default_of(setting))}."
    if isinstance(setting, ModelConfig) and setting.models != "all":
        described += f" Models: {setting.models}."
    schema: dict[str, Any] = {
        "description": described,
        "anyOf": [dict(setting.kind.schema), JINJA, {"type": "null"}],
    }
    return schema if setting.default is None else schema | {"default": setting.default}


def object_of(rows: Iterable[SettingInfo], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {each.name: value_schema(each) for each in rows}} | more


def config_properties(prefix: str = "") -> dict[str, Any]:
    kinds = sorted((*model_configs.MATERIALIZATIONS, "table", "view", "incremental", "ephemeral"))
    own = {each.name: value_schema(each) for each in (*STREAMING, *INCREMENTAL, *TABLES)}
    materialized = {"description": "How the model is built.", "anyOf": [{"enum": kinds}, {"type": "string"}]}
    return {f"{prefix}{name}": schema for name, schema in {"materialized": materialized, **own}.items()}


def known_configs(prefix: str = "") -> dict[str, Any]:
    """The schema of the names in a block of configs with a streaming materialization, where an unknown one is an error."""
    standard = {field.name for field in fields(DbtConfig)} - {"_extra"} | {"pre-hook", "post-hook"}
    names = {f"{prefix}{name}" for name in standard} | config_properties(prefix).keys()
    known: dict[str, Any] = {"enum": sorted(names)}
    kinds = {"enum": sorted(model_configs.MATERIALIZATIONS)}
    return {
        "if": {"required": [f"{prefix}materialized"], "properties": {f"{prefix}materialized": kinds}},
        "then": {
            "propertyNames": {"anyOf": [known, {"not": {"pattern": "^\\+"}}]} if prefix else known,
        },
    }


def source_schema() -> dict[str, Any]:
    """What `meta` of a source table may have of ours."""
    by_format = [
        {
            "if": {"required": ["format"], "properties": {"format": {"const": format}}},
            "then": {"properties": {"options": {"properties": {name: {} for name in options}}}},
        }
        for format, options in file_options.known_options().items()
    ]
    stream = object_of(stream_source.SETTINGS, additionalProperties=False, allOf=by_format)
    lookup = object_of(lookup_source.SETTINGS, additionalProperties=False)
    return {"type": "object", "properties": {"stream": stream, "lookup": lookup}}


def listed(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "object", "properties": items}}


def properties() -> dict[str, Any]:
    """The schema of YAML files in models/: configs of models, `meta.stream` and `meta.lookup` of sources."""
    config = {"$ref": "#/definitions/config"}
    meta = {"$ref": "#/definitions/source_meta"}
    source_config = {
        "type": "object",
        "properties": {"meta": meta, "event_time": {"type": "string"}},
        "propertyNames": {"enum": sorted({field.name for field in fields(SourceConfig)} - {"_extra"})},
    }
    tables = listed({"config": source_config, "meta": meta})
    return {
        "$schema": DRAFT,
        "title": "Models and sources of dbt-spark-streaming",
        "type": "object",
        "properties": {
            "models": listed({"config": config}),
            "sources": listed({"config": source_config, "tables": tables}),
        },
        "definitions": {
            "config": {"type": "object", "properties": config_properties(), **known_configs()},
            "source_meta": source_schema(),
        },
    }


def project() -> dict[str, Any]:
    """The schema of dbt_project.yml: configs of models, with a + before them, in folders of any depth."""
    folder = {"$ref": "#/definitions/folder"}
    return {
        "$schema": DRAFT,
        "title": "dbt_project.yml with dbt-spark-streaming",
        "type": "object",
        "properties": {"models": folder},
        "definitions": {
            "folder": {
                "properties": config_properties("+"),
                "additionalProperties": folder,
                **known_configs("+"),
            }
        },
    }


def profiles() -> dict[str, Any]:
    """The schema of profiles.yml, for targets of this adapter."""
    own = object_of(credentials.SETTINGS, additionalProperties=False, required=["type", "schema"])
    own["properties"] |= {"type": {}, "threads": {"description": "Models that are built at once."}}
    target = {
        "type": "object",
        "properties": {"type": {"type": "string"}},
        "if": {"required": ["type"], "properties": {"type": {"const": "spark_streaming"}}},
        "then": own,
    }
    profile = {
        "type": "object",
        "properties": {
            "target": {"type": "string"},
            "outputs": {"type": "object", "additionalProperties": target},
        },
    }
    return {
        "$schema": DRAFT,
        "title": "profiles.yml with dbt-spark-streaming",
        "type": "object",
        "additionalProperties": profile,
    }


def main() -> None:
    SCHEMAS.mkdir(exist_ok=True)
    for path, text in made().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
