"""Compares the aggregates of a state with those of an edited query.

Aggregates can be added and removed without a change of the other aggregates' columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...query.state_signature import AggregateState, MetricState
from .effect import STORAGE, Evolution
from .output_schema import is_promotion


def compare_aggregates(
    found: Evolution, name: str, old: AggregateState, new: AggregateState, same_rows: bool
) -> None:
    """Adds to `found` the effect on the aggregates of a window operator or group.

    Args:
        same_rows: whether the input rows are known to be the same.

    >>> def of(*names): return AggregateState(metrics={each: MetricState(each, (each,)) for each in names})
    >>> found = Evolution()
    >>> compare_aggregates(found, "window_1a2b", of("a", "b"), of("c", "a"), False)
    >>> found.kept, found.new, found.removed, found.refused, found.dropped_columns, found.new_columns
    (['a'], ['c'], ['b'], [], {'window_1a2b': {'b'}}, {'window_1a2b': {'c'}})
    """
    gone = {key: metric for key, metric in old.metrics.items() if key not in new.metrics}
    come = {key: metric for key, metric in new.metrics.items() if key not in old.metrics}
    kept = [key for key in new.metrics if key in old.metrics]
    found.kept += [new.metrics[key].sql for key in kept]
    found.removed += [metric.sql for metric in gone.values()]
    found.new += [metric.sql for metric in come.values()]
    found.new_keys[name] = {*come}
    found.refused += _requalification_problems(gone, come)
    for key in kept:
        _compare_metric(found, old.metrics[key], new.metrics[key], same_rows)
    if new.retracts:
        found.refused += [
            f"the aggregate {metric.sql} is new, and rows that came before it may be retracted from it"
            for metric in come.values()
        ]
    _compare_distinct_sets(found, old, new)
    _compare_columns(found, name, old, new)


def _compare_metric(found: Evolution, old: MetricState, new: MetricState, same_rows: bool) -> None:
    if not _is_stored_alike(old.storage, new.storage):
        found.refused.append(STORAGE)
    elif not same_rows and old.rows != new.rows:
        found.refused.append(f"what {new.sql} is made of, below the aggregates")
    elif len(old.columns) != len(new.columns):
        found.refused.append(STORAGE)
    else:
        _add_renamed_columns(found, old.columns, new.columns)


def _is_stored_alike(had: Sequence[str], has: Sequence[str]) -> bool:
    """Returns whether an aggregate has the same state, or the same state with a wider type.

    >>> _is_stored_alike(["sum", "decimal(15,2)"], ["sum", "decimal(22,2)"]), _is_stored_alike(["sum", "double"], ["sum"])
    (True, False)
    """
    if not had or not has:
        return had == has
    *before, was = had
    *after, now = has
    return before == after and (was == now or is_promotion(was.lower(), now.lower()))


def _compare_distinct_sets(found: Evolution, old: AggregateState, new: AggregateState) -> None:
    before, after = old.distinct_sets, new.distinct_sets
    found.dropped_parts += [each.part for key, each in before.items() if key not in after]
    found.new_parts |= {each.part for key, each in after.items() if key not in before}
    for key in [key for key in before if key in after]:
        if before[key].part != after[key].part:
            found.refused.append(f"how the distinct values of {key} are called")
        else:
            _add_renamed_columns(found, before[key].columns, after[key].columns)


def _compare_columns(found: Evolution, name: str, old: AggregateState, new: AggregateState) -> None:
    kept = [new.metrics[key].columns for key in new.metrics if key in old.metrics]
    kept += [new.distinct_sets[key].columns for key in new.distinct_sets if key in old.distinct_sets]
    own = {column for columns in kept for column in columns}
    begun = new.columns - own
    found.kept_columns |= own
    found.dropped_columns[name] = {
        column for column in old.columns if found.renamed.get(column, column) not in own
    }
    found.new_columns[name] = begun
    if stale := begun & {*old.leftovers}:
        found.refused.append(
            f"its state still has earlier values of {', '.join(sorted(stale))}, because something else in the query has a "
            "column of that name"
        )


def _add_renamed_columns(found: Evolution, before: Sequence[str], after: Sequence[str]) -> None:
    for was, now in zip(before, after, strict=True):
        if found.renamed.setdefault(was, now) != now:
            found.refused.append(f"how {was} of its state is called")


def _requalification_problems(
    gone: Mapping[str, MetricState], come: Mapping[str, MetricState]
) -> Iterator[str]:
    """Yields sentences on new aggregates that differ from a removed one only in the qualification of columns."""
    plain = {metric.unqualified or key: metric.sql for key, metric in gone.items()}
    for key, metric in come.items():
        if (was := plain.get(metric.unqualified or key)) is not None:
            yield (
                f"{metric.sql} was written {was}, and several relations are read, so it may be another column; write it as "
                "it was"
            )


def key_differences(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    """Yields the differences between the group keys of a state and of a query, in words.

    >>> list(key_differences({"a": "a"}, {"a": "a", "b": "b"})), list(key_differences({"x": "a"}, {"y": "a"}))
    (['the group key b is new'], ['the order of its group keys'])
    """
    gone = [text for text in old.values() if text not in new.values()]
    come = [text for text in new.values() if text not in old.values()]
    yield from (f"the group key {text} is gone" for text in gone)
    yield from (f"the group key {text} is new" for text in come)
    if not gone and not come and old != new:
        yield "the order of its group keys"
