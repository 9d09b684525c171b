"""Translates Flink's functions and operators to Spark's where they differ."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from ..query.sql.dialect import DIALECT, function_name
from ..query.sql.nodes import every
from ..query.sql.spark_functions import AGGREGATES, GENERATORS, SCALARS, TABLES, WINDOWS
from .errors import Notes, Untranslatable
from .similar_to import regular_expression

Args = list[exp.Expr]
PROCESSING_TIME = (
    "{} goes by processing time. Results follow event time here, so that a replay gives the same rows: give the table a "
    "column with the time of the event and a WATERMARK, and use that."
)
MULTISET = "multiset"
"""The name of the MULTISET type in `ColumnTypes`, and the key of a type's `meta` that says whether it is one."""
LENGTH = "length"
"""Key of a type's `meta` with n of VARCHAR(n), the length to which Flink's CAST cuts a text."""
_SPARKS = {*AGGREGATES, *GENERATORS, *SCALARS, *TABLES, *WINDOWS}
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_FIELDS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOW", "DOY", "HOUR", "MINUTE")
"""Fields of a time that EXTRACT gives in Spark as in Flink."""
_CLOCKS = ("current_timestamp", "now")


def spark_call(name: str, *arguments: Any) -> exp.Expr:
    """Returns a call of a Spark function."""
    return exp.Anonymous(this=name, expressions=[exp.convert(each, copy=True) for each in arguments])


def _is_null(value: exp.Expr) -> exp.Expr:
    return exp.Is(this=value.copy(), expression=exp.Null())


def _null_if_any_is(name: str) -> Callable[[Args], exp.Expr]:
    """Returns a translation of GREATEST or LEAST, which are NULL in Flink if an argument is NULL."""
    return lambda a: spark_call("if", exp.or_(*map(_is_null, a)), exp.Null(), spark_call(name, *a))


def _literal_pattern(text: exp.Expr) -> exp.Expr:
    """Returns a regular expression that matches a text."""
    if text.is_string:
        return exp.Literal.string(f"\\Q{text.name}\\E")
    return spark_call("concat", "\\Q", text, "\\E")


def _translate_to_timestamp_ltz(a: Args) -> exp.Expr:
    digits = a[1].name if len(a) > 1 else ""
    if digits in ("0", "3"):
        return spark_call("timestamp_seconds" if digits == "0" else "timestamp_millis", a[0])
    if a[0].is_string or (len(a) > 1 and a[1].is_string):
        return spark_call("try_to_timestamp", *a[:2])
    raise Untranslatable(
        "TO_TIMESTAMP_LTZ without a precision of 0 or 3: write timestamp_millis(…), timestamp_seconds(…) or "
        "to_timestamp(…).",
        a[0],
    )


def _sha_translation(bits: int) -> Callable[[Args], exp.Expr]:
    return lambda a: spark_call("sha2", a[0], bits)


def json_value_call(a: Args) -> exp.Expr:
    """Returns a call for the value at a path of a JSON text. Flink's path modes, lax and strict, are dropped: Spark has
    none, and without an ON clause both give NULL for a missing value."""
    if a[1].is_string:
        a[1] = exp.Literal.string(re.sub(r"^\s*(?:lax|strict)\s+", "", a[1].name, flags=re.IGNORECASE))
    return spark_call("get_json_object", *a)


def _translate_listagg(a: Args) -> exp.Expr:
    value = a[0]
    if isinstance(value, exp.Distinct):
        value, *a[1:] = [exp.Distinct(expressions=value.expressions[:1]), *value.expressions[1:]]
    return spark_call("listagg", value, a[1] if a[1:] else ",")


def _translate_array_sort(a: Args) -> exp.Expr:
    if len(a) > 2:
        raise Untranslatable("ARRAY_SORT() with a place for NULL: write array_sort(array, comparator).", a[0])
    return spark_call("sort_array", *a)


RENAMED: Mapping[str, Callable[[Args], exp.Expr]] = {
    "ARRAY_CONCAT": lambda a: spark_call("concat", *a),
    "ARRAY_REVERSE": lambda a: spark_call("reverse", *a),
    # Spark's array_sort() has NULL at the end.
    "ARRAY_SORT": _translate_array_sort,
    "COLLECT": lambda a: spark_call("collect_list", *a),
    "CONVERT_TZ": lambda a: spark_call(
        "date_format",
        spark_call("convert_timezone", a[1], a[2], spark_call("to_timestamp_ntz", a[0])),
        "yyyy-MM-dd HH:mm:ss",
    ),
    "CURRENT_ROW_TIMESTAMP": lambda a: spark_call("current_timestamp"),
    "ELEMENT": lambda a: spark_call("try_element_at", a[0], 1),
    "FROM_BASE64": lambda a: exp.cast(spark_call("unbase64", *a), "string", dialect=DIALECT),
    "GREATEST": _null_if_any_is("greatest"),
    "JSON_EXISTS": lambda a: exp.Paren(this=exp.Not(this=_is_null(json_value_call(a)))),
    "LEAST": _null_if_any_is("least"),
    "LISTAGG": _translate_listagg,
    "LOCALTIMESTAMP": lambda a: spark_call("current_timestamp"),
    "RAND_INTEGER": lambda a: exp.cast(
        spark_call("floor", exp.Mul(this=spark_call("rand"), expression=a[-1])), "int"
    ),
    "REGEXP": lambda a: exp.RegexpLike(this=a[0], expression=a[1]),
    # Spark gives an empty text where nothing matches, and the first group where none is named.
    "REGEXP_EXTRACT": lambda a: spark_call(
        "get", spark_call("regexp_extract_all", a[0], a[1], a[2] if a[2:] else 0), 0
    ),
    "ROW": lambda a: spark_call("struct", *a),
    **{f"SHA{bits}": _sha_translation(bits) for bits in (224, 256, 384, 512)},
    "SPLIT": lambda a: spark_call("split", a[0], _literal_pattern(a[1])),
    "SPLIT_INDEX": lambda a: spark_call("get", spark_call("split", a[0], _literal_pattern(a[1])), a[2]),
    "STR_TO_MAP": lambda a: spark_call("str_to_map", a[0], a[1] if a[1:] else ",", a[2] if a[2:] else "="),
    "TO_BASE64": lambda a: spark_call("base64", *a),
    # Flink's give NULL for a text that is no time.
    "TO_DATE": lambda a: spark_call("try_to_date", *a),
    "TO_TIMESTAMP": lambda a: spark_call("try_to_timestamp", *a),
    "TO_TIMESTAMP_LTZ": _translate_to_timestamp_ltz,
    "WEEK": lambda a: spark_call("weekofyear", *a),
}
"""Functions of Flink's that have another name or another meaning in Spark; they are parsed as unknown ones."""


class RowType(str):
    """A ROW type, as Spark writes it."""

    fields: Sequence[tuple[str, str]] = ()
    """Names and types of its fields and of nested fields."""


class MultisetType(str):
    """A MULTISET type, as Spark writes it: a map from each value to the number of its occurrences."""


@dataclass
class ColumnTypes:
    """Types of a script's columns by name. All columns of one name count as one column."""

    columns: dict[str, set[str]] = field(default_factory=dict)
    """The types of the tables' columns, by name in lower case."""
    computed: dict[str, list[exp.Expr]] = field(default_factory=dict)
    """The expressions of a script that have an alias, by the alias in lower case."""

    def declare(self, name: str, kind: str) -> None:
        """Adds a column of a table, and the fields in it."""
        for each, of in ((name, kind), *(kind.fields if isinstance(kind, RowType) else ())):
            known = self.columns.setdefault(each.lower(), set())
            known.add(MULTISET if isinstance(of, MultisetType) else of)

    def add_aliases(self, tree: exp.Expr) -> None:
        """Adds the aliases of a query."""
        for each in every(tree, exp.Alias):
            self.computed.setdefault(each.alias.lower(), []).append(each.this)

    def type_of(self, node: exp.Expr, seen: frozenset[str] = frozenset()) -> str | None:
        """Returns the type of an expression: ``int`` for all integers, `MULTISET` for a multiset; None if it isn't known."""
        kind = type(node)
        if kind in _TYPE_OF_OPERAND:
            return self.type_of(node.this, seen)
        if kind is exp.Distinct:
            return self.type_of(node.expressions[0], seen)
        if kind is exp.Avg:
            return "int" if self.type_of(node.this, seen) == "int" else None
        if kind in _FIXED:
            return _FIXED[kind]
        if kind is exp.Literal:
            return "string" if node.is_string else "int" if node.is_int else "decimal"
        if kind in (exp.Cast, exp.TryCast):
            to = node.args["to"]
            return MULTISET if to.meta.get(MULTISET) else _simplified_type(to.sql(dialect=DIALECT))
        if kind in (exp.Add, exp.Sub, exp.Mul):
            sides = {self.type_of(node.this, seen), self.type_of(node.expression, seen)}
            return (
                "int"
                if sides == {"int"}
                else next((each for each in sides if each not in ("int", None)), None)
            )
        return self._column_type(node.name.lower(), seen) if kind is exp.Column else None

    def _column_type(self, name: str, seen: frozenset[str]) -> str | None:
        if name in seen:
            return None
        found: set[str | None] = {_simplified_type(each) for each in self.columns.get(name, ())}
        found |= {
            self.type_of(each, seen | {name})
            for each in self.computed.get(name, ())
            if not (isinstance(each, exp.Column) and each.name.lower() == name)
        }
        return found.pop() if len(found) == 1 else None


_TYPE_OF_OPERAND = (exp.Paren, exp.Sum, exp.Max, exp.Min, exp.Neg, exp.Alias, exp.Filter, exp.Window)
_INTEGER = (exp.Count, exp.RowNumber, exp.IntDiv, exp.Mod)
_FIXED: dict[type[exp.Expr], str] = {**dict.fromkeys(_INTEGER, "int"), exp.Array: "array"}


def _simplified_type(name: str) -> str:
    return "int" if name.lower() in _INTEGERS else name.lower()


@dataclass(frozen=True)
class Functions:
    """Translates the functions and operators of queries."""

    types: ColumnTypes
    own: Mapping[str, int]
    """Lines of the functions that the script creates."""
    notes: Notes

    def translate(self, tree: exp.Query) -> None:
        """Writes Spark's functions in a query. Changes the tree.

        Raises:
            Untranslatable: it calls a function that Spark doesn't have.
        """
        rules: dict[type[exp.Expr], Callable[[Any], exp.Expr]] = {
            exp.Anonymous: self._translate_call,
            exp.AnonymousAggFunc: self._translate_call,
            exp.Localtimestamp: lambda node: spark_call("current_timestamp"),
            exp.Column: _translate_local_time,
            exp.Cast: _translate_cast,
            exp.TryCast: _translate_cast,
            exp.Div: self._translate_division,
            exp.Bracket: self._translate_element,
            exp.Floor: _translate_rounding,
            exp.Ceil: _translate_rounding,
            exp.Extract: _translate_extract,
            exp.SimilarTo: _translate_similar,
            exp.JSON: _refuse_is_json,
            **dict.fromkeys((exp.Avg, exp.Filter, exp.Window), self._translate_average),
            **dict.fromkeys((exp.First, exp.FirstValue, exp.Last, exp.LastValue), self._translate_first),
        }
        # Inner nodes are translated first, because outer nodes copy them.
        for node in reversed(list(every(tree, exp.Expr))):
            translated = rules.get(type(node), lambda node: node)(node)
            if translated is not node:
                node.replace(translated)
        for clause in every(tree, exp.Where, exp.Having, exp.Join):
            condition = clause.args.get("on") if isinstance(clause, exp.Join) else clause.this
            for called in every(condition, exp.Func) if condition is not None else ():
                if function_name(called) in _CLOCKS:
                    self.notes.add(
                        clause,
                        "a filter by the current time: now is the watermark here, and without a window a row leaves the "
                        "result when it no longer passes. In Flink now is the clock, and a row that has passed stays.",
                    )

    def _translate_call(self, node: exp.Anonymous) -> exp.Expr:
        name = node.name.lower()
        if node.find_ancestor(exp.Hint):
            return node
        if name in self.own:
            raise Untranslatable(
                f"{name}() is a function of your own (line {self.own[name]}). Register it in Spark, or write it as an "
                "expression or a macro of dbt's.",
                node,
            )
        if name == "current_watermark":
            raise Untranslatable(
                "CURRENT_WATERMARK() is no value of a row here: windows drop late rows themselves, and `dbt-stream status` "
                "shows the watermark and counts them. Leave it out. Late rows can't be queried.",
                node,
            )
        if (made := RENAMED.get(name.upper())) is not None:
            if name == "collect":
                self.notes.add(node, "COLLECT() gives a MULTISET, and here collect_list() an ARRAY.")
            try:
                return made(node.expressions)
            except IndexError:
                raise Untranslatable(f"{name.upper()}() has too few arguments.", node) from None
        if name == "proctime":
            raise Untranslatable(PROCESSING_TIME.format("PROCTIME()"), node)
        if name not in _SPARKS:
            raise Untranslatable(
                f"{name.upper()}() is no function of Spark's. Write it with one of Spark's, or as a macro of dbt's.",
                node,
            )
        return node

    def _translate_division(self, node: exp.Div) -> exp.Expr:
        """Translates a division. Flink drops the remainder of two integers."""
        sides = [self.types.type_of(node.left), self.types.type_of(node.right)]
        if sides == ["int", "int"]:
            return exp.IntDiv(this=node.left.copy(), expression=node.right.copy())
        if set(sides) <= {"int", None}:
            self.notes.add(
                node,
                f"'{node.sql(dialect=DIALECT)}': if both are integers, Flink drops the remainder and Spark doesn't. Write "
                "'a div b' then.",
            )
        return node

    def _translate_element(self, node: exp.Bracket) -> exp.Expr:
        """Translates the access to an element. Arrays begin with 1 in Flink and with 0 in Spark."""
        index, kind = node.expressions[0], self.types.type_of(node.this) or ""
        if index.is_string or kind.startswith("map"):
            return node
        if not kind.startswith("array"):
            self.notes.add(
                node,
                f"'{node.sql(dialect=DIALECT)}' is read as an element of an array, counted from 1. If it is a map, write "
                "element_at(map, key).",
            )
        return spark_call("try_element_at", node.this, index)

    def _translate_average(self, node: exp.Expr) -> exp.Expr:
        """Translates an average, which is an integer of integers in Flink. The cast goes around its FILTER and OVER."""
        inner = node
        while isinstance(inner, exp.Filter | exp.Window):
            inner = inner.this
        is_inside = isinstance(node.parent, exp.Filter | exp.Window) and node.arg_key == "this"
        kind = self.types.type_of(inner.this) if isinstance(inner, exp.Avg) and not is_inside else ""
        if kind == "int":
            return exp.cast(node.copy(), "bigint")
        if kind is None:
            self.notes.add(
                inner,
                f"'{inner.sql(dialect=DIALECT)}': if it is of integers, Flink drops the remainder and Spark doesn't. Cast "
                "it to BIGINT then.",
            )
        return node

    def _translate_first(self, node: exp.Expr) -> exp.Expr:
        if not isinstance(node.parent, exp.Window | exp.IgnoreNulls | exp.RespectNulls):
            self.notes.add(
                node,
                "FIRST_VALUE and LAST_VALUE take the order in which rows come. Write min_by(value, time) for the first one, "
                "and max_by(value, time) for the last one.",
            )
        return node


def _translate_rounding(node: exp.Floor | exp.Ceil) -> exp.Expr:
    """Translates FLOOR and CEIL of a time."""
    if not node.args.get("to"):
        return node
    unit = node.args["to"].name.upper()
    if isinstance(node, exp.Floor):
        return spark_call("date_trunc", unit, node.this)
    one, least = (
        exp.Interval(this=exp.Literal.string("1"), unit=exp.var(each)) for each in (unit, "MICROSECOND")
    )
    later = exp.Add(this=node.this.copy(), expression=one)
    return spark_call("date_trunc", unit, exp.Sub(this=later, expression=least))


def _translate_cast(node: exp.Cast | exp.TryCast) -> exp.Expr:
    """Translates a cast to CHAR(n) or VARCHAR(n), which are STRING in Spark."""
    length = node.args["to"].meta.get(LENGTH, 0)
    return spark_call("left", node, length) if 0 < length < 2**31 - 1 else node


def _translate_local_time(node: exp.Column) -> exp.Expr:
    is_call = node.name.upper() == "LOCALTIMESTAMP" and not node.this.args.get("quoted") and not node.table
    return spark_call("current_timestamp") if is_call else node


def _translate_extract(node: exp.Extract) -> exp.Expr:
    """Translates EXTRACT. The seconds have a fraction in Spark."""
    field = node.this.name.upper()
    if field == "SECOND":
        return spark_call("second", node.expression)
    if field not in _FIELDS:
        raise Untranslatable(f"EXTRACT({field} FROM …) has no counterpart in Spark.", node)
    return node


def _refuse_is_json(node: exp.JSON) -> exp.Expr:
    raise Untranslatable(
        "IS JSON has no counterpart in Spark: write try_parse_json(…) IS NOT NULL.", node.parent
    )


def _translate_similar(node: exp.SimilarTo) -> exp.Expr:
    pattern = node.expression
    if isinstance(node.parent, exp.Escape):
        raise Untranslatable("SIMILAR TO with ESCAPE: write RLIKE with a regular expression.", node)
    expression = regular_expression(pattern.name) if pattern.is_string else None
    if expression is None:
        raise Untranslatable("SIMILAR TO with this pattern: write RLIKE with a regular expression.", node)
    return exp.RegexpLike(this=node.this, expression=exp.Literal.string(expression))
