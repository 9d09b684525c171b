"""Compares the columns that a stream reads from its tables by Iceberg's field ids.

A name isn't enough: a column that is dropped and added again is a new column, NULL in all existing rows. A state that
was computed from the old column can't continue with the new one. So the checkpoint records in ``schemas.json`` the field
ids of the columns that its rows were read with.

A running query reads each table with the columns from when it started. It is restarted for rows written with other
columns.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...environment.storage import Storage
from ...query.program import StreamInput
from ...sources.stream_source import with_declared_names
from ...util.text import listed
from ..common.errors import StreamError, TransientError
from ..common.identifiers import joined_name, parts
from ..common.model import StreamModel, StreamSource
from ..iceberg.table import IcebergTable, load_table
from ..storage.checkpoint import last_snapshot, read_values_by_source
from ..storage.source_order import snapshots_read
from .upstream import can_begin, check_continues, lost_history_error, replaced_message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..progress.result import StreamResult

SCHEMAS = "schemas.json"
"""File of a checkpoint that records the columns that its rows were read with."""

Fields = Mapping[str, tuple[int, str]]
"""Path of a column or nested field in lower case → Iceberg's field id and type. The type of a nested field is
``struct``, ``list`` or ``map``."""


class SchemaChanged(TransientError):
    """Columns of a table changed while a query read it. Nothing of the micro-batch was ingested."""

    result: StreamResult | None = None
    """Result of the query up to then."""

    def __init__(self, model: str, source: str, columns: Sequence[str]) -> None:
        self.found = with_declared_names(
            f"Model {model}: columns of {source} changed while it ran ({', '.join(columns)})."
        )
        super().__init__(f"{self.found} Nothing of this micro-batch was ingested: run it again.")

    @property
    def restarts(self) -> str:
        """Message for an automatic restart of the query."""
        return f"{self.found} It starts again with the columns as they are now."


def check_columns(
    model: StreamModel, source: str, found: Mapping[str, object], had: Mapping[str, object]
) -> None:
    """Raises if columns of a source have changed. `found` and `had` are by the path of a column or nested field."""
    if found != had:
        raise SchemaChanged(
            model.name, source, sorted({parts(path)[0] for path, _ in found.items() ^ had.items()})
        )


_MOST = 3
"""Maximum restarts of a query for one change of columns without a micro-batch in between."""


class Restarts:
    """Counts the restarts of a query for changed columns."""

    def __init__(self) -> None:
        self._last, self._same = "", 0

    def check(self, problem: SchemaChanged) -> None:
        """Raises if a restart doesn't help: there were `_MOST` for the same columns, and nothing was ingested."""
        has_ingested = problem.result is not None and problem.result.batches > 0
        self._same = 0 if has_ingested or problem.restarts != self._last else self._same + 1
        self._last = problem.restarts
        if self._same == _MOST:
            raise StreamError(
                f"{problem.found} It has started again {_MOST} times, and each time found the columns from before. Name "
                "the columns that it reads, instead of *, and declare the 'schema' of sources that are files, with the "
                "columns of folder names such as day=2025-01-01."
            ) from problem


class ReadTables:
    """The tables of a query as they were when it started. The model's sources are in the order of the checkpoint."""

    def __init__(self, spark: SparkSession, model: StreamModel, inputs: Sequence[StreamInput]) -> None:
        self._model = model
        self._began: dict[int, IcebergTable] = {}
        """Place of a source → table at the start."""
        self._now: dict[int, IcebergTable] = {}
        self._columns = [columns_read(inputs, source) for source in model.sources]
        self.fields: dict[int, Fields] = {}
        """Place of a source → fields that are read."""
        for place, source in enumerate(model.sources):
            table = load_table(spark, source.location) if source.is_table else None
            if table is not None:
                self._began[place], self._now[place] = table, IcebergTable(spark, source.location)
                self.fields[place] = fields_of(table.schema_json(), self._columns[place])

    @property
    def by_relation(self) -> dict[str, Fields]:
        """Relation → fields that are read."""
        return {self._model.sources[place].relation: fields for place, fields in self.fields.items()}

    def check_same_fields(self, others: Mapping[str, Fields]) -> None:
        """Raises unless the query reads the same fields of each table as in `others`, a `by_relation`."""
        for relation, fields in self.by_relation.items():
            check_columns(self._model, relation, fields, others.get(relation, fields))

    def check(self, starts: Sequence[str], ends: Sequence[str]) -> None:
        """Raises unless a micro-batch continues at the end of the one before, in the same tables with the same
        columns.

        Raises:
            SchemaChanged: it has rows that were written with other columns.
            StreamError: a table was rebuilt or restored. The message says what to run.
        """
        for place, table in self._now.items():
            table.refresh()
            if table.uuid != self._began[place].uuid:
                raise StreamError(replaced_message(self._model, table.name, can_begin(table)))
        check_continues(self._model, self._now, starts, ends)
        for place, table in self._now.items():
            if (end := last_snapshot(ends[place])) is not None and not self._began[place].has_snapshot(end):
                found = fields_of(table.schema_json(end), self._columns[place])
                check_columns(self._model, self._model.sources[place].relation, found, self.fields[place])


def check_fields(spark: SparkSession, model: StreamModel, inputs: Sequence[StreamInput]) -> None:
    """Raises if a column that a state was computed from has been dropped and added again, or its table was rebuilt or
    restored. The message says what to run."""
    noted = noted_schemas(model.storage, model.checkpoint)
    if not noted:
        return  # it reads no tables
    for place, (name, snapshot) in enumerate(snapshots_read(model.storage, model.checkpoint)):
        source = next((each for each in model.sources if parts(each.location) == parts(name)), None)
        table = None if source is None or place not in noted else load_table(spark, source.location)
        if source is None or table is None:
            continue
        if snapshot is not None and not table.has_ancestor(snapshot):
            # A rebuilt table has other field ids.
            raise lost_history_error(model, place, table, snapshot)
        now, had = fields_of(table.schema_json(), columns_read(inputs, source)), noted[place]
        others = [each for each in now if each in had and had[each][0] != now[each][0]]
        # Fields nested in a replaced column have new ids, too.
        others = [each for each in others if not any(each.startswith(f"{above}.") for above in others)]
        if others:
            raise StreamError(
                f"Model {model.name}: {listed(others)} of the table {source.location} that it streams from "
                f"{'is another column' if len(others) == 1 else 'are other columns'} than when it was read: dropped "
                "and added again, or another column has the name now. What the state has of it can't be retracted with "
                f"the new column's values. Rebuild this model: {model.rebuild}."
            )


def note_schemas(model: StreamModel, read: ReadTables, inputs: Sequence[StreamInput], begun: bool) -> None:
    """Records the fields that tables are read with from now on. The model's sources are in the checkpoint's order."""
    before = noted_schemas(model.storage, model.checkpoint) if begun else {}
    found = {}
    for place, fields in read.fields.items():
        wanted, has = columns_read(inputs, model.sources[place]), {parts(path)[0] for path in fields}
        # A dropped column may be added again, with a new id.
        gone = {
            path: field
            for path, field in before.get(place, {}).items()
            if (top := parts(path)[0]) not in has and (wanted is None or top in wanted)
        }
        found[place] = {**gone, **fields}
    if found != before:
        model.storage.write_text(f"{model.checkpoint}/{SCHEMAS}", json.dumps(found))


def noted_schemas(storage: Storage, checkpoint: str) -> dict[int, Fields]:
    """Returns place of a source → fields that its rows were read with; empty if the checkpoint has no record."""
    return {
        place: {path: (int(number), kind) for path, (number, kind) in fields.items()}
        for place, fields in read_values_by_source(storage, f"{checkpoint}/{SCHEMAS}").items()
    }


def fields_of(schema: str, columns: Collection[str] | None = None) -> Fields:
    """Returns the fields of a schema in Iceberg's JSON.

    Args:
        columns: the wanted columns, in lower case; None for all.

    >>> fields_of('{"type": "struct", "fields": [{"id": 1, "name": "At", "type": "date"}, {"id": 2, "name": "l", "type": '
    ...     '{"type": "list", "element-id": 3, "element": "int"}}]}')
    {'at': (1, 'date'), 'l': (2, 'list'), 'l.element': (3, 'int')}
    """
    return {
        path: (number, kind)
        for path, number, kind in _fields(json.loads(schema), "")
        if columns is None or parts(path)[0] in columns
    }


def _fields(kind: Mapping[str, Any], above: str) -> Iterator[tuple[str, int, str]]:
    if kind["type"] == "struct":
        nested = [(each["name"], each["id"], each["type"]) for each in kind["fields"]]
    else:
        names = ("element",) if kind["type"] == "list" else ("key", "value")
        nested = [(name, kind[f"{name}-id"], kind[name]) for name in names]
    for name, number, of in nested:
        path = f"{above}{joined_name([name.lower()])}"
        yield path, number, of if isinstance(of, str) else of["type"]
        if not isinstance(of, str):
            yield from _fields(of, f"{path}.")


def columns_read(inputs: Sequence[StreamInput], source: StreamSource) -> set[str] | None:
    """Returns the columns that are read of a source, in lower case; None for all."""
    wanted = [each.columns for each in inputs if each.relation == source.relation]
    if not wanted or None in wanted:
        return None
    return {name.lower() for columns in wanted for name in columns or ()}
