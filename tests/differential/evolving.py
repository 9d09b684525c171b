"""A model whose query is edited while its stream goes on, in DuckDB: the product says what becomes of the state, and what it
says is done to tables of DuckDB's as Iceberg does it to the state table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.stream.evolution.compare import evolution
from dbt.adapters.spark_streaming.stream.evolution.match_parts import program_with_state_names
from dbt.adapters.spark_streaming.stream.evolution.migration import migrated_signature, migration
from tests.differential.duck import Clock, Laboratory, Streamed, translated
from tests.differential.tables import Row
from tests.differential.tree import TIME, Column, Model, Written
from tests.evolution import REFUSED, planned, signed, verdict

DELAY = timedelta(minutes=1)
PIECES, EDIT = 5, 3
"""In how many micro-batches the rows come, and before which of them the query is edited."""
START = datetime(2024, 3, 4, 8, tzinfo=timezone.utc)
_VALUES = ("one", "u", "v")
COLUMNS = (
    Column("ts", TIME, event_time=True),
    Column("ts2", TIME),
    Column("k", "string"),
    Column("w", "bigint"),
    *(Column(name, "bigint") for name in _VALUES),
    *(Column(f"late_{name}", "bigint") for name in _VALUES),
)


def rows() -> list[list[Row]]:
    """Rows in order of their time, piece by piece: what they have under ``late_…`` is NULL before the edit."""
    pieces: list[list[Row]] = [[] for _ in range(PIECES)]
    for minute in range(60):
        piece = minute * PIECES // 60
        for at, k in enumerate(("a", "b", None, "d")):
            if (minute // 7 + at) % 3 == 0 or (k == "d" and minute > 30):
                continue  # so that sessions end, and d has no rows after the edit
            time = START + timedelta(minutes=minute, seconds=10 * at)
            values = (1, (minute * 3 + at) % 5, None if (minute + at) % 4 == 0 else (minute * 7 + at) % 9 - 3)
            late = values if piece >= EDIT else (None, None, None)
            pieces[piece].append((time, time, k, minute % 2, *values, *late))
    return pieces


class Unlike(Exception):
    """One name of the state is of several types, which only the state table itself can have."""


class Evolving:
    """A model of a text, over the rows of a laboratory.

    Args:
        laboratory: with the streams.
        text: the query.
        config: of the model.
    """

    delay = DELAY
    why = ""
    """Of what was refused last."""

    def __init__(self, laboratory: Laboratory, text: str, config: Mapping[str, Any]) -> None:
        self._laboratory, self._config = laboratory, config
        self.program = self._planned(text)
        self.signature = signed(self.program)
        self.made = self._streamed(text, self.program)

    def _planned(self, text: str) -> Program:
        return planned(text, self._config, self._laboratory.ask)[1]

    def _streamed(self, text: str, program: Program) -> Streamed:
        database = self._laboratory.base.cursor()
        found = database.execute(translated(text))
        columns = tuple(Column(each[0], "") for each in found.description)
        delay = self.delay // timedelta(microseconds=1)
        return Streamed(Model(Written(text, columns)), program, database, fold=True, delay=delay)

    def take(self, first: int, end: int) -> None:
        """Take in pieces, each as a micro-batch."""
        for piece in range(first, end):
            self.made.take((piece, piece + 1))

    def edit(self, text: str) -> str:
        """Go on with another query; what its verdict is. One that is refused changes nothing."""
        program = self._planned(text)
        new = signed(program, self.signature)
        program = program_with_state_names(self.signature, program)
        said, self.why = verdict(self.signature, new)
        if said == REFUSED:
            return said
        found = evolution(self.signature, new)
        made = self._streamed(text, program)
        has, wants = self._columns(self.made), self._columns(made)
        kept = set().union(
            *(
                columns.keys() - found.new_columns_in.get(part, set())
                for part, columns in wants.items()
                if part not in found.dropped_parts and part not in found.new_parts
            )
        )
        change, problems = migration(
            found, _together(has), _together(wants), kept if found.drops_other_parts else ()
        )
        if problems:
            self.why = "; ".join(problems)
            return REFUSED
        for part, columns in wants.items():
            if part in has and part not in change.parts:
                was = {change.rename.get(name, name): name for name in has[part] if name not in change.drop}
                items = [
                    f'"{was[name]}" as "{name}"' if name in was else f'cast(null as {kind}) as "{name}"'
                    for name, kind in columns.items()
                ]
                self.made._do(
                    f"create or replace table shared as select {', '.join(items)} from {self.made.parts[part]}"
                )
                made._do(f"insert into {made.parts[part]} by name select * from shared")
        made.clock, made.newest = self.made.clock, {**made.newest, **self.made.newest}
        place = {name: number for number, name in enumerate(self.made.columns)}
        # As `sync_all_columns` has it.
        made.target = [
            tuple(row[place[name]] if name in place else None for name in made.columns)
            for row in self.made.target
        ]
        made._register_state()
        self.signature = migrated_signature(
            self.signature, new, change.leftovers, change.drop, found.rebuilt_from, found.new_keys
        )
        self.made, self.program = made, program
        if found.rebuilt:
            self._remake(found.rebuilt_from or ())
        return said

    def _remake(self, replayed: Sequence[str]) -> None:
        assert self.program.rebuild is not None
        made = self.made
        made.program = self.program.rebuild(replayed)
        made.clock = Clock(made.clock.batch, made.clock.flush + 1, made.clock.after, made.clock.after)
        for stream in made.program.inputs:
            made._show_stream(stream, "false")
        made._step()
        made.program = self.program

    @staticmethod
    def _columns(made: Streamed) -> dict[str, dict[str, str]]:
        return {
            part: {row[0]: str(row[1]).lower() for row in made._do(f"describe {table}").fetchall()}
            for part, table in made.parts.items()
        }

    def rows(self) -> list[dict[str, Any]]:
        """The table's rows."""
        return [dict(zip(self.made.columns, row, strict=True)) for row in self.made.target]


def _together(parts: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """The columns of all parts."""
    found: dict[str, str] = {}
    for columns in parts.values():
        for name, kind in columns.items():
            if found.setdefault(name, kind) != kind:
                raise Unlike(f"{name} is a {found[name]} and a {kind}")
    return found
