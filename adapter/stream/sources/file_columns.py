"""Finds columns that come with new files of a source whose columns nobody declares, while a query reads it.

Spark finds the columns when the query begins, and passes over those that only later files have: their values would be lost
for good. Of formats whose files have columns of their own it looks at one file alone, unless it is told to look at all.

As each micro-batch is looked at, no row that was read had another column than those that are noted in ``columns.json``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dbt.adapters.events.logging import AdapterLogger

from ...sources.file_options import is_pattern
from ...sources.limits import without_limits
from ...util.text import agreeing, listed
from ...util.types import type_text
from ..common.errors import StreamError
from ..common.identifiers import joined, parts
from ..storage.checkpoint import files_of_batch, read_by_place
from .source_schemas import SchemaChanged, columns_read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType

    from ...environment.storage import Storage
    from ...query.program import StreamInput
    from ..common.model import StreamModel, StreamSource

logger = AdapterLogger("Spark")

_MERGED = ("parquet", "orc")
"""Formats of which Spark looks at all files with the option `mergeSchema`."""
_ONE_BY_ONE = ("avro",)
_OF_RECORDS = ("json", "xml")
_NOT_A_PATTERN = {"__globPaths__": "false"}
"""Spark's own option, by which a file's name is no pattern."""
_CORRUPT = "spark.sql.columnNameOfCorruptRecord"
_COLUMNS = "columns.json"


class FileColumns:
    """The columns that a query reads of folders whose columns nobody declares.

    Args:
        spark: the session of the query.
        model: the model, its sources in the order of the checkpoint.
        inputs: the streams made from them.
        rows: the columns of the query, as `sources.as_one` makes them.
    """

    def __init__(
        self, spark: SparkSession, model: StreamModel, inputs: Sequence[StreamInput], rows: StructType
    ) -> None:
        self._spark, self._model = spark, model
        self._has: dict[int, set[str]] = {}
        """By a source's place the paths of its columns and of what is nested in them, in lower case."""
        self._wanted = {place: columns_read(inputs, source) for place, source in enumerate(model.sources)}
        self._told: set[str] = set()
        self._kinds: dict[int, dict[str, str]] = {}
        """By a source's place the types of its columns."""
        for place, source in enumerate(model.sources):
            if finds_columns(source):
                views = [each.view for each in inputs if each.relation == source.relation]
                kinds: list[Any] = [rows if len(inputs) == 1 else rows[view].dataType for view in views]
                self._has[place] = {path for kind in kinds for path in _paths(kind)}
                self._kinds[place] = {name: of for kind in kinds for name, of in types_of(kind).items()}

    def note(self, begun: bool) -> None:
        """Notes with the checkpoint what the rows of folders are read with from now on.

        Args:
            begun: whether rows were read with what is noted there.
        """
        before = noted_columns(self._model.storage, self._model.checkpoint)
        # Of files that were read with declared columns nobody knows which others they had.
        found = {
            place: {**(before.get(place, {}) if begun else {}), **kinds}
            for place, kinds in self._kinds.items()
            if place in before or not begun
        }
        if found != before:
            self._model.storage.write_text(f"{self._model.checkpoint}/{_COLUMNS}", json.dumps(found))

    def check_planned(self) -> None:
        """Returns unless the query reads columns that weren't there when it was planned.

        Raises:
            SchemaChanged: it does.
        """
        for place, has in self._has.items():
            relation = self._model.sources[place].relation
            if self._wanted[place] is None and self._spark.catalog.tableExists(relation):
                planned = {*_paths(self._spark.table(relation).schema)}
                if new := sorted(name for name in has - planned if not name.startswith("__")):
                    raise SchemaChanged(self._model.name, relation, new)

    def check(self, batch: int) -> None:
        """Returns unless files of a micro-batch have columns that the query doesn't read, and would if it began now.

        Raises:
            SchemaChanged: they have.
            StreamError: they have, and Spark wouldn't find the columns; and what to say of the source.
        """
        for place in self._has:
            source = self._model.sources[place]
            files = files_of_batch(self._model.storage, self._model.checkpoint, place, batch)
            if not (new := self._new(place, files)):
                continue
            found = self._columns(source, [source.location], {})
            if lost := [path for path in new if path not in found]:
                self._tell(source, lost)
            else:
                raise SchemaChanged(self._model.name, source.relation, new)

    def _new(self, place: int, files: Sequence[str]) -> list[str]:
        """The columns of some files that the query doesn't have."""
        source, wanted = self._model.sources[place], self._wanted[place]
        if not files:
            return []
        is_alone = source.format in _ONE_BY_ONE or any(map(is_pattern, files))
        options = _NOT_A_PATTERN | ({"mergeSchema": "true"} if source.format in _MERGED else {})
        groups = [[each] for each in files] if is_alone else [[*files]]
        found = {path for group in groups for path in self._columns(source, group, options)}
        new = sorted(path for path in found - self._has[place] if wanted is None or parts(path)[0] in wanted)
        return [path for path in new if not any(path.startswith(f"{above}.") for above in new)]

    def _columns(
        self, source: StreamSource, files: Sequence[str], options: Mapping[str, str]
    ) -> Collection[str]:
        """The columns of some files, or folders, without those of files that can't be read: what is wrong with them, or that
        they are gone, is said when they are read."""
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        try:
            return self._found(source, files, options)
        except (PySparkException, Py4JJavaError):
            # One may keep the others from being read, and types may differ that a reader can make one.
            if len(files) == 1:
                return set()
            half = len(files) // 2
            return {
                path for some in (files[:half], files[half:]) for path in self._columns(source, some, options)
            }

    def _found(self, source: StreamSource, files: Sequence[str], options: Mapping[str, str]) -> set[str]:
        reader = self._spark.read.format(source.format).options(
            **{**without_limits(source.options), **options}
        )
        corrupt = source.option("columnNameOfCorruptRecord") or self._spark.conf.get(_CORRUPT, "")
        return {*_paths(reader.load([*files]).schema)} - {joined([str(corrupt).lower()])}

    def _tell(self, source: StreamSource, lost: Sequence[str]) -> None:
        of_one = " of one file" if source.format not in _OF_RECORDS else ""
        merge = "say 'mergeSchema: true' in its options, or " if source.format in _MERGED else ""
        said = (
            f"Model {self._model.name}: new files of its source {source.name or source.relation} have {listed(lost)}, which "
            f"{agreeing(len(lost), 'is', 'are')} none of the columns that Spark finds{of_one}"
        )
        remedy = f"{merge}declare the source's columns as 'schema', with or without {agreeing(len(lost), 'it', 'them')}"
        if any(len(parts(path)) == 1 for path in lost):
            raise StreamError(
                f"{said}, so the values would be lost. Nothing of this micro-batch was taken in. To go on, {remedy}."
            )
        if not self._told.issuperset(lost):
            # The query may read other fields alone.
            self._told.update(lost)
            logger.warning(f"{said}. To have the values, {remedy}.")


def finds_columns(source: StreamSource) -> bool:
    """Returns whether the columns of a source are found from its files, and are these files' own."""
    if not source.is_files or source.schema is not None:
        return False
    # Without a header, a line with a field too many is one that can't be read.
    return source.format in (*_MERGED, *_ONE_BY_ONE, *_OF_RECORDS) or (
        source.format == "csv" and source.option_is("header", "true")
    )


def noted_columns(storage: Storage, checkpoint: str) -> dict[int, dict[str, str]]:
    """Returns the columns, in lower case, with which all rows of a folder were read, and their types, by the place of the
    source; only of those whose files had no others."""
    return read_by_place(storage, f"{checkpoint}/{_COLUMNS}")


def types_of(schema: StructType) -> dict[str, str]:
    """Returns the columns of rows, in lower case, and their types, without those that are ours."""
    fields = (each for each in schema.fields if not each.name.startswith("__"))
    return {field.name.lower(): type_text(field.dataType) for field in fields}


def _paths(kind: DataType, above: str = "") -> list[str]:
    """The paths of columns and of what is nested in them, in lower case.

    >>> from pyspark.sql.types import ArrayType, StringType, StructType
    >>> _paths(StructType().add("A", StructType().add("b c", StringType())).add("l", ArrayType(StringType())))
    ['a', 'a.`b c`', 'l']
    """
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, ArrayType):
        return _paths(kind.elementType, f"{above}element.")
    if isinstance(kind, MapType):
        return _paths(kind.keyType, f"{above}key.") + _paths(kind.valueType, f"{above}value.")
    if not isinstance(kind, StructType):
        return []
    found = []
    for field in kind.fields:
        path = f"{above}{joined([field.name.lower()])}"
        found += [path, *_paths(field.dataType, f"{path}.")]
    return found
