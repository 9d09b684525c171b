"""Every kind of edit of every operator's query: what becomes of the state, as the guide's table has it."""

from __future__ import annotations

import re
from functools import cache

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.state_signature import Signature
from tests.evolution import (
    ABOVE,
    AGGREGATES,
    BELOW,
    CONFIGS,
    KEPT,
    MIGRATED,
    OPERATORS,
    RANKING,
    REFUSED,
    WORDS,
    WRONG,
    configs_of,
    edits_of,
    planned,
    query,
    signed,
    verdict,
)
from tests.thorough import mostly_thorough

NAMES_ALONE = {"another order", "renamed", "names that change places"}
"""Edits of the select list that leave all aggregates what they are."""
RANKED_GROUPS = ("TopN of groups", "GroupAggregate over TopN of groups")
VAGUE = re.compile(
    r"(read below the aggregates|it keeps are made of|aren't rebuilt)[;)]|keep it up to date(\)|; (?!with state_ttl))"
)
"""Where nothing says which clause was edited."""
NO_ORDER = {"session WindowAggregate", "dynamic_cumulate WindowAggregate"}


def expected(operator: str, config: str, edit: str) -> str:
    """What the contract says, and where an operator can't have it, what the guide says."""
    if edit in WORDS:
        return KEPT
    if edit in ABOVE:
        return KEPT
    if operator == "tumble rows" and edit in (*RANKING, *BELOW):
        # All rows of open windows are there; but by another key rows of the table aren't found again.
        return REFUSED if config == "early" and edit in ("a key more", "another key") else KEPT
    if edit in AGGREGATES:
        anew = REFUSED if config == "state_ttl" else MIGRATED  # made anew from the groups
        if operator in (*RANKED_GROUPS, "values of groups without their keys"):
            return anew
        if operator.startswith("GroupAggregate over") and edit in NAMES_ALONE:
            return KEPT
        if operator == "GroupAggregate over GroupAggregate":
            return anew
        if operator == "GroupAggregate over TopN of rows":
            return MIGRATED if "removed" in edit else anew  # made anew from the ranking's rows
        return KEPT if edit in NAMES_ALONE else MIGRATED
    if edit in RANKING:
        if operator == "tumble WindowTopN of groups":
            return KEPT
        if operator in RANKED_GROUPS:
            return REFUSED if config == "state_ttl" else MIGRATED
        if operator in ("TopN of rows without its place", "GroupAggregate over TopN of rows"):
            # What moves out of the ranking has to be taken from what stands above it.
            return MIGRATED if (edit, config) == ("a smaller N", "few keys") else REFUSED
        return MIGRATED if edit == "a smaller N" else REFUSED
    if edit == "a ranking of its windows above":
        return REFUSED if operator in NO_ORDER and config == "early" else KEPT
    if edit == "early results":
        return KEPT if config == "early" else REFUSED  # rows that were added would be replaced
    if edit in ("another state_ttl", "a state_ttl where there was none"):
        return KEPT if config == "state_ttl" else REFUSED
    return REFUSED


@cache
def before(operator: str, config: str) -> Signature:
    return signed(planned(query(operator).text(), CONFIGS[config])[1])


CASES = [(operator, config) for operator in OPERATORS for config in configs_of(operator)]
IN_CI = [
    ("tumble WindowAggregate", "early"),
    ("session WindowAggregate", ""),
    ("tumble rows", ""),
    ("tumble WindowTopN of rows", ""),
    ("GroupAggregate", "state_ttl"),
    ("GroupAggregate over GroupAggregate", "few keys"),
    ("TopN of rows", "few keys"),
    ("Deduplicate last", "few keys"),
    ("Join", "state_ttl"),
    ("UNION", "state_ttl"),
    ("OVER", "few keys"),
]


@pytest.mark.parametrize(
    "case", mostly_thorough(CASES, IN_CI), ids=lambda case: ", ".join(filter(None, case))
)
def test_what_becomes_of_the_state(case: tuple[str, str]) -> None:
    operator, config = case
    found, wanted = {}, {}
    for name, edit in edits_of(operator).items():
        try:
            _, program = planned(edit.query(query(operator)).text(), {**CONFIGS[config], **edit.config})
        except QueryError as problem:
            found[name] = wanted[name] = f"{WRONG}: {problem}"
            continue
        said, why = verdict(before(operator, config), signed(program, before(operator, config)))
        found[name], wanted[name] = f"{said} {why}", f"{expected(operator, config, name)} "
    # A sentence about operators names the clause that was edited; configs have sentences of their own.
    assert [
        name for name, text in found.items() if VAGUE.search(text) and not edits_of(operator)[name].config
    ] == []
    differ = {name: found[name] for name in found if not found[name].startswith(wanted[name])}
    assert differ == {}
    # Edits that make no query of it at all are few, and not the same as a verdict.
    assert sum(text.startswith(WRONG) for text in found.values()) <= 4
