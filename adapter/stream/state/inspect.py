"""Reads the state tables, columns and rows of a model's state without a lock and without changing anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...query.state_signature import Signature
from ...util.quoting import literal
from ...util.quoting import quote as quoted
from ..common.errors import StreamError
from ..common.model import StreamModel
from ..common.session import working_session
from ..progress.position import Position
from ..progress.state_metrics import Size
from .column_mapping import signature_with_physical_names
from .table import StateTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KNOWN = {
    "part": "which part of the state the row is in",
    "expires_at": "until when the row is kept",
    "step": "the micro-batch that it arrived in",
    "since": "the micro-batch in which its key was first there, or there again after its state_ttl",
    "slice_end": "the end of its slice",
    "window_start": "the start of its window",
    "session_start": "the first row of its session",
    "session_end": "the last row of its session, and the gap",
    "merge_from": "from when on it belongs to a later session",
    "grouping_id": "the grouping set",
    "rows_there": "how many rows the key has",
}


@dataclass(frozen=True)
class ColumnOfState:
    """A column of the state."""

    name: str
    type: str
    what: str
    """Description of the values: the SQL of an aggregate or key, or the meaning of a column that every state may have."""


@dataclass(frozen=True)
class Inspected:
    """Content of a state."""

    table: str
    position: Position | None
    """The last committed position."""
    made: int
    """Time of the last commit, in milliseconds since 1970."""
    snapshots: int
    parts: Mapping[str, Size]
    """Sizes of the state tables, by name."""
    columns: Sequence[ColumnOfState]
    rows: Mapping[str, Sequence[Mapping[str, Any]]]
    """State table → requested rows, with the columns that aren't NULL."""


def inspect_stored_state(
    spark: SparkSession, model: StreamModel, sample: int = 0, keys: Mapping[str, str] | None = None
) -> Inspected | None:
    """Reads a state; None if there is none.

    Args:
        sample: maximum rows of each state table; 0 for none, or for all if `keys` is given.
        keys: column → value; only rows with these values are returned.

    Raises:
        StreamError: another version of this package created the state, or a column of `keys` doesn't exist.
    """
    session = working_session(spark)
    state = StateTable(session, model)
    if not state.exists:
        return None
    signature = state.signature() or Signature()
    counts = f"select count(*), max(unix_millis(committed_at)) from {model.state}.snapshots"
    snapshots = session.sql(counts).collect()[0]
    parts = dict(sorted(state.part_sizes().items()))
    types = state.physical_types(session)
    what = _KNOWN | dict(
        _column_descriptions(signature_with_physical_names(signature, state.mapping, keys=True))
    )
    columns = [ColumnOfState(name, kind, what.get(name, "")) for name, kind in types.items()]
    wanted = keys or {}
    for name in wanted:
        if name not in types:
            raise StreamError(
                f"Model {model.name}: its state has no column {name}; it has {', '.join(types)}."
            )
    rows: dict[str, list[dict[str, Any]]] = {}
    if sample or wanted:
        equal = (f" and cast({quoted(name)} as string) = {literal(value)}" for name, value in wanted.items())
        where = "".join(equal)
        for part in parts:
            query = f"select * from {model.state} where part = {literal(part)}{where}"
            found = session.sql(f"{query} limit {sample}" if sample else query).collect()
            if found:
                rows[part] = [
                    {n: value for n, value in row.asDict(True).items() if value is not None and n != "part"}
                    for row in found
                ]
    return Inspected(
        table=model.state,
        position=state.position(),
        made=int(snapshots[1] or 0),
        snapshots=int(snapshots[0]),
        parts=parts,
        columns=columns,
        rows=rows,
    )


def _column_descriptions(signature: Signature) -> Iterator[tuple[str, str]]:
    """Yields the columns of a state's aggregates, each with its description.

    >>> from ...query.state_signature import AggregateState, MetricState, WindowOperatorState
    >>> metric = MetricState("SUM(v)", ("sum_v",))
    >>> aggregates = AggregateState({"k": "UPPER(k)"}, metrics={"m": metric})
    >>> dict(_column_descriptions(Signature((WindowOperatorState(aggregates=aggregates),))))
    {'k': 'the key UPPER(k)', 'sum_v': 'SUM(v)'}
    """
    for aggregates in signature.aggregates.values():
        for name, text in aggregates.keys.items():
            yield name, f"the key {text}"
        for values in aggregates.distinct_sets.values():
            for name in values.columns:
                yield name, f"a value of {values.part}"
        for metric in aggregates.metrics.values():
            for name in metric.columns:
                yield name, metric.sql
