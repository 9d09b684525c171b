"""Compares the signatures of a state and of an edited query, and decides whether the state can be migrated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...query.state_signature import Signature
from .edited_clauses import edited_clauses
from .effect import HAS_TTL, OPERATORS, RESULTS, VAGUE, Evolution
from .operators import compare_operators
from .trees import trees_of
from .windows import compare_windows

KINDS = ("slices", "groups", "sessions")
"""Suffixes, after the window operator's name, of state tables with partial aggregates."""


def evolution(old: Signature, new: Signature, same_rows: bool = False) -> Evolution:
    """Returns the effect of an edited query on a state. Session settings are compared separately. `same_rows`: whether
    the author accepts that the input rows of the aggregates differ."""
    found = _compare_signatures(old, new, same_rows)
    if old.clauses is not None:
        edited = " and ".join(edited_clauses(old.clauses, new.clauses or ()))
        if edited:
            found.refused = [
                f"{each}: {edited}" if each.startswith(VAGUE) else each for each in found.refused
            ]
    return found


def differences(old: Signature, new: Signature) -> list[str]:
    """Returns the differences between two signatures in words; empty if they are equivalent."""
    return evolution(old, new).differences


def _compare_signatures(old: Signature, new: Signature, same_rows: bool) -> Evolution:
    found = Evolution()
    if bool(old.tree.operators) != bool(new.tree.operators):
        # A query of windows has another state than one with other operators.
        found.refused.append(OPERATORS)
        return found
    trees = trees_of(old, new, same_rows)
    compare_operators(found, trees)
    found.refused += _event_time_changes(old.event_times, new.event_times)
    if not same_rows or new.tree.operators:
        found.refused += _lookup_table_changes(old.lookups, new.lookups)
    of_sources = {*found.refused}
    if old.results != new.results:
        found.refused.append(RESULTS)
    if old.tree.has_ttl != new.tree.has_ttl:
        found.refused.append(HAS_TTL)
    is_edited = old.text is None or old.text != new.text
    _compare_all_windows(found, old, new, same_rows, is_edited)
    if found.is_migration and not is_edited:
        # The query is unchanged, so a difference comes from this version of the package, and no aggregate may restart.
        found.refused.append("the query is unchanged, and this version of the package plans it differently")
    found.refused = list(dict.fromkeys(found.refused))
    is_other = old.package != new.package
    found.is_of_package = is_other and not is_edited and not of_sources and bool(found.refused)
    return found


def _compare_all_windows(
    found: Evolution, old: Signature, new: Signature, same_rows: bool, is_edited: bool
) -> None:
    before, after = ({operator.name: operator for operator in each.windows} for each in (old, new))
    for name in dict.fromkeys([*before, *after]):
        if name not in before or name not in after:
            operator = before[name] if name in before else after[name]
            read = ", ".join(operator.streams) or "other windows"
            is_there = "new" if name in after else "gone"
            found.refused.append(f"{operator.window.kind}() over {read} is {is_there}")
            continue
        compare_windows(found, before[name], after[name], same_rows, is_edited)
        aggregates = after[name].aggregates
        if found.drops_other_parts:
            sets = () if aggregates is None else aggregates.distinct_sets.values()
            parts = {*(f"{name}_{kind}" for kind in KINDS), *(each.part for each in sets)}
            found.new_columns_in |= {part: found.new_columns.get(name, set()) for part in parts}


def _lookup_table_changes(
    old: Mapping[str, Sequence[str]], new: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Yields lookup tables that replace others, in words.

    >>> list(_lookup_table_changes({"lookup_d_by_id": ["crm", "d"]}, {"lookup_d_by_id": ["erp", "d"]}))
    ['the lookup table erp.d, in the place of crm.d']
    """
    for view in new:
        if view in old and old[view] != new[view]:
            yield f"the lookup table {'.'.join(new[view])}, in the place of {'.'.join(old[view])}"


def _event_time_changes(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    """Yields streams whose event-time column has changed, in words: their watermark is of the old column.

    >>> list(_event_time_changes({"bids": "ts", "asks": "ts"}, {"bids": "seen_at"}))
    ['the event time of bids is seen_at and was ts']
    """
    for relation, column in new.items():
        if (was := old.get(relation, column)) != column:
            yield f"the event time of {relation} is {column} and was {was}"
