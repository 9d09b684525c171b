"""Checks, before anything is created or read, that a query's columns fit its table, and plans changes of the table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...query.program import BATCH_ID, CHANGE_TYPE, Program
from ...util.metadata_columns import reserved_name_message
from ...util.nested_types import reorder_fields_sql, struct_fields, type_parts
from ...util.quoting import quote
from ...util.types import decimal_digits, decimal_fits, simple_type_fits
from ..common.errors import StreamError, collation_message
from ..common.model import APPEND_NEW, FAIL, IGNORE, SYNC, StreamModel

_INTERVAL = re.compile(r"\binterval (?:year|month|day|hour|minute|second)\b(?!`)")
_VOID = re.compile(r"\bvoid\b(?!`)")
_NOT_COMPARED = re.compile(r"\bvariant\b(?!`)")
_LOSES_NULLS = re.compile(
    r"\bmap<[^<>]*,(?:tinyint|smallint|int|bigint|float|double|boolean|date|timestamp(?:_ntz)?|decimal\([\d,]*\))>"
)
"""MAP types whose NULL values Spark 4.1 turns into 0 when rows are grouped by them: its generated code for sorting a
MAP's entries doesn't check values of these types for NULL."""


def check_columns(
    model: StreamModel, program: Program, gives: Mapping[str, str], has: Mapping[str, str] | None
) -> None:
    """Raises unless the query's columns fit the table and, for a query that updates rows, can be compared. `has`: the
    table's columns and their types; None if this run creates the table."""
    check_key(model, program, gives)
    there = {name.lower() for name in has or ()}
    # A NULL without a type fits in an existing column of any type.
    check_storable(model, {name: kind for name, kind in gives.items() if name.lower() not in there})
    if has is not None:
        check_table(model, gives, has)
    if model.changelog:
        for name in gives:
            if name.lower() in (CHANGE_TYPE, BATCH_ID):
                raise StreamError(
                    f"Model {model.name}: its column {name} has the name of a column that its changelog adds. Give it "
                    "another name."
                )
    if program.upsert is None:
        return
    if program.output_steps and not program.flushes_from_state:
        check_groupable(model, gives.values())
    for name, kind in gives.items():
        if _NOT_COMPARED.search(kind):
            raise StreamError(
                f"Model {model.name}: its column {name} is or holds a VARIANT, which Spark can't compare, and rows of this "
                f"query change, so they are compared with those in the table. Select to_json({name}) instead."
            )


def check_key(model: StreamModel, program: Program, gives: Mapping[str, str]) -> None:
    """Raises unless the query gives all columns of the row key, which config unique_key may set."""
    names = {name.lower() for name in gives}
    key = () if program.upsert is None else program.upsert.key or ()
    if missing := [name for name in key if name.lower() not in names]:
        raise StreamError(
            f"Model {model.name}: config 'unique_key' names {', '.join(missing)}, which the query doesn't give; it gives "
            f"{', '.join(gives)}. Name columns of these, or leave unique_key out."
        )


def check_storable(model: StreamModel, gives: Mapping[str, str]) -> None:
    """Raises unless an Iceberg table can store a query's columns."""
    if (reserved := reserved_name_message(gives)) is not None:
        raise StreamError(f"Model {model.name}: {reserved}")
    for name, kind in gives.items():
        if _VOID.search(kind.lower()):
            raise StreamError(
                f"Model {model.name}: its column {name} is or holds a NULL without a type, which an Iceberg table "
                "can't hold; give it one, as in CAST(NULL AS STRING)."
            )
        if holds_interval(kind):
            raise StreamError(
                f"Model {model.name}: its column {name} is {kind.upper()}, which an Iceberg table can't hold; make a number "
                "of it, as in timestampdiff(SECOND, started_at, ended_at)."
            )


def holds_interval(kind: str) -> bool:
    """Returns whether a type is or contains an INTERVAL, which an Iceberg table can't store.

    >>> [holds_interval(kind) for kind in ("array<interval day to second>", "struct<`interval day`:int>")]
    [True, False]
    """
    return _INTERVAL.search(kind.lower()) is not None


def check_groupable(model: StreamModel, kinds: Iterable[str]) -> None:
    """Raises if grouping by a column of these types, as for rows that may change, would change NULLs in it."""
    for kind in kinds:
        found = _LOSES_NULLS.search(kind.lower())
        if found:
            raise StreamError(
                f"Model {model.name}: its query keeps a {found[0].upper()}, as a key, a distinct value or a column of rows "
                "that may change. Spark groups by it, and reads 0 for each NULL in a MAP of numbers, dates, times or "
                "booleans. Take map_entries(…) or to_json(…) of it in a subquery in FROM, or have its values as texts."
            )


def check_collations(model: StreamModel, kinds: Iterable[str]) -> None:
    """Raises if the state would lose the collation of a column."""
    if any(_COLLATION.search(kind) for kind in kinds):
        raise StreamError(collation_message(model))


def check_table(model: StreamModel, gives: Mapping[str, str], has: Mapping[str, str]) -> None:
    """Raises unless a query's columns fit an existing table, after changes that `on_schema_change` allows."""
    if model.on_schema_change not in (APPEND_NEW, SYNC):
        check_same_columns(model, list(gives), list(has))
    types = {name.lower(): kind for name, kind in has.items()}
    for name, kind in gives.items():
        known = types.get(name.lower())
        if known is None:
            continue
        if can_hold(kind.lower(), known.lower()):
            _check_field_order(model, name, kind, known)
            continue
        can_be = widening((name,), known, kind) is not None
        if can_be and model.on_schema_change == SYNC:
            continue
        wider = f"To make the column wider: on_schema_change='{SYNC}'. " if can_be else ""
        raise StreamError(
            f"Model {model.name}: its query gives {name} as {kind.upper()}, and in its table {model.target} it is "
            f"{known.upper()}, so values would be cut off or lost. {wider}Give it another name, or convert it: cast(… "
            f"as {known.upper()}). To rebuild the table: {model.rebuild}."
        )


def _check_field_order(model: StreamModel, name: str, kind: str, known: str) -> None:
    """Raises unless the structs in a column have their fields in the order of the table's: Spark casts them by position."""
    in_order = reorder_fields_sql(quote(name), kind, known)
    if in_order != quote(name):
        raise StreamError(
            f"Model {model.name}: its query gives {name} as {kind.upper()}, and in its table {model.target} the fields are "
            f"in another order: {known.upper()}. Give them in that order, as in {in_order} AS {name}. To rebuild the table: "
            f"{model.rebuild}."
        )


def can_hold(value_type: str, column_type: str) -> bool:
    """Returns whether a column of `column_type` can hold each value of `value_type` without a conversion.

    >>> can_hold("int", "bigint"), can_hold("double", "bigint"), can_hold("int", "string")
    (True, False, False)
    >>> can_hold("decimal(10,2)", "decimal(12,2)")
    True
    >>> can_hold("decimal(10,2)", "decimal(11,3)"), can_hold("decimal(12,2)", "decimal(12,3)"), can_hold("char(3)", "string")
    (True, False, True)
    >>> can_hold("array<double>", "array<bigint>"), can_hold("array<int>", "array<bigint>"), can_hold("array<int>", "int")
    (False, True, False)
    >>> can_hold("struct<a:int,b:map<int,float>>", "struct<a:bigint,b:map<int,double>>")
    True
    """
    return _every_component_type(value_type, column_type, simple_type_fits)


def is_lossy(value_type: str, column_type: str) -> bool:
    """Returns whether a cast from `value_type` to `column_type` may round values, cut them off or make them NULL without an
    error.

    >>> is_lossy("double", "bigint"), is_lossy("bigint", "double"), is_lossy("decimal(9,3)", "decimal(9,2)")
    (True, True, True)
    >>> is_lossy("bigint", "decimal(5,0)"), is_lossy("bigint", "decimal(19,0)"), is_lossy("int", "double")
    (True, False, False)
    >>> is_lossy("decimal(9,0)", "int"), is_lossy("decimal(10,0)", "int"), is_lossy("decimal(5,1)", "bigint")
    (False, True, True)
    >>> is_lossy("array<bigint>", "array<int>"), is_lossy("struct<a:int,b:int>", "struct<a:int,b:decimal(10,0)>")
    (True, False)
    """
    return not _every_component_type(
        value_type,
        column_type,
        lambda one, other: simple_type_fits(one, other) or _fits_in_digits(one, other),
    )


def _every_component_type(kind: str, known: str, holds: Callable[[str, str], bool]) -> bool:
    """Returns whether two types have the same parts at every depth, and each pair of plain types passes `holds`."""
    if kind == known or "void" in (kind, known):
        return True
    if "<" in kind or "<" in known:
        one, other = _component_types(kind), _component_types(known)
        return one.keys() == other.keys() and all(
            _every_component_type(one[name], other[name], holds) for name in one
        )
    return holds(kind, known)


def _fits_in_digits(kind: str, known: str) -> bool:
    """Returns whether a column holds each value of another type, where each of the two is an integer or a decimal."""
    digits = (_MOST_DIGITS[kind], 0) if kind in _MOST_DIGITS else decimal_digits(kind)
    # The largest INT has ten digits, but not every number of ten digits is an INT.
    others = (_MOST_DIGITS[known] - 1, 0) if known in _MOST_DIGITS else decimal_digits(known)
    return digits is not None and others is not None and decimal_fits(digits, others)


class Wider(NamedTuple):
    """A field to add to a struct. It is NULL in existing rows."""

    name: str
    kind: str
    after: str | None
    """Name of the field before it; None if it is the first."""


@dataclass(frozen=True)
class Widening:
    """Changes that widen columns. The path of a column or field is a tuple: the column's name, then names of fields, and
    ``element`` or ``value`` inside of arrays and maps."""

    promote: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    """New, wider types (`is_promotion`), by path."""
    fields: Mapping[tuple[str, ...], tuple[Wider, ...]] = field(default_factory=dict)
    """Fields to add to structs, by path of the struct."""

    def __bool__(self) -> bool:
        return bool(self.promote or self.fields)

    def __or__(self, other: Widening) -> Widening:
        return Widening({**self.promote, **other.promote}, {**self.fields, **other.fields})


def is_promotion(was: str, wanted: str) -> bool:
    """Returns whether Iceberg can promote a column's type to another one without a change of values.

    >>> is_promotion("int", "bigint"), is_promotion("decimal(5,2)", "decimal(9,2)")
    (True, True)
    >>> is_promotion("decimal(5,2)", "decimal(9,3)"), is_promotion("bigint", "int")
    (False, False)
    """
    digits, wants = decimal_digits(was), decimal_digits(wanted)
    if digits is not None and wants is not None:
        return digits[1] == wants[1] and digits[0] < wants[0]
    return (was, wanted) in _PROMOTED


def widening(path: tuple[str, ...], was: str, wanted: str) -> Widening | None:
    """Returns the changes by which a column holds its own values and those of another type, or None if it can't.

    >>> widening(("n",), "int", "bigint"), widening(("n",), "bigint", "int"), widening(("n",), "bigint", "string")
    (Widening(promote={('n',): 'bigint'}, fields={}), Widening(promote={}, fields={}), None)
    >>> found = widening(("s",), "array<struct<a:int,`c d`:int>>", "array<struct<a:bigint,b:date,`c d`:int>>")
    >>> found.promote, found.fields
    ({('s', 'element', 'a'): 'bigint'}, {('s', 'element'): (Wider(name='b', kind='date', after='a'),)})
    >>> widening(("s",), "struct<a:int,b:int>", "struct<a:int>"), widening(("s",), "map<int,int>", "map<bigint,int>")
    (None, None)
    """
    if can_hold(wanted.lower(), was.lower()):
        return Widening()
    if is_promotion(was.lower(), wanted.lower()):
        return Widening(promote={path: wanted})
    has, wants = type_parts(was), type_parts(wanted)
    if has is None or wants is None or has[0] != wants[0]:
        return None
    if has[0] == "struct":
        return _wider_struct(path, struct_fields(was) or [], struct_fields(wanted) or [])
    names = ("element",) if has[0] == "array" else ("key", "value")
    found = Widening()
    for name, (_, kind), (_, wanted_kind) in zip(names, has[1], wants[1], strict=True):
        inner = widening((*path, name), kind, wanted_kind)
        if inner is None or (name == "key" and inner):
            return None  # Iceberg can't change the key of a map
        found |= inner
    return found


def _wider_struct(
    path: tuple[str, ...], has: Sequence[tuple[str, str]], wants: Sequence[tuple[str, str]]
) -> Widening | None:
    left, after, found = [*has], None, Widening()
    more: list[Wider] = []
    for name, kind in wants:
        if left and left[0][0].lower() == name.lower():
            known, had = left.pop(0)
            inner = widening((*path, known), had, kind)
            if inner is None:
                return None
            found, after = found | inner, known
        elif name.lower() in {each.lower() for each, _ in has}:
            return None  # the fields are in another order
        else:
            more.append(Wider(name, kind, after))
            after = name
    return None if left else found | Widening(fields={path: tuple(more)} if more else {})


_PROMOTED = frozenset({("int", "bigint"), ("float", "double")})
_MOST_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
"""Digits of the largest number of each integer type."""
_COLLATION = re.compile(r"\bstring collate ", re.IGNORECASE)


def _component_types(kind: str) -> dict[str, str]:
    """Returns the component types of a type: of a struct by field name, of others by position.

    >>> _component_types("struct<a:int,`b,c`:map<int,decimal(3,1)>>"), _component_types("array<int>")
    ({'struct a': 'int', 'struct `b,c`': 'map<int,decimal(3,1)>'}, {'array 0': 'int'})
    >>> _component_types("int")
    {'int': 'int'}
    """
    found = type_parts(kind)
    return {kind: kind} if found is None else {f"{found[0]} {name}": each for name, each in found[1]}


def check_same_columns(model: StreamModel, of_query: Sequence[str], of_table: Sequence[str]) -> None:
    """Raises unless query and table have the same columns, or `on_schema_change` accepts the difference."""
    more, fewer = _columns_that_differ(of_query, of_table)
    policy = model.on_schema_change
    if policy == IGNORE or (policy == APPEND_NEW and not more) or not (more or fewer):
        return
    differences = [
        *(f"the query gives {name}, which the table lacks" for name in more),
        *(f"the table has {name}, which the query doesn't give" for name in fewer),
    ]
    if policy == FAIL:
        advice = (
            f"To rebuild it from its sources: {model.rebuild}. To keep it as it is, name the table's columns in the "
            "select list, or set on_schema_change to 'append_new_columns' or 'sync_all_columns'."
        )
    else:
        advice = f"`dbt run --select {model.name}` changes the table."
    raise StreamError(
        f"Model {model.name}: its table {model.target} has other columns than its query "
        f"({'; '.join(differences)}). {advice}"
    )


def alterations(model: StreamModel, of_table: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Returns the columns to add to a model's table, with their types, and those to drop, by its `on_schema_change`.

    >>> from dataclasses import replace
    >>> from ...environment.storage import Storage
    >>> made = StreamModel("m", "db.m", "db.m__state", Storage("/", lambda: None), (), columns={"k": "int", "New": "int"})
    >>> alterations(made, ["K", "old"]), alterations(replace(made, on_schema_change=SYNC), ["K", "old"])
    (({'New': 'int'}, []), ({'New': 'int'}, ['old']))
    >>> alterations(replace(made, on_schema_change=IGNORE), ["K", "old"])
    ({}, [])
    """
    if model.columns is None or model.on_schema_change not in (APPEND_NEW, SYNC):
        return {}, []
    more, fewer = _columns_that_differ(list(model.columns), of_table)
    add = {name: kind for name, kind in model.columns.items() if name.lower() in more}
    drop = [name for name in of_table if name.lower() in fewer]
    return add, drop if model.on_schema_change == SYNC else []


def widenings(model: StreamModel, has: Mapping[str, str]) -> Widening:
    """Returns the widening of a model's table by its `on_schema_change`. `has`: the table's columns and their types,
    for which `check_table` didn't raise."""
    found = Widening()
    if model.columns is None or model.on_schema_change != SYNC:
        return found
    names = {name.lower(): name for name in has}
    for name, kind in model.columns.items():
        known = names.get(name.lower())
        if known is not None:
            found |= widening((known,), has[known], kind) or Widening()
    return found


def _columns_that_differ(of_query: Sequence[str], of_table: Sequence[str]) -> tuple[list[str], list[str]]:
    has = {name.lower() for name in of_table}
    gives = {name.lower() for name in of_query}
    return sorted(gives - has), sorted(has - gives)
