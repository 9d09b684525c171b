"""Maps logical columns of state tables to physical columns of the Iceberg table, where one name has several types.

The Iceberg table has the columns of all state tables; a row is NULL in the columns of other state tables. State tables share
a column of the same name and type. Where a name has several types, each type has a physical column named after the name and
the type, so that the mapping depends on nothing else in the query. A name that Iceberg reserves is mapped, too. Existing
columns keep their physical names, whatever columns are added. A table property records the names that differ. This module
doesn't use Spark.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from ...query.program import EXPIRES_AT, STEP
from ...query.state_signature import AggregateState, Signature
from ...util.metadata_columns import METADATA_COLUMNS

ColumnMapping: TypeAlias = Mapping[str, Mapping[str, str]]
"""State table → logical column in lower case → physical column."""


class TwoTypesError(ValueError):
    """A column name has two types in one text of the program, or would change its type."""


_PROTOCOL = {STEP: "bigint", "since": "bigint", EXPIRES_AT: "timestamp"}
"""Column → type of columns that have the same physical name in every state."""
_WORD = re.compile(r"[a-z][a-z0-9_(),]{0,30}\Z")


def physical_names(
    wants: Mapping[str, Mapping[str, str | None]],
    together: Iterable[Collection[str]] = (),
    continued: ColumnMapping | None = None,
    has: Mapping[str, str] | None = None,
) -> dict[str, dict[str, str]]:
    """Returns the physical names of the columns of state tables.

    Args:
        wants: state table → column in lower case → type; the type is None if the column is always NULL.
        together: sets of state tables that one text of the program reads.
        continued: physical names of the columns that continue from the existing state.
        has: physical column → type of the existing state.

    Raises:
        TwoTypesError: a name has two types in one text, or a continued column would change its type.

    >>> physical_names({"a": {"k": "date", "n": "int"}, "b": {"k": "timestamp", "n": "int"}})
    {'a': {'k': 'k__date', 'n': 'n'}, 'b': {'k': 'k__timestamp', 'n': 'n'}}
    >>> physical_names({"a": {"_file": "string"}})
    {'a': {'_file': '_file__string'}}
    >>> physical_names({"a": {"k": "date"}, "b": {"k": "int"}}, continued={"a": {"k": "k"}}, has={"k": "date"})
    {'a': {'k': 'k'}, 'b': {'k': 'k__int'}}
    """
    types, continued = {name.lower(): kind.lower() for name, kind in (has or {}).items()}, continued or {}
    found: dict[str, dict[str, str]] = {
        part: {name: continued[part][name] for name in columns if name in continued.get(part, {})}
        for part, columns in wants.items()
    }
    taken = {column for columns in found.values() for column in columns.values()}
    of_kind: dict[tuple[str, str], str] = {}
    for columns in found.values():
        for name, column in columns.items():
            key = (name, types.get(column.lower(), ""))
            of_kind[key] = min(column, of_kind.get(key, column))
    kinds: dict[str, set[str]] = {}
    wanted_kinds = [(n, k.lower()) for cs in wants.values() for n, k in cs.items() if k is not None]
    for name, kind in [*of_kind, *wanted_kinds]:
        kinds.setdefault(name, set()).add(kind)
    # A generated name with a type must not be any of these names.
    taken |= kinds.keys() | {name for columns in wants.values() for name in columns}
    for name in sorted(kinds):
        for kind in sorted(kinds[name]):
            if (name, kind) not in of_kind:
                is_only = len(kinds[name]) == 1 and name not in METADATA_COLUMNS
                is_own = is_only or _PROTOCOL.get(name) == kind
                of_kind[name, kind] = name if is_own else _name_with_type(name, kind, taken)
                taken.add(of_kind[name, kind])
    for part, listed in wants.items():
        for name, wanted in listed.items():
            if name not in found[part] and wanted is not None:
                found[part][name] = of_kind[name, wanted.lower()]
    beside = [[*each] for each in together]
    for part, listed in wants.items():
        for name in listed.keys() - found[part].keys():
            # A NULL column takes the type of a state table that is read with it.
            others = {other for each in beside if part in each for other in each}
            near = {found[other][name] for other in others if name in found.get(other, {})}
            far = {column for (of, _), column in of_kind.items() if of == name}
            found[part][name] = min(near or far, default=name)
    _check_read_together(wants, found, beside)
    _check_continued_types(wants, continued, types)
    return {part: {name: found[part][name] for name in columns} for part, columns in wants.items()}


def _name_with_type(name: str, kind: str, taken: Collection[str]) -> str:
    digest = hashlib.sha256(f"{name} {kind}".encode()).hexdigest()[:8]
    word = f"{re.split(r'[^a-z]', kind)[0]}_{digest}"
    if _WORD.match(kind):
        word = re.sub(r"[(),]+", "_", kind).strip("_")
    column = f"{name}__{word}"
    while column in taken:
        column += f"_{digest}"
    return column


def _check_read_together(
    wants: Mapping[str, Mapping[str, str | None]], found: ColumnMapping, together: Iterable[Collection[str]]
) -> None:
    for parts in together:
        seen: dict[str, str] = {}
        for part in parts:
            for name, column in found.get(part, {}).items():
                other = seen.setdefault(name, part)
                if found[other][name] != column:
                    was, now = (str(wants[each][name]).upper() for each in (other, part))
                    raise TwoTypesError(
                        f"Two operators of the query keep a column {name}, one as {was} and the other as {now} (in its "
                        f"state: {other}, {part}), and both are read together. Rename one of the two columns in a subquery "
                        f"in FROM, as in SELECT {name} AS {name}_2."
                    )


def _check_continued_types(
    wants: Mapping[str, Mapping[str, str | None]], continued: ColumnMapping, has: Mapping[str, str]
) -> None:
    for part, columns in continued.items():
        for name, column in columns.items():
            wanted, there = wants.get(part, {}).get(name), has.get(column.lower())
            if wanted is not None and there is not None and wanted.lower() != there:
                raise TwoTypesError(
                    f"{name} of its state ({column} of {part}) is a {there.upper()} and would be a {wanted.upper()}."
                )


def renamed_columns(columns: ColumnMapping) -> dict[str, dict[str, str]]:
    """Returns the columns whose physical names differ."""
    found = {
        part: {name: column for name, column in of_part.items() if column.lower() != name}
        for part, of_part in columns.items()
    }
    return {part: of_part for part, of_part in found.items() if of_part}


def visible_columns(
    names: Iterable[str], mapping: ColumnMapping, parts: Collection[str]
) -> list[tuple[str, str]]:
    """Returns (physical name, visible name) of the columns that are visible to a text that reads the state tables `parts`.

    A name with several types is hidden unless one of these state tables has it, because it would be ambiguous.

    >>> visible_columns(["part", "k", "k__date", "n"], {"b": {"k": "k__date"}}, ["b"])
    [('part', 'part'), ('k__date', 'k'), ('n', 'n')]
    >>> visible_columns(["part", "k", "k__date", "n"], {"b": {"k": "k__date"}}, ["a"])
    [('part', 'part'), ('k', 'k'), ('n', 'n')]
    >>> visible_columns(["part", "k", "k__date", "n"], {"b": {"k": "k__date"}}, [])
    [('part', 'part'), ('n', 'n')]
    """
    shown = {column: name for part in parts for name, column in mapping.get(part, {}).items()}
    hidden = {column for of_part in mapping.values() for column in of_part.values()} - shown.keys()
    hidden |= {*shown.values()}
    if not parts:
        hidden |= {name for of_part in mapping.values() for name in of_part}
    return [
        (name, shown.get(name.lower(), name))
        for name in names
        if name.lower() in shown or name.lower() not in hidden
    ]


def signature_with_physical_names(
    signature: Signature, mapping: ColumnMapping, keys: bool = False
) -> Signature:
    """Returns a signature with physical column names in aggregates, distinct values and, with `keys`, in keys."""

    def renamed(operator: str, aggregates: AggregateState) -> AggregateState:
        own = {
            column: there
            for part, columns in mapping.items()
            if belongs_to(part, operator)
            for column, there in columns.items()
        }

        def column(was: str) -> str:
            return own.get(was.lower(), was)

        return replace(
            aggregates,
            keys={column(each) if keys else each: text for each, text in aggregates.keys.items()},
            metrics={
                key: replace(metric, columns=tuple(map(column, metric.columns)))
                for key, metric in aggregates.metrics.items()
            },
            distinct_sets={
                key: replace(values, columns=tuple(map(column, values.columns)))
                for key, values in aggregates.distinct_sets.items()
            },
        )

    return signature.with_aggregates(renamed) if mapping else signature


def belongs_to(part: str, operator: str) -> bool:
    """Returns whether a state table belongs to a window operator, or to a GROUP BY among operators."""
    return part.startswith(f"{operator}_")
