"""Maps columns of a SELECT to the input columns that they pass through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from sqlglot import exp

from ..windows.window_columns import is_in_each_row
from .relation import Relation

_T = TypeVar("_T")


@dataclass(frozen=True)
class Outputs:
    """Columns of an input that a SELECT passes through unchanged."""

    names: Mapping[str, str] = field(default_factory=dict)
    """Column → output column, in lower case."""
    star: bool = False
    """Whether all other columns pass through under their own names."""
    hidden: frozenset[str] = frozenset()
    """Columns that `star` excludes."""
    by_alias: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """For a join: alias and column → output column."""
    complete_by: Mapping[str, str] = field(default_factory=dict)
    """For a join: columns of its result by whose values rows arrive together (`Relation.complete_by`)."""
    ends: Mapping[str, str] = field(default_factory=dict)
    """For a join: alias → output column with the end of the windows that the relation's rows are in, for relations
    that have a row in each result row."""

    def __contains__(self, name: str) -> bool:
        return name in self.names or (self.star and name not in self.hidden)

    def __getitem__(self, name: str) -> str:
        return self.names.get(name, name)

    def with_output_names(self, columns: Mapping[str, _T]) -> dict[str, _T]:
        """Returns a mapping by input columns as a mapping by output columns. Columns that don't pass through are left
        out."""
        return {self[name]: value for name, value in columns.items() if name in self}

    def passed_keys(self, keys: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        """Returns the keys that pass through with all of their columns, as output columns."""
        return tuple(
            frozenset(self[name] for name in key) for key in keys if all(name in self for name in key)
        )


def value_of_column(node: exp.Expr | None, alias: str, columns: Mapping[str, _T]) -> _T | None:
    """Returns the value in `columns` of an input column; None if the expression isn't just a column of the input."""
    column = input_column(node, alias)
    return None if column is None else columns.get(column)


def input_column(node: exp.Expr | None, alias: str) -> str | None:
    """Returns the name (lower case) of an input column; None if the expression isn't just a column of the input.

    >>> from ..sql.dialect import parse
    >>> [input_column(item, "t") for item in parse("select (t.K), u.k, k + 1").selects]
    ['k', None, None]
    """
    node = node.unnest() if node is not None else None
    if not isinstance(node, exp.Column) or node.table.lower() not in ("", alias.lower()):
        return None
    return node.name.lower()


def outputs_of_select(select: exp.Select, alias: str) -> Outputs:
    """Returns the columns that a SELECT passes through from its only input.

    >>> from ..sql.dialect import parse
    >>> found = outputs_of_select(parse("select k as key, v + 1 as more from t"), "t")
    >>> found["k"], "v" in found
    ('key', False)
    >>> found.passed_keys([frozenset({"k"}), frozenset({"k", "v"})])
    (frozenset({'key'}),)
    """
    names: dict[str, str] = {}
    star, hidden = False, set()
    for item in select.expressions:
        column = item.unalias()
        inner = column.this if isinstance(column, exp.Column) else column
        if isinstance(column, exp.Column) and column.table.lower() not in ("", alias.lower()):
            continue
        if isinstance(inner, exp.Star):
            star = not (inner.args.get("replace") or inner.args.get("rename"))
            hidden |= {each.name.lower() for each in inner.args.get("except_") or ()}
        elif isinstance(column, exp.Column):
            names.setdefault(column.name.lower(), item.alias_or_name.lower())
    return Outputs(names, star, frozenset(hidden))


def passed_window_end(
    select: exp.Select, alias: str, relation: Relation, keys: Sequence[exp.Expr]
) -> str | None:
    """Returns the output column with the end of the windows that rows expire with; None unless this is one of `keys`."""
    end = relation.ends
    if end is None or not any(value_of_column(key, alias, {end: end}) for key in keys):
        return None
    passed = outputs_of_select(select, alias)
    return passed[end] if end in passed else None


def outputs_of_join(select: exp.Select, inputs: Sequence[tuple[str, Relation]]) -> Outputs:
    """Returns the columns that a SELECT passes through from several inputs. Only columns that the inputs'
    relations list are considered, since a column without an alias may belong to any input."""
    by_alias: dict[tuple[str, str], str] = {}
    complete_by: dict[str, str] = {}
    ends: dict[str, str] = {}
    joins = {join.this.alias_or_name.lower(): join for join in select.args.get("joins") or ()}
    joins_of_inputs = [joins.get(alias.lower()) for alias, _ in inputs]
    for place, (alias, relation) in enumerate(inputs):
        relevant = {*relation.complete_by, *relation.times, *(name for key in relation.keys for name in key)}
        found = outputs_of_select(select, alias)
        for name in relevant:
            if name in found:
                by_alias[(alias.lower(), name)] = found[name]
        if is_in_each_row({place}, joins_of_inputs):
            complete_by |= found.with_output_names(relation.complete_by)
            if relation.ends is not None and relation.ends in found:
                ends[alias.lower()] = found[relation.ends]
    return Outputs(by_alias=by_alias, complete_by=complete_by, ends=ends)
