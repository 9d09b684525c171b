"""A tree → operators: one visit, bottom up, of queries that are put together from any parts.

Each SELECT is first taken apart into steps that do one thing: join, group, rank, make distinct, project. For each
the planner takes the cheapest operator whose rule holds, and where none does, `Recompute`: the query itself over
all rows of the partitions that were touched, less what it gave before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from sqlglot import exp

from .. import event_clock, expansion, hints, intervals, limits, on_change, ranks
from ..aggregate_stage import NotMergeable, StageBuilder
from ..clauses import conjuncts, joined, only_asks, output_names, relations
from ..dialect import DIALECT, canonical, sql, unqualified
from ..emission import FINAL, Emission
from ..errors import NotMeant, QueryError, Unbounded
from ..finite import is_finite
from ..grouping import grouping
from ..identity import shown_as
from ..locality import Source as From
from ..names import digest, unmarked
from ..plan import AggregateStage, GroupStage, Key, KeyedStage, Plan
from ..row_level import check_joins, refuse_limit
from ..select_kind import is_grouped
from ..static_sides import nest, unclear
from ..stream_rewrites import Rewrites
from ..streams import Known, Streams
from ..tie_breaking import break_ties, tie
from ..windows import Window, quote
from . import (
    above_groups,
    conditions,
    generations,
    rankings,
    semi_joins,
    single_rows,
    split_joins,
    subqueries_below,
)
from . import unbounded_state as key_names
from .base import (
    OVER_LIFE,
    ChangelogNormalize,
    Dataflow,
    GroupAggregate,
    Join,
    LateRows,
    Local,
    MaterializedProject,
    Operator,
    OuterIntervalJoin,
    OverAggregate,
    Project,
    Recompute,
    SetOperation,
    Source,
    TemporalFilter,
    Top,
    TopN,
    UnboundedState,
    UnionAll,
    Until,
    WindowChanges,
    WindowClose,
    WindowResults,
    WindowRows,
    in_order,
    input_name,
    ttl_over,
)
from .base import (
    ROW_TIME as TIME_OF_ROW,
)
from .hidden_items import hide_from_stars, with_row, with_weight
from .key_generations import later
from .reach import ordered_by, reach
from .relation import EVENT_TIME, WEIGHT, WINDOW_END, Relation, comes_in_order, comes_late, weight_of
from .time_bounds import TimeBounds, delay_of
from .upserts import kept_root, replaced

_IN_TIME = (
    "; or bound the time between them on both sides, as in a.ts BETWEEN b.ts AND b.ts + INTERVAL '1' HOUR, by columns that "
    "carry event time (dbt's config event_time, window_end)"
)
NO_STREAM = (
    "The query reads no stream; wrap a relation of its FROM in a window function or in stream(): "
    "FROM {{ tumble(ref('…'), 'time_column', '10 minutes') }}."
)
_T = TypeVar("_T")
_TIMES = {
    "distinct": "if(l + r > 0, 1, 0)",
    "union": "if(l + r > 0, 1, 0)",
    "intersect": "if(l > 0 and r > 0, 1, 0)",
    "intersect all": "least(l, r)",
    "except": "if(l > 0 and r <= 0, 1, 0)",
    "except all": "greatest(l - r, 0)",
}


@dataclass(frozen=True)
class _From:
    """A relation in FROM or JOIN: its operator, or None where it reads no stream."""

    alias: str
    node: exp.Expr
    join: exp.Join | None
    operator: Operator | None


def dataflow(
    tree: exp.Query,
    known: Mapping[str, Known],
    ttl: int | None,
    domains: Collection[str],
    rewrites: Rewrites,
    windows: Callable[[exp.Query, Streams, int, bool], Plan],
    emission: Emission = FINAL,
    is_bounded: bool = False,
) -> tuple[Dataflow, Streams, tuple[str, ...]]:
    """The operators of a tree whose streams and static tables are marked. Changes the tree.

    Args:
        tree: a query.
        known: what the project says of relations.
        ttl: microseconds after which an idle key is forgotten.
        domains: columns whose sets of values do not grow.
        rewrites: that the query asks for.
        windows: the planner of queries that stay within windows: of a query, the streams of the whole tree, how many
            stages others have, and whether rows of windows are kept where they are read as they are.
        emission: when results of windows come.
        is_bounded: whether the state needn't be asked whether it can grow for ever.

    Returns:
        The operators, the streams, and the rankings that filters end, as the user wrote them.

    Raises:
        QueryError: it has no meaning over a stream, or its state can grow for ever.
    """
    ranked = _kept_at_root(tree) is not None
    planner = _Planner(
        tree.copy() if ranked else tree, known, ttl, domains, rewrites, windows, emission, is_bounded
    )
    flow = planner.plan(comes_once=ranked)
    alone = [
        each
        for each in flow.operators
        if (isinstance(each, TopN) and each.final) or (isinstance(each, Recompute) and each.shown is not None)
    ]
    if alone and replaced(flow) is None:
        # Something stands above it that isn't told by the text alone.
        planner = _Planner(tree, known, ttl, domains, rewrites, windows, emission, is_bounded)
        flow = planner.plan()
    return flow, planner.streams, tuple(planner.ranks)


_AT_ROOT = "kept_at_root"
_SEVERAL_STAGES = "Results of several stages."


class _Planner:
    def __init__(
        self,
        tree: exp.Query,
        known: Mapping[str, Known],
        ttl: int | None,
        domains: Collection[str],
        rewrites: Rewrites,
        windows: Callable[[exp.Query, Streams, int, bool], Plan],
        emission: Emission,
        is_bounded: bool,
    ) -> None:
        self.tree = limits.write_as_ranks(tree, _reads_stream)
        self.streams = Streams(self.tree, known)
        if next(hints.windows_under(self.tree), None) is not None:
            event_clock.show_watermark(self.tree)
        self.ttl, self.rewrites, self.plan_windows = ttl, rewrites, windows
        self.emission = emission
        self.under_windows = 0
        """How many windows stand above what is visited, and are made of its rows."""
        self.domains = frozenset(name.lower() for name in domains)
        self.operators: dict[str, Operator] = {}
        self.by_text: dict[str, Operator] = {}
        self.ranks: dict[str, None] = {}
        self.window_stages = 0
        self.is_bounded = is_bounded

    def plan(self, comes_once: bool = False) -> Dataflow:
        """The operators of the whole tree; `comes_once`: first rows that are the result come once, and groups that are it
        may be others each time they are computed."""
        if comes_once and (kept := _kept_at_root(self.tree)) is not None:
            kept.meta[_AT_ROOT] = True
        root = self._visit(self.tree)
        if root is None:
            raise QueryError(NO_STREAM)
        operators = tuple(in_order(root))
        times = [self.streams.known(stream.view).event_time for stream in self.streams.streams.values()]
        if self.ttl is not None and not any(times):
            raise QueryError(
                "How long rows are kept is measured in event time, and no stream of this query says which column that is; "
                "give one dbt's config event_time."
            )
        key = root.relation.key if root.relation.changes else None
        flow = Dataflow(root, None if key is None else tuple(sorted(key)), operators)
        if self.ttl is None and not self.is_bounded:
            # What stands above what puts itself out keeps nothing.
            for each in in_order(kept_root(flow)):
                if each.growth is not None:
                    raise Unbounded(_grows(each.growth, self.domains))
        return flow

    # -- the visit ---------------------------------------------------------------------------------

    def _visit(self, node: exp.Expr) -> Operator | None:
        """The operator of a query or relation; None: it reads no stream."""
        if (placed := node.meta_get(conditions.OPERATOR)) is not None:
            return self.operators[placed]
        if isinstance(node, exp.Subquery):
            if any(_reads_stream(join) for join in node.args.get("joins") or ()):
                raise QueryError(
                    f"'{hints.quoted(node)}' joins streams in brackets; write the joins one after another."
                )
            return self._visit(node.this)
        if isinstance(node, exp.Table):
            return self._source(node) if hints.is_stream(node) else None
        if not isinstance(node, exp.Query) or not _reads_stream(node):
            return None
        text = written = canonical(node)
        if isinstance(node, exp.Select) and (ended := ranks.ended(node)):
            # Of a ranking only the rows are kept that the filter around it lets through; read twice, it may end elsewhere.
            text += f" {ended}"
        if self.emission.changes and self.under_windows:
            text += " as it comes"
        if text not in self.by_text:
            self.by_text[text] = self._query(node, written)
        return self.by_text[text]

    def _query(self, node: exp.Query, text: str) -> Operator:
        if next(hints.windows_under(node), None) is not None:
            try:
                return self._windows(node, text)
            except NotMeant:
                raise
            except QueryError:
                if isinstance(node, exp.Select) and (window := hints.window_of(node)):
                    return self._window(node, window)
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node)
        if isinstance(node, exp.Select):
            return self._select(node)
        raise QueryError(f"'{hints.quoted(node)}' can't be kept up to date from a stream.")

    def _add(self, operator: Operator) -> Operator:
        return self.operators.setdefault(operator.name, operator)

    def _place(self, operator: Operator, alias: str) -> exp.Expr:
        """What stands for an operator in a tree that is visited again."""
        table = _table(operator.name, alias)
        table.meta[conditions.OPERATOR] = operator.name
        return table

    # -- leaves ------------------------------------------------------------------------------------

    def _source(self, table: exp.Table) -> Operator:
        known = self.streams.known(table.name)
        relation = next(s.relation for s in self.streams.streams.values() if s.view == table.name)
        keys = (frozenset(name.lower() for name in known.key),) if known.changes and known.key else ()
        source = self._add(
            Source(
                f"source_{digest(relation.lower())}",
                table.name,
                # Of a changelog there is never more than the table has that it is of.
                Relation(
                    known.changes,
                    keys=keys,
                    event_time=self._event_time(relation, known),
                    bounded=known.changes,
                ),
                relation,
                known.changes,
            )
        )
        return self._normalized(source, known, relation) if known.key and not known.changes else source

    def _normalized(self, source: Operator, known: Known, relation: str) -> Operator:
        """The rows of a source of which each takes the place of the one before it."""
        assert isinstance(source, Source)
        missing = sorted({name.lower() for name in known.key} - self.domains)
        keys = ", ".join(known.key)
        if self.ttl is not None and missing:
            raise NotMeant(
                f"config 'state_ttl' forgets what was idle, but the rows of {relation} stay until others replace them; "
                f"leave it out, or give the model constant_domains: {missing} if the set of their values doesn't grow."
            )
        name = f"normalize_{digest(source.name, *known.key, '/', known.event_time)}"
        return self._add(
            ChangelogNormalize(
                name,
                (source,),
                KeyedStage(
                    name,
                    0,
                    (source.view,),
                    source.name,
                    source.name,
                    known.key,
                    feed=False,
                    time=known.event_time,
                    stored=True,
                    signed=True,
                    growth=None,
                ),
                Relation(True, keys=(frozenset(name.lower() for name in known.key),), bounded=not missing),
                f"the last row per {keys}",
                UnboundedState(f"a row for every value of {keys}", frozenset(map(str.lower, known.key)))
                if missing
                else None,
            )
        )

    def _event_time(self, relation: str, known: Known) -> str | None:
        if (
            not known.event_time
            or known.replaces
            or not self.streams.is_measured_on(relation, known.event_time)
        ):
            return None
        return known.event_time.lower()

    def _windows(self, node: exp.Query, text: str) -> Operator:
        """Windows, and all that stays within one, by the planner of windows; `text`: the query's, in its canonical form.

        Raises:
            QueryError: it doesn't.
        """
        for table in node.find_all(exp.Table):
            if hints.is_stream(table) and self.streams.known(table.name).replaces:
                raise QueryError("A window function over a stream whose rows change.")
        changes = self.emission.changes
        if changes and len(set(map(canonical, hints.windows_under(node)))) > 1:
            raise QueryError(_SEVERAL_STAGES)
        found = self.plan_windows(node.copy(), self.streams, self.window_stages, changes)
        if changes:
            return self._changing(node, found, text)
        self.window_stages += len(found.stages)
        self.ranks |= dict.fromkeys(found.ranks)
        label = ", ".join(dict.fromkeys(str(stage.window) for stage in found.windowed)) or "windows"
        if not found.stages:
            holder = hints.windows_under(node)
            names = {t.name for each in holder for t in each.find_all(exp.Table) if hints.is_stream(t)}
            inputs = tuple(
                self._source(next(t for t in node.find_all(exp.Table) if t.name == name))
                for name in sorted(names)
            )
            ends = [column for column, kind in found.carried.items() if kind == "window_end"]
            relation = Relation(
                open_until=ends[0] if ends else None, repeatable=conditions.is_repeatable(node)
            )
            return self._add(WindowResults(f"rows_{digest(text)}", found, relation, label, inputs))
        zones = {stage.window.time_zone for stage in found.windowed}
        # Windows cut on another zone's clock may close at another time.
        zone = next(iter(zones)) or ""
        together = {
            column: f"{kind} {zone}".strip()
            for column, kind in found.carried.items()
            if kind in ("window_end", "window_time") and len(zones) == 1 and found.closed
        }
        carried = {kind: column for column, kind in reversed(list(found.carried.items()))}
        keys: tuple[frozenset[str], ...] = ()
        if found.certain and found.unique is not None and found.unique <= carried.keys():
            keys = (frozenset(carried[kind].lower() for kind in found.unique),)
        relation = Relation(
            together=together,
            delays=_starts(found, zone),
            keys=keys,
            repeatable=conditions.is_repeatable(node),
        )
        return self._add(WindowResults(f"windows_{digest(text)}", found, relation, label))

    def _changing(self, node: exp.Query, found: Plan, text: str) -> Operator:
        """The results of one stage, which may have several for each window.

        Raises:
            QueryError: they are of several stages, or which windows they are of can't be seen.
        """
        carried = {what: column.lower() for column, what in reversed(list(found.carried.items()))}
        end, start = carried.get("window_end"), carried.get("window_start")
        if len(found.windowed) != 1 or len(found.stages) != 1 or not found.closed or end is None:
            raise QueryError(_SEVERAL_STAGES)
        (stage,) = found.windowed
        window, by = stage.window, []
        if isinstance(stage, AggregateStage):
            by = [(carried.get(f"{stage.name}.{name}"), name) for name in stage.session_keys]
            sets = stage.grouping_sets or ()
            if any(name not in members for members in sets for name in stage.session_keys):
                raise QueryError("What sessions are partitioned by isn't in every grouping set.")
        elif window.merges:
            if hints.window_of(node) is None or window.emit == "on_change":
                raise QueryError("What sessions are partitioned by may be another column.")
            by = [(name, name) for name in window.partition_by]
        if window.merges and (start is None or len(by) < len(window.partition_by)):
            raise QueryError("The bounds of its windows aren't among its columns.")
        seen = tuple((column, name) for column, name in by if column is not None)
        if len(seen) < len(by):
            raise QueryError("What its windows are partitioned by isn't among its columns.")
        in_time = frozenset(
            column.lower() for column, kind in found.carried.items() if kind in ("window_end", "window_time")
        )
        goes_on = window.merges and not window.grows
        self.window_stages += 1
        self.ranks |= dict.fromkeys(found.ranks)
        at_once = self.under_windows > 0
        identity = digest(text, *(["as it comes"] if at_once else []))
        keys: tuple[frozenset[str], ...] = ()
        if found.certain and found.unique is not None and found.unique <= carried.keys():
            keys = (frozenset(carried[kind] for kind in found.unique),)
        results = WindowResults(
            f"windows_{identity}", found, Relation(keys=keys), str(window), at_once=at_once
        )
        return self._add(
            WindowChanges(
                f"changes_{identity}",
                (self._add(results),),
                end,
                start if window.merges else None,
                seen,
                # A session that goes on takes its result away when the new one comes, which may be long after its end.
                Relation(True, keys=keys)
                if goes_on
                else Relation(True, keys=keys, ends=end, in_time=in_time),
                str(window),
            )
        )

    def _window(self, select: exp.Select, window: Window) -> Operator:
        """The windows of what was joined, grouped or ranked first, or of rows that change: each row at once."""
        self.streams.passes_no_time(select)
        self.under_windows += 1
        below = self._visit(hints.input_of(select))
        self.under_windows -= 1
        if below is None:
            raise QueryError(f"{window} stands over a table that is no stream.")
        changes = self.emission.changes
        if changes and window.merges:
            raise NotMeant(
                f"{window} stands over what was joined, grouped or ranked first, and with early or late results its bounds "
                "would change with rows that change themselves; put it into a model of its own, or leave "
                "first_result_offset and late_updates out."
            )
        if window.emit == "on_change":
            raise QueryError(on_change.refusal(window))
        if not changes:
            below = self._closed(below)
        text = f"select * from {expansion.expand(input_name(0), window)}"
        # Of windows that are made of others' results no row can come when their own state is gone; of others it can, as
        # of a join, and that is no late row of the stream.
        is_bounded = changes and window.time_col.lower() in below.relation.in_time
        open_for = self._open_for(below, window)
        if is_bounded or open_for is not None:
            text = generations.countable(f"({text})", "own.window_end", open_for or 0)
        replaced = set(expansion.WINDOW_COLUMNS)
        keys = tuple(key for key in below.relation.keys if not key & replaced)
        if window.kind != "tumble":
            keys = tuple(key | {"window_end"} for key in keys)
        relation = Relation(
            below.relation.changes,
            keys=keys,
            bounded=below.relation.bounded,
            repeatable=below.relation.repeatable,
            open_until="window_end",
            ends="window_end" if is_bounded else None,
        )
        name = f"windows_{digest(below.name, window.hint())}"
        if open_for is not None:
            relation = replace(relation, open_for=open_for, delays=_delays_in(window, below, open_for))
            below = self._counting_late(below)
            name = f"windows_{digest(below.name, window.hint(), f'open for {open_for}')}"
        if not window.merges:
            return self._add(WindowRows(name, (below,), text, relation, str(window), window))
        if not below.relation.repeatable and below.relation.changes:
            raise QueryError(f"{window} stands over values that are other ones each time.")
        growth = None if below.relation.bounded else UnboundedState("every row", None)
        by = tuple(f"own.{quote(column)}" for column in window.partition_by)
        busy = later(f"cast(own.{quote(window.time_col)} as timestamp)", window.size)
        relation = replace(relation, changes=True)
        below = self._in_time(below, busy)
        made = Recompute(
            name, (below,), text, (by,), ("own",), relation, str(window), growth=growth, busy=busy
        )
        return self._closed(self._add(made))

    def _open_for(self, below: Operator, window: Window) -> int | None:
        """For how many microseconds after its end rows of a window may still come; None: that can't be told."""
        if below.relation.changes or window.merges or self.emission.changes:
            return None
        return below.relation.times.get(window.time_col.lower())

    def _in_time(self, operator: Operator, until: str) -> Operator:
        """Rows without those of which nothing is known any more, some time after they would have counted."""
        ttl = ttl_over(operator, self.ttl)
        if ttl is None:
            return operator
        text = generations.countable(input_name(0), until, ttl)
        name = f"project_{digest(operator.name, text)}"
        return self._add(Project(name, (operator,), text, operator.relation, "rows that may still count"))

    def _closed(self, operator: Operator) -> Operator:
        """The same without what is in windows that are open."""
        end, lasts = operator.relation.open_until, operator.relation.open_for
        if end is None:
            return operator
        relation = replace(operator.relation, open_until=None, open_for=None)
        if lasts is not None:
            together = {end: comes_late(WINDOW_END, lasts)}
            relation = replace(relation, changes=False, ends=None, together=together)
        return self._add(
            WindowClose(
                f"closed_{digest(operator.name)}",
                (operator,),
                end,
                relation,
                f"when {end} has passed",
                lasts=lasts,
            )
        )

    def _closed_unless(self, select: exp.Select, read: Sequence[_From], kept: bool) -> list[_From]:
        """What a SELECT reads, of windows that have closed, unless it hands on what is in open ones."""
        found = []
        for each in read:
            operator = each.operator
            end = None if operator is None else operator.relation.open_until
            if (
                operator is not None
                and end is not None
                and not (kept and end in conditions.outputs(select, each.alias))
            ):
                operator = self._closed(operator)
            found.append(replace(each, operator=operator))
        return found

    # -- set operations ----------------------------------------------------------------------------

    def _set_operation(self, node: exp.SetOperation) -> Operator:
        kind = node.key
        refuse_limit(node)
        node.set("order", None)
        if node.args.get("by_name"):
            raise QueryError(
                f"'{hints.quoted(node)}': BY NAME over a stream is not supported; name the columns in order."
            )
        every = isinstance(node, exp.Union) and not node.args.get("distinct")
        sides = [self._visit(side) for side in (node.this, node.expression)]
        for side, operator in zip((node.this, node.expression), sides, strict=True):
            if operator is None:
                raise QueryError(
                    f"{kind.upper()} puts a stream together with '{hints.quoted(side, 60)}', which is none; read it as a "
                    "stream too: {{ stream(ref('…')) }}."
                )
        left, right = (self._closed(side) for side in sides if side is not None)
        changes = left.relation.changes or right.relation.changes
        bounded = left.relation.bounded and right.relation.bounded
        ends = left.relation.ends
        if ends is not None and self._same_place(node, ends, {right.relation.ends or "": "end"}) is None:
            ends = None
        if every:
            together = {
                name: what
                for name, what in left.relation.together.items()
                if self._same_place(node, name, right.relation.together) == what
            }
            names = [left.name, right.name]
            if self._has_same_columns(node):
                names.sort()  # in either order it is the same relation
            delays = {}
            for name, delay in left.relation.times.items():
                other = self._same_place(node, name, right.relation.times)
                if other is not None and name not in together:
                    delays[name] = max(delay, other)
            return self._add(
                UnionAll(
                    f"union_{digest(*names)}",
                    (left, right),
                    Relation(changes, together, delays=delays, ends=ends, bounded=bounded),
                )
            )
        words = f"{kind}{'' if node.args.get('distinct') else ' all'}"
        return self._multiset(words, (left, right), bounded, ends)

    @staticmethod
    def _has_same_columns(node: exp.SetOperation) -> bool:
        """Whether both sides have columns of the same names in the same order, so that it doesn't matter which is first."""
        left, right = _names_of_sides(node)
        return left == right and "*" not in left and "" not in left

    @staticmethod
    def _same_place(node: exp.SetOperation, name: str, others: Mapping[str, _T]) -> _T | None:
        """What the column of the right side carries that stands where one of the left side does."""
        left, right = _names_of_sides(node)
        if "*" in (*left, *right) or len(left) != len(right) or name not in left:
            return None
        return others.get(right[left.index(name)])

    def _multiset(
        self, words: str, inputs: tuple[Operator, ...], bounded: bool, ends: str | None = None
    ) -> Operator:
        if all(not each.relation.repeatable for each in inputs):
            raise QueryError(f"{words.upper()} of values that are made anew each time, as rand() makes them.")
        relation = Relation(
            words not in ("distinct", "union") or any(i.relation.changes for i in inputs),
            ends=ends,
            bounded=bounded,
        )
        if words == "distinct":
            relation = replace(relation, keys=inputs[0].relation.keys)
        growth = None if bounded or ends else UnboundedState("every different row", None)
        return self._add(
            SetOperation(
                f"set_{digest(words, *(each.name for each in inputs))}",
                inputs,
                _TIMES[words],
                relation,
                words.upper(),
                growth,
                () if ends is None else (ends,) * len(inputs),
            )
        )

    # -- SELECT ------------------------------------------------------------------------------------

    def _select(self, select: exp.Select) -> Operator:
        ranks.check(select)
        single_rows.join(select)
        if is_grouped(select) and on_change.tell_of(select):
            return self._query(select, canonical(select))
        for clause in ("cluster", "distribute", "sort", "order", "hint"):
            select.set(clause, None)
        if select.args.get("distinct"):
            return self._distinct(select)
        read = self._read(select)
        inner = conditions.inner_queries(select)
        streams = [each for each in read if each.operator is not None]
        over = conditions.windows_of(select)
        grouped = is_grouped(select)
        if tests := event_clock.bounds(select):
            by_row = len(streams) == 1 and not (inner or over or grouped)
            if (over or grouped) and len(read) > 1 and not inner:
                split_joins.split(select)
                return self._select(select)
            if not by_row or not self._hands_on_end(select, streams[0]):
                return self._select(self._judged_below(select, read, tests))
            if not any(map(hints.is_stand_in, tests[0].walk())):
                return self._temporal_filter(select, tests[0])
            self._check_judged(tests[0], streams[0])
        check_joins([From(e.alias, e.node, "rows" if e.operator else "static", {}, e.join) for e in read])
        of_windows = next(hints.windows_under(select), None) is not None
        if grouped and not (inner or of_windows) and (asked := subqueries_below.of_tables(select)):
            if subqueries_below.put(select, asked):
                return self._select(select)
        if grouped or over:
            if len(read) > 1 or inner or (grouped and select.args.get("laterals")):
                if asked := conditions.inner_queries(select, ("expressions", "having", "group")):
                    if subqueries_below.put(select, asked):
                        return self._select(select)
                    if over or conditions.inner_queries(select, ("group",)):
                        raise QueryError(
                            "A subquery over a stream stands in a GROUP BY, or beside OVER or LIMIT; join it in a query "
                            "below, or put the GROUP BY into one."
                        )
                    return self._over_groups(select)
                split_joins.split(select)
                return self._select(select)
            if grouped:
                return self._group(select, read[0])
            return self._over(select, *self._closed_unless(select, read, False))
        if len(streams) == 1 and not inner:
            return self._project(select, self._closed_unless(select, read, True))
        return self._join(select, self._closed_unless(select, read, False), inner)

    def _distinct(self, select: exp.Select) -> Operator:
        rows = select.copy()
        rows.set("distinct", None)
        if isinstance(select.args["distinct"].args.get("on"), exp.Expr):
            raise QueryError("DISTINCT ON is not Spark SQL; filter on ROW_NUMBER() = 1.")
        grouped = _grouped_by_all(rows)
        below = self._visit(_as_it_ends(rows, ranks.ended(select)))
        assert below is not None
        below = self._closed(below)
        together = frozenset(below.relation.together)
        if together and not below.relation.changes:
            # Equal rows come in one micro-batch.
            text = f"select distinct * from {input_name(0)}"
            return self._local("distinct", (below,), text, replace(below.relation, keys=()))
        if below.relation.keys:
            return below  # no row is there twice
        if grouped is not None:
            return self._select(grouped)
        covered = not rows.is_star and all(
            is_finite(item, rows) or self._is_covered(key_names.names_of(Key("", sql(item.unalias())), rows))
            for item in rows.expressions
        )
        return self._multiset("distinct", (below,), below.relation.bounded or covered, below.relation.ends)

    def _read(self, select: exp.Select) -> list[_From]:
        found = []
        for number, (node, join) in enumerate(joined(select)):
            operator = self._visit(node)
            alias = node.alias_or_name
            if operator is not None:
                _check_relation(node, join, operator.relation.changes)
            if (
                operator is not None
                and node.args.get("alias") is not None
                and node.args["alias"].args.get("columns")
            ):
                raise QueryError(
                    f"'{sql(node)[-60:]}' renames the columns of a stream in FROM; name them in its select list."
                )
            if operator is not None and not alias:
                alias = f"{key_names.OWN_ALIAS}{number}"
                node.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
            found.append(_From(alias, node, join, operator))
        return found

    def _template(self, select: exp.Select, read: Sequence[_From]) -> tuple[exp.Select, tuple[Operator, ...]]:
        """A SELECT over ``__input_n`` in the place of its operators, and these."""
        made = select.copy()
        inputs: list[Operator] = []
        for each, node in zip(read, relations(made), strict=True):
            if each.operator is not None:
                table = _table(input_name(len(inputs)), each.alias)
                for name in ("pivots", "sample"):
                    table.set(name, node.args.get(name))
                node.replace(table)
                inputs.append(each.operator)
        for query in conditions.inner_queries(made):
            if conditions.is_one_row(query):
                # It is kept as the one row that it is, not as all those that it is of.
                operator = self._visit(query.copy())
                assert operator is not None
                query.replace(
                    exp.Select(expressions=[exp.Star()]).from_(_table(input_name(len(inputs)), "one_row"))
                )
                inputs.append(self._closed(operator))
                continue
            for part in query.find_all(exp.Select):
                for node in relations(part):
                    operator = self._visit(node)
                    if operator is not None:
                        operator = self._closed(operator)
                        _check_relation(node, None)
                        alias = node.alias_or_name
                        node.replace(_table(input_name(len(inputs)), alias or input_name(len(inputs))))
                        inputs.append(operator)
        for table in made.find_all(exp.Table):
            if hints.is_stream(table):
                lateral = table.find_ancestor(exp.Lateral)
                if lateral is not None:
                    raise QueryError(
                        f"'{hints.quoted(lateral)}' reads a stream for each row; write it as a join with its conditions "
                        "in ON, and where only the first of these rows are asked for, filter on a ROW_NUMBER() over that."
                    )
                raise QueryError(
                    f"'{hints.quoted(select)}' reads a stream in a place where its rows can't be told apart from those "
                    "before; put it into FROM or JOIN."
                )
        return made, tuple(inputs)

    # -- row by row --------------------------------------------------------------------------------

    @staticmethod
    def _hands_on_end(select: exp.Select, source: _From) -> bool:
        """Whether a SELECT hands on what is in open windows, if there are any."""
        assert source.operator is not None
        end = source.operator.relation.open_until
        return end is None or end in conditions.outputs(select, source.alias)

    def _judged_below(
        self, select: exp.Select, read: Sequence[_From], tests: Sequence[exp.Expr]
    ) -> exp.Select:
        """The same with its predicates on the time that goes by in a query in FROM, over the rows that they are of. Changes
        the tree."""
        streams = [each for each in read if each.operator is not None]
        preserved = not any((each.join is not None and each.join.side in ("RIGHT", "FULL")) for each in read)
        by_source: dict[str, list[exp.Expr]] = {}
        for test in tests:
            column = event_clock.column_of(test)
            found = [
                each
                for each in (read if column.table else streams)
                if column.table.lower() in ("", each.alias.lower())
            ]
            inner = found[0].join is None or conditions.is_inner(found[0].join) if found else False
            if len(found) != 1 or found[0].operator is None or not inner or not preserved:
                raise QueryError(
                    f"'{event_clock.written(test)}' stands beside a join, and rows are judged by the time that goes by "
                    "before they are joined; write it in a query in FROM, over the stream alone."
                )
            by_source.setdefault(found[0].alias, []).append(test)
        rest = [test for test in conjuncts(select.args["where"].this) if test not in tests]
        for each in streams:
            if own := by_source.get(each.alias):
                star = exp.Column(this=exp.Star(), table=exp.to_identifier(each.alias, quoted=True))
                alias = exp.TableAlias(this=exp.to_identifier(each.alias, quoted=True))
                below = exp.Select(expressions=[star]).from_(each.node.copy())
                below.set("where", exp.Where(this=exp.and_(*own)))
                each.node.replace(exp.Subquery(this=below, alias=alias))
        select.set("where", exp.Where(this=exp.and_(*rest)) if rest else None)
        return select

    @staticmethod
    def _check_judged(test: exp.Expr, source: _From) -> None:
        """Passes a predicate that rows are judged by as they come, where they do.

        Raises:
            QueryError: they change, or come later.
        """
        operator = source.operator
        assert operator is not None
        if operator.relation.changes:
            raise QueryError(
                f"'{event_clock.written(test)}' over rows that change: in a query with windows a row is judged when it "
                "comes, and one that is taken back would be judged otherwise; write it over the stream itself, below the "
                "window function."
            )
        for each in in_order(operator):
            at_once = isinstance(each, Source | Project | UnionAll | WindowRows)
            if not (at_once or (isinstance(each, WindowResults) and not each.plan.stages)):
                event_clock.refuse_kept(test)

    def _temporal_filter(self, select: exp.Select, test: exp.Expr) -> Operator:
        """A SELECT, row by row over a stream, whose rows leave as time goes by; all else that it does is done below."""
        found = event_clock.lower_bound(test)
        assert found is not None
        column, _, length, included = found
        # At `ts = now - length` a row is still in for >= and out for >.
        stays = length + included
        rows = select.copy()
        rest = [each for each in conjuncts(rows.args["where"].this) if each != test]
        rows.set("where", exp.Where(this=exp.and_(*rest)) if rest else None)
        rows.append("expressions", exp.alias_(column.copy(), TIME_OF_ROW, quoted=True))
        below = self._select(rows)
        if below.relation.changes:
            raise QueryError(
                f"'{sql(test)}' over rows that change is not supported; put it into the model that makes them."
            )
        if any(isinstance(each, LateRows) for each in in_order(below)):
            # What is late is told once the watermark is known, and that rows are to come, before.
            raise QueryError(
                f"'{sql(test)}' over a join that time bounds is not supported; put it on the streams below the join, "
                "or into a model of its own that reads the join's."
            )
        if self.ttl is not None and self.ttl < stays:
            raise QueryError(
                f"'{sql(test)}' keeps rows for longer than config 'state_ttl' does ({intervals.format(self.ttl)}), and what "
                "stands above would forget them before they leave; give it at least as long."
            )
        return self._leaving(below, stays, sql(test))

    def _leaving(self, rows: Operator, stays: int, test: str) -> Operator:
        """Rows, each with its event time in a hidden column, until they leave."""
        relation = replace(
            rows.relation,
            changes=True,
            together={},
            event_time=None,
            delays={},
            open_for=None,
            bounded=True,
        )
        return self._add(
            TemporalFilter(f"recent_{digest(rows.name, str(stays))}", (rows,), stays, relation, test)
        )

    def _leaving_above(
        self, select: exp.Select, read: Sequence[_From], source: _From, below: TemporalFilter
    ) -> Operator:
        """A SELECT, row by row over rows that leave, as rows that leave over the SELECT: what it computes of a row, or reads
        of a table for it, is kept with the row, and less is kept."""
        (rows,) = below.inputs
        made = select.copy()
        hide_from_stars(made, [(source.alias, TIME_OF_ROW)])
        time = exp.column(TIME_OF_ROW, table=source.alias, quoted=True)
        made.append("expressions", exp.alias_(time, TIME_OF_ROW, quoted=True))
        instead = [replace(each, operator=rows) if each is source else each for each in read]
        return self._leaving(self._project(made, instead), below.lasts, below.label)

    def _project(self, select: exp.Select, read: Sequence[_From]) -> Operator:
        (source,) = (each for each in read if each.operator is not None)
        below = source.operator
        assert below is not None
        if isinstance(below, TemporalFilter):
            return self._leaving_above(select, read, source, below)
        template, inputs = self._template(select, read)
        relation = below.relation
        random = not conditions.is_repeatable(template)
        outside = len(read) > 1 or conditions.reads_tables(template)
        is_kept = relation.changes and (random or outside)
        one_to_one = len(read) == 1 and not _multiplies(select) and not source.node.args.get("pivots")
        outputs = conditions.outputs(select, source.alias)
        of_item = partial(
            delay_of, of_column=lambda column: conditions.carried(column, source.alias, relation.times)
        )
        keys: tuple[frozenset[str], ...] = ()
        if one_to_one:
            keys = (
                outputs.carry_keys(relation.keys)
                if not outputs.star
                else tuple(key for key in relation.keys if not key & outputs.hidden)
            )
        made = Relation(
            relation.changes,
            outputs.carry(relation.together),
            open_until=None if relation.open_until is None else outputs[relation.open_until],
            open_for=relation.open_for,
            ends=outputs[relation.ends] if relation.ends and relation.ends in outputs else None,
            in_time=frozenset(outputs[name] for name in relation.in_time if name in outputs),
            event_time=outputs[time] if (time := relation.event_time) and time in outputs else None,
            delays={**outputs.carry(relation.delays), **_delays_of_computed(select, of_item)},
            keys=keys,
            bounded=relation.bounded and not (select.args.get("laterals") and random),
            # What was read of a table is read once for each row that comes.
            repeatable=relation.repeatable and (is_kept or not random),
        )
        if is_kept:
            template = with_row(template, source.alias)
            growth = None if relation.bounded or relation.ends else UnboundedState("every row", None)
            name = f"given_{digest(below.name, canonical(template))}"
            ends = () if relation.ends is None else (relation.ends,)
            return self._add(
                MaterializedProject(name, inputs, sql(template), made, _short(select), growth, ends)
            )
        if relation.changes:
            template = with_weight(template, [(source.alias, WEIGHT)])
        text = sql(template)
        return self._add(
            Project(f"project_{digest(below.name, canonical(template))}", inputs, text, made, _short(select))
        )

    def _local(self, what: str, inputs: tuple[Operator, ...], text: str, relation: Relation) -> Operator:
        name = f"local_{digest(what, text, *(each.name for each in inputs))}"
        return self._add(Local(name, inputs, text, replace(relation, changes=False), what))

    # -- GROUP BY ----------------------------------------------------------------------------------

    def _group(self, select: exp.Select, source: _From) -> Operator:
        below = source.operator
        if below is None:
            raise QueryError("The query reads no stream.")
        relation = below.relation
        template, inputs = self._template(select, [source])
        if not _is_repeatable(template, inputs):
            problem = QueryError(
                f"'{hints.quoted(select)}' groups and holds a function that gives another value each time; compute it in a "
                "query below."
            )
            if relation.changes or conditions.windows_of(select):
                raise problem
            try:
                # Of rows that only come it is asked once.
                return self._aggregate(select, template, source, below)
            except NotMergeable:
                raise problem from None
        found = grouping(select)
        in_all = [
            key
            for index, key in enumerate(found.keys)
            if found.sets is None or all(index in members for members in found.sets)
        ]
        one_each = found.sets is None and not conditions.explodes(select)
        key_columns = self._key_columns(select, found.keys) if one_each else None
        outputs = conditions.outputs(select, source.alias)
        together = {name: what for name, what in outputs.carry(relation.together).items()}
        if not relation.changes and any(
            conditions.carried(key, source.alias, relation.together) for key in in_all
        ):
            if conditions.windows_of(select):
                return self._over_groups(select)
            break_ties(template)
            made = Relation(together=together, keys=(key_columns,) if key_columns else ())
            return self._local("GROUP BY", inputs, sql(template), made)
        fixed = self._fixed_keys(in_all, select)
        end = relation.open_until
        if end is not None and not any(conditions.carried(key, source.alias, {end: end}) for key in in_all):
            below = self._closed(below)
        try:
            return self._aggregate(select, template, source, below)
        except NotMergeable as refused:
            reason = str(refused)
        if conditions.windows_of(select):
            return self._over_groups(select)
        if below.relation.open_for is not None:
            return self._group(select, replace(source, operator=self._closed(below)))
        written = select.copy()
        conditions.order_lists(select)
        template, inputs = self._template(select, [replace(source, operator=self._closed(below))])
        shown = [shown_as(template, key) for key in in_all]
        is_replaced = bool(select.meta.get(_AT_ROOT)) and key_columns is not None and None not in shown
        if relation.changes or not is_replaced:
            # Else a group's row is found by its key, whatever it said, and is of the rows that came.
            self._refuse_chance(
                select, key_columns, partial(conditions.why_not_again, select), f"{reason}, and "
            )
        keys = tuple(sql(key) for key in in_all)
        made = Relation(
            True,
            keys=(key_columns,) if key_columns is not None else (),
            bounded=fixed or relation.bounded,
            ends=self._passed_end(select, source.alias, relation, in_all),
        )
        growth = None
        if not all(each.relation.bounded for each in inputs):
            growth = UnboundedState("every row", None, bounded=self._bounded_by_time(written, source))
        groups = self._recompute(
            select, template, inputs, (keys,), (source.alias,), made, reason, growth=growth
        )
        if is_replaced and isinstance(groups, Recompute) and not groups.ends:
            # What it keeps is of its rows and keys alone, whatever is computed of them.
            name = f"groups_{digest(groups.inputs[0].name, *keys)}"
            return self._add(replace(groups, name=name, shown=tuple(map(str, shown))))
        return groups

    def _over_groups(self, select: exp.Select) -> Operator:
        """A GROUP BY with what is asked of its groups, all of them, in a SELECT above it: OVER, what became of LIMIT and
        QUALIFY, and queries inside."""
        above = above_groups.lifted(select)
        if select.parent is not None:
            select.replace(above)
        return self._select(above)

    @staticmethod
    def _passed_end(
        select: exp.Select, alias: str, relation: Relation, keys: Sequence[exp.Expr]
    ) -> str | None:
        """The column in which the end of the windows is handed on whose rows are put together by it."""
        end = relation.ends
        if end is None or not any(conditions.carried(key, alias, {end: end}) for key in keys):
            return None
        outputs = conditions.outputs(select, alias)
        return outputs[end] if end in outputs else None

    def _fixed_keys(self, keys: Sequence[exp.Expr], select: exp.Select) -> bool:
        """Whether the sets of values of all keys don't grow, by what they are or what is said of them."""
        return all(
            is_finite(key, select) or self._is_covered(key_names.names_of(Key("", sql(key)), select))
            for key in keys
        )

    def _is_covered(self, names: tuple[str, ...]) -> bool:
        alias, *columns = names or ("",)
        return alias in self.domains or (bool(names) and all(column in self.domains for column in columns))

    @staticmethod
    def _key_columns(select: exp.Select, keys: Sequence[exp.Expr]) -> frozenset[str] | None:
        """The output columns that are the group keys; None: not all are put out."""
        same = unqualified(select)
        by_text = {canonical(item.unalias(), same): item.alias_or_name.lower() for item in select.expressions}
        found = set()
        for key in keys:
            name = by_text.get(canonical(key, same))
            if name is None:
                return None
            found.add(name)
        return frozenset(found)

    def _aggregate(
        self, select: exp.Select, template: exp.Select, source: _From, below: Operator
    ) -> Operator:
        """Partial aggregates per key; of open windows, whose end is among the keys, when these have closed.

        Raises:
            NotMergeable: the aggregates can't be kept so.
        """
        signed = below.relation.changes
        builder = StageBuilder(template, [From(source.alias, source.node, "rows", {})], None, signed)
        keys = tuple(builder.keys)
        open_for = below.relation.open_for
        end_of_rows = below.relation.ends if open_for is None else below.relation.open_until
        open_until, ends = (
            self._key_of_end(keys, source.alias, end, builder.grouping_sets)
            for end in (below.relation.open_until, end_of_rows)
        )
        delays = {
            key: delay
            for column, delay in below.relation.times.items()
            if (key := self._key_of_end(keys, source.alias, column, builder.grouping_sets)) is not None
        }
        in_time = (
            self._key_of_end(keys, source.alias, each, builder.grouping_sets)
            for each in below.relation.in_time
        )
        is_timed = ttl_over(below, self.ttl) is not None or ends is not None
        identity = digest(
            below.name,
            conditions.row_source(template),
            *sorted(key.sql for key in keys),
            builder.grouping_sets,
        )
        groups = f"group_{identity}"
        name = f"{groups}_{digest(*(m.sql for m in builder.metrics.values()))}"
        enumerated = self.rewrites.enumerated(select, groups, builder, ttl_over(below, self.ttl))
        self.rewrites.split(select, groups, builder)
        rows = builder.rows([*(["row_time"] if is_timed else []), *(["sign"] if signed else [])])
        stage = GroupStage(
            name=name,
            level=0,
            streams=(),
            rows=rows,
            source=builder.source,
            keys=keys,
            grouping_sets=builder.grouping_sets,
            metrics=tuple(builder.metrics.values()),
            distinct_sets=builder.distinct_sets,
            growth=None,
            signed=signed,
            enumerated=enumerated,
            written=sql(hints.user_tree(template)),
        )
        growing = [key for key in keys if not is_finite(exp.maybe_parse(key.sql, dialect=DIALECT), select)]
        covered = all(self._is_covered(key_names.names_of(key, select)) for key in growing)
        bounded = covered or below.relation.bounded
        growth = (
            None
            if bounded or ends
            else UnboundedState(
                f"something for every value of {', '.join(key.sql for key in growing)}",
                frozenset(key_names.names_of(key, select)[0] or _first_column(key) for key in growing),
                bounded=self._bounded_by_time(select, source),
            )
        )
        ids = frozenset(key.name.lower() for key in keys) | (
            {"grouping_id"} if builder.grouping_sets is not None else set()
        )
        group = self._add(
            GroupAggregate(
                name,
                (below,),
                stage,
                Relation(
                    True,
                    keys=(ids,),
                    bounded=bounded,
                    open_until=open_until,
                    open_for=None if open_until is None else open_for,
                    ends=ends,
                    in_time=frozenset(filter(None, in_time)),
                    delays=delays,
                ),
                _group_label(select),
                growth,
                groups,
                () if ends is None else (str(end_of_rows),),
                open_for or 0,
            )
        )
        group = self._closed(group)
        above = builder.finished(self._place(group, "groups"))
        if select.parent is not None:
            select.replace(above)  # the filter around it says where a ranking ends
        return self._select(above)

    @staticmethod
    def _key_of_end(
        keys: Sequence[Key], alias: str, end: str | None, sets: Sequence[Sequence[str]] | None
    ) -> str | None:
        """The key that is the column with the end of a window, in every grouping set."""
        for key in keys if end is not None else ():
            node: exp.Expr = exp.maybe_parse(key.sql, dialect=DIALECT)
            in_all = all(key.name in members for members in sets or ())
            if in_all and conditions.carried(node, alias, {str(end): "end"}) is not None:
                return key.name.lower()
        return None

    # -- OVER --------------------------------------------------------------------------------------

    def _over(self, select: exp.Select, source: _From) -> Operator:
        below = source.operator
        if below is None:
            raise QueryError("The query reads no stream.")
        relation, written = below.relation, select.copy()
        break_ties(select)
        conditions.order_all(select, source.alias)
        template, inputs = self._template(select, [source])
        ranked = ranks.ranks(select)
        is_first = ranked.keys() <= ranks.ended(select).keys() and len(ranked) == 1
        # Of the first of rows that only come each is computed once.
        is_once = is_first and not relation.changes and len(conditions.windows_of(select)) == len(inputs) == 1
        if not _is_repeatable(template, inputs) and not is_once:
            raise QueryError(
                f"'{hints.quoted(written)}' ranks and holds a function that gives another value each time; compute it in a "
                "query below."
            )
        over = conditions.windows_of(select)
        lists = [[canonical(key) for key in each.args.get("partition_by") or ()] for each in over]
        first = over[0].args.get("partition_by") or []
        common = [key for key in first if all(canonical(key) in texts for texts in lists)]
        outputs = conditions.outputs(select, source.alias)
        if not relation.changes and any(
            conditions.carried(key, source.alias, relation.together) for key in common
        ):
            made = Relation(
                together=outputs.carry(relation.together),
                keys=self._rank_keys(select, common, ranks.ended(select)),
            )
            return self._local("OVER", inputs, sql(template), made)
        if (in_time := self._over_in_time(select, template, source, inputs)) is not None:
            return in_time
        bounds = ranks.ended(select)
        for name, rank in ranked.items():
            if name in bounds:
                self.ranks.setdefault(sql(rank))
        # Without an end it is an OVER as any other.
        is_ended = ranked.keys() <= bounds.keys()
        keys = (tuple(sql(key) for key in common),)
        covered = self._fixed_keys(common, select)
        kept = () if _multiplies(select) else outputs.carry_keys(relation.keys)
        made = Relation(
            True,
            # Where the rows of before were told apart they are so however many places are asked for.
            keys=(*kept, *self._rank_keys(select, common, {} if kept else bounds)),
            bounded=relation.bounded or (covered and is_ended and len(ranked) == len(over)),
            ends=self._passed_end(select, source.alias, relation, common),
        )
        top = None
        if (
            not relation.changes
            and is_ended
            and len(over) == len(ranked) == 1
            and not select.args.get("laterals")
        ):
            ((name, rank),) = ranked.items()
            where = template.args.get("where")
            (placed,) = conditions.windows_of(template)
            top = Top(sql(placed), bounds[name], sql(where.this) if where else None)
        growth = None
        if relation.ends is None and not relation.bounded and not (top is not None and covered):
            growth = UnboundedState(
                f"rows for every value of {', '.join(keys[0])}" if top and keys[0] else "every row",
                frozenset(_names_in(common)) if top else None,
                next(
                    (
                        ranks.refusal(rank, name, "all rows that ever come")
                        for name, rank in ranks.ranks(written).items()
                        if not is_ended
                    ),
                    "",
                ),
                bounded=self._bounded_by_time(written, source),
            )
        # What stands above a ranking whose groups expire goes by its rows' own lives.
        lives = ttl_over(inputs[0], self.ttl) is None or bool(select.meta.get(_AT_ROOT))
        if (
            lives
            and is_ended
            and relation.changes
            and len(over) == len(ranked) == 1
            and not _multiplies(select)
        ):
            ((name, _),) = ranked.items()
            found = rankings.of_groups(
                select,
                template,
                source.alias,
                inputs[0],
                name,
                bounds[name],
                made,
                expires=ttl_over(inputs[0], self.ttl) is not None,
            )
            if found is not None:
                return self._ranked(replace(found, growth=growth))
        if top is not None and len(inputs) == 1 and not _multiplies(select):
            ((name, _),) = ranked.items()
            if self._comes_once(select, source, bounds[name]):
                made = replace(made, changes=False)
            is_timed = ttl_over(inputs[0], self.ttl) is not None or not made.changes
            found = rankings.of_rows(
                select, template, source.alias, inputs[0], name, bounds[name], made, is_timed
            )
            if found is not None:
                return self._ranked(replace(found, growth=growth))
        self._refuse_chance(select, made.key, partial(conditions.why_not_over_again, template, relation.keys))
        return self._recompute(
            select, template, inputs, keys, (source.alias,), made, "OVER", top=top, growth=growth
        )

    @staticmethod
    def _comes_once(select: exp.Select, source: _From, last: int) -> bool:
        """Whether the result is the first row in order of event time, which is put out when no other can come before it."""
        (rank,) = conditions.windows_of(select)
        order = rank.args["order"].expressions
        assert source.operator is not None
        time = source.operator.relation.event_time
        by = 2 if tie(select) is not None else 1  # what ties are broken by stands last
        return (
            bool(select.meta.get(_AT_ROOT))
            and last == 1
            and isinstance(rank.this, exp.RowNumber)
            and len(order) == by
            and not order[0].args.get("desc")
            and time is not None
            and conditions.carried(order[0].this, source.alias, {time: True}) is not None
        )

    def _ranked(self, operator: TopN) -> Operator:
        """A ranking, in buckets if that is asked for."""
        if self.rewrites.topn_buckets is not None:
            self.rewrites.split_ranking(operator.name)
            operator = replace(operator, top=replace(operator.top, buckets=self.rewrites.topn_buckets))
        there = self.operators.get(operator.name)
        if isinstance(there, TopN) and there.top.rows != operator.top.rows:
            operator = replace(operator, name=f"{operator.name}_{operator.top.rows}")
        return self._add(operator)

    def _over_in_time(
        self, select: exp.Select, template: exp.Select, source: _From, inputs: tuple[Operator, ...]
    ) -> Operator | None:
        """OVER in order of event time, whose rows never change; None: it is in another order, or looks at later rows."""
        assert source.operator is not None
        relation = source.operator.relation
        over = conditions.windows_of(select)
        waits = relation.event_time is not None
        time = ordered_by(over[0], source.alias)
        if relation.changes or time is None or _multiplies(select):
            return None
        in_order = relation.event_time == time if waits else comes_in_order(relation.together.get(time))
        reached = reach(over, time, source.alias) if in_order else None
        if reached is None:
            return None
        if select.args.get("where"):
            # Of the rows that are kept each is one that frames have.
            return self._over(*self._filtered_below(select, source))
        keys = over[0].args.get("partition_by") or []
        covered = self._fixed_keys(keys, select)
        # A partition within a window ends with it.
        timed = {column: column for column in relation.times}
        ending = filter(None, (conditions.carried(key, source.alias, timed) for key in keys))
        until = tuple((column, relation.times[column]) for column in sorted(ending))[:1]
        growth = None
        if not until and reached.everything and not relation.bounded:
            growth = UnboundedState("every row", None)
        elif not until and reached.rows and keys and not covered:
            last = "the last row" if reached.rows == 1 else f"the last {reached.rows} rows"
            growth = UnboundedState(
                f"{last} for every value of {', '.join(map(sql, keys))}", frozenset(_names_in(keys))
            )
        outputs = conditions.outputs(select, source.alias)
        made = Relation(
            together=outputs.carry({**relation.together, **({time: EVENT_TIME} if waits else {})}),
            keys=outputs.carry_keys(relation.keys),
        )
        text = canonical(template)
        weighed = with_weight(template, [(source.alias, WEIGHT)])
        if self.ttl is not None:
            _begin_anew(weighed, source.alias)
        (below,) = inputs
        return self._add(
            OverAggregate(
                f"over_{digest(below.name, text)}",
                inputs,
                sql(weighed),
                tuple(map(sql, keys)),
                source.alias,
                time,
                reached,
                made,
                "OVER",
                waits,
                growth,
                until,
            )
        )

    def _filtered_below(self, select: exp.Select, source: _From) -> tuple[exp.Select, _From]:
        """The same with its WHERE in a query of its own, in FROM."""
        made = select.copy()
        (node,) = relations(made)
        star = exp.Column(this=exp.Star(), table=exp.to_identifier(source.alias, quoted=True))
        filtered = exp.Select(expressions=[star]).from_(node.copy()).where(made.args["where"].this.copy())
        made.set("where", None)
        node.replace(
            exp.Subquery(
                this=filtered, alias=exp.TableAlias(this=exp.to_identifier(source.alias, quoted=True))
            )
        )
        (node,) = relations(made)
        return made, replace(source, node=node, operator=self._visit(node))

    def _bounded_by_time(self, select: exp.Select, source: _From) -> str:
        """A query over a stream with a predicate on time that bounds its state; empty: it is over something else."""
        below = source.operator
        time = None if below is None else below.relation.event_time
        while isinstance(below, Project):
            (below,) = below.inputs
        if time is None or not isinstance(below, Source) or not hints.reads_stream(source.node):
            return ""
        relations = {stream.view: stream.relation for stream in self.streams.streams.values()}
        return key_names.with_predicate(select, time, relations)

    @staticmethod
    def _rank_keys(
        select: exp.Select, common: Sequence[exp.Expr], bounds: Mapping[str, int]
    ) -> tuple[frozenset[str], ...]:
        """A row number, with what it counts within, identifies a row; of the first one this alone does."""
        if conditions.explodes(select):
            return ()
        for name, rank in ranks.ranks(select).items():
            if isinstance(rank.this, exp.RowNumber):
                within = [shown_as(select, key) for key in rank.args.get("partition_by") or ()]
                if None not in within:
                    own = {*filter(None, within)}
                    return (frozenset(own if bounds.get(name) == 1 else {name, *own}),)
        return ()

    # -- joins, subqueries -------------------------------------------------------------------------

    def _join(self, select: exp.Select, read: Sequence[_From], inner: Sequence[exp.Query]) -> Operator:
        if not any(each.operator for each in read):
            raise QueryError(
                f"'{hints.quoted(inner[0])}' reads a stream inside an expression of a query over a table that is no stream; "
                "read that as a stream too."
            )
        if inner and (joins_only := semi_joins.as_joins(select)) is not None:
            asked = self._read(joins_only)
            if all(
                each.operator and not each.operator.relation.changes for each in asked
            ) and self._until_alone(joins_only, asked):
                return self._join(joins_only, self._closed_unless(joins_only, asked, False), ())
        streaming = [each.operator is not None for each in read]
        asks = any(
            (join.args.get("on") or exp.true()).find(exp.Query) for join in select.args.get("joins") or ()
        )
        is_beside = not all(streaming) and not asks
        if is_beside and inner and (column := unclear(select)) is not None:
            raise QueryError(
                f"'{hints.quoted(select)}' joins a table, and asks in a query inside for '{column.name}', without saying "
                f"whose column it is; write the relation's name before it, as in t.{column.name}."
            )
        if is_beside and nest(select, streaming, whole=sum(streaming) == 1):
            return self._select(select)
        if all(streaming) and not inner and not asks and _put_filters_below(select, read):
            return self._select(select)
        template, inputs = self._template(select, read)
        if (
            all(streaming)
            and not inner
            and not asks
            and conditions.reads_tables(template)
            and nest(select, streaming, whole=True)
        ):
            return self._select(select)
        if not _is_repeatable(template, inputs):
            raise QueryError(
                f"'{hints.quoted(select)}' joins streams and holds a function that gives another value each time; compute "
                "it in a query below."
            )
        streams = [each for each in read if each.operator is not None]
        if self._put_tests_of_tables_below(select, read):
            return self._select(select)
        if len(streams) < len(read) or conditions.reads_tables(template):
            raise QueryError(
                f"'{hints.quoted(select)}' joins streams and a table that is no stream in one SELECT; join that in a query "
                "below or above, so that it is clear which rows it belongs to."
            )
        relations = [each.relation for each in inputs]
        aliases = tuple(each.alias for each in streams)
        equal = conditions.equal_columns(select, [e.alias for e in streams])
        outputs = conditions.outputs_of_join(
            select, [(e.alias, e.operator.relation) for e in streams if e.operator]
        )
        plain = not inner and all(conditions.is_inner(each.join) for each in streams)
        bounded = all(relation.bounded for relation in relations)
        if not inner and not any(relation.changes for relation in relations):
            for group in equal:
                kinds = {
                    conditions.carried(part, alias, relation.together)
                    for (alias, part), relation in zip(
                        [(alias, group.get(alias)) for alias in aliases], relations, strict=True
                    )
                    if part is not None
                }
                if len(group) == len(aliases) and len(kinds) == 1 and None not in kinds:
                    keys = self._join_keys(select, streams, outputs)
                    return self._local(
                        "JOIN", inputs, sql(template), Relation(together=outputs.together, keys=keys)
                    )
        keys = self._join_keys(select, streams, outputs)
        changes = any(relation.changes for relation in relations)
        ends = () if inner else self._equal_ends(equal, aliases, relations)
        bounds = TimeBounds(select, _times(streams)) if plain and not changes else None
        until = None if bounds is None else bounds.until()
        growth = (
            None
            if bounded or ends or until
            else UnboundedState("every row of both sides", None, or_else=_IN_TIME if plain else "")
        )
        passed = next(filter(None, (outputs.ends.get(alias.lower()) for alias in aliases)), None)
        if plain:
            if until:
                inputs = tuple(map(self._counting_late, inputs))
            weighed = [(each.alias, weight_of(number)) for number, each in enumerate(streams)]
            text = sql(with_weight(template, weighed) if changes else template)
            name = f"join_{digest(canonical(template), *(each.name for each in inputs))}"
            found = bounds.delays(until) if bounds and until else {}
            delays = _delays_of(select, streams, found, outputs)
            return self._add(
                Join(
                    name,
                    inputs,
                    text,
                    Relation(
                        changes, delays=delays, keys=keys, bounded=bounded, ends=passed if ends else None
                    ),
                    _short(select),
                    growth,
                    ends,
                    tuple(until[alias.lower()] for alias in aliases) if until else (),
                )
            )
        alone = None if inner or changes else self._until_alone(select, streams)
        if alone:
            inputs = tuple(map(self._counting_late, inputs))
            growth = None
            if not any(each.join is not None and each.join.kind == "SEMI" for each in streams):
                return self._outer_in_time(select, template, inputs, streams, alone, keys, outputs)
        partitions = conditions.partitions(select, template, [e.alias for e in streams], len(inputs))
        all_aliases = (*aliases, *conditions.inner_aliases(template, len(aliases), len(inputs)))
        if any(each.join is not None and each.join.side in ("RIGHT", "FULL") for each in streams):
            # Rows of either side that meet none may be told apart by NULLs alone.
            keys = ()
        by_end = self._ends_among(partitions, all_aliases, relations)
        relation = Relation(True, keys=keys, bounded=bounded, ends=passed if by_end else None)
        if alone:
            # A row that has found one stays.
            found = TimeBounds(select, _times(streams)).delays(alone)
            relation = Relation(False, delays=_delays_of(select, streams, found, outputs), keys=keys)
        if by_end:
            growth = None
        for query in conditions.inner_queries(template):
            conditions.order_lists(query)
            self._refuse_chance(
                select, relation.key, partial(conditions.why_not_again, query), after=", and join that"
            )
        return self._recompute(
            select,
            template,
            inputs,
            partitions,
            all_aliases,
            relation,
            _short(select),
            growth=growth,
            until=tuple(alone[alias.lower()] for alias in aliases) if alone else (),
        )

    @staticmethod
    def _put_tests_of_tables_below(select: exp.Select, read: Sequence[_From]) -> bool:
        """Puts the conditions that ask tables that are no streams (EXISTS, IN) into a query below, where one relation alone
        stands in FROM; whether there were any. Changes the tree."""
        where = select.args.get("where")
        if len(read) != 1 or where is None or select.args.get("laterals"):
            return False
        (source,) = read
        tests = conjuncts(where.this)
        below = [test for test in tests if test.find(exp.Query) and not _reads_stream(test)]
        if not below:
            return False
        rest = [test.copy() for test in tests if test not in below]
        star = exp.Column(this=exp.Star(), table=exp.to_identifier(source.alias, quoted=True))
        made = exp.Select(expressions=[star]).from_(source.node.copy())
        made.set("where", exp.Where(this=exp.and_(*(test.copy() for test in below), copy=False)))
        select.set("where", exp.Where(this=exp.and_(*rest, copy=False)) if rest else None)
        alias = exp.TableAlias(this=exp.to_identifier(source.alias, quoted=True))
        source.node.replace(exp.Subquery(this=made, alias=alias))
        return True

    def _outer_in_time(
        self,
        select: exp.Select,
        template: exp.Select,
        inputs: tuple[Operator, ...],
        streams: Sequence[_From],
        until: Mapping[str, Until],
        keys: tuple[frozenset[str], ...],
        outputs: conditions.Outputs,
    ) -> Operator:
        """An outer or anti join of two relations that time bounds: its rows never change.

        Args:
            select: the query.
            template: over its inputs.
            inputs: the relations, whose late rows are counted.
            streams: the same, as they are read.
            until: by alias until when their rows are needed.
            keys: of its rows.
            outputs: the columns that it hands on.
        """
        bounds, preserved = self._time_bounds_of_met(select, streams), self._preserved(streams)
        due = bounds.until()
        assert due is not None
        is_anti = streams[1].join is not None and only_asks(streams[1].join)
        if conditions.has_outer(select):
            keys = ()
        aliases = [each.alias.lower() for each in streams]
        # Of an anti join the rows that are alone are all there is: its own text says which.
        asked = [not is_anti and alias in preserved for alias in aliases]
        # A row that is alone comes some time after that by which it is due. How far its other times lie from that, the
        # join's conditions say of rows alone that meet.
        late = {
            (alias, column): delay
            for (alias, column), delay in bounds.delays(due).items()
            if alias not in preserved or [column] == [name for name, _ in due[alias]]
        }
        delays = _delays_of(select, streams, late, outputs)
        return self._add(
            OuterIntervalJoin(
                f"join_{digest(canonical(template), *(each.name for each in inputs))}",
                inputs,
                sql(template),
                Relation(delays=delays, keys=keys),
                _short(select),
                None if is_anti else sql(conditions.as_inner(template)),
                tuple(
                    sql(conditions.rows_alone(template, n)) if is_asked else None
                    for n, is_asked in enumerate(asked)
                ),
                tuple(
                    sql(conditions.rows_that_meet(template, n)) if is_asked else None
                    for n, is_asked in enumerate(asked)
                ),
                tuple(until[alias] for alias in aliases),
                tuple(due[alias] for alias in aliases),
            )
        )

    @classmethod
    def _until_alone(cls, select: exp.Select, streams: Sequence[_From]) -> dict[str, Until] | None:
        """By alias until when the rows of an outer, semi or anti join of two relations are needed; None: no time bounds
        it."""
        if len(streams) != 2 or streams[1].join is None:
            return None
        return cls._time_bounds_of_met(select, streams).until_alone(cls._preserved(streams))

    @staticmethod
    def _preserved(streams: Sequence[_From]) -> tuple[str, ...]:
        """The aliases of the two relations of a join whose rows it says of that they are alone, or not."""
        one, other = (each.alias.lower() for each in streams)
        join = streams[1].join
        side = (join.side or "").upper() if join is not None else ""
        return {"FULL": (one, other), "RIGHT": (other,)}.get(side, (one,))

    @staticmethod
    def _time_bounds_of_met(select: exp.Select, streams: Sequence[_From]) -> TimeBounds:
        """What is said of the times of rows that meet; rows that are alone are asked by WHERE, too."""
        met = select.copy()
        met.set("where", None)
        return TimeBounds(met, _times(streams))

    def _counting_late(self, operator: Operator) -> Operator:
        """The same, with its late rows counted, if it has rows as they come: of itself, or of what it puts together."""
        time = operator.relation.event_time
        if time is not None:
            name = f"timely_{digest(operator.name)}"
            return self._add(LateRows(name, (operator,), time, operator.relation))
        if not isinstance(operator, Project | UnionAll):
            return operator
        inputs = tuple(map(self._counting_late, operator.inputs))
        if inputs == operator.inputs:
            return operator
        name = f"{operator.name.partition('_')[0]}_{digest(operator.name, *(each.name for each in inputs))}"
        return self._add(replace(operator, name=name, inputs=inputs))

    @staticmethod
    def _equal_ends(
        equal: Sequence[Mapping[str, exp.Expr]], aliases: Sequence[str], relations: Sequence[Relation]
    ) -> tuple[str, ...]:
        """The columns with the windows' ends of relations, where rows meet only if these are equal."""
        for each in equal:
            ends = [relation.ends for relation in relations]
            if len(each) == len(aliases) == len(relations) and all(
                end is not None and conditions.carried(each[alias], alias, {end: end})
                for alias, end in zip(aliases, ends, strict=True)
            ):
                return tuple(map(str, ends))
        return ()

    @staticmethod
    def _ends_among(
        partitions: Sequence[Sequence[str]], aliases: Sequence[str], relations: Sequence[Relation]
    ) -> tuple[str, ...]:
        """The same, where it is one of the expressions that relations are partitioned by."""
        ends = [relation.ends for relation in relations]
        if None in ends or len(partitions) != len(relations):
            return ()
        for place in range(min(map(len, partitions))):
            parsed: list[exp.Expr] = [exp.maybe_parse(each[place], dialect=DIALECT) for each in partitions]
            if all(
                conditions.carried(node, alias, {str(end): "end"})
                for node, alias, end in zip(parsed, aliases, ends, strict=True)
            ):
                return tuple(map(str, ends))
        return ()

    @staticmethod
    def _join_keys(
        select: exp.Select,
        streams: Sequence[_From],
        outputs: conditions.Outputs,
    ) -> tuple[frozenset[str], ...]:
        if _multiplies(select):
            return ()
        found: set[str] = set()
        met: set[str] = set()
        inner = all(conditions.is_inner(each.join) for each in streams)
        for number, each in enumerate(streams):
            assert each.operator is not None
            if each.join is not None and only_asks(each.join):
                continue
            key = each.operator.relation.key
            names = None if key is None else [outputs.of.get((each.alias.lower(), name)) for name in key]
            if names is None or None in names:
                # Of inner joins the order is no matter.
                others = {other.alias.lower() for other in (streams if inner else streams[:number])}
                others -= {each.alias.lower(), *met}
                if any(_is_equated(own, each, select, others, inner) for own in each.operator.relation.keys):
                    met.add(each.alias.lower())  # a row meets one of its at most
                    continue
                return ()
            found |= {name for name in names if name is not None}
        return (frozenset(found),)

    # -- recomputing -------------------------------------------------------------------------------

    @staticmethod
    def _refuse_chance(
        select: exp.Select,
        key: frozenset[str] | None,
        why: Callable[[bool], str | None],
        before: str = "",
        after: str = "",
    ) -> None:
        """Passes values that are the same when they are computed again: in the model's result those that differ in their
        last digit, too, if its rows have a key.

        Args:
            select: the query.
            key: what identifies its rows; None: nothing does.
            why: says why they aren't the same, to the last digit or not.
            before: of the reason, in the message.
            after: of the reason.
        """
        is_result = select.parent is None and key is not None
        if chance := why(not is_result):
            raise QueryError(f"'{hints.quoted(select)}': {before}{chance}{after}.")

    def _recompute(
        self,
        select: exp.Select,
        template: exp.Select,
        inputs: tuple[Operator, ...],
        keys: tuple[tuple[str, ...], ...],
        aliases: tuple[str, ...],
        relation: Relation,
        label: str,
        top: Top | None = None,
        growth: UnboundedState | None = None,
        until: tuple[Until, ...] = (),
    ) -> Operator:
        if any(not each.relation.repeatable and each.relation.changes for each in inputs):
            raise QueryError(f"'{hints.quoted(select)}' stands over values that are other ones each time.")
        ends = self._ends_among(keys, aliases, [each.relation for each in inputs])
        if ends or until:
            growth = None
        elif growth is None and top is None and not all(each.relation.bounded for each in inputs):
            growth = UnboundedState("every row", None)
        first = () if top is None else (top.rows,)
        name = f"recompute_{digest(canonical(template), *first, *(each.name for each in inputs))}"
        return self._add(
            Recompute(
                name,
                inputs,
                sql(template),
                keys,
                aliases,
                relation,
                label,
                top,
                growth,
                ends=() if until else ends,
                until=until,
                asks_for_rows=bool(conditions.inner_queries(template, ("expressions",))),
            )
        )


def _starts(found: Plan, zone: str) -> dict[str, int]:
    """The columns with the starts of windows that have closed: by how much they are before the ends."""
    sizes = {stage.window.size for stage in found.windowed if not stage.window.merges}
    if zone or not found.closed or len(sizes) != 1 or len(sizes) != len(found.windowed):
        return {}
    return {column: max(sizes) for column, kind in found.carried.items() if kind == "window_start"}


def _delays_in(window: Window, below: Operator, open_for: int) -> dict[str, int]:
    """`Relation.delays` of the rows of a window which is open for so long after its end, when it has closed, too."""
    own = {"window_end": open_for, "window_time": open_for}
    if window.time_zone:
        return own  # whose clock is changed in some
    whole = window.size + open_for
    # How far another time of a row lies from the one that it is in the window by, nothing says.
    times = {
        name: max(delay, whole)
        for name, delay in below.relation.times.items()
        if name == window.time_col.lower()
    }
    return {**times, "window_start": whole, **own}


def _as_it_ends(ranking: exp.Select, ended: Mapping[str, int]) -> exp.Select:
    """A ranking with the filter that ends it around it; without one as it is."""
    if not ended:
        return ranking
    tests = [exp.column(name, quoted=True) <= last for name, last in sorted(ended.items())]
    return ranks.within(ranking, tests)


def _begin_anew(select: exp.Select, alias: str) -> None:
    """Has the OVER clauses of a SELECT also partition by the generation that a row is of. Changes the tree."""
    life = exp.column(OVER_LIFE, table=alias, quoted=True)
    for window in conditions.windows_of(select):
        window.set("partition_by", [*(window.args.get("partition_by") or ()), life.copy()])
    hide_from_stars(select, [(alias, OVER_LIFE)])


def _check_relation(node: exp.Expr, join: exp.Join | None, changes: bool = True) -> None:
    """Passes a stream or query in FROM that stands there as it is; `changes`: whether its rows may be retracted."""
    # UNPIVOT makes rows of a row, and TABLESAMPLE (… PERCENT) asks each row.
    more = [name for name in ("joins", "laterals", "version", "when") if node.args.get(name)]
    more += [each for each in node.args.get("pivots") or () if changes or not each.args.get("unpivot")]
    more += ["sample"] if changes and node.args.get("sample") else []
    if more or (join is not None and join.args.get("method")):
        raise QueryError(
            f"'{sql(join or node)[:80]}' over a stream is not supported; write it with JOIN … ON, GROUP BY or WHERE."
        )


def _table(name: str, alias: str) -> exp.Table:
    return exp.Table(
        this=exp.to_identifier(name), alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
    )


def _reads_stream(node: exp.Expr) -> bool:
    return any(
        hints.is_stream(table) or table.meta_get(conditions.OPERATOR) is not None
        for table in node.find_all(exp.Table)
    )


def _times(streams: Sequence[_From]) -> dict[str, dict[str, int]]:
    """By alias (lower case) the columns of relations that carry event time, as of `Relation.times`."""
    return {each.alias.lower(): each.operator.relation.times for each in streams if each.operator}


def _delays_of(
    select: exp.Select,
    streams: Sequence[_From],
    delays: Mapping[tuple[str, str], int],
    outputs: conditions.Outputs,
) -> dict[str, int]:
    """`Relation.delays` of a join's result.

    Args:
        select: the join.
        streams: what it reads.
        delays: by alias and column for how long after the watermark has passed its time rows of the join may still come.
        outputs: the columns that it hands on.
    """
    own = {each.alias.lower() for each in streams if each.join is None or not only_asks(each.join)}
    found: dict[str, int] = {}
    for (alias, column), delay in delays.items():
        if alias in own and (name := outputs.of.get((alias, column))) is not None:
            found[name] = max(delay, found.get(name, delay))
    of_item = partial(
        delay_of, of_column=lambda column: delays.get((column.table.lower(), column.name.lower()))
    )
    return {**found, **_delays_of_computed(select, of_item)}


def _delays_of_computed(select: exp.Select, of_item: Callable[[exp.Expr], int | None]) -> dict[str, int]:
    """`Relation.delays` of the columns that a SELECT computes."""
    made = {
        item.alias.lower(): of_item(item.this)
        for item in select.expressions
        if isinstance(item, exp.Alias) and not isinstance(item.this, exp.Column)
    }
    return {name: delay for name, delay in made.items() if delay is not None}


def _is_repeatable(template: exp.Select, inputs: Sequence[Operator]) -> bool:
    """Whether a query, and all below it, gives the same each time it is computed."""
    below = [each for operator in inputs for each in in_order(operator)]
    return conditions.is_repeatable(template) and all(each.relation.repeatable for each in below)


def _kept_at_root(query: exp.Expr) -> exp.Select | None:
    """The SELECT that ranks or groups and whose rows are, row by row, the result; None: there is none."""
    while isinstance(query, exp.Select):
        if is_grouped(query) or (query.find(exp.Window) is not None and any(conditions.windows_of(query))):
            return query
        nodes = [node for node in relations(query) if hints.reads_stream(node)]
        if len(nodes) != 1 or not isinstance(nodes[0], exp.Subquery):
            return None
        query = nodes[0].this
    return None


def _grouped_by_all(rows: exp.Select) -> exp.Select | None:
    """A SELECT whose different rows are asked for, as a GROUP BY of all its columns; None: they have no names of their own,
    or it does more than compute them row by row."""
    items = [
        item for item in rows.expressions if isinstance(item, exp.Alias | exp.Column) and not item.is_star
    ]
    names = {item.alias_or_name.lower() for item in items}
    if (
        len(items) < len(rows.expressions)
        or len(names) < len(items)
        or is_grouped(rows)
        or _multiplies(rows)
        or conditions.windows_of(rows)
        or conditions.inner_queries(rows)
    ):
        return None
    # A number would be the place of a column.
    keys = [item.unalias().copy() for item in items if not isinstance(item.unalias(), exp.Literal)]
    if not keys:
        return None
    made = rows.copy()
    made.set("group", exp.Group(expressions=keys))
    return made


def _put_filters_below(select: exp.Select, read: Sequence[_From]) -> bool:
    """Puts conditions of an inner join on one relation's columns alone below it, so that rows which don't pass aren't kept;
    whether there were any. Changes the tree."""
    if not all(conditions.is_inner(each.join) for each in read):
        return False
    aliases = {each.alias.lower() for each in read}
    found: dict[str, list[exp.Expr]] = {}

    def rest(test: exp.Expr | None) -> list[exp.Expr]:
        left = []
        for each in conjuncts(test):
            of = {column.table.lower() for column in each.find_all(exp.Column)}
            if len(of) == 1 and of <= aliases and conditions.is_repeatable(each) and not each.find(exp.Query):
                found.setdefault(of.pop(), []).append(each)
            else:
                left.append(each)
        return left

    where = select.args.get("where")
    above = rest(where.this if where else None)
    if not found:
        return False
    select.set("where", exp.Where(this=exp.and_(*above, copy=True)) if above else None)
    for each in read:
        if tests := found.get(each.alias.lower()):
            quoted = exp.to_identifier(each.alias, quoted=True)
            star = exp.Column(this=exp.Star(), table=quoted.copy())
            made = exp.Select(expressions=[star]).from_(each.node.copy()).where(exp.and_(*tests, copy=True))
            each.node.replace(exp.Subquery(this=made, alias=exp.TableAlias(this=quoted)))
    return True


def _is_equated(
    key: frozenset[str], each: _From, select: exp.Select, others: Collection[str], inner: bool
) -> bool:
    """Whether all columns that tell a relation's rows apart equal something of others, so that a row meets one of its at
    most: by what its own join says, or, where all joins are inner, anything."""
    if not inner and (each.join is None or each.join.side not in ("", "LEFT")):
        return False
    joins = (select.args.get("joins") or ()) if inner else [each.join]
    where = select.args.get("where") if inner else None
    tests = [test for join in joins if join is not None for test in conjuncts(join.args.get("on"))]
    tests += conjuncts(where.this) if where else []
    using = each.join.args.get("using") if each.join is not None else None
    told = {name.name.lower() for name in using or ()}
    for test in tests:
        if not isinstance(test, exp.EQ | exp.NullSafeEQ):
            continue
        for own, other in ((test.this, test.expression), (test.expression, test.this)):
            column = own.unnest()
            of = {found.table.lower() for found in other.find_all(exp.Column)}
            if (
                isinstance(column, exp.Column)
                and column.table.lower() == each.alias.lower()
                and bool(of)
                and of <= {*others}
            ):
                told.add(column.name.lower())
    return key <= told


def _multiplies(select: exp.Select) -> bool:
    """Whether one row of what a SELECT reads may become several."""
    return bool(select.args.get("laterals")) or conditions.explodes(select)


def _names_of_sides(node: exp.SetOperation) -> list[list[str]]:
    """What the left and the right side of a set operation call their columns, in lower case."""
    return [[name.lower() for name in output_names(side)] for side in (node.this, node.expression)]


def _names(node: exp.Expr) -> set[str]:
    return {column.name.lower() for column in node.find_all(exp.Column)}


def _names_in(keys: Sequence[exp.Expr]) -> set[str]:
    return {name for key in keys for name in _names(key)}


def _first_column(key: Key) -> str:
    parsed: exp.Expr = exp.maybe_parse(key.sql, dialect=DIALECT)
    return next((column.name.lower() for column in parsed.find_all(exp.Column)), key.sql)


def _short(select: exp.Select) -> str:
    text = unmarked(sql(select))
    return text if len(text) <= 100 else text[:97] + "…"


def _group_label(select: exp.Select) -> str:
    group = select.args.get("group")
    return sql(group).strip() if group is not None else "all rows"


def _grows(growth: UnboundedState, domains: frozenset[str]) -> str:
    missing = sorted((growth.columns or frozenset()) - domains)
    domain = f", or constant_domains: {missing} if the set of their values doesn't grow" if missing else ""
    by_time = f"; or bound it by time: {growth.bounded}" if growth.bounded else "."
    or_else = f"{domain}{growth.or_else}{by_time}"
    instead = f"{growth.instead} To have the query as it is: " if growth.instead else ""
    return (
        f"{instead}The state of this query grows for ever: it keeps {growth.what} that ever comes. Set state_ttl "
        f"(as in '{intervals.format(7 * intervals.DAY)}') to forget what was idle for so long{or_else}"
    )
