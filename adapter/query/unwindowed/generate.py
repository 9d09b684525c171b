"""A `Plan` without windows → the program of a micro-batch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from .. import event_clock, identity, lookup_keys
from ..plan import GroupStage, JoinStage, KeptStage, KeyedStage, Plan, TopStage
from ..program import EVERYTHING, Level, Program, Rows, StatePart, StreamInput, Upsert, reading
from ..windows import quote
from .changelog_normalize import ChangelogNormalize
from .groups import Groups, identity_columns
from .row_buffer import RowBuffer
from .stream_join import StreamJoin
from .top_n import AppendOnlyTopN, RetractableTopN, UpdatableTopN

Pieces: TypeAlias = Groups | AppendOnlyTopN | UpdatableTopN | ChangelogNormalize | StreamJoin | RowBuffer


def program(plan: Plan, ttl: int | None, signature: dict[str, object]) -> Program:
    """What one micro-batch of a plan does.

    Args:
        plan: of a model without windows, with stages.
        ttl: microseconds after which an idle key is forgotten; None: never.
        signature: of the plan.

    Raises:
        QueryError: results would change that can't be found again.
    """
    made = _program(plan, ttl, signature)
    ranks = any(isinstance(each, TopStage) and not each.final for each in plan.stages)
    if made.upsert is None or ttl is not None or not ranks:
        # With a `state_ttl` nobody would know any more when its groups changed last.
        return made
    return replace(made, remake=lambda _: _program(plan, ttl, signature, anew=True))


def _program(plan: Plan, ttl: int | None, signature: dict[str, object], anew: bool = False) -> Program:
    pieces = _pieces(plan, ttl, anew)
    upsert, whole = _upsert(plan, pieces, anew)
    levels = []
    for number in sorted({stage.level for stage in plan.stages}):
        here = [(piece, _read_by(piece)) for piece in pieces if piece.stage.level == number]
        levels.append(
            Level(
                lookups=lookup_keys.of_level(plan, number),
                known=tuple(
                    step
                    for piece, read in here
                    if isinstance(piece, ChangelogNormalize)
                    for step in reading(piece.known(), read)
                ),
                rows=tuple(rows for piece, _ in here for rows in _rows(piece)),
                ingest=tuple(step for piece, read in here for step in reading(piece.ingest(), read)),
                parts=tuple(part for piece, read in here for part in reading(piece.parts(), read)),
                emit=tuple(step for piece, read in here for step in reading(piece.emit(whole), read)),
            )
        )
    return Program(
        inputs=tuple(StreamInput(s.relation, s.view, s.columns, s.event_time, s.feed) for s in plan.streams),
        levels=tuple(levels),
        output=plan.output,
        lookups=lookup_keys.of_output(plan),
        boundaries=None,
        upsert=upsert,
        tables=plan.static,
        mini_batch=plan.mini_batch,
        signature=signature,
    )


def _read_by(piece: Pieces) -> list[StatePart]:
    """The parts of the state that the texts of a piece read."""
    return [*piece.parts(), *(piece.groups.parts() if isinstance(piece, UpdatableTopN) else ())]


def _pieces(plan: Plan, ttl: int | None, anew: bool) -> list[Pieces]:
    above = " ".join(
        stage.rows for stage in plan.stages if isinstance(stage, TopStage) and stage.over is not None
    )
    ranked = {stage.over for stage in plan.stages if isinstance(stage, TopStage)}
    groups: dict[str, Groups | ChangelogNormalize] = {}
    found: list[Pieces] = []
    for stage in plan.stages:
        if isinstance(stage, GroupStage):
            again = len(re.findall(rf"\b{stage.name}\b", above)) > 1
            groups[stage.name] = Groups(stage, ttl, fused=stage.name in ranked, read_again=again)
            found.append(groups[stage.name])
        elif isinstance(stage, KeyedStage):
            groups[stage.name] = ChangelogNormalize(stage)
            found.append(groups[stage.name])
        elif isinstance(stage, TopStage):
            over = groups[stage.over] if stage.over is not None else None
            if over is None:
                found.append(AppendOnlyTopN(stage, ttl))
            else:
                kind = UpdatableTopN if stage.improves else RetractableTopN
                found.append(kind(stage, over, anew))
        elif isinstance(stage, JoinStage):
            found.append(StreamJoin(stage))
        elif isinstance(stage, KeptStage):
            found.append(RowBuffer(stage, ttl))
    return found


def _rows(piece: Pieces) -> list[Rows]:
    if isinstance(piece, UpdatableTopN | ChangelogNormalize):
        return []
    if isinstance(piece, StreamJoin):
        sides = zip(piece.rows_texts().items(), piece.stage.sides, strict=True)
        return [
            Rows(
                name,
                text,
                piece.stage.streams,
                timed=side.time is not None,
                expires=False,
                forgets=side.time is not None,
            )
            for (name, text), side in sides
        ]
    timed = piece.generations.ttl is not None if isinstance(piece, Groups) else piece.timed
    final = isinstance(piece, AppendOnlyTopN) and piece.stage.final
    alone = piece.changed if isinstance(piece, Groups) and piece.reads_rows_once else None
    rows = Rows(
        piece.rows,
        piece.rows_text(),
        piece.stage.streams,
        timed=timed,
        expires=False,
        forgets=final,
        read_by=alone,
        by_clock=event_clock.READS_CLOCK in piece.stage.rows,
    )
    return [rows]


def _upsert(plan: Plan, pieces: Sequence[Pieces], anew: bool) -> tuple[Upsert | None, bool]:
    """How rows are replaced, where they are; and whether all of them are looked at, as they are if all is put out anew."""
    last = next((piece for piece in pieces if piece.name == plan.changes_of), None)
    if last is None and not plan.whole:
        return None, False
    names = {
        f"{stage.name}.{key.name}": key.sql for stage in plan.stages for key in getattr(stage, "keys", ())
    }
    # Where nothing tells rows apart, they are taken all together.
    tells = plan.unique is not None and plan.unique <= set(plan.carried.values())
    key = (
        identity.key(plan.carried, plan.unique, names)
        if tells or isinstance(last, Groups | ChangelogNormalize)
        else None
    )
    columns = {what: column for column, what in reversed(list(plan.carried.items()))}
    if (
        anew
        or key is None
        or plan.whole
        or not isinstance(last, Groups | AppendOnlyTopN | UpdatableTopN | ChangelogNormalize)
    ):
        return _all(key, plan), True
    if isinstance(last, Groups | ChangelogNormalize):
        keys = [f"{last.name}.{column}" for column in identity_columns(last.stage)]
    else:
        keys = [last.stage.carried(place) for place in range(len(last.keys))]
    if not columns.keys() >= set(keys):
        return _all(key, plan), True
    same = [
        f"old.{quote(columns[what])} <=> fired.{name}" for what, name in zip(keys, last.keys, strict=True)
    ]
    listed = ", ".join(last.keys) or "true as anything"
    scope = " and ".join(same) or "true"
    fired = f"select {listed} from {last.touched}"
    return Upsert(key, fired, scope, None, plan.certain, plan.carried), False


def _all(key: tuple[str, ...] | None, plan: Plan) -> Upsert:
    return Upsert(key, EVERYTHING, "true", None, plan.certain, plan.carried)
