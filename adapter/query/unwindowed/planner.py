"""A query over whole streams → its `Plan`: which parts keep state, and the SQL below and above them.

As in the planner of windows the tree is visited from the bottom up. Each query is one of three kinds:

static     no stream in it: read afresh at each micro-batch
rows       a stream, row by row: what comes is never changed again
table      rows that change: groups, rankings, and what is computed from them

What is computed row by row from one stage is evaluated on what changed in it. Above that (a join of
two groupings, a grouping of groups), everything is computed anew from what the stages hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from sqlglot import exp

from .. import event_clock, hints, identity, lookups, ranks
from ..aggregate_stage import NotMergeable, StageBuilder
from ..clauses import aggregate, joined, only_asks
from ..dialect import DIALECT, canonical, function_name, sql
from ..errors import NotInStages, QueryError
from ..finite import is_finite
from ..locality import Columns, Source, output_columns
from ..names import digest
from ..plan import GroupStage, JoinStage, KeptStage, Key, KeyedStage, Plan, Stage, TopStage, UnboundedState
from ..row_level import check_joins, refuse_limit, refuse_streams_in_expressions
from ..source_text import SourceText
from ..static_sides import nest
from ..stream_rewrites import Rewrites
from ..streams import Known, Streams, column_of_stream
from ..tie_breaking import break_ties
from ..windows import quote
from . import joins, limits, rankings, temporal, unbounded_state
from .changelog_normalize import SIGN_OF_ROW, SIGNED
from .groups import identity_columns
from .hidden_columns import ROW_TIME, SIGN, carry
from .select_kind import is_grouped, is_row_by_row, write_distinct_as_group

STATIC, ROWS, TABLE = "static", "rows", "table"
_CARRIED = "carried"
_RANDOM = (exp.Rand, exp.Randn, exp.Uuid, exp.Shuffle)
_Stage = TypeVar("_Stage", TopStage, KeyedStage, KeptStage, JoinStage)


@dataclass(frozen=True)
class UnwindowedInfo:
    """What the planner knows of a query."""

    kind: str
    columns: Columns = field(default_factory=dict)
    """Output column → what it carries (``stage.key``)."""
    uniques: tuple[frozenset[str], ...] = ()
    """What identifies its rows, in one way or another."""
    stage: str | None = None
    """The only stage it works row by row on."""
    each_once: bool = True
    """Whether no row of that stage is in it several times."""


@dataclass(frozen=True)
class Read(Source):
    """A relation in FROM or JOIN."""

    info: UnwindowedInfo = UnwindowedInfo(STATIC)


def unwindowed_plan(tree: exp.Query, known: Mapping[str, Known], ttl: int | None, rewrites: Rewrites) -> Plan:
    """The plan of a tree without window functions, whose streams are marked. Changes the tree.

    Raises:
        QueryError: it holds something that can't be kept up to date.
    """
    return _Planner(tree, known, ttl, rewrites).plan()


class _Planner:
    def __init__(
        self, tree: exp.Query, known: Mapping[str, Known], ttl: int | None, rewrites: Rewrites
    ) -> None:
        self.rewrites = rewrites
        tree = limits.write_as_ranks(tree, hints.reads_stream)
        self.batch = _in_batch(tree)
        self.streams = Streams(tree, known)
        self.root = exp.Subquery(this=tree)
        self.ttl = ttl
        self.stages: dict[str, Stage] = {}
        self.ranks: dict[str, None] = {}
        self.fused: set[str] = set()
        """The groupings that a ranking is kept up to date by."""

    def plan(self) -> Plan:
        info = self._visit(self.root)
        if info.kind == ROWS and (known := self._known(self.root)).replaces:
            self._keep_keyed(self.root, known, stored=False)
            info = self._visit(self.root)
        query = self.root.this
        if isinstance(query, exp.Select):
            query.set("order", None)  # rows of a table have no order
        kept_whole = not self.stages or any(not isinstance(s, GroupStage) for s in self.stages.values())
        whole = info.kind == TABLE and info.stage is None
        stages = tuple(
            # What is looked at as a whole is needed after its step.
            replace(stage, stored=True) if whole and isinstance(stage, KeyedStage) else stage
            for stage in self.stages.values()
        )
        return Plan(
            self.streams.read(kept_whole),
            stages,
            sql(query),
            tuple(self.streams.static),
            info.columns,
            _first_carried(info),
            tuple(self.ranks),
            whole=whole,
            certain=identity.is_kept(query),
            changes_of=info.stage if info.kind == TABLE else None,
            batch=self.batch if stages else None,
        )

    # -- the visit ---------------------------------------------------------------------------------

    def _visit(self, node: exp.Expr) -> UnwindowedInfo:
        if isinstance(node, exp.Subquery):
            info = self._visit(node.this)
            if any(hints.reads_stream(join) for join in node.args.get("joins") or ()):
                raise QueryError(
                    f"'{hints.quoted(node)}' joins streams in brackets; write the joins one after another."
                )
            return info
        if isinstance(node, exp.Table):
            return UnwindowedInfo(ROWS if hints.is_stream(node) else STATIC)
        if isinstance(node, exp.SetOperation):
            return self._visit_union(node)
        return self._visit_select(node) if isinstance(node, exp.Select) else UnwindowedInfo(STATIC)

    def _visit_union(self, node: exp.SetOperation) -> UnwindowedInfo:
        sides = [self._visit(node.this), self._visit(node.expression)]
        kinds = {side.kind for side in sides}
        if kinds == {STATIC}:
            return UnwindowedInfo(STATIC)
        refuse_limit(node)
        if kinds == {ROWS}:
            if not isinstance(node, exp.Union) or node.args.get("distinct"):
                raise QueryError(
                    f"{node.key.upper()} over a stream must be UNION ALL of streams; found '{hints.quoted(node)}'. "
                    "For different rows, GROUP BY all columns of the UNION ALL."
                )
            self._refuse_replaced(node, "UNION ALL")
            return UnwindowedInfo(ROWS)
        if kinds != {TABLE}:
            raise NotInStages(
                f"{node.key.upper()} puts rows that change together with others; both sides must be groups or rankings."
            )
        return UnwindowedInfo(TABLE)

    def _visit_select(self, select: exp.Select) -> UnwindowedInfo:
        if result := hints.result_of(select):
            uniques = (*(() if result.unique is None else (result.unique,)), *result.others)
            kind = TABLE if result.changes else ROWS
            return UnwindowedInfo(
                kind, dict(result.window_columns), uniques, result.name if result.changes else None
            )
        sources = self._sources(select)
        refuse_streams_in_expressions(select)
        kinds = [source.kind for source in sources]
        if TABLE in kinds:
            if ROWS in kinds:
                row = next(source.alias for source in sources if source.kind == ROWS)
                raise QueryError(
                    f"'{row}' is a stream joined with rows that change; group or rank it too, or read one of the two as "
                    "a table."
                )
            return self._over_table(select, sources)
        if ROWS not in kinds:
            return UnwindowedInfo(STATIC)
        if kinds.count(ROWS) > 1:
            self._refuse_replaced(select, "A join of streams")
            if not is_row_by_row(select):
                joins.split(select)
                return self._visit_select(select)
            outer = any(
                each.kind == ROWS and (each.join.side or only_asks(each.join))
                for each in sources
                if each.join
            )
            if outer and nest(select, [kind == ROWS for kind in kinds]):
                return self._visit_select(select)
            return self._join(select, sources)
        return self._over_rows(select, sources)

    def _sources(self, select: exp.Select) -> list[Read]:
        found = []
        for node, join in joined(select):
            info = self._visit(node)
            first = info.uniques[0] if info.uniques else None
            found.append(Read(node.alias_or_name, node, info.kind, info.columns, join, first, info))
        return found

    # -- over a stream -----------------------------------------------------------------------------

    def _over_rows(self, select: exp.Select, sources: Sequence[Source]) -> UnwindowedInfo:
        check_joins(sources)
        source = next(source for source in sources if source.kind == ROWS)
        known = self._known(source.node)
        if known.replaces:
            return self._over_keyed(select, sources, known)
        if bound := temporal.bound(select, lambda column: self._is_time(column, sources)):
            self._keep(source, sql(bound.condition), bound.lasts)
            bound.remove()
            return self._visit_select(select)
        if is_grouped(select):
            return self._group(select, sources, source)
        if windows := list(select.find_all(exp.Window)):
            return self._rank(select, sources, windows)
        if order := select.args.get("order"):
            order.pop()
        return UnwindowedInfo(ROWS)

    def _group(
        self, select: exp.Select, sources: Sequence[Source], source: Source, signed: bool = False
    ) -> UnwindowedInfo:
        if select.args.get("distinct"):
            write_distinct_as_group(select)
        try:
            builder = StageBuilder(select, sources, None, signed)
        except NotMergeable as found:
            if signed:
                # As operators the rows are kept, if what is asked of them is the same each time.
                raise NotInStages(
                    f"{found}, and the stream's rows change; use aggregates that are kept as partial state."
                ) from found
            self.rewrites.rows_are_kept(select, str(found))
            self._keep(source, str(found), None)
            return self._visit_select(select)
        order = select.args.get("order")
        key = canonical(select)
        stage = self.stages.get(key)
        if not isinstance(stage, GroupStage):
            name = self._new_name()
            enumerated = self.rewrites.enumerated(select, name, builder, self.ttl)
            self.rewrites.split(select, name, builder)
            stage = GroupStage(
                name=name,
                level=self._level(select),
                streams=self._streams_under(select),
                rows=self._rows_of(builder, select, signed),
                source=builder.source,
                keys=tuple(builder.keys),
                grouping_sets=builder.grouping_sets,
                metrics=tuple(builder.metrics.values()),
                distinct_sets=builder.distinct_sets,
                growth=None if signed else self._growth(select, builder.keys),
                signed=signed,
                enumerated=enumerated,
                written=sql(hints.user_tree(select)),
            )
            self.stages[key] = stage
        identity_of = identity_columns(stage)
        names = [*identity_of, *(metric.name for metric in stage.metrics)]
        result = hints.StageResult(
            stage.name,
            stage.level,
            tuple((name.lower(), f"{stage.name}.{name}") for name in names),
            frozenset(f"{stage.name}.{name}" for name in identity_of),
            changes=True,
        )
        made = builder.finished(exp.Subquery(this=hints.stage_result(result), alias=_alias("groups")))
        made.set("order", order)
        # What is no plain column there, as grouping_id() isn't.
        made.meta[_CARRIED] = {name: f"{stage.name}.{key}" for name, key in builder.key_columns.items()}
        select.replace(made)
        return self._visit_select(made)

    def _rows_of(self, builder: StageBuilder, select: exp.Select, signed: bool) -> str:
        also = [*(["row_time"] if self.ttl is not None else []), *(["sign"] if signed else [])]
        original, hidden = builder.select, self._with_hidden(select, signed)
        assert isinstance(hidden, exp.Select)
        builder.select = hidden
        text = builder.rows(also)
        builder.select = original
        return text

    def _rank(
        self, select: exp.Select, sources: Sequence[Source], windows: Sequence[exp.Window]
    ) -> UnwindowedInfo:
        """A ranking straight over rows."""
        name, rank, last = rankings.the_only(select, windows)
        self.ranks.setdefault(sql(rank))
        row = f"{self._new_name()}_row"
        keys, order, rows_of = rankings.taken_apart(select, name, rank, row)
        time = self._order_time(rank, select, sources)
        final = time is not None and last == 1 and isinstance(rank.this, exp.RowNumber)
        hidden = [ROW_TIME] if self.ttl is not None or final else []
        below = self._with_hidden(rows_of, False, bool(hidden))
        of_order, of_rows = _made_of(rows_of, helpers=True), _made_of(rows_of)
        function = function_name(rank.this)
        stage = TopStage(
            name=self._new_name(),
            level=self._level(select),
            streams=self._streams_under(select),
            rows=sql(below),
            source=hints.user_text(select),
            plain=SourceText(select).reads(None),
            keys=tuple(keys),
            top=ranks.Top(function, tuple(key.name for key in keys), order, last),
            rank=name,
            growth=self._growth(select, keys),
            final=final,
            # Stages above measure their keys' idle time on it.
            hidden=(ROW_TIME,) if final and self.ttl is not None else (),
            made_of=of_rows,
            order_of=of_order,
            written=sql(hints.user_tree(select)),
        )
        return self._place_top(select, stage, sources)

    def _place_top(self, select: exp.Select, stage: TopStage, sources: Sequence[Source]) -> UnwindowedInfo:
        if self.rewrites.topn_buckets is not None:
            self.rewrites.split_ranking(stage.name)
            stage = replace(stage, top=replace(stage.top, buckets=self.rewrites.topn_buckets))
        stage = self._same_stage(f"{canonical(select)} {stage.top.rows}", stage)
        outputs = {**output_columns(select, sources), stage.rank.lower(): f"{stage.name}.{stage.rank}"}
        within = set() if stage.rank.lower() in ranks.fixed(select) else {f"{stage.name}.{stage.rank}"}
        for place, key in enumerate(stage.keys):
            carried = stage.carried(place)
            within.add(carried)
            if (shown := identity.shown_as(select, _parsed(key.sql))) is not None:
                outputs[shown] = carried
        uniques = [frozenset(within)] if stage.top.function == "row_number" else []
        if stage.over is not None:
            # Where it carries them still, groups are told apart by their own keys.
            groups = {name: what for name, what in output_columns(select, sources).items()}
            ids = frozenset(groups[column] for column, _ in stage.identity)
            outputs |= {name: what for name, what in groups.items() if what in ids}
            uniques.insert(0, ids)
        result = hints.StageResult(
            stage.name,
            stage.level,
            tuple(outputs.items()),
            uniques[0] if uniques else None,
            changes=not stage.final,
            others=tuple(uniques[1:]),
            hidden=stage.hidden,
        )
        made = hints.stage_result(result)
        select.replace(made)
        return self._visit_select(made)

    # -- over what changes -------------------------------------------------------------------------

    def _over_table(self, select: exp.Select, sources: list[Read]) -> UnwindowedInfo:
        check_joins([replace(s, kind="result" if s.kind == TABLE else s.kind) for s in sources])
        infos = [source.info for source in sources if source.kind == TABLE]
        windows = list(select.find_all(exp.Window))
        grouped = is_grouped(select)
        if windows and not grouped:
            ranks.check(select)
            if len(infos) == 1 and (made := self._fused(select, sources, infos[0], windows)):
                return made
        outputs = {**output_columns(select, sources), **select.meta_get(_CARRIED, {})}
        over = select.find_ancestor(exp.Select)
        if over is not None:
            ranks.check(over)
        if order := select.args.get("order"):
            order.pop()
        if len(infos) == 1 and not windows and not grouped and not select.args.get("distinct"):
            if identity.makes_several(select):
                return UnwindowedInfo(TABLE, outputs)
            once = infos[0].each_once and identity.is_kept(select)
            return UnwindowedInfo(TABLE, outputs, infos[0].uniques, infos[0].stage, once)
        for name, rank in ranks.ranks(select).items():
            if name not in ranks.ended(select):
                raise QueryError(ranks.refusal(rank, name, "without an end"))
            self.ranks.setdefault(sql(rank))
        break_ties(select)
        return UnwindowedInfo(TABLE, outputs, _uniques(select, sources, infos, outputs))

    def _fused(
        self, select: exp.Select, sources: list[Read], info: UnwindowedInfo, windows: Sequence[exp.Window]
    ) -> UnwindowedInfo | None:
        """A ranking of groups that is kept up to date by the groups that change; None: it isn't that."""
        group = next((s for s in self.stages.values() if s.name == info.stage), None)
        over = select.find_ancestor(exp.Select)
        if not isinstance(group, GroupStage | KeyedStage) or len(windows) != 1 or over is None:
            return None
        if isinstance(group, GroupStage) and group.signed and group.distinct_sets:
            return None  # its values are counted when it is read, which is after the commit
        if len(sources) != 1 or group.name in self.fused or lookups.are_under(select):
            return None
        if not (info.each_once and identity.is_kept(select)):
            return None  # its rows aren't the groups
        outputs = output_columns(select, sources)
        carried = {what: column for column, what in reversed(list(outputs.items()))}
        ids = [f"{group.name}.{column}" for column in identity_columns(group)]
        if not ids or not all(what in carried for what in ids) or not ranks.ranks(select):
            return None
        name, rank, last = rankings.the_only(select, windows)
        self.ranks.setdefault(sql(rank))
        row = f"{self._new_name()}_row"
        keys, order, rows_of = rankings.taken_apart(select, name, rank, row)
        function = function_name(rank.this)
        within = rankings.group_keys(rank.args.get("partition_by") or (), sources, group)
        where = any(query.args.get("where") for query in [select, *select.find_all(exp.Select)])
        stage = TopStage(
            name=self._new_name(),
            level=group.level,
            streams=group.streams,
            rows=sql(rows_of),
            source=hints.user_text(select),
            keys=tuple(keys),
            top=ranks.Top(function, tuple(key.name for key in keys), order, last),
            rank=name,
            growth=None,
            over=group.name,
            identity=tuple((carried[f"{group.name}.{column}"], column) for column in identity_columns(group)),
            within=within,
            improves=not where
            and within is not None
            and self.ttl is None
            and isinstance(group, GroupStage)
            and not group.signed
            and rankings.only_improves(
                select,
                rank.this,
                rank.args["order"].expressions,
                group,
                lambda node: rankings.carried(node, sources, group),
                rankings.listed_names(sources[0].node),
            ),
            written=sql(hints.user_tree(select)),
        )
        self.fused.add(group.name)
        return self._place_top(select, stage, sources)

    # -- helpers -----------------------------------------------------------------------------------

    def _keep(self, source: Source, reason: str, lasts: int | None) -> None:
        """Puts the rows of a stream, kept, in the place of the stream."""
        node = source.node
        over = node.find_ancestor(exp.Select)
        assert over is not None
        query = node.this if isinstance(node, exp.Subquery) else exp.select("*").from_(node.copy())
        timed = lasts is not None or self.ttl is not None
        below = self._with_hidden(query, False, timed)
        reads = sql(exp.select("*").from_(exp.Subquery(this=below, alias=_alias("input"))))
        stage = KeptStage(
            name=self._new_name(),
            level=self._level(query),
            streams=self._streams_under(node),
            rows=reads,
            source=hints.user_text(query),
            plain=SourceText(query).reads(None),
            reason=reason,
            growth=None if lasts is not None else self._growth(over, None),
            lasts=lasts,
            made_of=_made_of(query),
            written=sql(hints.as_written(exp.Subquery(this=query.copy())).this),
        )
        stage = self._same_stage(f"{canonical(query)} kept {lasts}", stage)
        result = hints.StageResult(stage.name, stage.level, (), None, changes=True)
        alias = _alias(source.alias) if source.alias else None
        node.replace(exp.Subquery(this=hints.stage_result(result), alias=alias))

    def _same_stage(self, key: str, stage: _Stage) -> _Stage:
        """A stage that stands there already, or this one."""
        found = self.stages.setdefault(key, stage)
        assert isinstance(found, type(stage))
        return found

    def _with_hidden(self, node: exp.Expr, signed: bool, timed: bool | None = None) -> exp.Expr:
        """A copy whose streams hand up what isn't the query's."""
        timed = self.ttl is not None if timed is None else timed
        copy = exp.Subquery(this=node.copy()) if isinstance(node, exp.Query) else exp.Subquery(this=node)
        columns: dict[str, dict[str, str]] = {}
        for stream in self.streams.streams.values():
            made = {}
            if timed:
                made[ROW_TIME] = f"cast({quote(self._event_time(stream.view))} as timestamp)"
            columns[stream.view] = made
        for stage in self.stages.values():
            if isinstance(stage, KeyedStage) and stage.signed:
                columns[f"{stage.name}{SIGNED}"] = {SIGN: SIGN_OF_ROW}
        if timed or signed:
            carry(copy.this, columns)
        return copy.this

    def _event_time(self, view: str) -> str:
        known = self.streams.known(view)
        if known.event_time is None:
            relation = next(s.relation for s in self.streams.streams.values() if s.view == view)
            raise QueryError(
                f"How long rows are kept is measured in event time, and {relation} doesn't say which column that is; "
                "give it dbt's config event_time."
            )
        return known.event_time

    def _known(self, node: exp.Expr) -> Known:
        return next((self.streams.known(view) for view in self._streams_under(node)), Known())

    def _refuse_replaced(self, node: exp.Expr, what: str) -> None:
        """Passes streams whose rows stay."""
        for stream in self.streams.streams.values():
            known = self.streams.known(stream.view)
            if known.replaces and stream.view in self._streams_under(node):
                raise QueryError(
                    f"{what} with {stream.relation}, whose rows change, is not supported; group it in a model of its "
                    "own, or read it as a table, without stream()."
                )

    def _is_time(self, column: exp.Column, sources: Sequence[Source]) -> bool:
        """Whether a column is the event time of its stream."""
        for source in sources:
            if source.kind == ROWS and column.table.lower() in ("", source.alias.lower()):
                found = column_of_stream(source.node, column.name)
                known = [self.streams.known(view).event_time for view in self._streams_under(source.node)]
                times = {time.lower() for time in known if time is not None}
                if found is not None and times <= {found.lower()}:
                    return True
        return False

    def _order_time(self, rank: exp.Window, select: exp.Select, sources: Sequence[Source]) -> str | None:
        """The event time of the stream, where rows are ranked by it, the first one first."""
        order = rank.args["order"].expressions
        first = order[0]
        if len(order) != 1 or first.args.get("desc") or not isinstance(first.this, exp.Column):
            return None
        known = self._known(select)
        if known.event_time is None or not self._is_time(first.this, sources):
            return None
        return known.event_time

    def _growth(self, select: exp.Select, keys: Sequence[Key] | None) -> UnboundedState:
        """What a state grows with: its keys; every row, without."""
        by: tuple[tuple[str, ...], ...] = ((),)
        if keys is not None:
            by = tuple(
                unbounded_state.names_of(key, select)
                for key in keys
                if not is_finite(_parsed(key.sql), select)
            )
        times = [self.streams.known(view).event_time for view in self._streams_under(select)]
        relations = {stream.view: stream.relation for stream in self.streams.streams.values()}
        return UnboundedState(
            by, unbounded_state.with_predicate(select, next(filter(None, times), None), relations)
        )

    def _join(self, select: exp.Select, sources: Sequence[Source]) -> UnwindowedInfo:
        stage = joins.stage(
            select,
            sources,
            name=self._new_name(),
            level=self._level(select),
            ttl=self.ttl,
            is_time=lambda column: self._is_time(column, sources),
            with_hidden=self._with_hidden,
            streams_under=self._streams_under,
            growth=self._growth(select, None),
        )
        stage = self._same_stage(canonical(select), stage)
        outputs = output_columns(select, sources)
        result = hints.StageResult(
            stage.name, stage.level, tuple(outputs.items()), None, hidden=getattr(stage, "hidden", ())
        )
        select.replace(hints.stage_result(result))
        return UnwindowedInfo(ROWS, outputs)

    # -- over a stream whose rows replace each other -----------------------------------------------

    def _over_keyed(self, select: exp.Select, sources: Sequence[Source], known: Known) -> UnwindowedInfo:
        source = next(source for source in sources if source.kind == ROWS)
        if self.ttl is not None:
            raise QueryError(
                f"config 'state_ttl' forgets what was idle, but the rows of {self._named(source)} stay until others replace "
                "them; leave it out."
            )
        if temporal.bound(select, lambda column: self._is_time(column, sources)):
            raise QueryError(
                f"A predicate on the time that goes by over {self._named(source)}, whose rows change, is not supported; "
                "put it into the model that makes them."
            )
        if is_grouped(select) and not _may_differ(select):
            table = next(table for table in source.node.find_all(exp.Table) if hints.is_stream(table))
            stage = self._keyed(table, known, signed=True)
            table.set("this", exp.to_identifier(f"{stage.name}{SIGNED}"))
            return self._group(select, self._sources(select), source, signed=True)
        if is_grouped(select) or select.find(exp.Window):
            self._keep_keyed(source.node, known, stored=True)
            return self._visit_select(select)
        if order := select.args.get("order"):
            order.pop()
        return UnwindowedInfo(ROWS)

    def _named(self, source: Source) -> str:
        views = self._streams_under(source.node)
        return next(s.relation for s in self.streams.streams.values() if s.view in views)

    def _keep_keyed(self, node: exp.Expr, known: Known, stored: bool) -> None:
        """Puts the rows that each key has in the place of a stream."""
        if not known.key:
            raise QueryError(
                "No column tells the rows of the stream's table from those that they replace; GROUP BY over it, or read it "
                "as a table, without stream()."
            )
        table = next(table for table in node.find_all(exp.Table) if hints.is_stream(table))
        stage = self._keyed(table, known, stored=stored)
        result = hints.StageResult(
            stage.name,
            stage.level,
            tuple((name.lower(), f"{stage.name}.{name}") for name in stage.key),
            frozenset(f"{stage.name}.{name}" for name in stage.key),
            changes=True,
        )
        made = exp.Subquery(this=hints.stage_result(result), alias=table.args.get("alias"))
        if table is node:
            made.set("joins", table.args.get("joins"))
        table.replace(made)

    def _keyed(self, table: exp.Expr, known: Known, stored: bool = True, signed: bool = False) -> KeyedStage:
        view = table.name
        stage = KeyedStage(
            name=self._new_name(),
            level=0,
            streams=(view,),
            view=view,
            source=view,
            key=known.key,
            feed=known.changes,
            time=known.event_time,
            # What a feed takes away it says itself; what it says isn't looked back at row by row.
            stored=not known.changes or (stored and not signed),
            signed=signed,
            growth=None if known.changes else UnboundedState(tuple((name, name) for name in known.key), ""),
        )
        return self._same_stage(f"{view} keyed {stored} {signed}", stage)

    def _level(self, node: exp.Expr) -> int:
        """After the stages whose rows it reads.

        Raises:
            NotInStages: it reads rows of a stream, too. What comes out of a stage is there after the commit of its state,
                and after a crash or in a flush rows of the stream aren't there then, or not for the first time.
        """
        results = [result for each in node.find_all(exp.Select) if (result := hints.result_of(each))]
        if results and hints.reads_stream(node):
            raise NotInStages(
                "Rows of a stream stand beside what is computed from a stream first; put that into a model of its own."
            )
        return max((result.level + 1 for result in results), default=0)

    def _new_name(self) -> str:
        return f"stage_{len(self.stages) + 1}"

    def _streams_under(self, node: exp.Expr) -> tuple[str, ...]:
        names = [table.name for table in node.find_all(exp.Table) if hints.is_stream(table)]
        by_stage = {stage.name: stage for stage in self.stages.values()}
        for select in node.find_all(exp.Select):
            if (result := hints.result_of(select)) and result.name in by_stage:
                names += by_stage[result.name].streams
        return tuple(dict.fromkeys(names))


def _alias(name: str) -> exp.TableAlias:
    return exp.TableAlias(this=exp.to_identifier(name))


def _made_of(query: exp.Query, helpers: bool = False) -> str:
    """Digest of what the columns of kept rows are made of; `helpers`: those that they are ranked within and by. What a
    UNION ALL reads says it all."""
    if not isinstance(query, exp.Select):
        return ""
    text = SourceText(query)
    items = [
        (item.alias_or_name.lower(), exp.Paren(this=item.unalias().copy())) for item in query.expressions
    ]
    made = [(name, text.expression(hints.as_written(item).this)) for name, item in items]
    return digest(*(each for each in made if rankings.is_helper(each[0]) == helpers))


def _parsed(text: str) -> exp.Expr:
    return exp.maybe_parse(text, dialect=DIALECT)


def _may_differ(select: exp.Select) -> bool:
    """Whether a row that is taken away may be computed otherwise than when it came: it was joined with a table that
    has changed since, or holds a random value or the time of the machine. Then groups can't be added to and taken from."""
    if any(isinstance(node, _RANDOM) or event_clock.is_clock(node) for node in select.walk()):
        return True
    tables = [table for table in select.find_all(exp.Table) if not hints.is_stream(table)]
    return bool(tables) and not lookups.are_under(select)


def _in_batch(tree: exp.Query) -> str:
    """The query as it is in batch: the same ties are broken in it."""
    copy = tree.copy()
    for select in copy.find_all(exp.Select):
        if hints.reads_stream(select):
            break_ties(select)
    return sql(copy)


def _uniques(
    select: exp.Select, sources: Sequence[Source], infos: Sequence[UnwindowedInfo], outputs: dict[str, str]
) -> tuple[frozenset[str], ...]:
    """What identifies the rows of a SELECT that is computed anew."""
    if select.args.get("group") or select.args.get("distinct") or aggregate(select):
        unique = identity.of_groups(select, outputs)
        return () if unique is None else (unique,)
    by_rank = identity.of_rank(select, outputs)
    if by_rank is not None and not all(info.each_once for info in infos):
        return (by_rank,)
    told = [name for info in infos for name in (info.uniques[0] if info.uniques else ())]
    # A query that is read twice has the same columns twice, which needn't be equal.
    twice = {name for name in told if told.count(name) > 1}
    if all(info.uniques for info in infos) and twice <= identity.equal(select, sources):
        every = frozenset(name for info in infos for name in info.uniques[0])
        return (every,) if by_rank is None else (every, by_rank)
    return () if by_rank is None else (by_rank,)


def _first_carried(info: UnwindowedInfo) -> frozenset[str] | None:
    """The first of the ways to tell rows apart whose columns are all there."""
    there = frozenset(info.columns.values())
    return next((unique for unique in info.uniques if unique <= there), next(iter(info.uniques), None))
