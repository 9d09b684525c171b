"""Finds columns that new files add to a source without a declared schema, while a query reads it.

Spark infers the columns when the query starts and ignores columns of later files, whose values would be lost for
good. If files store a schema, Spark reads only one file's, unless an option merges all.

Every micro-batch is checked, so no row that was read had a column that is missing in ``columns.json``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dbt.adapters.events.logging import AdapterLogger

from ...environment.stored_types import KEEPS, ORC, PARQUET, type_mismatch_message
from ...sources.file_options import is_pattern
from ...sources.limits import without_limits
from ...util.text import listed, verb_form
from ...util.types import type_text
from ..common.errors import StreamError
from ..common.identifiers import joined_name, parts
from ..storage.checkpoint import files_of_batch, read_values_by_source
from .source_schemas import SchemaChanged, columns_read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType

    from ...environment.storage import Storage
    from ...query.program import StreamInput
    from ..common.model import StreamModel, StreamSource

logger = AdapterLogger("Spark")

_MERGED = (PARQUET, ORC)
"""Formats for which Spark merges the schemas of all files with the option `mergeSchema`."""
_READ_ONE_BY_ONE = ("avro",)
_OF_RECORDS = ("json", "xml")
_NOT_A_PATTERN = {"__globPaths__": "false"}
"""Internal Spark option that turns off patterns in file names."""
_CORRUPT = "spark.sql.columnNameOfCorruptRecord"
_COLUMNS = "columns.json"


class FileColumns:
    """The columns that a query reads of folders without a declared schema.

    Args:
        model: the model, its sources in the order of the checkpoint.
        rows: the schema of the query's DataFrame, from `readers.read_streams`.
    """

    def __init__(
        self, spark: SparkSession, model: StreamModel, inputs: Sequence[StreamInput], rows: StructType
    ) -> None:
        self._spark, self._model = spark, model
        self._has: dict[int, set[str]] = {}
        """Place of a source → paths of its columns and nested fields, in lower case."""
        self._wanted = {place: columns_read(inputs, source) for place, source in enumerate(model.sources)}
        self._warned: set[str] = set()
        self._kinds: dict[int, dict[str, str]] = {}
        """Place of a source → column → type."""
        self._stored: dict[int, list[StructType]] = {}
        """Place of a source whose files store types that Spark may ignore → the columns that are read, in each of the
        model's streams."""
        for place, source in enumerate(model.sources):
            views = [each.view for each in inputs if each.relation == source.relation]
            kinds: list[Any] = [rows if len(inputs) == 1 else rows[view].dataType for view in views]
            if source.format in KEEPS:
                self._stored[place] = kinds
            if finds_columns(source):
                self._has[place] = {path for kind in kinds for path in field_types(kind)}
                self._kinds[place] = {
                    name: of for kind in kinds for name, of in column_types_of(kind).items()
                }

    def record_columns(self, begun: bool) -> None:
        """Records in the checkpoint the columns that folders are read with from now on."""
        before = noted_columns(self._model.storage, self._model.checkpoint)
        # The other columns of files that were read with a declared schema are unknown.
        found = {
            place: {**(before.get(place, {}) if begun else {}), **kinds}
            for place, kinds in self._kinds.items()
            if place in before or not begun
        }
        if found != before:
            self._model.storage.write_text(f"{self._model.checkpoint}/{_COLUMNS}", json.dumps(found))

    def check_no_new_columns(self) -> None:
        """Raises if the query reads columns that didn't exist when it was planned."""
        for place, has in self._has.items():
            relation = self._model.sources[place].relation
            if self._wanted[place] is None and self._spark.catalog.tableExists(relation):
                planned = {*field_types(self._spark.table(relation).schema)}
                if new := sorted(name for name in has - planned if not name.startswith("__")):
                    raise SchemaChanged(self._model.name, relation, new)

    def check(self, batch: int) -> None:
        """Raises if files of a micro-batch have columns that the query lacks, or columns of other types.

        Raises:
            SchemaChanged: a restarted query would read them.
            StreamError: Spark wouldn't infer them even after a restart, or would convert their values. The message says
                how to declare the source.
        """
        for place, kinds in self._stored.items():
            self._check_types(self._model.sources[place], kinds, self._files_of_batch(place, batch))
        for place in self._has:
            source = self._model.sources[place]
            if new := self._missing_columns(place, self._files_of_batch(place, batch)):
                found = self._columns_in_files(source, [source.location], {})
                if lost := [path for path in new if path not in found]:
                    self._report_lost_columns(source, lost)
                if others := [path for path in new if path not in lost]:
                    raise SchemaChanged(self._model.name, source.relation, others)

    def _files_of_batch(self, place: int, batch: int) -> list[str]:
        return files_of_batch(self._model.storage, self._model.checkpoint, place, batch)

    def _check_types(self, source: StreamSource, kinds: Sequence[StructType], files: list[str]) -> None:
        options = {**without_limits(source.options), **_NOT_A_PATTERN}
        # Several paths are always taken for patterns.
        groups = [[each] for each in files] if any(map(is_pattern, files)) else [files]
        for group in groups:
            if text := type_mismatch_message(self._spark, source.format, options, group, kinds):
                raise StreamError(
                    f"Model {self._model.name}: of its source {source.name or source.relation} {text}. No row of this "
                    "micro-batch was ingested."
                )

    def _missing_columns(self, place: int, files: Sequence[str]) -> list[str]:
        """Returns the columns of these files that the query lacks."""
        source, wanted = self._model.sources[place], self._wanted[place]
        if not files:
            return []
        is_alone = source.format in _READ_ONE_BY_ONE or any(map(is_pattern, files))
        options = _NOT_A_PATTERN | ({"mergeSchema": "true"} if source.format in _MERGED else {})
        groups = [[each] for each in files] if is_alone else [[*files]]
        found = {path for group in groups for path in self._columns_in_files(source, group, options)}
        new = sorted(path for path in found - self._has[place] if wanted is None or parts(path)[0] in wanted)
        return [path for path in new if not any(path.startswith(f"{above}.") for above in new)]

    def _columns_in_files(
        self, source: StreamSource, files: Sequence[str], options: Mapping[str, str]
    ) -> set[str]:
        """Returns the columns of these files or folders. Skips unreadable files: reading their rows raises an error."""
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        corrupt = source.option("columnNameOfCorruptRecord") or self._spark.conf.get(_CORRUPT, "")
        reader = self._spark.read.format(source.format).options(**without_limits(source.options))
        try:
            schema = reader.options(**options).load([*files]).schema
            return {*field_types(schema)} - {joined_name([str(corrupt).lower()])}
        except (PySparkException, Py4JJavaError):
            # One bad file fails the whole group, and a reader may be able to convert types that can't be merged.
            if len(files) == 1:
                return set()
            halves = files[: len(files) // 2], files[len(files) // 2 :]
            return {path for half in halves for path in self._columns_in_files(source, half, options)}

    def _report_lost_columns(self, source: StreamSource, lost: Sequence[str]) -> None:
        """Raises if a restarted query would lack one of these columns. Logs a warning if they are only nested fields."""
        of_one = " of one file" if source.format not in _OF_RECORDS else ""
        merge = "say 'mergeSchema: true' in its options, or " if source.format in _MERGED else ""
        problem = (
            f"Model {self._model.name}: new files of its source {source.name or source.relation} have {listed(lost)}, which "
            f"{verb_form(len(lost), 'is', 'are')} none of the columns that Spark finds{of_one}"
        )
        remedy = f"{merge}declare the source's columns as 'schema', with or without {verb_form(len(lost), 'it', 'them')}"
        if any(len(parts(path)) == 1 for path in lost):
            raise StreamError(
                f"{problem}, so the values would be lost. Nothing of this micro-batch was ingested. To continue, {remedy}."
            )
        if not self._warned.issuperset(lost):
            # The query may not read these nested fields.
            self._warned.update(lost)
            logger.warning(f"{problem}. To have the values, {remedy}.")


def finds_columns(source: StreamSource) -> bool:
    """Returns whether a source's columns are inferred from its files, which store them."""
    if not source.is_files or source.schema is not None:
        return False
    # In CSV without a header, a line with an extra field is unreadable.
    return source.format in (*_MERGED, *_READ_ONE_BY_ONE, *_OF_RECORDS) or (
        source.format == "csv" and source.option_is("header", "true")
    )


def noted_columns(storage: Storage, checkpoint: str) -> dict[int, dict[str, str]]:
    """Returns place of a source → column in lower case → the type with which all of its rows were read. Omits sources whose
    files may have had other columns."""
    return read_values_by_source(storage, f"{checkpoint}/{_COLUMNS}")


def column_types_of(schema: StructType) -> dict[str, str]:
    """Returns column in lower case → type, without internal columns."""
    fields = (each for each in schema.fields if not each.name.startswith("__"))
    return {field.name.lower(): type_text(field.dataType) for field in fields}


def field_types(kind: DataType, above: str = "") -> dict[str, str]:
    """Returns the paths of columns and nested fields, in lower case, with their types.

    >>> from pyspark.sql.types import ArrayType, StringType, StructType
    >>> field_types(StructType().add("A", StructType().add("b c", StringType())).add("l", ArrayType(StringType())))
    {'a': 'struct<`b c`:string>', 'a.`b c`': 'string', 'l': 'array<string>'}
    """
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, ArrayType):
        return field_types(kind.elementType, f"{above}element.")
    if isinstance(kind, MapType):
        return field_types(kind.keyType, f"{above}key.") | field_types(kind.valueType, f"{above}value.")
    if not isinstance(kind, StructType):
        return {}
    found: dict[str, str] = {}
    for field in kind.fields:
        path = f"{above}{joined_name([field.name.lower()])}"
        found |= {path: type_text(field.dataType), **field_types(field.dataType, f"{path}.")}
    return found
