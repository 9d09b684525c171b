"""Compares the operators of a state with those of an edited query.

Operators that differ are rebuilt from unchanged groups and rankings below them, whose state includes all rows so far.
"""

from __future__ import annotations

from collections.abc import Collection

from ...query.state_signature import AggregateState, TreeState
from . import effect
from .aggregates import compare_aggregates, key_differences
from .effect import Evolution
from .match_parts import have_same_meaning, have_same_single_operator
from .trees import Trees, operator_of, operators_below

_WITH_SENTENCES = ("recompute_", "timely_", "closed_", "normalize_")
"""Prefixes of the names of operators whose labels are sentences."""


def compare_operators(found: Evolution, trees: Trees) -> None:
    """Adds the effect on a tree of operators."""
    was, now = trees.was, trees.now
    if trees.same_rows and have_same_single_operator(was, now):
        for had_group, (name, group) in zip(was.groups.values(), now.groups.items(), strict=True):
            aggregates = had_group.aggregates, group.aggregates
            found.refused += group_effect(*aggregates, name, same_rows=True).refused
            compare_aggregates(found, name, *aggregates, same_rows=True)
        _compare_final_ranking(found, trees, is_same=True)
        return
    if _tree_structure(was) == _tree_structure(now):
        same_row_groups = trees.groups_of_same_rows()
        for name in trees.groups:
            had, has = was.groups[name].aggregates, now.groups[name].aggregates
            found.refused += group_effect(had, has, name, name in same_row_groups).differences
        return
    if _compare_final_ranking(found, trees, is_same=_is_same_but_rankings(was, now)):
        return
    # Window operators are numbered in the order in which the planner reads them.
    same_windows = trees.has_same_windows()
    if same_windows and _compare_same_rows(found, trees):
        return
    if not now.can_rebuild or not same_windows:
        found.refused += _refusal_reasons(trees)
    elif now.has_ttl:
        why = _refusal_reasons(trees)
        why = (
            [f"{effect.OPERATORS}; with state_ttl they aren't rebuilt"] if why == [effect.OPERATORS] else why
        )
        found.refused += why
    else:
        _add_rebuild(found, trees)


def _tree_structure(tree: TreeState) -> tuple[object, ...]:
    return _operators_without_labels(tree), tree.root, tree.parts, tree.rankings


def _is_same_but_rankings(was: TreeState, now: TreeState) -> bool:
    is_same = all(getattr(was, each) == getattr(now, each) for each in ("root", "parts", "groups"))
    return is_same and _operators_without_labels(was) == _operators_without_labels(now)


def _operators_without_labels(tree: TreeState) -> dict[str, str]:
    """Returns the operators without labels that are sentences, which another version of the package may word differently.
    The names of these operators are digests of all that they compute."""
    return {name: "" if name.startswith(_WITH_SENTENCES) else text for name, text in tree.operators.items()}


def group_effect(old: AggregateState, new: AggregateState, name: str, same_rows: bool) -> Evolution:
    """Returns the effect on the state of a GROUP BY without windows."""
    found = Evolution()
    reasons = {
        "the group keys": old.keys != new.keys,
        effect.GROUPING_SETS: old.grouping_sets != new.grouping_sets,
        effect.RETRACTS: old.retracts != new.retracts,
        effect.ENUMERATED: old.enumerated != new.enumerated,
        effect.KEY_ORDER: old.key_order is not None and old.key_order != new.key_order,
    }
    found.refused += [reason for reason, holds in reasons.items() if holds]
    compare_aggregates(found, name, old, new, same_rows)
    return found


def _refusal_reasons(trees: Trees) -> list[str]:
    """Returns the reasons why a state can't be used by a query: specific ones if both have a single stateful operator."""
    was, now = trees.was, trees.now
    if was.single_by is None or now.single_by is None:
        return [effect.OPERATORS]
    if len(was.groups) == len(now.groups) == 1:
        (had,), (has,) = ([each.aggregates for each in tree.groups.values()] for tree in (was, now))
        sets = {
            effect.GROUPING_SETS: had.grouping_sets != has.grouping_sets,
            effect.KEY_ORDER: had.key_order != has.key_order,
        }
        found = [*key_differences(had.keys, has.keys), *(reason for reason, holds in sets.items() if holds)]
        return found or [effect.SOURCE]
    if was.groups or now.groups:
        return [effect.OPERATORS]
    return [effect.RANKED_ROWS if was.single_by == now.single_by else effect.RANKING]


def _compare_final_ranking(found: Evolution, trees: Trees, is_same: bool) -> bool:
    """Returns whether only N of a final Top-N has changed (with `is_same`, nothing else has), and adds the effect on it."""
    was, now = trees.was, trees.now
    had, has = (tree.rankings.get(tree.root) for tree in (was, now))
    others = [{name: n for name, n in tree.rankings.items() if name != tree.root} for tree in (was, now)]
    is_alone = is_same and now.output is None and not now.groups
    if not is_alone or had is None or has is None or others[0] != others[1]:
        return False
    may_have_expired = now.has_ttl or not now.can_rebuild
    found.limit_ranking(had, has, may_have_expired)
    if found.rebuilt:
        found.rebuilt_from = [*now.parts[now.root]]
    return True


# -- the same rows -------------------------------------------------------------------------------------


def _compare_same_rows(found: Evolution, trees: Trees) -> bool:
    """Returns whether two trees have the same rows and the same state tables, so that at most aggregates and output
    columns differ; adds these differences."""
    if trees.fingerprints is None or not have_same_meaning(*trees.fingerprints):
        return False
    was, now = trees.was, trees.now
    # State tables of distinct values are added and removed with the aggregates that use them.
    parts = [
        tree.all_parts.difference(
            each.part for group in tree.groups.values() for each in group.aggregates.distinct_sets.values()
        )
        for tree in (was, now)
    ]
    rows = [each.rows for each in trees.fingerprints]
    if rows[0] != rows[1] or parts[0] != parts[1] or was.groups.keys() != now.groups.keys():
        return False
    # Without a state table of the output, the root's output is computed from its state.
    meanings = [each.meaning for each in trees.fingerprints]
    outputs = was.output_parts | now.output_parts
    is_reshaped = meanings[0] != meanings[1] and bool(outputs)
    if is_reshaped and not _has_same_row_key(trees):
        return False
    same_row_groups = trees.groups_of_same_rows()
    before = {name: trees.with_distinct_keys(name) for name in was.groups}
    if not all(_may_keep_group(trees, name, before[name], name in same_row_groups) for name in before):
        return False
    for name, had in before.items():
        compare_aggregates(found, name, had, now.groups[name].aggregates, name in same_row_groups)
    if is_reshaped:
        found.changed_output.append("its output")
        for part in sorted(outputs):
            found.dropped_parts.append(part)
            found.dropped_columns[part] = found.new_columns[part] = {f"{part}_row"}
    return True


def _has_same_row_key(trees: Trees) -> bool:
    """Returns whether old rows are found in the table by the key of the new ones, so that its columns are unchanged."""
    assert trees.fingerprints is not None
    key = trees.new.row_key
    if trees.old.row_key != key:
        return False
    had, has = (dict(each.columns) for each in trees.fingerprints)
    return key is None or (
        key.columns is not None and all(had.get(each) == has.get(each, "") for each in key.columns)
    )


def _may_keep_group(trees: Trees, name: str, had: AggregateState, same_rows: bool) -> bool:
    group = trees.now.groups[name]
    has = group.aggregates
    # The state has the last emitted row of a group, with the columns of its aggregates.
    is_row_changed = group.last_output is not None and had.metrics.keys() != has.metrics.keys()
    if is_row_changed or trees.changed_values(name):
        return False
    if group.operator != trees.now.root and trees.is_reworded(name):
        return False
    return not group_effect(had, has, name, same_rows).refused


# -- a rebuild -----------------------------------------------------------------------------------------


def _add_rebuild(found: Evolution, trees: Trees) -> None:
    """Adds the effect of a rebuild from unchanged groups and rankings, or refuses it."""
    problems = _usable_starts(trees)
    starts = rebuild_starts(trees.now, [name for name in problems if not problems[name]])
    if starts is None:
        more = [effect.MORE_ROWS.format(has, had) for _, had, has in trees.rankings() if has > had]
        found.refused += more or _refusal_reasons(trees)
        found.refused += [problem for each in problems.values() for problem in each]
        return
    of_groups = starts & trees.now.groups.keys()
    made_of = [*(["groups"] if of_groups else []), *(["rankings"] if starts - of_groups else [])]
    found.rebuilt_from = sorted(starts)
    found.rebuilt.append(f"what is computed of its {' and '.join(made_of)}")
    same_row_groups = trees.groups_of_same_rows()
    for name in sorted(of_groups):
        has = trees.now.groups[name]
        compare_aggregates(
            found, name, trees.with_distinct_keys(name), has.aggregates, name in same_row_groups
        )
        found.new_columns_in |= {part: found.new_columns[name] for part in trees.now.parts[has.operator]}
    lost, made = (_metrics_of_one(trees, tree) for tree in (trees.was, trees.now))
    found.removed += [text for text in lost if text not in made]
    gone = (trees.was.all_parts | trees.was.output_parts) - _kept_parts(trees, starts)
    found.dropped_parts += sorted(gone - {*found.dropped_parts})
    found.new_parts |= trees.now.all_parts - trees.was.all_parts
    found.drops_other_parts = True


def _usable_starts(trees: Trees) -> dict[str, list[str]]:
    """Returns the groups and rankings whose state is complete, and what prevents the use of each, in words."""
    same_row_groups, found = trees.groups_of_same_rows(), {}
    for name in trees.groups:
        group = trees.now.groups[name]
        if trees.is_complete(name) and trees.is_same_below(group.operator):
            had = trees.with_distinct_keys(name)
            refused = group_effect(had, group.aggregates, name, name in same_row_groups).refused
            found[name] = [*refused, *trees.changed_values(name)]
    return found | {
        part: []
        for part, had, has in trees.rankings()
        if has <= had and trees.is_complete(part) and trees.is_same_below(operator_of(trees.now, part))
    }


def _kept_parts(trees: Trees, starts: Collection[str]) -> set[str]:
    """Returns the state tables at and below the operators from which a rebuild starts."""
    was, now = trees.was, trees.now
    at = {part for name in starts for part in was.parts.get(operator_of(was, name), ())}
    below = {each for name in starts for each in operators_below(now.inputs, operator_of(now, name))}
    last_outputs = {was.groups[name].last_output for name in starts if name in was.groups}
    return (at | {part for each in below for part in now.parts.get(each, ())}) - last_outputs


def _metrics_of_one(trees: Trees, tree: TreeState) -> dict[str, None]:
    """Returns the aggregates of the groups that only one of the trees has."""
    return {
        metric.sql: None
        for name, group in tree.groups.items()
        if name not in trees.groups
        for metric in group.aggregates.metrics.values()
    }


def rebuild_starts(tree: TreeState, usable: Collection[str]) -> set[str] | None:
    """Returns the topmost groups and rankings with usable state on each path from the root, or None if a path has none.

    >>> rebuild_starts(TreeState(root="top", inputs={"top": ("rows",), "rows": ("source",), "source": ()}), ["rows"])
    {'rows'}
    >>> rebuild_starts(TreeState(root="top", inputs={"top": ("rows",), "rows": ()}), [])
    """
    names = {operator_of(tree, name): name for name in usable}

    def below(operator: str) -> set[str] | None:
        if operator in names:
            return {operator}
        found = [below(each) for each in tree.inputs[operator]]
        complete = [each for each in found if each is not None]
        return set().union(*complete) if found and len(complete) == len(found) else None

    while (found := below(tree.root)) is not None:
        # An operator above another one would ingest that one's replayed groups a second time.
        upper = {each for each in found if operators_below(tree.inputs, each) & found}
        if not upper:
            return {names[each] for each in found}
        for each in upper:
            del names[each]
    return None
