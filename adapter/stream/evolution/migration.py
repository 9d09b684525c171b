"""Plans the migration of a model's state to an edited query: changes of columns, and state tables to empty."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...query.state_signature import AggregateState, Signature
from ...util.nested_types import struct_fields
from ...util.text import listed
from .effect import Evolution
from .output_schema import Widening, Wider, can_hold, is_promotion, widening


@dataclass(frozen=True)
class Migration:
    """Changes of a model's state, made in one commit.

    An added column is NULL in existing rows, which is the state of an aggregate without rows.
    """

    drop: Sequence[str] = ()
    """Columns that are dropped. A column that is also in `add` starts empty."""
    rename: Mapping[str, str] = field(default_factory=dict)
    """New names of kept columns, by their old names."""
    add: Mapping[str, str] = field(default_factory=dict)
    """Types of new columns, by name."""
    parts: tuple[str, ...] = ()
    """State tables whose rows are deleted."""
    leftovers: Mapping[str, set[str]] = field(default_factory=dict)
    """Columns, by operator, with values of removed aggregates that are kept because another operator uses the column."""
    widen: Mapping[str, tuple[Wider, ...]] = field(default_factory=dict)
    """Fields that are added to kept STRUCT columns, by path of the column."""
    narrow: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Fields that are dropped from kept STRUCT columns, by column."""
    promote: Mapping[str, str] = field(default_factory=dict)
    """New, wider types (`is_promotion`) of columns, by path. Existing values stay the same."""
    new_parts: tuple[str, ...] = ()
    """State tables to add. If one existed earlier, its stale rows are deleted."""

    @property
    def emptied_tables(self) -> tuple[str, ...]:
        """State tables whose existing rows are deleted."""
        return (*self.parts, *(part for part in self.new_parts if part not in self.parts))

    @property
    def dropped_fields(self) -> list[str]:
        """Paths of the fields that are dropped."""
        return [f"{name}.{each}" for name, listed in self.narrow.items() for each in listed]

    @property
    def added(self) -> dict[str, str]:
        """Types of all new columns and fields, by name or path."""
        fields = {f"{name}.{each.name}": each.kind for name, listed in self.widen.items() for each in listed}
        return {**self.add, **fields}


def widening_migration(wider: Widening, **others: Any) -> Migration:
    """Returns a migration that widens columns, with other changes."""
    fields = {".".join(path): listed for path, listed in wider.fields.items()}
    kinds = {".".join(path): kind for path, kind in wider.promote.items()}
    return Migration(widen=fields, promote=kinds, **others)


def migration(
    found: Evolution,
    has: Mapping[str, str],
    wants: Mapping[str, str],
    kept: Collection[str] = (),
    later: Mapping[str, str] | None = None,
) -> tuple[Migration, list[str]]:
    """Returns the migration of a model's state, and the problems that prevent it, in words.

    Args:
        has: the state's columns and their types.
        wants: the columns and types that the query needs.
        kept: columns of the kept state tables, if `found.drops_other_parts`.
        later: columns that were added to sources since, in lower case, with their types: kept rows have NULL there.

    >>> found = Evolution(
    ...     renamed={"a": "a"}, kept_columns={"a"}, dropped_columns={"window_1": {"b"}}, new_columns={"window_1": {"c"}}
    ... )
    >>> migration(found, {"part": "string", "a": "int", "b": "int"}, {"part": "string", "a": "bigint", "c": "int"})[0]
    Migration(drop=('b',), rename={}, add={'c': 'int'}, parts=(), leftovers={}, widen={}, narrow={}, \
promote={'a': 'bigint'}, new_parts=())
    >>> migration(Evolution(), {"r": "struct<a:int,b:int>"}, {"r": "struct<b:int>"})[1]
    ['its state has whole rows with a, which the query no longer reads; it continues if it reads it again']
    """
    problems = []
    begun = set(wants) - {*kept} if found.drops_other_parts else set().union(*found.new_columns.values())
    rename = {was: now for was, now in found.renamed.items() if was != now}
    # A column is dropped unless a key or an aggregate of another operator uses it.
    stays = {
        name
        for name in has
        if rename.get(name, name) in found.kept_columns
        or (rename.get(name, name) in wants and name not in begun)
    }
    dropped = set(has) if found.drops_other_parts else set().union(*found.dropped_columns.values())
    drop = tuple(name for name in has if name in dropped - stays)
    for was, now in rename.items():
        taken = now in has and now not in drop and now not in rename
        used = was in wants and was not in rename.values() and (was not in begun or was in found.kept_columns)
        if taken or used:
            problems.append(
                f"the column {was} of its state would be called {now}, and something else has one of the names"
            )
    there = {rename.get(name, name): kind for name, kind in has.items() if name not in drop}
    wider, narrow = Widening(), {}
    for name, kind in wants.items():
        has_kind = there.get(name, kind).lower()
        if has_kind == kind.lower() or is_promotion(kind.lower(), has_kind):
            continue
        if more := _widening_to(name, there[name], kind, later or {}):
            wider |= more
        elif gone := _missing_fields(there[name], kind):
            if name in found.buffered_columns:
                narrow[name] = gone
            else:
                # A row without them may be equal to another one, which it was compared, counted or ranked apart from.
                problems.append(
                    f"its state has whole rows with {listed(gone)}, which the query no longer reads; it continues if it "
                    f"reads {'it' if len(gone) == 1 else 'them'} again"
                )
        else:
            problems.append(f"{name} of its state is a {there[name].upper()} and would be a {kind.upper()}")
    left = {
        operator: columns & stays for operator, columns in found.dropped_columns.items() if columns & stays
    }
    for operator, columns in left.items():
        if stale := columns & found.new_columns.get(operator, set()):
            problems.append(
                f"{', '.join(sorted(stale))} of its state would start empty, and something else still uses it"
            )
    made = widening_migration(
        wider,
        drop=drop,
        rename=rename,
        add={name: kind for name, kind in wants.items() if name not in there},
        parts=tuple(found.dropped_parts),
        new_parts=tuple(sorted(found.new_parts)),
        leftovers=left,
        narrow=narrow,
    )
    return made, problems


def _widening_to(name: str, was: str, wanted: str, later: Mapping[str, str]) -> Widening | None:
    """Returns the widening of a column to a type, or None if it can't be widened or a new field isn't in `later`.

    >>> _widening_to("r", "struct<a:int,b:int>", "struct<a:bigint,c:string,b:int>", {"c": "string"})
    Widening(promote={('r', 'a'): 'bigint'}, fields={('r',): (Wider(name='c', kind='string', after='a'),)})
    >>> _widening_to("r", "struct<a:int>", "struct<a:int,c:int>", {"c": "string"})
    >>> _widening_to("r", "struct<a:int>", "struct<c:int>", {"c": "int"})
    """
    found = None if can_hold(wanted.lower(), was.lower()) else widening((name,), was, wanted)
    fields = [each for listed in found.fields.values() for each in listed] if found else []
    return found if all(later.get(each.name.lower()) == each.kind.lower() for each in fields) else None


def _missing_fields(was: str, wanted: str) -> tuple[str, ...]:
    """Returns the fields that `wanted` lacks; empty if the other fields are not the same in the same order.

    >>> _missing_fields("struct<a:int,b:int,c:int>", "struct<a:int,c:int>")
    ('b',)
    >>> _missing_fields("struct<a:int,b:int>", "struct<b:int,a:int>")
    ()
    """
    had, has = struct_fields(was), struct_fields(wanted)
    if had is None or has is None:
        return ()
    kinds = {name: kind.lower() for name, kind in has}
    stay = [name for name, kind in had if kinds.get(name) == kind.lower()]
    return tuple(name for name, _ in had if name not in kinds) if stay == [*kinds] else ()


def migrated_signature(
    old: Signature,
    new: Signature,
    leftovers: Mapping[str, Collection[str]],
    dropped: Collection[str] = (),
    rebuilt_from: Sequence[str] | None = None,
    from_now: Mapping[str, Collection[str]] | None = None,
) -> Signature:
    """Returns the signature of a state after its migration to another query.

    Args:
        leftovers: by operator, columns that still hold values of removed aggregates, because another operator uses
            them.
        rebuilt_from: groups from which the operators above are to be rebuilt; None to keep those of `old`.
        from_now: by operator, new aggregates that don't include the rows before them.
    """
    before = old.aggregates

    def noted(name: str, aggregates: AggregateState) -> AggregateState:
        had = before.get(name, AggregateState())
        restarted = {key for key, metric in had.metrics.items() if metric.from_now}
        restarted |= {*(from_now or {}).get(name, ())}
        return replace(
            aggregates,
            metrics={
                key: replace(metric, from_now=True) if key in restarted else metric
                for key, metric in aggregates.metrics.items()
            },
            leftovers=tuple(sorted(({*had.leftovers} - {*dropped}) | {*leftovers.get(name, ())})),
        )

    found = new.with_aggregates(noted)
    return replace(found, rebuilt_from=old.rebuilt_from if rebuilt_from is None else tuple(rebuilt_from))
