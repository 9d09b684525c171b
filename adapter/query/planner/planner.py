"""Plans a tree as operators, in one bottom-up pass.

Each SELECT is first split into steps that do one thing: join, group, rank, remove duplicates, project. For
each step the planner takes the cheapest operator whose rule applies, or else `Recompute`: the query over all
rows of the affected partitions, minus its previous result.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from sqlglot import exp

from ..errors import EVENT_TIME_IN_YAML, QueryError, UnboundedStateError
from ..frontend import hints
from ..frontend.streams import Streams
from ..plan import unbounded_state, untimed_rows
from ..plan.dataflow import Dataflow
from ..plan.operator import Operator, inputs_first
from ..plan.operators.recompute import Recompute
from ..plan.operators.top_n import TopN
from ..plan.upserts import result_operator, state_root
from ..sql.nodes import copied
from . import results
from .context import Planner, PlannerSettings
from .selects import plan_select
from .set_operations import plan_set_operation
from .sources import plan_source
from .windows import plan_window_results, plan_window_rows
from .within_windows import WithinWindows

NO_STREAM = (
    "The query reads no stream; wrap a relation of its FROM in a windowing table function or in stream(): FROM {{ "
    "tumble(ref('…'), 'time_column', '10 minutes') }}."
)


def dataflow(
    tree: exp.Query,
    streams: Streams,
    domains: Collection[str],
    within: WithinWindows,
    settings: PlannerSettings,
) -> tuple[Dataflow, Streams, tuple[str, ...], tuple[untimed_rows.DroppedRows, ...]]:
    """Returns the operators of a tree in which streams and static tables are marked. Changes the tree.

    Args:
        tree: a query.
        streams: its streams.
        domains: columns whose sets of values don't grow.
        within: the queries that stay within windows.
        settings: settings of the model's configs.

    Returns:
        The operators, the streams, the rankings that filters limit, as written, and the places where rows
            without an event time are dropped.

    Raises:
        QueryError: it isn't supported over streams, or its state is unbounded.
    """
    ranked = results.result_select(tree) is not None

    planner_of = partial(TreePlanner, streams=streams, domains=domains, within=within, settings=settings)
    planner = planner_of(copied(tree) if ranked else tree)
    flow = planner.plan(marks_result=ranked)
    alone = [
        each
        for each in flow.operators
        if (isinstance(each, TopN) and each.final) or (isinstance(each, Recompute) and each.shown is not None)
    ]
    found = result_operator(flow)
    # A joined static table may multiply rows of a ranking whose groups expire.
    forgets = any(isinstance(each, TopN) and each.of_ids for each in flow.operators)
    if (alone and found is None) or (forgets and found is not None and not found.key_is_unique):
        # Other operators turned out to be above it, which the text alone doesn't show.
        planner = planner_of(tree)
        flow = planner.plan()
    dropped = dict.fromkeys(
        each for operator in flow.operators for each in planner.dropped.get(operator.name, ())
    )
    return flow, planner.streams, tuple(planner.ranks), tuple(dropped)


class TreePlanner(Planner):
    """The planner with all its rules."""

    def plan(self, marks_result: bool = False) -> Dataflow:
        """Returns the operators of the whole tree.

        Args:
            marks_result: whether the ranking or GROUP BY whose rows are the result is planned as such: first rows
                are emitted once, and groups may be non-deterministic.
        """
        if marks_result:
            results.mark_result(self.tree)
        root = self.visit(self.tree)
        if root is None:
            raise QueryError(NO_STREAM)
        operators = tuple(inputs_first(root))
        times = [self.streams.known(stream.view).event_time for stream in self.streams.streams.values()]
        if self.ttl is not None and not any(times):
            raise QueryError(
                "How long rows are kept is measured in event time, and no stream of this query says which column that is; "
                f"give one {EVENT_TIME_IN_YAML}."
            )
        key = root.relation.key if root.relation.changes else None
        flow = Dataflow(root, None if key is None else tuple(sorted(key)), operators)
        if self.ttl is None and not self.settings.may_grow:
            # Operators above the one that is the result have no state.
            for each in inputs_first(state_root(flow)):
                if each.growth is not None:
                    raise UnboundedStateError(
                        unbounded_state.unbounded_state_message(each.growth, self.domains)
                    )
        return flow

    def source(self, table: exp.Table) -> Operator:
        return plan_source(self, table)

    def query(self, node: exp.Query) -> Operator:
        """Returns a new operator for a query that has none yet."""
        if next(hints.windows_under(node), None) is not None:
            if (results_of_windows := plan_window_results(self, node)) is not None:
                return results_of_windows
            if isinstance(node, exp.Select) and (window := hints.window_of(node)):
                return plan_window_rows(self, node, window)
        if isinstance(node, exp.SetOperation):
            return plan_set_operation(self, node)
        if isinstance(node, exp.Select):
            return self.select(node)
        raise QueryError(f"'{hints.excerpt(node)}' can't be kept up to date from a stream.")

    def select(self, select: exp.Select) -> Operator:
        return plan_select(self, select)
