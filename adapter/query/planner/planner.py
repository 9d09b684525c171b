"""A tree → operators: one visit, bottom up, of queries that are put together from any parts.

Each SELECT is first taken apart into steps that do one thing: join, group, rank, make distinct, project. For each
the planner takes the cheapest operator whose rule holds, and where none does, `Recompute`: the query itself over
all rows of the partitions that were touched, less what it gave before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping

from sqlglot import exp

from ..errors import NotMeant, QueryError, Unbounded
from ..frontend import hints
from ..frontend.streams import Known, Streams
from ..normalize import event_clock
from ..normalize.rankings import limits, ranks
from ..plan import unbounded_state, untimed_rows
from ..plan.base import Dataflow, Operator, Recompute, TopN, WindowResults, in_order
from ..plan.upserts import kept_root, replaced
from ..rewrites.stream_rewrites import Rewrites
from ..sql.nodes import shape
from ..windows.emission import FINAL, Emission
from . import results
from .from_items import reads_stream, table_of
from .selects import plan_select
from .set_operations import plan_set_operation
from .sources import plan_source
from .windows import plan_window_results, plan_window_rows

NO_STREAM = (
    "The query reads no stream; wrap a relation of its FROM in a window function or in stream(): "
    "FROM {{ tumble(ref('…'), 'time_column', '10 minutes') }}."
)


def dataflow(
    tree: exp.Query,
    known: Mapping[str, Known],
    ttl: int | None,
    domains: Collection[str],
    rewrites: Rewrites,
    windows: Callable[[exp.Query, Streams, int, bool, bool], WindowResults],
    emission: Emission = FINAL,
    may_grow: bool = False,
) -> tuple[Dataflow, Streams, tuple[str, ...], tuple[untimed_rows.Dropped, ...]]:
    """The operators of a tree whose streams and static tables are marked. Changes the tree.

    Args:
        tree: a query.
        known: what the project says of relations.
        ttl: microseconds after which an idle key is forgotten.
        domains: columns whose sets of values do not grow.
        rewrites: that the query asks for.
        windows: the planner of queries that stay within windows: of a query, the streams of the whole tree, how many
            stages others have, whether rows of windows are kept where they are read as they are, and whether they feed other
            windows as rows come.
        emission: when results of windows come.
        may_grow: passes states that grow for ever.

    Returns:
        The operators, the streams, the rankings that filters end, as the user wrote them, and where rows without an event
        time are dropped.

    Raises:
        QueryError: it has no meaning over a stream, or its state can grow for ever.
    """
    ranked = results.ranks_or_groups(tree) is not None

    def planner_of(tree: exp.Query) -> Planner:
        return Planner(tree, known, ttl, domains, rewrites, windows, emission)

    planner = planner_of(tree.copy() if ranked else tree)
    flow = planner.plan(comes_once=ranked, may_grow=may_grow)
    alone = [
        each
        for each in flow.operators
        if (isinstance(each, TopN) and each.final) or (isinstance(each, Recompute) and each.shown is not None)
    ]
    found = replaced(flow)
    # With a table that is joined above it the result may have several rows of one of a ranking whose groups are forgotten.
    forgets = any(isinstance(each, TopN) and each.of_ids for each in flow.operators)
    if (alone and found is None) or (forgets and found is not None and not found.certain):
        # Something stands above it that isn't told by the text alone.
        planner = planner_of(tree)
        flow = planner.plan(may_grow=may_grow)
    dropped = dict.fromkeys(
        each for operator in flow.operators for each in planner.dropped.get(operator.name, ())
    )
    return flow, planner.streams, tuple(planner.ranks), tuple(dropped)


class Planner:
    """Makes operators of a tree: what is known of it, and the operators so far."""

    def __init__(
        self,
        tree: exp.Query,
        known: Mapping[str, Known],
        ttl: int | None,
        domains: Collection[str],
        rewrites: Rewrites,
        windows: Callable[[exp.Query, Streams, int, bool, bool], WindowResults],
        emission: Emission,
    ) -> None:
        self.tree = limits.write_as_ranks(tree, reads_stream)
        self.streams = Streams(self.tree, known)
        if next(hints.windows_under(self.tree), None) is not None:
            event_clock.show_watermark(self.tree)
        self.ttl, self.rewrites, self.plan_windows = ttl, rewrites, windows
        self.emission = emission
        self.under_windows = 0
        """How many windows stand above what is visited, and are made of its rows."""
        self.domains = frozenset(name.lower() for name in domains)
        self.operators: dict[str, Operator] = {}
        self.visited: dict[Hashable, Operator] = {}
        """What queries have become, by all that they say."""
        self.ranks: dict[str, None] = {}
        self.dropped: dict[str, tuple[untimed_rows.Dropped, ...]] = {}
        """By operator where it drops rows without an event time."""
        self.window_stages = 0

    def plan(self, comes_once: bool = False, may_grow: bool = False) -> Dataflow:
        """Returns the operators of the whole tree.

        Args:
            comes_once: first rows that are the result come once, and groups that are it may be others each time they are
                computed.
            may_grow: passes states that grow for ever.
        """
        if comes_once:
            results.mark(self.tree)
        root = self.visit(self.tree)
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
        if self.ttl is None and not may_grow:
            self.check_bounded(flow)
        return flow

    def check_bounded(self, flow: Dataflow) -> None:
        """Passes operators whose state can't grow for ever, though nothing of it expires."""
        # What stands above what puts itself out keeps nothing.
        for each in in_order(kept_root(flow)):
            if each.growth is not None:
                raise Unbounded(unbounded_state.refusal_of(each.growth, self.domains))

    def visit(self, node: exp.Expr) -> Operator | None:
        """The operator of a query or relation; None: it reads no stream."""
        if (placed := hints.placed(node)) is not None:
            return self.operators[placed]
        if isinstance(node, exp.Subquery):
            if any(reads_stream(join) for join in node.args.get("joins") or ()):
                raise QueryError(
                    f"'{hints.quoted(node)}' joins streams in brackets; write the joins one after another."
                )
            return self.visit(node.this)
        if isinstance(node, exp.Table):
            return plan_source(self, node) if hints.is_stream(node) else None
        if not isinstance(node, exp.Query) or not reads_stream(node):
            return None
        # Of a ranking only the rows are kept that the filter around it lets through; read twice, it may end elsewhere.
        ended = ranks.ended(node) if isinstance(node, exp.Select) else {}
        as_it_comes = self.emission.changes and self.under_windows > 0
        visited = (shape(node), *sorted(ended.items()), as_it_comes)
        if visited not in self.visited:
            self.visited[visited] = self.query(node)
        return self.visited[visited]

    def query(self, node: exp.Query) -> Operator:
        """The operator of a query that is visited for the first time."""
        if next(hints.windows_under(node), None) is not None:
            try:
                return plan_window_results(self, node)
            except NotMeant:
                raise
            except QueryError:
                if isinstance(node, exp.Select) and (window := hints.window_of(node)):
                    return plan_window_rows(self, node, window)
        if isinstance(node, exp.SetOperation):
            return plan_set_operation(self, node)
        if isinstance(node, exp.Select):
            return self.select(node)
        raise QueryError(f"'{hints.quoted(node)}' can't be kept up to date from a stream.")

    def add(self, operator: Operator) -> Operator:
        """An operator; the one of its name that is there, if there is one."""
        return self.operators.setdefault(operator.name, operator)

    def drops(self, operator: Operator, select: exp.Select, time: str = "", alias: str = "") -> Operator:
        """Notes that an operator drops rows without an event time; arguments as of `untimed_rows.of`."""
        found = (*self.dropped.get(operator.name, ()), *untimed_rows.of(select, time, alias))
        self.dropped[operator.name] = tuple(dict.fromkeys(found))
        return operator

    def place(self, operator: Operator, alias: str) -> exp.Expr:
        """What stands for an operator in a tree that is visited again."""
        table = table_of(operator.name, alias)
        hints.place(table, operator.name)
        return table

    def select(self, select: exp.Select) -> Operator:
        """The operator of a SELECT."""
        return plan_select(self, select)
