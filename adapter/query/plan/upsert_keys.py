"""Determines how changed results of windows replace rows of the table."""

from __future__ import annotations

from collections.abc import Sequence

from ...util.quoting import quote
from ..aggregates.aggregate_builder import MERGE_FROM, WINDOW_END, WINDOW_START, WINDOW_TIME
from ..errors import QueryError
from ..program import TargetCondition, Upsert
from ..windows.emission import Emission
from . import identity
from .operators.window_results import WindowResults
from .state.sessions import SessionWindows
from .state.window_steps import WindowSteps


def why_rows_cant_be_replaced(
    plan: WindowResults, steps: Sequence[WindowSteps], emission: Emission
) -> QueryError | None:
    """Returns the error about results that can't replace earlier ones, which says what to change in the query; None if they
    can. The arguments are those of `upsert_of_windows`."""
    if not steps:
        return QueryError(
            "output_mode 'upsert' needs results of windows; rows that pass through are 'append'."
        )
    if emission.may_update_results and any(spec.reads for spec in plan.specs):
        return QueryError(
            "Early firing and late_updates don't work with cascading windows, whose input would change; put the upper "
            "window into a separate model."
        )
    needed = [WINDOW_END]
    if any(piece.window.merges for piece in steps):
        if (problem := _why_sessions_cant_be_replaced(plan, steps)) is not None:
            return problem
        needed = [
            WINDOW_START,
            WINDOW_END,
            *(f"{plan.specs[0].name}.{name}" for name in _session_keys(steps)),
        ]
    names = {f"{spec.name}.{key.name}": key.sql for spec in plan.specs for key in getattr(spec, "keys", ())}
    unique = None if plan.unique is None else plan.unique | {*needed}
    return identity.missing_key_error(plan.column_origins, unique, names)


def upsert_of_windows(plan: WindowResults, steps: Sequence[WindowSteps], emission: Emission) -> Upsert:
    """Returns which rows of the table a micro-batch's results replace.

    Args:
        plan: the query over the windows.
        steps: the steps of each window operator.
        emission: when results are emitted.

    Raises:
        QueryError: see `why_rows_cant_be_replaced`.
    """
    if (problem := why_rows_cant_be_replaced(plan, steps, emission)) is not None:
        raise problem
    if any(piece.window.merges for piece in steps):
        return _upsert_of_sessions(plan, steps)
    key = identity.key_columns(plan.column_origins, plan.unique)
    end = _column_of_origin(plan, WINDOW_END)
    ends = [f"select {WINDOW_END} from {piece.windows_step}" for piece in steps]
    listed = "\nunion all\n".join(ends)
    return Upsert(
        key=key,
        affected_keys=f"select distinct {WINDOW_END} from (\n{listed}\n)",
        target_filter=(TargetCondition(end, "=", WINDOW_END),),
        bound=(end, WINDOW_END),
        key_is_unique=plan.key_is_unique,
        column_origins=plan.column_origins,
    )


def check_unique_key(upsert: Upsert, key: Sequence[str], grows: bool) -> None:
    """Raises unless an author's unique_key identifies windows: results are compared only with rows of the
    same windows, so rows of two windows with one key would both stay.

    Args:
        upsert: how the query itself matches rows.
        key: the author's key.
        grows: whether windows with one start have several ends.

    Raises:
        QueryError: the key has no window column.
    """
    tell = (WINDOW_END, WINDOW_TIME) if grows else (WINDOW_END, WINDOW_TIME, WINDOW_START)
    by_column = {name.lower(): what for name, what in upsert.column_origins.items()}
    if any(by_column.get(name.lower()) in tell for name in key):
        return
    end = next(name for name, what in upsert.column_origins.items() if what == WINDOW_END)
    raise QueryError(
        f"config 'unique_key' is {list(key)}, and each window has rows with the same values: none of these columns tells "
        f"windows apart. Write unique_key={[*key, end]}, or leave it out: the query's own key is "
        f"({', '.join(upsert.key or ())})."
    )


def _session_keys(steps: Sequence[WindowSteps]) -> tuple[str, ...]:
    """Returns the group keys that the only window operator, which has sessions, is partitioned by."""
    (piece,) = steps
    assert isinstance(piece, SessionWindows)
    return piece.spec.session_keys


def _why_sessions_cant_be_replaced(plan: WindowResults, steps: Sequence[WindowSteps]) -> QueryError | None:
    """Returns the error about results of sessions that can't replace earlier ones; None if nothing about the sessions
    prevents it."""
    piece = steps[0]
    if len(steps) > 1 or not isinstance(piece, SessionWindows) or plan.ranks:
        return QueryError(
            f"{piece.window.kind}() with results that change is supported for a GROUP BY whose aggregates are kept as "
            "partial state; put joins, ranks and other aggregates over it into a model of their own."
        )
    spec = piece.spec
    if len(spec.session_keys) < len(piece.window.partition_by):
        return QueryError(
            f"Results that change need to find the rows they replace: group by {', '.join(piece.window.partition_by)}, "
            f"which {piece.window.kind}() is partitioned by."
        )
    in_all = [set(members) for members in spec.grouping_sets or [[key.name for key in spec.keys]]]
    if not all(set(spec.session_keys) <= members for members in in_all):
        return QueryError(
            f"Results that change need to find the rows they replace: what {piece.window.kind}() is partitioned by "
            "has to be in every grouping set."
        )
    return None


def _upsert_of_sessions(plan: WindowResults, steps: Sequence[WindowSteps]) -> Upsert:
    """Returns the upsert of sessions. Late rows move a session's end and merge sessions, so the new window
    contains the old rows' windows."""
    (piece,) = steps
    assert isinstance(piece, SessionWindows)
    spec = piece.spec
    key = identity.key_columns(plan.column_origins, plan.unique)
    start, end = _column_of_origin(plan, WINDOW_START), _column_of_origin(plan, WINDOW_END)
    same = [
        TargetCondition(_column_of_origin(plan, f"{spec.name}.{name}"), "<=>", quote(name))
        for name in spec.session_keys
    ]
    same.append(TargetCondition(start, ">=", WINDOW_START))
    if piece.window.grows:
        # The end of a step is fixed.
        same.append(TargetCondition(end, "=", WINDOW_END))
        columns = [*map(quote, spec.session_keys), WINDOW_START, WINDOW_END]
        fired = f"select distinct {', '.join(columns)} from {piece.windows_step}"
    else:
        # The end of a growing session moves. A session that had closed keeps its rows, even if late rows
        # begin a session around it.
        same.append(TargetCondition(end, "<=", WINDOW_END))
        same.append(TargetCondition(end, ">=", MERGE_FROM, keeps_closed=True))
        fired = piece.sessions.bounds_as_instants(spec.session_keys)
    return Upsert(
        key=key,
        affected_keys=fired,
        target_filter=tuple(same),
        bound=(start, WINDOW_START),
        key_is_unique=plan.key_is_unique,
        column_origins=plan.column_origins,
    )


def _column_of_origin(plan: WindowResults, origin: str) -> str:
    """Returns the first output column that holds a window column or group key.

    Args:
        origin: a value of `WindowResults.column_origins`.
    """
    return next(column for column, what in plan.column_origins.items() if what == origin)
