"""The signature of a state after its migration to another query."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from ...query.state_signature import AggregateState, Signature


def migrated_signature(
    old: Signature,
    new: Signature,
    leftovers: Mapping[str, Collection[str]],
    dropped: Collection[str] = (),
    rebuilt_from: Sequence[str] | None = None,
    from_now: Mapping[str, Collection[str]] | None = None,
) -> Signature:
    """Returns the signature of a state after its migration to another query.

    Args:
        old: signature of the state before.
        leftovers: by operator, columns that still hold values of removed aggregates, because another operator uses
            them.
        rebuilt_from: groups from which the operators above are to be rebuilt; None to keep those of `old`.
        from_now: by operator, new aggregates that don't include the rows before them.
    """
    before = old.aggregates

    def noted(name: str, aggregates: AggregateState) -> AggregateState:
        had = before.get(name, AggregateState())
        restarted = {key for key, metric in had.metrics.items() if metric.from_now}
        restarted |= {*(from_now or {}).get(name, ())}
        return replace(
            aggregates,
            metrics={
                key: replace(metric, from_now=True) if key in restarted else metric
                for key, metric in aggregates.metrics.items()
            },
            leftovers=tuple(sorted(({*had.leftovers} - {*dropped}) | {*leftovers.get(name, ())})),
        )

    found = new.with_aggregates(noted)
    return replace(found, rebuilt_from=old.rebuilt_from if rebuilt_from is None else tuple(rebuilt_from))
