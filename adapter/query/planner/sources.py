"""Plans streams of the project."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from ...util.quoting import is_path
from ..errors import UnintendedQueryError
from ..frontend.streams import RelationInfo
from ..plan.operator import Operator, UnboundedState
from ..plan.operators.changelog_normalize import ChangelogNormalize
from ..plan.operators.source import Source
from ..sql.names import digest
from .context import Planner


def plan_source(planner: Planner, table: exp.Table) -> Operator:
    """Plans a stream; for an upsert source with the last row of each key."""
    known = planner.streams.known(table.name)
    relation = planner.streams.relation(table.name)
    source = planner.add(
        Source(
            name=f"source_{digest(relation.lower())}",
            view=table.name,
            key=_lower_case(known.key) if known.changes else (),
            event_time=_event_time(planner, relation, known),
            label=relation,
            changelog=known.changes,
        )
    )
    return (
        _plan_upsert_source(planner, source, known, relation) if known.key and not known.changes else source
    )


def plan_versions(planner: Planner, table: exp.Table) -> Operator:
    """Plans a stream whose rows are versions. Of a source with a unique key all rows are versions, also the replaced ones.
    The versions of a model whose rows change are in its changelog."""
    known = planner.streams.known(table.name)
    if not known.replaces:
        return plan_source(planner, table)
    relation = planner.streams.relation(table.name)
    measured = known.event_time is not None and planner.streams.is_measured_on(relation, known.event_time)
    return planner.add(
        Source(
            name=f"source_{digest('versions', relation.lower())}",
            view=table.name,
            event_time=known.event_time.lower() if measured and known.event_time else None,
            label=relation,
            changelog=known.changes,
            versions=True,
        )
    )


def _plan_upsert_source(planner: Planner, source: Operator, known: RelationInfo, relation: str) -> Operator:
    """Plans an upsert source, each of whose rows replaces the one before it."""
    stays = (
        f"config 'state_ttl' forgets what was idle, but the rows of {relation} stay until others replace them"
    )
    return planner.add(
        ChangelogNormalize(
            name=f"normalize_{digest(source.name, *known.key, '/', known.event_time)}",
            inputs=(source,),
            key=known.key,
            time=known.event_time,
            label=f"the last row per {', '.join(known.key)}",
            growth=growth_of_replaced(planner, known.key, "a row", stays),
        )
    )


def growth_of_replaced(planner: Planner, key: Sequence[str], what: str, stays: str) -> UnboundedState | None:
    """Returns what a state grows with if it stores something for each value of a key until the next row of that value.

    Args:
        planner: planner of the tree.
        key: the columns of the key.
        what: what is stored for each value, as a noun.
        stays: begins the message for a model with a TTL: until when the state is stored.

    Raises:
        UnintendedQueryError: the model has a TTL, by which it doesn't expire.
    """
    columns = frozenset(_lower_case(key))
    missing = columns - planner.domains
    if not missing:
        return None
    if planner.ttl is not None:
        raise UnintendedQueryError(
            f"{stays}; leave it out, or give the model constant_domains: {sorted(missing | planner.domains)} if the set "
            "of their values doesn't grow."
        )
    return UnboundedState(f"{what} for every value of {', '.join(key)}", columns, expires=False)


def _lower_case(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(map(str.lower, names))


def _event_time(planner: Planner, relation: str, known: RelationInfo) -> str | None:
    """Returns `Source.event_time`."""
    if (
        not known.event_time
        or is_path(known.event_time)
        or known.replaces
        or not planner.streams.is_measured_on(relation, known.event_time)
    ):
        return None
    return known.event_time.lower()
