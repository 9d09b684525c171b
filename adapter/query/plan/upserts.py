"""Finds the operator that is the result: it emits rows that replace others by key, and retracts nothing.

An operator below others has to emit retractions for them. Above the result there is only the table, which
finds the rows of a group or a ranking by key. So the affected rows are read from the state after its commit;
no old rows are computed, and the output isn't stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from ..program import Lookup, TargetCondition, Upsert
from ..sql.clauses import first_aggregate, is_semi_or_anti, relations, relations_with_joins
from ..sql.nodes import every
from .column_origins import outputs_of_select
from .dataflow import Dataflow
from .identity import multiplies_rows
from .lookup_keys import KeyQuery, LookupTable, key_queries, ordered_lookups
from .operator import Operator, input_name, with_inputs
from .operators.group_aggregate import GroupAggregate
from .operators.materialized_project import MaterializedProject
from .operators.project import Project
from .operators.recompute import Recompute
from .operators.top_n import TopN
from .relation import GIVEN_BY, WEIGHT
from .state.group_state import identity_columns
from .time_conditions import conditions


@dataclass(frozen=True)
class ResultOperator:
    """The operator that is the result, apart from row-by-row operators above it."""

    operator: GroupAggregate | TopN | Recompute
    path: tuple[Project | MaterializedProject, ...]
    """Row-by-row operators above it, the lowest first. None of them keeps state, as their output is never
    retracted."""
    key: tuple[str, ...] | None
    """Columns that identify a row of the result; None if rows are only appended."""
    group_columns: tuple[str, ...]
    """Columns of the result that identify the group or ranking of a row."""
    key_is_unique: bool = True
    """Whether the key is known to be unique: no joined table may multiply rows."""

    def operators_with_inputs(self, rows: str) -> Iterator[tuple[Project | MaterializedProject, str]]:
        """Yields the operators of `path`, each with the query for its input.

        Args:
            rows: relation of the affected rows, with weights.
        """
        text = f"select * from {rows}"
        if self.key is None:
            text = f"select * except ({WEIGHT}) from {rows}"
        for each in self.path:
            if isinstance(each, MaterializedProject):
                text = f"select * except ({WEIGHT}), true as {GIVEN_BY} from (\n{text}\n)"
            yield each, text
            text = with_inputs(each.sql, [text])
            if isinstance(each, MaterializedProject):
                text = f"select * except ({GIVEN_BY}), 1L as {WEIGHT} from (\n{text}\n)"

    def output_sql(self, rows: str) -> str:
        """Returns the query for the result, over the relation `rows`, as in `operators_with_inputs`."""
        text = f"select * except ({WEIGHT}) from {rows}"
        for each, below in self.operators_with_inputs(rows):
            text = with_inputs(each.sql, [below])
            hidden = GIVEN_BY if isinstance(each, MaterializedProject) else WEIGHT
            text = text if self.key is None else f"select * except ({hidden}) from (\n{text}\n)"
        return text

    def lookups(self, rows: str, tables: Sequence[LookupTable]) -> tuple[Lookup, ...]:
        """Returns the look-ups in external tables that the result needs."""
        queries: list[KeyQuery] = []
        read = frozenset[str]()
        for each, below in self.operators_with_inputs(rows):
            queries += [query.with_input_queries([below], read) for query in key_queries(each.query, tables)]
            read |= each.tables_read
        return ordered_lookups(queries, tables)

    def upsert(self, touched: str, columns: tuple[str, ...]) -> Upsert | None:
        """Returns how the output replaces rows of the affected groups in the table; None if rows are only appended.

        Args:
            touched: relation with the affected groups.
            columns: its columns, in the order of `group_columns`.
        """
        if self.key is None:
            return None
        target_filter = tuple(
            TargetCondition(name, "<=>", column)
            for name, column in zip(self.group_columns, columns, strict=True)
        )
        listed = ", ".join(columns) or "true as anything"
        is_group = isinstance(self.operator, GroupAggregate)
        stored = dict(zip(self.group_columns, columns, strict=True)) if is_group else {}
        origins = {name: stored[name].strip("`") for name in self.key if name in stored}
        affected_keys = f"select {listed} from {touched}"
        return Upsert(
            self.key, affected_keys, target_filter, None, self.key_is_unique, column_origins=origins
        )


def result_operator(flow: Dataflow) -> ResultOperator | None:
    """Returns the operator that is the result; None if the result has to be emitted as changes."""
    path: list[Project | MaterializedProject] = []
    below = flow.root
    while isinstance(below, Project | MaterializedProject) and len(below.inputs) == 1:
        path.insert(0, below)
        (below,) = below.inputs
    if not isinstance(below, GroupAggregate | TopN | Recompute):
        return None
    uses = [each.name for operator in flow.operators for each in operator.inputs]
    if any(uses.count(each) > 1 for each in (below.name, *(step.name for step in path))):
        return None
    if isinstance(below, TopN) and below.final:
        return ResultOperator(below, tuple(path), None, ())
    selects = [each.query for each in path]
    within, keys = _columns_of_groups(below), below.relation.keys
    if within is None or any(map(_multiplies_rows, selects)):
        return None
    names = {*within, *(name for each in keys for name in each)}
    shown = {
        column: name for name, column in _rename_through({name: name for name in names}, selects).items()
    }
    key = next((each for each in keys if each <= shown.keys()), None)
    if key is None or not shown.keys() >= {*within}:
        return None
    key_is_unique = not any(select.args.get("joins") for select in selects)
    if not key_is_unique and not key:
        return None  # A single row without key columns can't be found in the table.
    group_columns = tuple(shown[name] for name in within)
    return ResultOperator(
        below, tuple(path), tuple(sorted(shown[name] for name in key)), group_columns, key_is_unique
    )


def needs_retractions(flow: Dataflow, group: GroupAggregate) -> bool:
    """Whether the readers of a GROUP BY need retractions of its old rows. The table finds rows of the result by key, and
    a ranking finds its members by key, unless a filter on values is in between."""
    root = result_operator(flow)
    if root is not None and root.operator is group:
        return False
    above = [each for each in flow.operators if any(below.name == group.name for below in each.inputs)]
    while len(above) == 1 and isinstance(above[0], Project) and not above[0].query.args.get("where"):
        (step,) = above
        above = [each for each in flow.operators if any(below.name == step.name for below in each.inputs)]
    return not (
        len(above) == 1
        and isinstance(above[0], TopN)
        and above[0].inputs[0].relation.changes
        # The ranking that a group belongs to follows from its keys.
        and above[0].of_groups is not None
        and not above[0].query.args.get("where")
    )


def state_root(flow: Dataflow) -> Operator:
    """Returns the topmost operator that the state depends on: nothing above the operator that is the result is stored."""
    found = result_operator(flow)
    return flow.root if found is None else found.operator


def _columns_of_groups(operator: GroupAggregate | TopN | Recompute) -> tuple[str, ...] | None:
    """Returns the columns of an operator (lower case) that identify a group or a ranking; None if some aren't in the
    output."""
    if isinstance(operator, GroupAggregate):
        return tuple(name.lower() for name in identity_columns(operator.spec))
    named = tuple(name for name in operator.shown or () if name is not None)
    return named if operator.shown is not None and len(named) == len(operator.shown) else None


def _multiplies_rows(select: exp.Select) -> bool:
    """Whether a SELECT may multiply its rows for reasons other than the contents of a table: it generates
    rows, keeps unmatched rows of a table, or joins a table without a key."""
    if multiplies_rows(select):
        return True
    read = relations_with_joins(select)
    if any(join is not None and join.side in ("RIGHT", "FULL") for _, join in read):
        return True
    tests = conditions(select)
    return not all(
        node.name == input_name(0)
        or (join is not None and (is_semi_or_anti(join) or join.args.get("using")))
        or _is_one_row(node)
        or any(_is_equated(test, node.alias_or_name) for test in tests)
        for node, join in read
    )


def _is_one_row(node: exp.Expr) -> bool:
    """Whether a query in FROM is an aggregate without GROUP BY."""
    query = node.unnest()
    return (
        isinstance(query, exp.Select) and first_aggregate(query) is not None and not query.args.get("group")
    )


def _is_equated(test: exp.Expr, alias: str) -> bool:
    """Whether a condition equates an expression over the relation with something else, so that the column may
    be its key."""
    if not isinstance(test, exp.EQ | exp.NullSafeEQ):
        return False
    sides = [{column.table.lower() for column in every(side, exp.Column)} for side in test.iter_expressions()]
    own = {alias.lower()}
    return any(side & {*own, ""} for side in sides) and not all(side == own for side in sides)


def _rename_through(columns: Mapping[str, str], selects: Sequence[exp.Select]) -> dict[str, str]:
    """Returns the mapping with columns renamed as they pass through the SELECTs."""
    found = dict(columns)
    for select in selects:
        found = outputs_of_select(select, relations(select)[0].alias_or_name).with_output_names(found)
    return found
