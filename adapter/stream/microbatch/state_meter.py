"""Measures what a run's micro-batches read, look up and write in each state table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...query.program import Program, StateLookup
from ..common.model import StreamModel
from ..progress.query_metrics import metrics_reader
from ..progress.report import read_progress
from ..progress.state_metrics import (
    PartFigures,
    PartMetrics,
    Size,
    operators_from_progress,
    sizes_from_progress,
)
from ..state.table import StateTable, signature_digest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class StateMeter:
    """Measures a state across the micro-batches of a run. Commits give the rows written and the current sizes; the
    last progress report gives the sizes at the start of the run. Iceberg is queried only if that report is of another
    snapshot."""

    def __init__(self, spark: SparkSession, model: StreamModel, program: Program, state: StateTable) -> None:
        self._state, self._reader = state, metrics_reader(spark)
        self._query = signature_digest(program.signature)
        progress = read_progress(model)
        self._sizes, self._snapshot = sizes_from_progress(progress, state.snapshot), state.snapshot
        operators = operators_from_progress(progress, self._query)
        if operators is None:
            operators = dict(program.operators().of_parts) if program.operators else {}
        self._operators = operators
        self._parts = list(dict.fromkeys(part.name for part in program.parts))
        self._last: Mapping[str, PartFigures] = {}
        self._total: dict[str, PartFigures] = {}

    def measure(self, plans: Iterable[Any], observed_lookups: Mapping[str, tuple[StateLookup, ...]]) -> None:
        """Adds the figures of a finished micro-batch. `observed_lookups`: name of observed metrics → the look-ups that they
        count."""
        state = self._state
        done = self._reader.read(plans, state.name_in_iceberg, self._parts, observed_lookups)
        written = state.written_since(self._snapshot)
        sizes = None if self._sizes is None or written is None else dict(self._sizes)
        for part, figures in (written or {}).items():
            done.setdefault(part, PartFigures()).add(figures)
            if sizes is not None:
                sizes[part] = sizes.get(part, Size()).after_writes(figures)
        if sizes is None or sum(sizes.values(), Size()) != Size(**state.total_size()):
            # Another writer changed the state, or a run ended before its report.
            sizes = state.part_sizes()
        self._sizes, self._snapshot, self._last = sizes, state.snapshot, done
        for part, figures in done.items():
            self._total.setdefault(part, PartFigures()).add(figures)

    @property
    def last_metrics(self) -> Sequence[PartMetrics]:
        """What the last micro-batch read, looked up and wrote in each state table."""
        return self._part_metrics(self._last)

    @property
    def total_metrics(self) -> Sequence[PartMetrics]:
        """What all micro-batches of the run read, looked up and wrote in each state table."""
        return self._part_metrics(self._total)

    def report(self) -> dict[str, object]:
        """Returns the state's figures for the progress report, as plain JSON."""
        return {
            **self._state.total_size(),
            "snapshot": self._snapshot,
            "query": self._query,
            "parts": [each.as_dict() for each in self.last_metrics],
        }

    def _part_metrics(self, done: Mapping[str, PartFigures]) -> Sequence[PartMetrics]:
        # "" means reads of several state tables at once, and comes last.
        names = [*self._parts, *([""] if "" in done else [])]
        sizes = self._sizes or {}
        found = ((name, sizes.get(name, Size()), done.get(name, PartFigures())) for name in names)
        return tuple(
            PartMetrics(name, *self._operators.get(name, ("", "")), size, figures)
            for name, size, figures in found
        )
