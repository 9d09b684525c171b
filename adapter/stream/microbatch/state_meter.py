"""What a run's micro-batches read, look up and write in the state, part by part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...query.program import Asking, Program
from ..common.model import StreamModel
from ..progress.query_metrics import reader
from ..progress.report import read_progress
from ..progress.state_metrics import PartFigures, PartMetrics, Size, operators_in, sizes_in
from ..state.table import StateTable, digest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class StateMeter:
    """Follows a state through the steps of a run. What was written and how large parts are is told by the commits, how
    large they were when the run began by its last figures; only where these are of another snapshot is Iceberg asked.

    Args:
        spark: a session.
        model: whose state it is.
        program: what is carried out.
        state: as it is before the first step.
    """

    def __init__(self, spark: SparkSession, model: StreamModel, program: Program, state: StateTable) -> None:
        self._state, self._reader = state, reader(spark)
        self._query = digest(program.signature)
        told = read_progress(model)
        self._sizes, self._snapshot = sizes_in(told, state.snapshot), state.snapshot
        operators = operators_in(told, self._query)
        if operators is None:
            operators = dict(program.operators()) if program.operators else {}
        self._operators = operators
        self._parts = list(dict.fromkeys(part.name for part in program.parts))
        self._last: Mapping[str, PartFigures] = {}
        self._total: dict[str, PartFigures] = {}

    def measure(self, plans: Iterable[Any], asked: Mapping[str, tuple[Asking, ...]]) -> None:
        """Take in a step that is over.

        Args:
            plans: that were run for it.
            asked: by how their counts are called, what was asked of the state.
        """
        state = self._state
        done = self._reader.read(plans, state.name_in_iceberg, self._parts, asked)
        written = state.written_since(self._snapshot)
        for part, figures in (written or {}).items():
            done.setdefault(part, PartFigures()).add(figures)
        sizes = None if self._sizes is None or written is None else dict(self._sizes)
        if sizes is not None:
            for part, figures in (written or {}).items():
                sizes[part] = sizes.get(part, Size()).after(figures)
        if sizes is None or sum(sizes.values(), Size()) != Size(**state.size()):
            # Somebody else has written it, or a run didn't come to its figures.
            sizes = state.sizes()
        self._sizes, self._snapshot, self._last = sizes, state.snapshot, done
        for part, figures in done.items():
            self._total.setdefault(part, PartFigures()).add(figures)

    @property
    def last(self) -> Sequence[PartMetrics]:
        """The parts, and what the last step did with them."""
        return self._metrics(self._last)

    @property
    def total(self) -> Sequence[PartMetrics]:
        """The parts, and what all steps of the run did with them."""
        return self._metrics(self._total)

    def report(self) -> dict[str, object]:
        """The state as the figures of a step have it, as plain JSON."""
        return {
            **self._state.size(),
            "snapshot": self._snapshot,
            "query": self._query,
            "parts": [each.as_dict() for each in self.last],
        }

    def _metrics(self, done: Mapping[str, PartFigures]) -> Sequence[PartMetrics]:
        # Last what was read of several parts at once.
        names = [*self._parts, *([""] if "" in done else [])]
        sizes = self._sizes or {}
        return tuple(
            PartMetrics(
                name,
                self._operators.get(name, ""),
                sizes.get(name, Size()),
                done.get(name, PartFigures()),
            )
            for name in names
        )
