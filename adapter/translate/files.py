"""Writes the files of a translated project: sources.yml, models, seeds, and dbt's own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from ..util.redaction import redact_by_form
from .errors import Note
from .queries import escape_jinja, quote_for_jinja
from .relations import NamedRelation

SOURCE = "flink"
"""The source in sources.yml that has the tables of a script."""


@dataclass
class Model:
    """A model of the project."""

    name: str
    line: int
    comments: Sequence[str] = ()
    text: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    reads: Mapping[str, NamedRelation] = field(default_factory=dict)
    domains: Sequence[str] = ()
    group_keys: Sequence[frozenset[str]] = ()
    """For each key of its GROUP BY, the columns of the result with its value."""
    key: Sequence[str] = ()
    """The PRIMARY KEY of the table that it fills."""
    notes: Sequence[Note] = ()
    problems: list[Note] = field(default_factory=list)
    """Why it can't run."""
    originals: Sequence[str] = ()
    """The statements that it is made from."""

    @property
    def is_ephemeral(self) -> bool:
        """Whether it is inlined into the models that read it."""
        return self.config.get("materialized") == "ephemeral"


@dataclass(frozen=True)
class SourceTable:
    """A table in sources.yml."""

    meta: dict[str, Any]
    event_time: str | None
    connection: dict[str, str]
    """Options for the profile, since they may be secrets."""


@dataclass(frozen=True)
class Seed:
    """Rows that a script inserts as VALUES."""

    name: str
    rows: str
    types: dict[str, str]
    event_time: str | None


def disable_reader(model: Model, models: Mapping[str, Model]) -> bool:
    """Disables a model that reads a disabled one. Returns whether it does."""
    lost = [
        each.name
        for each in model.reads.values()
        if each.is_model and each.name in models and models[each.name].problems
    ]
    if not lost or model.problems:
        return False
    model.problems.append(Note(model.line, f"it reads {lost[0]}, which is disabled."))
    return True


def disable_readers(models: Mapping[str, Model]) -> None:
    """Disables the models that read a disabled one."""
    while any([disable_reader(model, models) for model in models.values()]):
        pass


def file_texts(
    name: str, models: Mapping[str, Model], sources: Mapping[str, SourceTable], seeds: Iterable[Seed]
) -> dict[str, str]:
    """Returns the texts of a project's files, by path."""
    found = {
        "dbt_project.yml": _yaml_text({"name": name, "version": "1.0.0", "profile": name}),
        "profiles.yml": _profile_text(name, sources),
        ".gitignore": ".spark/\ntarget/\nlogs/\n",
    }
    if sources:
        tables = [_table_entry(table, source) for table, source in sources.items()]
        found["models/sources.yml"] = _yaml_text(
            {"version": 2, "sources": [{"name": SOURCE, "tables": tables}]}
        )
    for model in models.values():
        found[f"models/{model.name}.sql"] = _model_text(model)
    properties = []
    for seed in seeds:
        found[f"seeds/{seed.name}.csv"] = seed.rows
        config: dict[str, Any] = {"column_types": seed.types}
        if seed.event_time:
            config["event_time"] = seed.event_time
        properties.append({"name": seed.name, "config": config})
    if properties:
        found["seeds/seeds.yml"] = _yaml_text({"version": 2, "seeds": properties})
    return found


def _yaml_text(value: Any) -> str:
    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100))


def _secret_variable(table: str, option: str) -> str:
    """Returns the name of the environment variable with an option of a table's connection."""
    return re.sub(r"\W", "_", f"DBT_ENV_SECRET_{table}_{option}".upper())


def _profile_text(name: str, sources: Mapping[str, SourceTable]) -> str:
    output: dict[str, Any] = {"type": "spark_streaming", "schema": name, "threads": 2}
    connections = {
        table: {
            option: f"{{{{ env_var('{_secret_variable(table, option)}', '') }}}}"
            for option in source.connection
        }
        for table, source in sources.items()
        if source.connection
    }
    if connections:
        output["connections"] = connections
    if any(source.meta.get("stream", {}).get("format") == "kafka" for source in sources.values()):
        output["packages"] = ["kafka"]
    return _yaml_text({name: {"target": "dev", "outputs": {"dev": output}}})


def _table_entry(name: str, source: SourceTable) -> dict[str, Any]:
    config: dict[str, Any] = {"event_time": source.event_time} if source.event_time else {}
    return {"name": name, "config": {**config, "meta": source.meta}}


def _sql_comment(text: str) -> str:
    return "".join(f"-- {line}".rstrip() + "\n" for line in escape_jinja(redact_by_form(text)).splitlines())


def _model_text(model: Model) -> str:
    head = "".join(_sql_comment(each) for each in model.comments)
    if model.problems:
        config = "{{ config(enabled=false) }}\n"
        reasons = "".join(_sql_comment(f"Not translated, {note}") for note in model.problems)
        if not model.text:
            return f"{config}\n{head}{reasons}\n" + "\n".join(_sql_comment(each) for each in model.originals)
        return f"{config}\n{head}{reasons}\n{model.text}\n"
    settings = ", ".join(f"{name}={_jinja_value(value)}" for name, value in model.config.items())
    notes = "".join(_sql_comment(f"To check, {note}") for note in model.notes)
    return f"{{{{ config({settings}) }}}}\n\n{head}{notes}{model.text}\n"


def _jinja_value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_jinja_value, value))}]"
    return quote_for_jinja(value) if isinstance(value, str) else str(value).lower()
