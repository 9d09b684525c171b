"""Derives the relation that a join of an operator's inputs returns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from sqlglot import exp

from ...normalize import conditions
from ...normalize.compared_types import has_mixed_types, have_mixed_types
from ...sql.clauses import conjuncts, filters, is_semi_or_anti, relations_with_joins
from ...sql.nodes import every
from ..column_origins import Outputs, outputs_of_join
from ..relation import Relation
from ..time_bounds import arrival_delay_of, delays_of_computed_columns
from .passed import input_tables


def preserved_sides(select: exp.Select) -> tuple[str, ...]:
    """Returns the aliases (lower case) of the preserved relations in a join of two: those whose unmatched rows matter for
    the result.

    >>> from ...sql.dialect import parse
    >>> preserved_sides(parse("select * from a right join b on a.k = b.k"))
    ('b',)
    """
    (left, _), (right, join) = relations_with_joins(select)
    one, other = left.alias_or_name.lower(), right.alias_or_name.lower()
    side = (join.side or "").upper() if join is not None else ""
    return {"FULL": (one, other), "RIGHT": (other,)}.get(side, (one,))


@dataclass(frozen=True)
class _Side:
    """A relation of a join."""

    alias: str
    """In lower case."""
    join: exp.Join | None
    relation: Relation


@dataclass(frozen=True)
class JoinedRelations:
    """A SELECT that joins an operator's inputs, and what is known of their rows."""

    select: exp.Select
    """Reads the inputs as ``__input_0``, ``__input_1`` …"""
    below: Sequence[Relation]
    """Properties of each input's rows. Inputs of subqueries are last, and have no effect."""

    @cached_property
    def _sides(self) -> list[_Side]:
        joins = {id(node): join for node, join in relations_with_joins(self.select)}
        tables = input_tables(self.select)
        return [
            _Side(table.alias_or_name.lower(), joins[id(table)], relation)
            for table, relation in zip(tables, self.below, strict=False)
        ]

    @cached_property
    def outputs(self) -> Outputs:
        """The input columns that the SELECT passes on."""
        return outputs_of_join(self.select, [(each.alias, each.relation) for each in self._sides])

    @property
    def window_end_column(self) -> str | None:
        """Returns an output column with the end of the window that rows expire with; None if there is none."""
        return next(filter(None, (self.outputs.ends.get(each.alias) for each in self._sides)), None)

    @cached_property
    def keys(self) -> tuple[frozenset[str], ...]:
        """The columns that identify a row: the keys of all relations, except those that join at most one row to each row of
        the others."""
        if conditions.may_multiply_rows(self.select):
            return ()
        found: set[str] = set()
        single: set[str] = set()
        for number, each in enumerate(self._sides):
            if each.join is not None and is_semi_or_anti(each.join):
                continue
            key = each.relation.key
            names = None if key is None else [self.outputs.by_alias.get((each.alias, name)) for name in key]
            if names is None or None in names:
                # The order of inner joins doesn't matter.
                others = {other.alias for other in (self._sides if self._is_inner else self._sides[:number])}
                equated = self._equated_columns(each, others - {each.alias, *single})
                if any(unique <= equated for unique in each.relation.keys):
                    single.add(each.alias)
                    continue
                return ()
            found |= {name for name in names if name is not None}
        return (frozenset(found),)

    @property
    def _is_inner(self) -> bool:
        return all(conditions.is_inner_join(each.join) for each in self._sides)

    def _equated_columns(self, side: _Side, others: Collection[str]) -> set[str]:
        """Returns a relation's columns that are equated with columns of other relations: by its own join condition or,
        if all joins are inner, by any condition."""
        inner, join = self._is_inner, side.join
        if not inner and (join is None or join.side not in ("", "LEFT")):
            return set()
        joins = (self.select.args.get("joins") or ()) if inner else [join]
        tests = [test for each in joins if each is not None for test in conjuncts(each.args.get("on"))]
        tests += filters(self.select) if inner else []
        using = join.args.get("using") if join is not None else None
        found = {name.name.lower() for name in using or () if not has_mixed_types(name)}
        for test in tests:
            if not isinstance(test, exp.EQ | exp.NullSafeEQ) or have_mixed_types(test.this, test.expression):
                continue
            for one, other in ((test.this, test.expression), (test.expression, test.this)):
                column = one.unnest()
                aliases = {each.table.lower() for each in every(other, exp.Column)}
                if isinstance(column, exp.Column) and column.table.lower() == side.alias and aliases:
                    found |= {column.name.lower()} if aliases <= {*others} else set()
        return found

    def delays(self, delays: Mapping[tuple[str, str], int]) -> dict[str, int]:
        """Returns `Relation.delays` of the rows.

        Args:
            delays: alias and column → microseconds for which rows of the join with a time may still arrive after the
                watermark has reached it.
        """
        aliases = {each.alias for each in self._sides if each.join is None or not is_semi_or_anti(each.join)}
        found: dict[str, int] = {}
        for (alias, column), delay in delays.items():
            if alias in aliases and (name := self.outputs.by_alias.get((alias, column))) is not None:
                found[name] = max(delay, found.get(name, delay))
        delay_of_item = partial(
            arrival_delay_of,
            delay_of_column=lambda column: delays.get((column.table.lower(), column.name.lower())),
        )
        return {**found, **delays_of_computed_columns(self.select, delay_of_item)}
