"""`WindowResults`: a query over the rows of closed windows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from ....util.quoting import quote
from ...frontend.source_text import text_to_compare, text_without_aliases
from ...sql.names import digest
from ...windows.windows import Window
from ..author_text import Expressions
from ..explanation import RETRACT, UPSERT, Changelog, Context, Explanation
from ..lineage import UNKNOWN, Lineage, opaque_lineage
from ..operator import Operator, PrintedOperator, Wiring, inputs_first, ttl_of_stored_rows
from ..query_lineage import lineage_of_query
from ..query_summary import ANY_QUERY, WITHIN_WINDOWS, Summary, tables_read_by
from ..relation import Relation
from ..state.generations import rows_within_ttl
from ..state.window_steps import WindowSpec
from ..window_operator import WindowOperator
from .window_aggregate import WindowAggregate


@dataclass(frozen=True, kw_only=True)
class WindowResults(PrintedOperator):
    """A query over the rows of closed windows, which arrive together: joins, rankings and groups within
    windows. Without windows it works row by row. No state.

    Its inputs are the windows that it reads. Without windows they are the sources, if other operators read these, too.
    """

    shown_as = ANY_QUERY

    query: exp.Query
    """Reads windows by their names, and streams by their views. Callers must not change it."""
    column_origins: Mapping[str, str] = field(default_factory=dict)
    """Output column → its origin: a window column, or a group key as ``operator.key``."""
    unique: frozenset[str] | None = None
    """Origins (values of `column_origins`) that identify a row of the output; None if nothing does."""
    ranks: tuple[str, ...] = ()
    """Rankings that a filter limits, as written."""
    grouped_rows: tuple[Window, ...] = ()
    """Windows whose buffered rows a GROUP BY reads."""
    key_is_unique: bool = True
    """Whether `unique` certainly identifies a row, as nothing in the query can multiply a row."""
    closed: bool = True
    """Whether the windows in its output have closed and have one result, so that all rows of a window arrive together."""
    written: exp.Query
    """`query` as its author wrote it, for `explain`. Callers must not change it."""
    is_repeatable: bool = True
    """Whether the same input always gives the same rows, also below the windows."""

    @property
    def tree(self) -> exp.Query:
        return self.query

    @property
    def lookup_query(self) -> exp.Query:
        return self.query

    def relation_over(self, below: Sequence[Relation]) -> Relation:
        """Returns the properties of rows of closed windows, which arrive together. Without window operators below, windows
        of the rows may be open."""
        if not self.specs:
            ends = [column for column, kind in self.column_origins.items() if kind == "window_end"]
            return Relation(open_until=ends[0] if ends else None, repeatable=self.is_repeatable)
        keys: tuple[frozenset[str], ...] = ()
        if self.key_is_unique and self.unique is not None and self.unique <= {*self.column_origins.values()}:
            first = {kind: column.lower() for column, kind in reversed(list(self.column_origins.items()))}
            keys = (frozenset(first[kind] for kind in self.unique),)
        closing = self._closing_columns
        return Relation(
            complete_by=closing, delays=self._start_delays, keys=keys, repeatable=self.is_repeatable
        )

    @property
    def _time_zones(self) -> set[str | None]:
        """Time zones of the windows. Windows aligned to different time zones close at different times."""
        return {spec.window.time_zone for spec in self.specs}

    @property
    def _closing_columns(self) -> dict[str, str]:
        """Columns by whose values rows arrive together, as in `Relation.complete_by`."""
        if not self.closed or len(self._time_zones) != 1:
            return {}
        zone = next(iter(self._time_zones)) or ""
        kinds = ("window_end", "window_time")
        return {
            column: f"{kind} {zone}".strip() for column, kind in self.column_origins.items() if kind in kinds
        }

    @property
    def _start_delays(self) -> dict[str, int]:
        """Column with the start of closed windows → microseconds from there to the end."""
        sizes = [spec.window.size for spec in self.specs]
        merges = any(spec.window.merges for spec in self.specs)
        if any(self._time_zones) or not self.closed or merges or len(sizes) != 1:
            return {}
        return {column: sizes[0] for column, kind in self.column_origins.items() if kind == "window_start"}

    @property
    def windows(self) -> tuple[WindowOperator, ...]:
        """Returns the windows below it, inputs first."""
        return tuple(each for each in inputs_first(self) if isinstance(each, WindowOperator))

    @property
    def specs(self) -> tuple[WindowSpec, ...]:
        """Returns the spec of each window operator."""
        return tuple(each.spec for each in self.windows)

    @property
    def at_once(self) -> bool:
        """Whether some of its windows are emitted in each micro-batch, since other windows read them."""
        return any(each.at_once for each in self.windows)

    @property
    def grouped_windows(self) -> list[Window]:
        """Returns the windows whose rows are grouped."""
        aggregated = [each.spec.window for each in inputs_first(self) if isinstance(each, WindowAggregate)]
        return [*aggregated, *self.grouped_rows]

    def lineage(self, below: Sequence[Lineage]) -> Lineage | None:
        """Returns the lineage of windows over streams. The aggregates of a window have separate origins, so that others
        can be added and removed."""
        windows = self.windows
        if not windows:
            return opaque_lineage("rows", text_without_aliases(self.query), *(each.meaning for each in below))
        found = lineage_of_query(self.query, lineages_of_windows(windows)[1])
        if found is not None or any(each.inputs for each in windows):
            return found
        definitions = {each.name: digest(json.dumps(each.definition({}), sort_keys=True)) for each in windows}
        return opaque_lineage(
            "windows", self.at_once, text_to_compare(text_without_aliases(self.query), definitions)
        )

    def generate(self, wiring: Wiring) -> None:
        """Runs the query over the windows' results, without rows of windows whose state has expired."""
        text = without_expired_windows(self.sql, self, wiring.ttl)
        wiring.add_output_step(self, text, lookups=wiring.lookups(self))

    def explain(self, context: Context) -> Explanation | None:
        """Returns its joins, groups and rankings; None if it only returns columns of a window's results."""
        below = [each.name for each in self.inputs]
        read = tables_read_by(self.written, below)
        times = [each.spec.window.time_col for each in self.windows]
        streams = [name for name in read if name in context.relations]
        name, text = Summary(
            inputs=[*below, *streams], time=times[0] if times else "", windows=True
        ).describe(self.written)
        if not text:
            return None
        found = self.explanation(context, text, WITHIN_WINDOWS.get(name, name), reads=read)
        if context.upserts is None and context.emission.may_update_results:
            return replace(
                found, changelog=Changelog(RETRACT if found.key is None else UPSERT, found.key or ())
            )
        return found

    @property
    def expressions(self) -> Expressions:
        """Returns the expressions of its windows, by column."""
        return {name: node for each in self.inputs for name, node in each.expressions.items()}


def lineages_of_windows(windows: Sequence[WindowOperator]) -> tuple[dict[str, str], dict[str, Lineage]]:
    """Returns two mappings by window operator: to a digest of its windows, input rows and keys, without its aggregates; and
    to the lineage of its results. The lineage is `UNKNOWN` if it isn't understood, so that the results aren't taken for a
    static table."""
    rows: dict[str, str] = {}
    unknown = dict.fromkeys([each.name for each in windows], UNKNOWN)
    found = dict(unknown)
    means: dict[str, str] = {}
    for each in windows:
        spec = each.spec
        definition = each.definition({name: means[name] for name in spec.reads})
        without_aggregates = {
            name: value for name, value in definition.items() if name not in ("metrics", "output")
        }
        rows[spec.name] = digest("windows", each.at_once, json.dumps(without_aggregates, sort_keys=True))
        if isinstance(each, WindowAggregate):
            closed = each.lineage_of_closed_windows(rows[spec.name], means)
            results = lineage_of_query(each.spec.output, {**unknown, f"{spec.name}_windows": closed})
            found[spec.name] = results or UNKNOWN
        is_known = found[spec.name] is not UNKNOWN
        whole = json.dumps(definition, sort_keys=True)
        means[spec.name] = found[spec.name].meaning if is_known else digest("windows", whole)
    return rows, found


def without_expired_windows(rows: str, operator: Operator, ttl: int | None) -> str:
    """Drops rows of windows whose state has expired, because their results can't be updated.

    Args:
        rows: SQL of the rows of an operator.
        ttl: microseconds after which idle state expires; None for never.
    """
    relation = operator.relation
    idle = ttl_of_stored_rows(operator, ttl)
    if idle is None or relation.open_until is None or relation.open_for is not None:
        return rows
    return rows_within_ttl(f"(\n{rows}\n)", f"own.{quote(relation.open_until)}", idle)
