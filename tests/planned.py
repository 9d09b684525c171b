"""Plans of queries, as tests want them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from sqlglot import exp, parse_one

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation.generate import generate_program
from dbt.adapters.spark_streaming.query.plan.operator import PrintedOperator, input_name
from dbt.adapters.spark_streaming.query.plan.operators.project import Project
from dbt.adapters.spark_streaming.query.plan.operators.window_results import WindowResults
from dbt.adapters.spark_streaming.query.plan.plan import Plan
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.planner.context import PlannerSettings
from dbt.adapters.spark_streaming.query.planner.read_text import read_text
from dbt.adapters.spark_streaming.query.sql.functions import QueryRunner
from dbt.adapters.spark_streaming.query.state_signature import Signature
from dbt.adapters.spark_streaming.query.windows.emission import FINAL, Emission


def plan_of(
    text: str,
    known: Mapping[str, RelationInfo] | None = None,
    ttl: int | None = None,
    ask: QueryRunner | None = None,
) -> Plan:
    """A query's plan, whether or not its state can grow for ever."""
    return plan_query.plan(text, known, ttl, ask=ask, may_grow=True)


def signature_of(plan: Plan, ttl: int | None = None) -> Signature:
    """What the state of a plan's program depends on."""
    found: Signature = generate_program(plan, ttl=ttl).signature
    return found


def queries_of(plan: Plan) -> str:
    """The SQL of the operators that have a query."""
    return "\n".join(each.sql for each in plan.dataflow.operators if isinstance(each, PrintedOperator))


def windows_of(text: str) -> WindowResults:
    """The windows that are all of a query."""
    found = plan_of(text).dataflow.windows
    assert found is not None, "it is put together of operators"
    return found


def tree_of(
    text: str,
    known: Mapping[str, RelationInfo] | None = None,
    ttl: int | None = None,
    domains: Collection[str] = (),
    ask: QueryRunner | None = None,
    emission: Emission = FINAL,
) -> Plan:
    """A query's plan as if something stood above its windows, so that these don't put themselves out."""
    settings = PlannerSettings(ttl, emission)

    def plan(
        text: str,
        tree: exp.Query,
        known: Mapping[str, RelationInfo],
        domains: Collection[str],
        ask: QueryRunner | None,
    ) -> Plan:
        read = read_text(text, tree, known, ask)
        return plan_query.plan_as_operators(read, domains, settings)

    made = plan_query.plan_with_separate_names(text, known or {}, domains, ask, plan)
    root = made.dataflow.root
    if not isinstance(root, WindowResults):
        return made
    above = Project(
        name="above",
        inputs=(root,),
        query=parse_one(f"select * from {input_name(0)}"),
        label="above",
    )
    return replace(
        made, dataflow=replace(made.dataflow, root=above, operators=(*made.dataflow.operators, above))
    )
