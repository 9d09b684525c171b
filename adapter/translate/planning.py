"""Plans the translated models as a run would, and finds what bounds their state."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import Any

from jinja2 import Environment

from ..project import as_of, streaming
from ..query.errors import QueryError, UnboundedStateError
from ..query.frontend.streams import RelationInfo
from ..query.windows import expansion, window_arguments, windows
from .errors import Note
from .files import Model, Seed, SourceTable, disable_reader

_TTL = "7 days"


def plan_models(
    models: Mapping[str, Model],
    sources: Mapping[str, SourceTable],
    seeds: Sequence[Seed],
    note: Callable[[int, str], None],
) -> None:
    """Plans all models that aren't ephemeral, and gives them the configs that their state needs.

    Args:
        models: the models. One that can't be planned is disabled.
    """
    known = {
        f"source.{name}": RelationInfo(
            source.event_time,
            tuple(source.meta.get("stream", {}).get("unique_key", ())),
            lookup="lookup" in source.meta,
        )
        for name, source in sources.items()
    }
    known |= {f"model.{seed.name}": RelationInfo(seed.event_time) for seed in seeds}
    for model in _models_inputs_first(models):
        disable_reader(model, models)
        if model.problems or model.is_ephemeral:
            continue
        try:
            planned = _ModelPlanner(models, known, model)
            upsert = planned.bound_state(note)
        except QueryError as problem:
            reason = str(problem).removeprefix(f"Model {model.name}: ")
            reason = re.sub(r"\b(?:source|model)\.(?=\w)", "", reason)
            text = f"{model.name} can't be kept up to date as it is. {reason}"
            note(model.line, text)
            model.problems.append(Note(model.line, text))
            continue
        _note_primary_key_mismatch(model, upsert, note)
        found = RelationInfo(model.config.get("event_time"))
        known[f"model.{model.name}"] = (
            found if upsert is None else replace(found, key=upsert.key or (), changes=True)
        )


def _models_inputs_first(models: Mapping[str, Model]) -> list[Model]:
    """Returns the models, each after those that it reads: a script may fill a table after a query of it. Returns them in the
    script's order if models read each other."""
    read = {
        name: {each.name for each in model.reads.values() if each.is_model and each.name in models}
        for name, model in models.items()
    }
    try:
        return [models[name] for name in TopologicalSorter(read).static_order()]
    except CycleError:
        return [*models.values()]


def _note_primary_key_mismatch(model: Model, upsert: Any, note: Callable[[int, str], None]) -> None:
    """Adds a note on a PRIMARY KEY by which Flink replaces rows, and the model's table doesn't."""
    key, columns = ", ".join(model.key), {each.lower() for each in model.key}
    if not key or (upsert is not None and {*(upsert.key or ())} == columns):
        return
    if upsert is None and model.group_keys and all(columns & each for each in model.group_keys):
        # A group has one result.
        return
    if upsert is None:
        note(
            model.line,
            f"rows of {model.name} are added and never replaced. If several have one PRIMARY KEY ({key}), take the last of "
            f"each: ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY time DESC) = 1.",
        )
    else:
        note(
            model.line,
            f"rows of {model.name} are replaced by {', '.join(upsert.key or ('all columns',))}, its PRIMARY KEY is ({key}). "
            "To replace them by another key, set config unique_key.",
        )


class _ModelPlanner:
    """A model that is planned with different configs until its state is bounded."""

    def __init__(self, models: Mapping[str, Model], known: Mapping[str, RelationInfo], model: Model) -> None:
        self._models, self._known, self._model = models, known, model
        self._text = self._render(model)

    def _render(self, model: Model) -> str:
        """Returns a model's text as dbt would compile it."""

        def window_macro(kind: str) -> Any:
            def expand_window(relation: str, time: str, *lengths: str, **options: Any) -> str:
                return expansion.expand_window(
                    relation, window_arguments.make_window(kind, time, *lengths, **options)
                )

            return expand_window

        def ref(name: str) -> str:
            read = self._models.get(name)
            return f"({self._render(read)})" if read is not None and read.is_ephemeral else f"model.{name}"

        def expand_as_of(relation: str, time: str, key: Any = None) -> str:
            return expansion.expand_as_of(
                *as_of.as_of_arguments(relation, time, key, self._known.get(relation))
            )

        macros = {kind: window_macro(kind) for kind in windows.KINDS}
        return (
            Environment(autoescape=False)
            .from_string(model.text)
            .render(
                **macros,
                stream=expansion.expand_stream,
                as_of=expand_as_of,
                ref=ref,
                source=lambda _, name: f"source.{name}",
            )
        )

    def _plan_upsert(self, **config: Any) -> Any:
        """Plans the model with more configs, and returns how rows of its table are replaced; None if they never are."""
        model = self._model
        node = {"name": model.name, "config": {**model.config, **config}}
        return streaming.model_program(node, streaming.plan_model(node, self._text, self._known)).upsert

    def bound_state(self, note: Callable[[int, str], None]) -> Any:
        """Sets the configs that bound the model's state, and returns how rows of its table are replaced.

        Raises:
            QueryError: the model can't be planned, or no config bounds its state.
        """
        config = self._model.config
        ttl = config.pop("state_ttl", None)
        given = {"state_ttl": ttl} if ttl else {}
        found, refused = self._plan_or_refusal(**given)
        if refused is not None and given:
            # Queries over windows, and those that pass rows on, have no state with a TTL.
            found, refused = self._plan_or_refusal()
            given = {} if refused is None else given
        if refused is None:
            config |= given
            return found
        if not isinstance(refused.__cause__, UnboundedStateError):
            raise refused
        lasting = given or {"state_ttl": _TTL}
        for fixed in ({}, given) if given else ({},):
            if domains := self._bounding_domains(**fixed):
                return self._set_bounding_configs(note, **fixed, constant_domains=domains)
        if not given and self._plan_or_refusal(**lasting)[1] is None:
            return self._set_bounding_configs(note, **lasting)
        if domains := self._bounding_domains(**lasting):
            return self._set_bounding_configs(note, **lasting, constant_domains=domains)
        raise self._plan_or_refusal(**lasting)[1] or refused

    def _set_bounding_configs(self, note: Callable[[int, str], None], **config: Any) -> Any:
        """Gives the model configs that bound its state, with a note on what they assume. Returns its upsert."""
        name = self._model.name
        if domains := config.get("constant_domains"):
            note(
                self._model.line,
                f"{name} keeps state for every value of {', '.join(domains)}, as Flink does without "
                "table.exec.state.ttl. If new values keep coming, set state_ttl in the place of constant_domains.",
            )
        if config.get("state_ttl") == _TTL:
            note(
                self._model.line,
                f"{name} has a state that Flink never clears without table.exec.state.ttl. Here state_ttl='{_TTL}' "
                "clears it: set it to the time for which a row has to be remembered.",
            )
        self._model.config |= config
        return self._plan_upsert(**config)

    def _plan_or_refusal(self, **config: Any) -> tuple[Any, QueryError | None]:
        """Returns the result of `_plan_upsert`, and the error if the model can't be planned."""
        try:
            return self._plan_upsert(**config), None
        except QueryError as problem:
            return None, problem

    def _keys_read(self) -> Iterator[str]:
        """Yields the columns by which rows of the relations that the model reads replace each other."""
        for name, known in self._known.items():
            if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", self._text):
                yield from known.key

    def _bounding_domains(self, **config: Any) -> list[str]:
        """Returns the columns that bound the state if their values don't grow; none if they can't."""
        names = list(dict.fromkeys([*self._model.domains, *self._keys_read()]))

        def bounds_state(names: Sequence[str]) -> bool:
            return bool(names) and self._plan_or_refusal(**config, constant_domains=list(names))[1] is None

        if not bounds_state(names):
            return []
        for name in list(names):
            if bounds_state(rest := [each for each in names if each != name]):
                names = rest
        return names
