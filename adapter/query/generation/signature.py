"""Everything that the state of a plan depends on, as plain JSON: stored with the state, and compared with
that of an edited query."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, replace

from sqlglot import exp

from ...sources.source_tables import without_place
from ..aggregates.metric_columns import MetricColumns
from ..aggregates.model import AggregateStage, GroupStage
from ..aggregates.partials import Partials
from ..frontend.source_text import ordered
from ..normalize.conditions import explodes
from ..normalize.rankings.ranks import Top
from ..plan.dataflow import Dataflow
from ..plan.operator import Operator, in_order
from ..plan.operators.group_aggregate import GroupAggregate
from ..plan.operators.recompute import Recompute
from ..plan.operators.top_n import TopN
from ..plan.plan import Plan
from ..plan.stages import Stage
from ..plan.state.groups import GroupChanges
from ..plan.state.ranked_groups import members_part
from ..plan.state.row_columns import row_name
from ..plan.state.top_n_fields import BY, ORDER
from ..plan.upserts import kept_root, replaced, takes_back
from ..plan.window_operator import WindowOperator
from ..program import WHOLE, with_texts
from ..sql.dialect import DIALECT, parse, sql
from ..sql.names import digest, stages_renamed
from ..sql.nodes import every
from ..windows.emission import FINAL, Emission
from ..windows.windows import Window
from .generator import parts_of
from .results import OUTPUT, can_be_remade, remakes_whole

VERSION = 2


def signature(plan: Plan, ttl: int | None = None, emission: Emission = FINAL) -> dict[str, object]:
    """Returns everything that the state of a plan depends on, as plain JSON. Plans with equal signatures can
    share a state. It names the sources but not their locations, which the checkpoint has."""
    found: dict[str, object] = with_texts(_signature(plan, ttl, emission), without_place)
    return found


def _signature(plan: Plan, ttl: int | None, emission: Emission) -> dict[str, object]:
    flow, windows = plan.dataflow, plan.windows
    stages = _stages(plan)
    found: dict[str, object] = {"version": VERSION, "stages": stages}
    if times := {each.relation.lower(): each.event_time.lower() for each in plan.streams if each.event_time}:
        found["event_times"] = times
    if tables := _lookups(plan, json.dumps(stages)):
        found["lookups"] = tables
    if plan.text:
        found["text"] = plan.text
        found["clauses"] = [list(each) for each in plan.clauses()]
    if windows is not None:
        if windows.stages:
            # Early firing can be switched on and off: the state has all rows until the end of allowed
            # lateness.
            found["results"] = {"complete": emission.complete, "last": emission.last}
        return found
    found |= _operators(flow, ttl, emission)
    if flow.has_windows:
        # The state also has what open windows have emitted.
        found["results"] = asdict(emission)
    found["state_ttl"] = ttl is not None
    if ttl is not None:
        found["lives"] = True
    return found


def _stages(plan: Plan) -> list[dict[str, object]]:
    """Returns the definition of each stage of windows."""
    stages, all_stages = [], plan.dataflow.windowed
    for operator in plan.dataflow.window_operators:
        stage = operator.stage
        entry: dict[str, object] = {
            "name": stage.name,
            "streams": [stream.relation for stream in plan.streams if stream.view in stage.streams],
            "source": stage.source,
        }
        if not any(re.search(rf"\b{each.name}\b", stage.source) for each in all_stages):
            # A digest hides the names of stages, which the state uses.
            entry["ordered"] = digest(ordered(stage.source))
        entry["window"] = _window(stage.window)
        if isinstance(stage, AggregateStage):
            pieces = operator.window_steps()
            assert isinstance(pieces, Partials)
            below = [each.name for each in all_stages if each.level < stage.level]
            entry |= _aggregates(pieces, below)
            if stage.grouping_sets is not None:
                entry["key_order"] = [key.identity for key in stage.keys]
            if stage.has_finest_set:
                entry["distinct_sets"] = "finest"
            if stage.enumerated is not None:
                entry["enumerated"] = [list(stage.enumerated.keys), list(map(list, stage.enumerated.values))]
        else:
            entry["row"] = row_name(stage.name)
            if stage.top is not None:
                entry["top"] = _top(stage.top)
            if stage.plain:
                entry["plain"] = stage.plain
        if kept := _below(all_stages, stage):
            entry["below"] = kept
            # One name in the state may have belonged to several aggregates in turn, such as `sum(v + 1)` and
            # `sum(v - 1)`.
            entry["reads"] = {
                each.name: {key.name: key.identity for key in each.keys}
                | {metric.name: metric.identity for metric in each.metrics}
                for each in all_stages
                if each.name in kept and isinstance(each, AggregateStage)
            }
        stages.append(entry)
    return stages


def _lookups(plan: Plan, said: str) -> dict[str, list[str]]:
    """Returns by view the name of each lookup table whose rows go into the state; `said` is the text of all
    stages.

    A view is named after the table without its schema, and numbered if two have that name, so a text over
    views doesn't say which table it reads.
    """
    texts = [said, *(stage.rows for stage in plan.dataflow.windowed)]
    for each in in_order(kept_root(plan.dataflow)) if plan.windows is None else ():
        texts.append(getattr(each, "sql", ""))
    text = "\n".join(texts)
    return {
        table.view: [part.name.lower() for part in exp.to_table(table.relation, dialect=DIALECT).parts]
        for table in plan.lookups
        if re.search(rf"\b{table.view}\b", text)
    }


def _operators(flow: Dataflow, ttl: int | None, emission: Emission) -> dict[str, object]:
    """Returns the tree of operators, and the state tables of each."""
    groups: dict[str, dict[str, object]] = {}
    root = replaced(flow)
    for name, group in flow.groups.items():
        stage, own = replace(group.stage, name=name), takes_back(flow, group)
        pieces = GroupChanges(stage, group.expires_after(ttl), group.name, takes_back=own)
        groups[name] = {"operator": group.name, **_aggregates(pieces)}
        if group.stage.grouping_sets is not None:
            groups[name]["key_order"] = [key.identity for key in group.stage.keys]
        if group.stage.enumerated is not None:
            values = map(list, group.stage.enumerated.values)
            groups[name]["enumerated"] = [list(group.stage.enumerated.keys), list(values)]
        if pieces.keeps_given:
            # State table with the last row that each group gave, with all columns.
            groups[name]["given"] = pieces.given_part
    top = kept_root(flow)
    # Windows are identified by their stages.
    operators = [each for each in in_order(top) if not isinstance(each, WindowOperator)]
    tops = {each.name: each.top.rows for each in operators if isinstance(each, TopN)}
    of_rows = [
        members_part(each)
        for each in operators
        if isinstance(each, TopN) and not (each.final or each.inputs[0].relation.changes)
    ]
    parts = parts_of(flow, ttl)
    alone = root is not None and {*parts} == {top.name} and not flow.windowed
    kept = _kept_by_one(top, flow) if alone else None
    return {
        "operators": {each.name: _label(each) for each in operators},
        "inputs": {
            each.name: [below.name for below in each.inputs if not isinstance(below, WindowOperator)]
            for each in operators
        },
        "root": top.name,
        **({"tops": tops} if tops else {}),
        **({"ranked": of_rows} if of_rows else {}),
        **({"kept": kept} if kept else {}),
        "remade": can_be_remade(flow) and not emission.changes and (WHOLE if remakes_whole(root) else True),
        "groups": groups,
        "parts": parts,
        "output": OUTPUT if root is None else None,
    }


def _label(operator: Operator) -> str:
    """Returns the label of an operator. For a GROUP BY that is the result, the label leaves out why its rows
    are buffered."""
    is_result = isinstance(operator, Recompute) and operator.shown is not None
    return "GROUP BY" if is_result else operator.label


def _kept_by_one(operator: Operator, flow: Dataflow) -> dict[str, object] | None:
    """Returns the definition of the state of the only stateful operator, independent of its input."""
    if isinstance(operator, GroupAggregate):
        (name,) = flow.groups
        return {"name": name, "by": sorted(key.identity for key in operator.stage.keys)}
    if not isinstance(operator, TopN) or operator.final:
        return None
    rows = parse(operator.sql)
    assert isinstance(rows, exp.Select)
    by = [sql(each.this) for each in rows.expressions if each.alias_or_name.startswith((BY, ORDER))]
    return {"name": operator.name, "by": [*by, operator.top.function, operator.top.order]}


def _below(stages: Sequence[Stage], stage: Stage) -> dict[str, object]:
    """Returns how the results of other stages that a stage reads are computed, by stage. For a stage with
    aggregates also by column, so that other columns can be added and removed."""
    others = [each for each in stages if each.level < stage.level]
    by_name = bool(others) and isinstance(stage, AggregateStage) and not _takes_all_columns(stage)
    found: dict[str, object] = {}
    for each in others:
        if re.search(rf"\b{each.name}\b", stage.rows):
            text = each.output if isinstance(each, AggregateStage) else each.source
            columns = _columns(text) if by_name else None
            found[each.name] = text if columns is None else {"text": text, **columns}
    return found


def _takes_all_columns(stage: AggregateStage) -> bool:
    """Whether an added input column can change the stage's rows, or its other columns."""
    if any("*" in key.identity for key in stage.keys):
        return True
    for star in every(parse(stage.rows), exp.Star):
        over = star.parent.parent if isinstance(star.parent, exp.Column) else star.parent
        if not isinstance(over, exp.Select | exp.Count):
            return True
    # Read from the source as written: the expanded form of a window has a generated NATURAL JOIN.
    query = parse(stage.source)
    named = any(alias.args.get("columns") for alias in every(query, exp.TableAlias))
    natural = any(join.args.get("method") for join in every(query, exp.Join))
    distinct = any(select.args.get("distinct") for select in every(query, exp.Select))
    return named or natural or distinct or query.find(exp.SetOperation, exp.Lateral) is not None


def _columns(text: str) -> dict[str, object] | None:
    """Returns the expressions of a SELECT's columns, and its rows; None if its columns aren't listed by name."""
    query = parse(text)
    if not isinstance(query, exp.Select) or query.is_star or query.args.get("distinct") or explodes(query):
        return None
    columns = {item.alias_or_name.lower(): sql(item.unalias()) for item in query.expressions}
    query.set("expressions", [exp.Star()])
    return {"columns": columns, "rows": sql(query)}


def _aggregates(pieces: Partials, below: Sequence[str] = ()) -> dict[str, object]:
    """Returns the state columns of each metric, distinct set and key. These are identified by their text over
    the input rows, which doesn't change with an alias, the order or other parts of the query. `below`: stages
    that the input rows may come from."""
    stage = pieces.stage
    columns, sets = pieces.state_columns(), pieces.set_parts()
    by_name = {members.name: members.identity for members in stage.distinct_sets}
    metrics = {}
    for metric in stage.metrics:
        kept = list(MetricColumns(metric).aggregate.make)
        metrics[metric.identity] = {
            "sql": metric.sql,
            "columns": columns[metric.identity],
            # Changes if another version of the package, or another argument type, stores the metric
            # differently.
            "kept": [*kept, *([metric.types.sum] if metric.types else [])],
            "rows": digest(metric.rows),
            "ordered": digest(ordered(metric.rows)),
            **_over(metric.rows, below),
            **({"set": by_name[metric.distinct_set]} if metric.distinct_set else {}),
        }
    return {
        "keys": {key.name: key.identity for key in stage.keys},
        "grouping_sets": [list(members) for members in stage.grouping_sets or ()],
        "metrics": metrics,
        **(
            {"sets": {each: {"part": sets[each][0], "columns": sets[each][1]} for each in sets}}
            if sets
            else {}
        ),
        **({"retracts": True} if isinstance(stage, GroupStage) and stage.signed else {}),
    }


def _over(rows: str, below: Sequence[str]) -> dict[str, list[str]]:
    """For rows that are results of other stages, returns a digest that is independent of the stages' names,
    and these names.

    >>> (one, name), (other, its) = (_over(f"SELECT * FROM {name}", [name])["over"] for name in ("stage_1", "stage_3"))
    >>> one == other, name, its
    (True, 'stage_1', 'stage_3')
    """
    found = list(dict.fromkeys(each for each in re.findall(r"\w+", rows) if each in below))
    text = stages_renamed(rows, {name: f"stage {place}" for place, name in enumerate(found)})
    return {"over": [digest(text), *found]} if found else {}


def _top(top: Top) -> list[object]:
    return [top.function, list(top.partition), top.order, top.rows]


def _window(window: Window) -> dict[str, object]:
    listed: dict[str, object] = {**asdict(window), "partition_by": list(window.partition_by)}
    # Left out where empty, so that signatures from before these settings existed are equal.
    return {key: value for key, value in listed.items() if key not in ("partition_by", "time_zone") or value}
