"""A random model as the adapter sees it: a node of dbt's, planned by the code that plans dbt's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from dbt.adapters.spark_streaming.project import streaming
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.query.sql.functions import QueryRunner
from tests.differential.tables import STREAMS, WATERMARK, Tables, watermarks
from tests.differential.tree import UPSTREAM, Case, Model, Stream, nodes

KNOWN: Mapping[str, RelationInfo] = {
    name: RelationInfo(event_time=next(column.name for column in columns if column.event_time))
    for name, columns in STREAMS.items()
}


def node_of(model: Model, name: str) -> dict[str, Any]:
    """What dbt knows of a model."""
    settings = {"materialized": "streaming_table", "watermark": WATERMARK, **model.settings()}
    return {"name": name, "config": settings}


def expected(model: Model, case: Case, tables: Tables) -> str:
    """The text that gives a model's rows in batch, after the run of a case."""
    streams = model.streams()
    if UPSTREAM in streams:
        return model.expected(None)
    try:
        behind = planned(model).extra_delay
    except QueryError:
        behind = 0  # there is nothing to compare
    return model.expected(watermarks(tables, streams, case.cuts, behind))


def planned(
    model: Model, name: str = "m", known: Mapping[str, RelationInfo] = KNOWN, ask: QueryRunner | None = None
) -> Program:
    """What a micro-batch of a model does; `ask`: as in `planner.plan`.

    Raises:
        QueryError: the model is refused.
    """
    if known is KNOWN:
        return _planned_over_streams(model, name, ask)
    return _planned(model, name, known, ask)


@lru_cache(maxsize=8)
def _planned_over_streams(model: Model, name: str, ask: QueryRunner | None) -> Program:
    """A case is planned for the configs that it needs, and when it runs, which may be several times."""
    return _planned(model, name, KNOWN, ask)


def _planned(model: Model, name: str, known: Mapping[str, RelationInfo], ask: QueryRunner | None) -> Program:
    node = node_of(model, name)
    return streaming.model_program(node, streaming.plan_model(node, model.text(), known, ask))


_NEEDLESS = re.compile(
    r"config '(\w+)' is for queries without windows|config (\w+): There is no |config '(\w+)' forgets what was idle, "
    r"but|(output_mode) 'upsert' needs results of windows|config '(output_mode)' is 'upsert', but this query never"
)
LASTS = "800000 days"
"""A `state_ttl` in which nothing expires, though some windows are of the year 1."""
_EMISSION = (
    "first_result_offset",
    "update_rate",
    "complete_result_offset",
    "late_updates",
    "last_result_offset",
)


def known_of(case: Case, upstream: Program | None) -> Mapping[str, RelationInfo]:
    """What a project says of the streams of a case's last model, whose model upstream was planned.

    Raises:
        QueryError: nothing tells rows of the model upstream apart, and they change.
    """
    if upstream is None:
        return KNOWN
    stream = next(n for n in nodes(case.model.root) if isinstance(n, Stream) and n.name == UPSTREAM)
    known = RelationInfo(next((column.name for column in stream.of if column.event_time), None))
    if upstream.upsert is not None:
        known = replace(known, key=upstream.upsert.key or (), changes=True)
    return {**KNOWN, UPSTREAM: known}


def advised(case: Case) -> Case:
    """A case with the configs that the sentences ask for: none that is needless, a bound where one is missing."""
    upstream = None
    try:
        if case.upstream is not None:
            case = replace(case, upstream=_advised(case.upstream, KNOWN))
            upstream = planned(case.upstream) if case.upstream is not None else None
        return replace(case, model=_advised(case.model, known_of(case, upstream)))
    except QueryError:
        return case


def _advised(model: Model, known: Mapping[str, RelationInfo]) -> Model:
    for _ in range(4):
        config = dict(model.config)
        try:
            planned(model, known=known)
            break
        except QueryError as refusal:
            needless = _NEEDLESS.search(str(refusal))
            if needless is not None:
                config.pop(next(filter(None, needless.groups())), None)
            elif " about windows" in str(refusal):
                config = {name: each for name, each in config.items() if name not in _EMISSION}
            elif "grows without bound" in str(refusal) and "state_ttl" not in config:
                config["state_ttl"] = LASTS
            else:
                break
        except Exception:
            break  # told by who runs it
        model = replace(model, config=tuple(config.items()))
    return model


_QUOTED = re.compile(r"'(?:[^']|'')*'|`[^`]*`")


def reason(sentence: str) -> str:
    """A refusal without what is particular to one query, so that refusals can be counted."""
    text = re.sub(r"^Model \w+: ", "", sentence)
    text = _QUOTED.sub("…", text.split("\n")[0])
    text = re.sub(r"\b(tumble|hop|cumulate|session|dynamic_cumulate)\([^)]*\)", "a window", text)
    text = re.sub(
        r"keeps something for every value of .*? that ever comes.*", "keeps something for every value …", text
    )
    text = re.sub(r"[\w(), .]*?\b(LEFT|RIGHT|FULL)\b", r"\1", text) if "JOIN with" in text else text
    return text[:110]
