"""Finds records of files and messages that don't fit their source's schema, and handles them by `on_error`.

Spark's text readers (JSON, CSV, XML) return NULL for a value that doesn't fit its column's type, and for a whole
record that they can't parse. They also return the text of such a record in a column that is requested by name. That
text is parsed again with string columns, which shows the columns and values concerned. A good record costs a NULL
check of that column.

All functions return SQL text, for streams and for batch alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ..util.quoting import literal
from ..util.quoting import quote as quoted

WARN, FAIL, DROP, KEEP_RAW = "warn", "fail", "drop", "keep_raw"
ON_ERROR = (WARN, FAIL, DROP, KEEP_RAW)
FORMATS = ("json", "csv", "xml")
"""Formats whose records are texts. Files of other formats store types, and Spark rejects those that differ."""
MODES: Mapping[str, str] = {"permissive": WARN, "failfast": FAIL, "dropmalformed": DROP}
"""Spark's option `mode` → `on_error`."""

RAW_RECORD = "_raw_record"
"""The column for raw records that ``on_error: keep_raw`` adds, unless the source's options name another."""
UNREADABLE, DROPPED = "__unreadable", "__unreadable_dropped"
"""Columns of a stream's rows until they are counted: a struct of unreadable values by column, NULL in good rows. Rows
whose `DROPPED` isn't NULL are dropped after counting."""
WHOLE = "(whole record)"
"""Key for a record that can't be parsed at all, or has another number of fields."""

_RAW = "__raw_record"
_QUOTE = literal("'")
_OPTION = "columnnameofcorruptrecord"
_SPARKS = "_corrupt_record"
_OWN_OPTIONS = frozenset({"mode", _OPTION, "path"})
_OF_A_MESSAGE = "concat('partition ', partition, ' of topic ', topic, ', offset ', offset)"
_TEXT = re.compile(r"(string|char|varchar|variant)\b")
_REFUSED = re.compile(
    r"\[USER_RAISED_EXCEPTION\] (Source .*? can't be read\b.*?\.) SQLSTATE: P0001", re.DOTALL
)
_NESTED = re.compile(r"(struct|array|map)<")
_ADVICE = (
    "Correct the record, or the type in the source's schema, or set the source's on_error to 'warn' (such values become "
    "NULL), 'drop' or 'keep_raw'."
)


def refused(text: str) -> str | None:
    """Returns the message of ``on_error: fail`` from Spark's error; None if the error is another one."""
    found = _REFUSED.search(text)
    return found[1] if found else None


def raw_column(options: Mapping[str, str]) -> str | None:
    """Returns the column for raw records that the options of a source name; None if they name none."""
    return next((value for name, value in options.items() if name.lower() == _OPTION), None)


@dataclass(frozen=True)
class Records:
    """SQL that converts records of a source to rows."""

    source: str
    """``source.table``, for messages."""
    format: str
    """``json``, ``csv`` or ``xml``."""
    fields: Sequence[tuple[str, str]]
    """The columns and types of the source's schema."""
    on_error: str = WARN
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Spark's options of the format."""
    place: str = "concat('file ', input_file_name())"
    """SQL for the location of a record."""
    folders: Sequence[str] = ()
    """Columns from folder names, which records don't have."""

    @classmethod
    def of(
        cls,
        source: str,
        format: str,
        fields: Sequence[tuple[str, str]],
        on_error: str,
        options: Mapping[str, str],
    ) -> Records | None:
        """Returns the records of a source; None if Spark rejects unreadable ones or doesn't report them.

        >>> records = Records.of("shop.orders", "json", [("id", "bigint")], KEEP_RAW, {})
        >>> records.names, records.schema
        (['id', '_raw_record'], '`id` bigint, `_raw_record` string')
        >>> Records.of("shop.orders", "parquet", [("id", "bigint")], KEEP_RAW, {}) is None
        True
        """
        if format == "kafka":
            return cls(source, "json", fields, on_error, place="__place")
        if format not in FORMATS or "singlevariantcolumn" in map(str.lower, options):
            return None
        return cls(source, format, fields, on_error, options)

    @cached_property
    def raw(self) -> str:
        """The column in which Spark's reader puts the text of an unreadable record."""
        named = raw_column(self.options)
        own = (named or _SPARKS).lower()
        found = next((name for name, kind in self.fields if name.lower() == own and kind == "string"), None)
        return found or (named or RAW_RECORD if self.on_error == KEEP_RAW else _RAW)

    @property
    def _is_own(self) -> bool:
        """Whether the schema itself has the raw column."""
        return self.raw in {name for name, _ in self.fields}

    @cached_property
    def names(self) -> list[str]:
        """The columns of a row."""
        own = [name for name, _ in self.fields]
        return own if self._is_own or self.on_error != KEEP_RAW else [*own, self.raw]

    @cached_property
    def _types(self) -> dict[str, str]:
        """The columns that are parsed from a record, with their types."""
        apart = (self.raw, *self.folders)
        return {name: kind for name, kind in self.fields if name not in apart}

    @property
    def schema(self) -> str:
        """The columns to read with, as DDL. Spark adds the columns of folder names at the end."""
        return _ddl({**self._types, self.raw: "string"})

    @property
    def reading(self) -> dict[str, str]:
        """The options to read with."""
        found = {name: value for name, value in self.options.items() if name.lower() not in ("mode", _OPTION)}
        # With column pruning, Spark doesn't report a record with too many or too few fields.
        pruning = {"columnPruning": "false"} if self.format == "csv" else {}
        return {**found, **pruning, "columnNameOfCorruptRecord": self.raw}

    @property
    def differs(self) -> bool:
        """Whether rows differ from what Spark reads, because they depend on which records are unreadable."""
        return self.on_error != WARN or self._is_own

    # What a query over the records selects.

    def found(self, wanted: Sequence[str] | None = None) -> str:
        """SQL for a struct of unreadable values as text, by column; NULL for a good record.

        Args:
            wanted: the columns that are read; None for all. Others needn't be checked where rows are only counted.
        """
        types = self._types
        if self.on_error == WARN and wanted is not None and self.raw not in wanted:
            types = {name: types[name] for name in wanted if name in types} or types
        checked = {name: kind for name, kind in types.items() if not _TEXT.match(kind)}
        bad = ", ".join(f"{literal(name)}, {self._bad(name, kind)}" for name, kind in checked.items())
        some = " or ".join(f"__b.{quoted(name)} is not null" for name in checked) or "false"
        values = ", ".join(f"{literal(name)}, __b.{quoted(name)}" for name in checked)
        # Spark parses only the columns that a query names, so errors in others go unnoticed.
        record = f"coalesce({quoted(self.raw)}, to_json(struct({', '.join(map(quoted, types))})))"
        # Lambda parameters name expressions that would otherwise be repeated in the SQL.
        first = f"transform(array(try_element_at({self._as_texts(types)}, 1)), __e -> named_struct({bad}))"
        whole = (
            f"named_struct({', '.join(filter(None, [values, literal(WHOLE)]))}, if({some}, null, {record}))"
        )
        second = (
            whole if self.format != "json" else f"if({some} or not {self._are_many(types)}, {whole}, null)"
        )
        return f"case when {quoted(self.raw)} is not null then transform({first}, __b -> {second})[0] end"

    def select(self, wanted: Sequence[str] | None, unreadable: str) -> list[str]:
        """The columns of a row, each as SQL.

        Args:
            wanted: the columns that are read; None for all.
            unreadable: the column with the unreadable values.
        """
        return [
            self._shown(unreadable) if name == self.raw else quoted(name)
            for name in (self.names if wanted is None else wanted)
        ]

    def condition(self, unreadable: str) -> str | None:
        """SQL condition for the rows to keep; None if it is all."""
        if self.on_error == DROP:
            return f"{unreadable} is null"
        if self.on_error == FAIL:
            fails = f"cast(raise_error({self._sentence(unreadable)}) as boolean)"
            return f"case when {unreadable} is null then true else {fails} end"
        return None

    def rows(self, records: str) -> str:
        """A query for the rows.

        Args:
            records: a relation with the columns of `schema`.
        """
        if not self.differs:
            return f"select {', '.join(map(quoted, self.names))} from {records}"
        condition, columns = self.condition(UNREADABLE), ", ".join(self.select(None, UNREADABLE))
        where = f" where {condition}" if condition else ""
        return f"select {columns} from (select *, {self.found()} as {UNREADABLE} from {records}){where}"

    def _shown(self, unreadable: str) -> str:
        raw = quoted(self.raw)
        if not self._is_own:
            return f"case when {unreadable} is not null then {raw} end as {raw}"
        # Spark parses only the columns that a query names, so this names all.
        every = ", ".join(map(quoted, self._types))
        return f"case when {raw} is not null then coalesce({raw}, to_json(struct({every}))) end as {raw}"

    def _sentence(self, unreadable: str) -> str:
        """SQL for the error message on an unreadable record."""

        def value(name: str) -> str:
            text = rf"left(regexp_replace({unreadable}.{quoted(name)}, '\\s+', ' '), 100)"
            return f"concat({_QUOTE}, {text}, {_QUOTE})"

        cases = [
            f"when {unreadable}.{quoted(name)} is not null then concat('the value ', {value(name)}, "
            + literal(f" of its column {name} can't be read as {kind.upper()} (")
            + ")"
            for name, kind in self._types.items()
            if not _TEXT.match(kind)
        ]
        unlike = literal(f" can't be read as {self.format.upper()} with its columns (")
        whole = f"concat('the record ', {value(WHOLE)}, {unlike})"
        what = f"case {' '.join(cases)} else {whole} end" if cases else whole
        return (
            f"concat({literal(f'Source {self.source}: ')}, {what}, {self.place}, {literal(f'). {_ADVICE}')})"
        )

    # A record as texts.

    def _as_texts(self, types: Mapping[str, str]) -> str:
        """SQL for an array of structs of texts: the record, or the rows of a JSON array that may be the row at hand."""
        raw = quoted(self.raw)
        if self.format == "csv":
            # CSV fields are matched by position.
            return f"array(from_csv({raw}, {literal(_ddl(dict.fromkeys(self._types, 'string')))}, {self._map()}))"
        if self.format == "xml":
            return f"array(from_xml({raw}, {literal(_ddl(dict.fromkeys(types, 'string')))}, {self._map()}))"
        texts, row = self._array(dict.fromkeys(types, "string")), ", ".join(map(quoted, types))
        pairs = f"zip_with({texts}, {self._array(types)}, (__t, __r) -> named_struct('t', __t, 'r', to_json(__r)))"
        same = f"filter({pairs}, __p -> __p.r <=> to_json(struct({row})))"
        return f"if({self._are_many(types)}, transform({same}, __p -> __p.t), {texts})"

    def _are_many(self, types: Mapping[str, str]) -> str:
        """SQL for whether a JSON record is an array of several rows."""
        return f"coalesce(size({self._array(dict.fromkeys(types, 'string'))}) > 1, false)"

    def _array(self, types: Mapping[str, str]) -> str:
        fields = ",".join(f"{quoted(name)}:{kind}" for name, kind in types.items())
        return f"from_json({quoted(self.raw)}, {literal(f'array<struct<{fields}>>')}, {self._map()})"

    def _bad(self, name: str, kind: str) -> str:
        """SQL for a value's text if it is unreadable; else NULL."""
        text = f"__e.{quoted(name)}"
        if not _NESTED.match(kind):
            return f"if({quoted(name)} is null, {text}, null)"
        # In a nested value, the unreadable part is NULL and other parts aren't.
        read = {_RAW: "string"}
        if self.format == "xml":
            again = f"from_xml({quoted(self.raw)}, {literal(_ddl({name: kind, **read}))}, {self._map(_RAW)})"
            return f"if({again}.{_RAW} is not null, {text}, null)"
        json = rf"""concat('{{"x":', {text}, '}}')"""
        again = f"from_json({json}, {literal(_ddl({'x': kind, **read}))}, {self._map(_RAW)})"
        return f"if({quoted(name)} is null or {again}.{_RAW} is not null, {text}, null)"

    def _map(self, raw: str | None = None) -> str:
        """Spark's options as an argument of its SQL functions."""
        options = {
            name: value
            for name, value in self.options.items()
            # Without options of file systems and those that only select files.
            if name.lower() not in _OWN_OPTIONS and "." not in name
        }
        options |= {"mode": "PERMISSIVE"} | ({"columnNameOfCorruptRecord": raw} if raw else {})
        return f"map({', '.join(f'{literal(name)}, {literal(value)}' for name, value in options.items())})"

    # Messages, whose values are texts.

    def of_messages(self) -> tuple[list[str], list[str]]:
        """Returns two SELECT lists, the second over the first, that give Kafka's messages the columns of `schema`.

        A message without a value is a tombstone, which isn't unreadable.
        """
        raw, value = quoted(self.raw), "cast(value as string)"
        first = [
            f"from_json({value}, {literal(self.schema)}, {self._map(self.raw)}) as __message",
            f"{value} as __value",
            f"{_OF_A_MESSAGE} as __place",
        ]
        names = [f"__message.{quoted(name)} as {quoted(name)}" for name in self._types]
        # The JSON reader returns NULL and no raw record for an empty text.
        unread = f"coalesce(__message.{raw}, if(__message is null, __value, null)) as {raw}"
        return first, [*names, unread, "__place"]


def _ddl(types: Mapping[str, str]) -> str:
    return ", ".join(f"{quoted(name)} {kind}" for name, kind in types.items())
