"""Finds records of files and messages that don't fit their source's schema, and handles them by `on_error`.

Spark's text readers (JSON, CSV, XML) return NULL for a value that doesn't fit its column's type, and for a whole
record that they can't parse. They also return the text of such a record in a column that is requested by name. That
text is parsed again with string columns, which shows the columns and values concerned. A good record costs a NULL
check of that column.

A JSON record is read as text and parsed here, from files as from messages: Spark's reader ignores what follows a
record, so its text is checked too.

All functions return SQL text, for streams and for batch alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ..util.quoting import literal
from ..util.quoting import quote as quoted
from . import csv_quotes, json_texts
from .column_types import base_type
from .exact_values import RAW as _RAW
from .exact_values import ExactValues
from .file_options import by_lower_name, is_true
from .misread_values import (
    DOUBLE,
    FLOAT,
    KINDS,
    TINYINT,
    can_cast_element,
    cast_text_sql,
    cast_xml_element_sql,
    guessed_types,
    misread_condition,
)

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

LINE = "__line"
"""The column of files that are read as text."""

_RECORD, _IS_UNPARSED = "__text", "__is_whole"
_QUOTE = literal("'")
_REPLACEMENT = literal("\ufffd")
"""The character that Spark reads for bytes that are invalid in the text's encoding."""
_OPTION = "columnnameofcorruptrecord"
_DEFAULT_OF_SPARK = "_corrupt_record"
_OWN_OPTIONS = frozenset({"mode", _OPTION, "path"})
_PLACE_OF_MESSAGE = "concat('partition ', partition, ' of topic ', topic, ', offset ', offset)"
_PROBING = frozenset(map(str.lower, csv_quotes.PROBING))
_AS_READ: Mapping[str, str] = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
"""Options with which CSV is written as it is read: by default, Spark keeps spaces around values when it reads, and drops
them when it writes."""
_TEXT = re.compile(r"(string|char|varchar|variant)\b")
_REFUSED = re.compile(
    r"\[USER_RAISED_EXCEPTION\] (Source .*? can't be read\b.*?\.) SQLSTATE: P0001", re.DOTALL
)
_NESTED = re.compile(r"(struct|array|map)<")
_ADVICE = (
    "Correct the record, or the type in the source's schema, or set the source's on_error to 'warn' (such values become "
    "NULL), 'drop' or 'keep_raw'."
)


def refusal_text(text: str) -> str | None:
    """Returns the message of ``on_error: fail`` from Spark's error; None if the error is another one."""
    found = _REFUSED.search(text)
    return found[1] if found else None


def raw_column(options: Mapping[str, str]) -> str | None:
    """Returns the column for raw records that the options of a source name; None if they name none."""
    return by_lower_name(options).get(_OPTION)


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
    are_messages: bool = False
    """Whether the records are values of Kafka's messages."""

    @classmethod
    def of_source(
        cls,
        source: str,
        format: str,
        fields: Sequence[tuple[str, str]],
        on_error: str,
        options: Mapping[str, str],
    ) -> Records | None:
        """Returns the records of a source; None if Spark rejects unreadable ones or doesn't report them.

        >>> records = Records.of_source("shop.orders", "json", [("id", "bigint")], KEEP_RAW, {})
        >>> records.names, records.schema
        (['id', '_raw_record'], '`id` bigint, `_raw_record` string')
        >>> Records.of_source("shop.orders", "parquet", [("id", "bigint")], KEEP_RAW, {}) is None
        True
        """
        if format == "kafka":
            return cls(source, "json", fields, on_error, place="__place", are_messages=True)
        if format not in FORMATS or "singlevariantcolumn" in map(str.lower, options):
            return None
        return cls(source, format, fields, on_error, options)

    @cached_property
    def raw(self) -> str:
        """The column in which Spark's reader puts the text of an unreadable record."""
        named = raw_column(self.options)
        own = (named or _DEFAULT_OF_SPARK).lower()
        found = next((name for name, kind in self.fields if name.lower() == own and kind == "string"), None)
        return found or (named or RAW_RECORD if self.on_error == KEEP_RAW else _RAW)

    @property
    def _schema_has_raw(self) -> bool:
        """Whether the schema itself has the raw column."""
        return self.raw in {name for name, _ in self.fields}

    @cached_property
    def names(self) -> list[str]:
        """The columns of a row."""
        own = [name for name, _ in self.fields]
        return own if self._schema_has_raw or self.on_error != KEEP_RAW else [*own, self.raw]

    @cached_property
    def _parsed_types(self) -> dict[str, str]:
        """The columns that are parsed from a record, with their types."""
        apart = (self.raw, *self.folders)
        return {name: kind for name, kind in self.fields if name not in apart}

    @property
    def schema(self) -> str:
        """The columns to read with, as DDL. Spark adds the columns of folder names at the end."""
        return _ddl(self._parser_columns | dict.fromkeys(self._probe_columns, csv_quotes.PROBE))

    @property
    def _parser_columns(self) -> dict[str, str]:
        """The columns that Spark's parser gives, with their types."""
        return {**self._parsed_types, **dict.fromkeys(self._cast_columns, "string"), self.raw: "string"}

    @property
    def _probe_columns(self) -> list[str]:
        """The columns that are read only to get the text of each record: the first and the last one of CSV whose quotes may
        extend over lines. A record in which both are NULL has no text."""
        if self.format != "csv" or not csv_quotes.may_quote_run_on(self.options):
            return []
        names = [*self._parsed_types]
        return list(dict.fromkeys([names[0], names[-1]]))

    @cached_property
    def _cast_columns(self) -> dict[str, str]:
        """The columns of CSV and XML that are read as STRING and cast by this module, which can compare their texts.

        In XML all columns that aren't nested are cast: after a value that it can't parse, Spark reads no other value of
        the record.
        """
        if self.format == "xml":
            return {
                name: kind
                for name, kind in self._parsed_types.items()
                if can_cast_element(kind, self.options)
            }
        if self.format != "csv":
            return {}
        wanted = {*guessed_types(self.options), DOUBLE, FLOAT}
        return {name: kind for name, kind in self._parsed_types.items() if base_type(kind) in wanted}

    @property
    def are_texts(self) -> bool:
        """Whether records are read as texts, which `select_lists` converts to the columns of `schema`."""
        return self._text_sql is not None

    @cached_property
    def _text_sql(self) -> str | None:
        """SQL for a record's text, over the columns of the text reader; None if the record isn't read as text."""
        if self.format != "json":
            return None
        if self.are_messages:
            return "cast(value as string)"
        values = by_lower_name(self.options)
        is_file = is_true(self.options, "multiLine")
        encoding = values.get("encoding", values.get("charset"))
        return json_texts.decoded_text_sql(LINE, encoding, values.get("linesep"), is_file)

    @property
    def _raw_text_column(self) -> str:
        """The column with the text of a record that has unreadable values; NULL for others."""
        return _RECORD if self.are_texts else quoted(self.raw)

    def with_columns(self, wanted: Sequence[str] | None) -> Records:
        """Returns the records without unneeded columns, which Spark then doesn't parse."""
        if not self.are_texts or self.on_error != WARN or wanted is None or self.raw in wanted:
            return self
        some = [field for field in self.fields if field[0] in wanted]
        return replace(self, fields=some) if {name for name, _ in some} - {*self.folders} else self

    @property
    def read_options(self) -> dict[str, str]:
        """The options to read with."""
        found = {name: value for name, value in self.options.items() if name.lower() not in ("mode", _OPTION)}
        if self.are_texts:
            return {**found, "wholetext": by_lower_name(found).get("multiline", "false")}
        # With column pruning, Spark doesn't report a record with too many or too few fields.
        pruning = {"columnPruning": "false"} if self.format == "csv" else {}
        if self._probe_columns:
            others = {name: value for name, value in found.items() if name.lower() not in _PROBING}
            found = {**others, **csv_quotes.PROBING}
        return {**found, **pruning, "columnNameOfCorruptRecord": self.raw}

    @property
    def differs_from_spark(self) -> bool:
        """Whether rows differ from what Spark reads, because they depend on which records are unreadable."""
        values_differ = self.are_texts or self._probe_columns or self._columns_to_compare
        return bool(values_differ) or self.on_error != WARN or self._schema_has_raw

    # -- what a query over the records selects -------------------------------------------------------

    def unreadable_values_sql(self, wanted: Sequence[str] | None = None) -> str:
        """SQL for a struct of unreadable values as text, by column; NULL for a good record.

        Args:
            wanted: the columns that are read; None for all. With ``on_error: warn`` only these are checked.
        """
        types = self._parsed_types
        if self.on_error == WARN and wanted is not None and self.raw not in wanted:
            types = {name: types[name] for name in wanted if name in types} or types
        checked = {name: kind for name, kind in types.items() if not _TEXT.match(kind)}
        bad = ", ".join(
            f"{literal(name)}, {self._unreadable_value_sql(name, kind)}" for name, kind in checked.items()
        )
        some = " or ".join(f"__b.{quoted(name)} is not null" for name in checked) or "false"
        values = ", ".join(f"{literal(name)}, __b.{quoted(name)}" for name in checked)
        # Spark parses only the columns that a query names, so errors in others go unnoticed.
        record = f"coalesce({self._raw_text_column}, to_json(struct({', '.join(map(quoted, types))})))"
        # Lambda parameters name expressions that would otherwise be repeated in the SQL.
        if not checked and self.are_texts:
            only = f"named_struct({literal(WHOLE)}, {record})"
            return f"case when {self._raw_text_column} is not null then {only} end"
        first = f"transform(array(try_element_at({self._texts_sql(types)}, 1)), __e -> named_struct({bad}))"
        whole = (
            f"named_struct({', '.join(filter(None, [values, literal(WHOLE)]))}, if({some}, null, {record}))"
        )
        if not self.are_texts and self.format == "json":
            whole = f"if({some} or not {self._is_array_condition(types)}, {whole}, null)"
        found = f"transform({first}, __b -> {whole})[0]"
        if self.are_texts:
            nothing = "".join(f"{literal(name)}, cast(null as string), " for name in checked)
            only = f"named_struct({nothing}{literal(WHOLE)}, {record})"
            found = f"if({_IS_UNPARSED}, {only}, {found})"
        return f"case when {self._raw_text_column} is not null then {found} end"

    def row_select_list(self, wanted: Sequence[str] | None, unreadable: str) -> list[str]:
        """The columns of a row, each as SQL."""
        return [
            self._raw_column_item(unreadable) if name == self.raw else quoted(name)
            for name in (self.names if wanted is None else wanted)
        ]

    def kept_rows_condition(self, unreadable: str) -> str | None:
        """SQL condition for the rows to keep; None if it is all."""
        if self.on_error == DROP:
            return f"{unreadable} is null"
        if self.on_error == FAIL:
            fails = f"cast(raise_error({self._error_message_sql(unreadable)}) as boolean)"
            return f"case when {unreadable} is null then true else {fails} end"
        return None

    def rows_sql(self, records: str) -> str:
        """SQL for the source's rows, in which unreadable records are handled by `on_error`.

        Args:
            records: a relation with the columns of `schema`.
        """
        if self.on_error == WARN and not self._schema_has_raw:
            return f"select {', '.join(map(quoted, self.names))} from {records}"
        condition, columns = (
            self.kept_rows_condition(UNREADABLE),
            ", ".join(self.row_select_list(None, UNREADABLE)),
        )
        where = f" where {condition}" if condition else ""
        return f"select {columns} from (select *, {self.unreadable_values_sql()} as {UNREADABLE} from {records}){where}"

    def _raw_column_item(self, unreadable: str) -> str:
        raw = quoted(self.raw)
        if not self._schema_has_raw:
            return f"case when {unreadable} is not null then {raw} end as {raw}"
        # Spark parses only the columns that a query names, so this names all.
        every = ", ".join(map(quoted, self._parsed_types))
        return f"case when {raw} is not null then coalesce({raw}, to_json(struct({every}))) end as {raw}"

    def _error_message_sql(self, unreadable: str) -> str:
        """SQL for the error message on an unreadable record."""

        def quoted_value_sql(name: str) -> str:
            text = rf"left(regexp_replace({unreadable}.{quoted(name)}, '\\s+', ' '), 100)"
            return f"concat({_QUOTE}, {text}, {_QUOTE})"

        cases = [
            f"when {unreadable}.{quoted(name)} is not null then concat('the value ', {quoted_value_sql(name)}, "
            + literal(f" of its column {name} can't be read as {kind.upper()} (")
            + ")"
            for name, kind in self._parsed_types.items()
            if not _TEXT.match(kind)
        ]
        others = "".join(f", or {each}" for each in self._other_reasons)
        unlike = literal(f" can't be read as {self.format.upper()} with its columns{others} (")
        whole = f"concat('the record ', {quoted_value_sql(WHOLE)}, {unlike})"
        what = f"case {' '.join(cases)} else {whole} end" if cases else whole
        return (
            f"concat({literal(f'Source {self.source}: ')}, {what}, {self.place}, {literal(f'). {_ADVICE}')})"
        )

    @property
    def _other_reasons(self) -> list[str]:
        """Why a record may be unreadable though it has the right number of fields."""
        return [
            *(["a quote in it is never closed"] if self._probe_columns else []),
            *(
                ["quotes in it are doubled, and the source's options lack escape: '\"'"]
                if self._doubled_quotes_regex
                else []
            ),
            *([] if self.are_texts else ["its bytes aren't of the source's encoding"]),
        ]

    # -- a record as texts ---------------------------------------------------------------------------

    def _texts_sql(self, types: Mapping[str, str]) -> str:
        """SQL for an array of structs with a record's values as texts. A JSON array of several rows gives those of its
        elements that may be this row."""
        raw = self._raw_text_column
        # CSV fields are matched by position.
        columns = dict.fromkeys(self._parsed_types if self.format == "csv" else types, "string")
        texts = f"from_{self.format}({raw}, {literal(_ddl(columns))}, {self._options_sql()})"
        if self.format in ("csv", "xml"):
            return f"array({texts})"
        if self.are_texts:
            nested = any(
                _NESTED.match(kind) and self._exact_values.is_misread_condition(name, "", "") != "false"
                for name, kind in types.items()
            )
            parsed = self._parsed_record_sql(raw) if nested else "null"
            compared = nested or any(self._exact_values.column_text_sql(name, "") for name in types)
            exact = self._exact_values.checked_texts_sql(raw) if compared else "null"
            return f"array(named_struct('texts', {texts}, 'parsed', {parsed}, 'exact', {exact}))"
        texts, row = self._parsed_array_sql(columns), ", ".join(map(quoted, types))
        parsed = self._parsed_array_sql(types)
        pairs = f"zip_with({texts}, {parsed}, (__t, __r) -> named_struct('t', __t, 'r', to_json(__r)))"
        same = f"filter({pairs}, __p -> __p.r <=> to_json(struct({row})))"
        return f"if({self._is_array_condition(types)}, transform({same}, __p -> __p.t), {texts})"

    def _is_array_condition(self, types: Mapping[str, str]) -> str:
        """SQL for whether a JSON record is an array of several rows."""
        return f"coalesce(size({self._parsed_array_sql(dict.fromkeys(types, 'string'))}) > 1, false)"

    def _parsed_array_sql(self, types: Mapping[str, str]) -> str:
        fields = ",".join(f"{quoted(name)}:{kind}" for name, kind in types.items())
        return f"from_json({quoted(self.raw)}, {literal(f'array<struct<{fields}>>')}, {self._options_sql()})"

    def _unreadable_value_sql(self, name: str, kind: str) -> str:
        """SQL for a value's text if it is unreadable; else NULL."""
        text, other = f"__e.{quoted(name)}", "false"
        if self.are_texts:
            text, other = (
                f"__e.texts.{quoted(name)}",
                self._exact_values.is_misread_condition(name, "__e.parsed", "__e.exact"),
            )
            exact = None if _NESTED.match(kind) else self._exact_values.column_text_sql(name, "__e.exact")
            text = text if exact is None else f"coalesce({exact}, {text})"
        if not _NESTED.match(kind):
            text = f"nullif({text}, '')" if self.format == "xml" else text
            return f"if({quoted(name)} is null, {text}, null)"
        # In a nested value, the unreadable part is NULL and other parts aren't.
        read = {_RAW: "string"}
        if self.format == "xml":
            again = f"from_xml({quoted(self.raw)}, {literal(_ddl({name: kind, **read}))}, {self._options_sql(_RAW)})"
            return f"if({again}.{_RAW} is not null, {text}, null)"
        json = rf"""concat('{{"x":', {text}, '}}')"""
        again = f"from_json({json}, {literal(_ddl({'x': kind, **read}))}, {self._options_sql(_RAW)})"
        return f"if({quoted(name)} is null or {again}.{_RAW} is not null or {other}, {text}, null)"

    def _options_sql(self, raw: str | None = None, defaults: Mapping[str, str] | None = None) -> str:
        """Spark's options as an argument of its SQL functions.

        Args:
            defaults: options to add unless the source has them.
        """
        names = {*map(str.lower, self.options)}
        missing = {name: value for name, value in (defaults or {}).items() if name.lower() not in names}
        options = missing | {
            name: value
            for name, value in self.options.items()
            # Without options of file systems, which have a dot, and those that aren't about records.
            if name.lower() not in _OWN_OPTIONS and "." not in name
        }
        options |= {"mode": "PERMISSIVE"} | ({"columnNameOfCorruptRecord": raw} if raw else {})
        return f"map({', '.join(f'{literal(name)}, {literal(value)}' for name, value in options.items())})"

    def select_lists(self) -> list[list[str]]:
        """Returns the SELECT lists that parse the records, in the order in which they are applied to the rows that Spark
        reads. The last one has the columns of `schema` in their own types, the folders' columns, and what
        `unreadable_values_sql` needs."""
        if self.are_texts:
            return self._json_select_lists()
        return [*self._probed_select_lists(), *self._casting_select_lists()]

    # -- CSV, parsed again if a quote may extend over lines; casts of values of CSV and XML ------------

    def _probed_select_lists(self) -> list[list[str]]:
        """Returns the SELECT lists for CSV that is read with probes."""
        if not self._probe_columns:
            return []
        raw, folders = quoted(self.raw), [*map(quoted, self.folders)]
        parsed = f"from_csv({raw}, {literal(_ddl(self._parser_columns))}, {self._options_sql(self.raw)})"
        probes = " and ".join(f"{quoted(name)} is null" for name in self._probe_columns)
        # The probes are named so that Spark reads them whatever the query reads.
        text = f"case when {probes} then {raw} end"
        values = [
            (
                f"__parsed.{quoted(name)}"
                if name in self._probe_columns
                else f"if({raw} is null, {quoted(name)}, __parsed.{quoted(name)})"
            )
            for name in self._parsed_types
        ]
        runs_on = csv_quotes.runs_on_condition(raw, self.options)
        return [
            [*map(quoted, self._parsed_types), f"{text} as {raw}", *folders],
            ["*", f"{parsed} as __parsed"],
            [
                *(
                    f"{value} as {quoted(name)}"
                    for name, value in zip(self._parsed_types, values, strict=True)
                ),
                f"if({runs_on}, {raw}, __parsed.{raw}) as {raw}",
                *folders,
            ],
        ]

    @cached_property
    def _columns_to_compare(self) -> dict[str, str]:
        """The columns of CSV and XML whose values are compared with their texts."""
        if self.are_texts:
            return {}
        return {
            name: kind
            for name, kind in self._parsed_types.items()
            if name in self._cast_columns or kind in KINDS - {TINYINT}
        }

    @property
    def _doubled_quotes_regex(self) -> str | None:
        """A regular expression for a text with doubled quotes that Spark has read with all of its quotes; None if there are
        none."""
        return csv_quotes.doubled_quotes_regex(self.options) if self.format == "csv" else None

    @property
    def _damage_conditions(self) -> list[str]:
        """SQL conditions for column texts of CSV and XML that differ from the record's text. The values stay as Spark reads
        them."""
        texts = [quoted(name) for name, kind in self._parsed_types.items() if kind == "string"]
        found = [f"contains({text}, {_REPLACEMENT})" for text in texts]
        if (doubled := self._doubled_quotes_regex) is not None:
            found += [f"{text} rlike {literal(doubled)}" for text in texts]
        return found

    def _casting_select_lists(self) -> list[list[str]]:
        """Returns the SELECT lists that cast values. A record with a misread value or a damaged text is unreadable, as one
        that Spark can't read."""
        compared, damaged = self._columns_to_compare, self._damage_conditions
        if self.are_texts or not (compared or damaged):
            return []
        raw, others = (
            quoted(self.raw),
            [*map(quoted, (name for name in self._parsed_types if name not in compared))],
        )
        texts, folders = [*map(quoted, self._parsed_types)], [*map(quoted, self.folders)]
        values = {
            name: self._cast_value_sql(name, kind) if name in self._cast_columns else quoted(name)
            for name, kind in compared.items()
        }
        known = guessed_types(self.options)
        misread = {
            name: misread_condition(
                kind, _typed_column(name), quoted(name) if name in self._cast_columns else "''", known
            )
            for name, kind in compared.items()
            if base_type(kind) in KINDS
        }
        # Spark has read the `nullValue` of XML as NULL.
        empty = literal(by_lower_name(self.options).get("nullvalue", "") if self.format == "csv" else "")
        unread = [
            f"{quoted(name)} <> {empty} and {_corrected_column(name)} is null"
            if name in self._cast_columns
            else f"{quoted(name)} is not null and {_corrected_column(name)} is null"
            for name in compared
        ]
        # Spark gives the text of a record only where it can't read it itself.
        written = f"to_{self.format}(struct({', '.join(texts)}), {self._options_sql(defaults=_AS_READ)})"
        return [
            ["*", *(f"{value} as {_typed_column(name)}" for name, value in values.items())],
            [
                "*",
                *(
                    f"if({misread.get(name, 'false')}, null, {_typed_column(name)}) as {_corrected_column(name)}"
                    for name in compared
                ),
            ],
            [
                *others,
                *(f"{_corrected_column(name)} as {quoted(name)}" for name in compared),
                f"coalesce({raw}, case when {' or '.join([*unread, *damaged])} then {written} end) as {raw}",
                *folders,
            ],
        ]

    def _cast_value_sql(self, name: str, kind: str) -> str:
        """SQL for a value that is cast."""
        if self.format == "xml":
            return cast_xml_element_sql(kind, quoted(name), self.options, self._options_sql())
        return cast_text_sql(kind, quoted(name), self.options)

    # -- JSON, from texts ----------------------------------------------------------------------------

    def _json_select_lists(self) -> list[list[str]]:
        """Returns the SELECT lists for files that are read as text, and for Kafka's messages.

        A message without a value is a tombstone, which isn't unreadable. A blank line isn't a record.
        """
        assert self._text_sql is not None
        unread = f"array({self._row_sql(f'cast(null as {self._record_type})', '__value', '__value')})"
        row = f"array({self._row_sql('__c.record', '__c.text', '__c.text', '__c.own')})"
        checked = f"transform(array({self._checked_record_sql('__message', '__value')}), __c -> {row})[0]"
        message, more = (
            self._parsed_record_sql("__value"),
            json_texts.is_not_one_value_condition("__value", self._options_sql()),
        )
        if self.are_messages:
            # The JSON parser returns NULL for an empty text.
            rows = f"if(__message is not null and not {more} or __value is null, {checked}, {unread})"
            passed = ["__place"]
        else:
            blank = rf"if(__value rlike '\\S', {unread}, slice({unread}, 1, 0))"
            elements = self._element_rows_sql(unread)
            rows = (
                f"case when {json_texts.is_array_condition('__value')} then if({more}, {unread}, {elements}) "
                f"when __message is null then {blank} when {more} then {unread} else {checked} end"
            )
            message = f"if(startswith(__value, '['), null, {message})"
            passed = [*map(quoted, self.folders)]
        return [
            [
                f"{self._text_sql} as __value",
                *([f"{_PLACE_OF_MESSAGE} as __place"] if self.are_messages else passed),
            ],
            [f"{message} as __message", "__value", *passed],
            ["*", f"{self._is_plain_condition('__message', '__value')} as __plain"],
            # Most records are plain. Computed in one expression with the others, each of them would cost twice as much.
            [
                f"explode(if(__plain, array(null), {rows})) as __row",
                "__message",
                "__value",
                "__plain",
                *passed,
            ],
            [
                *(
                    self._exact_values.column_with_nested_text_sql(
                        name,
                        f"if(__plain, __message.{quoted(name)}, __row.record.{quoted(name)})",
                        "if(__plain, __value, __row.own)",
                    )
                    + f" as {quoted(name)}"
                    for name in self._parsed_types
                ),
                f"if(__plain, null, __row.raw) as {quoted(self.raw)}",
                f"if(__plain, null, __row.text) as {_RECORD}",
                f"not __plain and __row.record is null as {_IS_UNPARSED}",
                *passed,
            ],
        ]

    def _is_plain_condition(self, record: str, text: str) -> str:
        """SQL for whether a record is parsed as it is written."""
        exact, raw = self._exact_values, f"{record}.{quoted(self.raw)}"
        return (
            f"coalesce({record} is not null and {raw} is null and {json_texts.is_one_object_condition(text)}, false) "
            f"and not {exact.may_differ_condition(record, text)}"
        )

    def _parsed_record_sql(self, text: str) -> str:
        return f"from_json({text}, {literal(self.schema)}, {self._options_sql(self.raw)})"

    @property
    def _record_type(self) -> str:
        """The type of a parsed record."""
        types = {**self._parsed_types, self.raw: "string"}
        return f"struct<{','.join(f'{quoted(name)}:{kind}' for name, kind in types.items())}>"

    @cached_property
    def _exact_values(self) -> ExactValues:
        return ExactValues(
            self._parsed_types, self._options_sql(), self._options_sql(_RAW), guessed_types(self.options)
        )

    def _checked_record_sql(self, record: str, text: str) -> str:
        """SQL for a parsed record with corrected values. `text` is its text if a value is unreadable, `own` its text if
        `column_with_nested_text_sql` needs it; else NULL."""
        exact, raw = self._exact_values, f"{record}.{quoted(self.raw)}"
        own = f"if({exact.may_have_nested_text_condition(record)}, {text}, null)"
        row = f"named_struct('record', {record}, 'text', {raw}, 'own', {own})"
        may_differ = exact.may_differ_condition(record, text)
        if may_differ == "false":
            return row
        columns = exact.corrected_columns_sql(record, "__v")
        corrected = (
            f"named_struct('record', named_struct({columns}, {literal(self.raw)}, {raw}), "
            f"'text', if({raw} is not null or {exact.any_misread_condition(record, '__v')}, {text}, null), 'own', {own})"
        )
        return f"if({may_differ}, transform(array({exact.checked_texts_sql(text)}), __v -> {corrected})[0], {row})"

    def _row_sql(self, record: str, text: str, raw: str, own: str = "cast(null as string)") -> str:
        """SQL for the row of a record. `own`: its text if `column_with_nested_text_sql` needs it."""
        return f"named_struct('record', {record}, 'text', {text}, 'raw', {raw}, 'own', {own})"

    def _element_rows_sql(self, unread: str) -> str:
        """SQL for the rows of an array of records. Each row has the array's text if any of the records is unreadable."""
        texts = json_texts.elements_sql("__value", self._options_sql())
        parsed = f"transform({texts}, __t -> named_struct('record', {self._parsed_record_sql('__t')}, 'text', __t))"
        checked = f"transform({parsed}, __p -> {self._checked_record_sql('__p.record', '__p.text')})"
        row = self._row_sql("__c.record", "__c.text", "if(__some, __value, null)", "__c.own")
        some = "exists(__cs, __c -> __c.text is not null)"
        rows = f"transform(array({some}), __some -> transform(__cs, __c -> {row}))[0]"
        return f"coalesce(transform(array({checked}), __cs -> {rows})[0], {unread})"


def _typed_column(name: str) -> str:
    return quoted(f"__typed_{name}")


def _corrected_column(name: str) -> str:
    return quoted(f"__right_{name}")


def _ddl(types: Mapping[str, str]) -> str:
    return ", ".join(f"{quoted(name)} {kind}" for name, kind in types.items())
