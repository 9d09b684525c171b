"""Describes the change of a state for an edited query, which is planned before anything is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...query.state_signature import Signature
from ..evolution.effect import Evolution
from ..evolution.migration import Migration
from ..sources.replay import History
from ..state.column_mapping import ColumnMapping

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class StateChange:
    """The change of a state for an edited query."""

    found: Evolution
    migration: Migration | None
    """Migration of the state; None if only its signature changes."""
    signature: Signature
    """Signature of the state afterwards."""
    mapping: ColumnMapping = field(default_factory=dict)
    """Physical names of state columns that differ from the logical ones afterwards, by state table."""
    schema: StructType | None = None
    """Schema of the state afterwards."""
    history: History | None = None
    """History from which new aggregates are computed; None if they start with the next row."""

    @property
    def describe(self) -> str:
        """The change in words, for the log."""
        if not self.found.is_migration and self.migration is not None:
            return "; ".join(describe_value_changes(self.migration))
        if self.history is None:
            return self.found.sentence
        return self.found.describe(f"computed from {self.history.size_text}")


def describe_value_changes(migration: Migration) -> Iterator[str]:
    """Yields the changes of stored values, in words.

    >>> from ..evolution.migration import widening_migration
    >>> from ..evolution.output_schema import Widening
    >>> wider = Widening(promote={("max_s", "a"): "bigint", ("sum_d",): "decimal(22,2)"})
    >>> [*describe_value_changes(widening_migration(wider))]
    ['kept values have wider types: max_s.a BIGINT, sum_d DECIMAL(22,2)']
    """
    if migration.promote:
        wider = (f"{name} {kind.upper()}" for name, kind in migration.promote.items())
        yield f"kept values have wider types: {', '.join(wider)}"
    if migration.added:
        yield f"rows that are kept have NULL in {', '.join(migration.added)}, which their source got later"
    if migration.dropped_fields:
        yield f"rows that are kept lose {', '.join(migration.dropped_fields)}, which nothing reads any more"
