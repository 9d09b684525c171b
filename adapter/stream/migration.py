"""What an edited query changes in its state table: columns, and parts whose rows are forgotten. No Spark in here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from .differences import Evolution


@dataclass(frozen=True)
class Migration:
    """Changes of the state table, made in one commit.

    A column that is added reads as NULL in all rows that are there, which is what an aggregate of no rows is kept as.
    """

    drop: tuple[str, ...]
    """Columns that go. One that is also in `add` begins anew."""
    rename: Mapping[str, str]
    """Columns that stay, and what they are called from then on."""
    add: Mapping[str, str]
    """Columns that come, with their types."""
    parts: tuple[str, ...]
    """Parts whose rows go."""
    left: Mapping[str, set[str]]
    """Of each stage columns with values of what is forgotten, which stay for others that have a column of that name."""


def migration(
    found: Evolution, has: Mapping[str, str], wants: Mapping[str, str], kept: Collection[str] = ()
) -> tuple[Migration, list[str]]:
    """What has to be done, and what keeps it from being done.

    Args:
        found: what becomes of the state.
        has: the table's columns and their types.
        wants: the columns and types that the query needs.
        kept: where everything is forgotten but some parts, the columns of these.

    >>> found = Evolution(renamed={"a": "a"}, own={"a"}, dropped={"stage_1": {"b"}}, begun={"stage_1": {"c"}})
    >>> migration(found, {"part": "string", "a": "int", "b": "int"}, {"part": "string", "a": "int", "c": "int"})[0]
    Migration(drop=('b',), rename={}, add={'c': 'int'}, parts=(), left={})
    """
    problems = []
    begun = set(wants) - {*kept} if found.sweeps else set().union(*found.begun.values())
    rename = {was: now for was, now in found.renamed.items() if was != now}
    # A column goes unless something that goes on has it: a key, say, or an aggregate of another stage.
    stays = {
        name
        for name in has
        if rename.get(name, name) in found.own or (rename.get(name, name) in wants and name not in begun)
    }
    dropped = set(has) if found.sweeps else set().union(*found.dropped.values())
    drop = tuple(name for name in has if name in dropped - stays)
    for was, now in rename.items():
        taken = now in has and now not in drop and now not in rename
        used = was in wants and was not in rename.values() and (was not in begun or was in found.own)
        if taken or used:
            problems.append(
                f"the column {was} of its state would be called {now}, and something else has one of the names"
            )
    there = {rename.get(name, name): kind for name, kind in has.items() if name not in drop}
    for name, kind in wants.items():
        if there.get(name, kind).lower() != kind.lower():
            problems.append(f"{name} of its state is a {there[name].upper()} and would be a {kind.upper()}")
    left = {stage: columns & stays for stage, columns in found.dropped.items() if columns & stays}
    for stage, columns in left.items():
        if stale := columns & found.begun.get(stage, set()):
            problems.append(
                f"{', '.join(sorted(stale))} of its state would begin anew, and something else goes on with it"
            )
    made = Migration(
        drop=drop,
        rename=rename,
        add={name: kind for name, kind in wants.items() if name not in there},
        parts=tuple(found.gone_parts),
        left=left,
    )
    return made, problems
