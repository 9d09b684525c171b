"""Parses Flink's SQL: sqlglot's parser for Spark, extended by Flink's syntax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from ..query.sql.dialect import DIALECT
from ..query.windows.windows import KINDS
from .errors import Untranslatable
from .functions import LENGTH, MULTISET, RENAMED, MultisetType, RowType, json_value_call

WINDOW = "window"
"""Key of a table's `meta` with its `WindowCall`, if it is a windowing TVF."""
_SIMPLE = {
    **dict.fromkeys(("CHAR", "CHARACTER", "VARCHAR", "STRING", "TIME"), "string"),
    **dict.fromkeys(("BINARY", "VARBINARY", "BYTES"), "binary"),
    **dict.fromkeys(("DECIMAL", "DEC", "NUMERIC"), "decimal"),
    **dict.fromkeys(("INT", "INTEGER"), "int"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_LTZ"), "timestamp"),
    **{name: name.lower() for name in "BOOLEAN TINYINT SMALLINT BIGINT FLOAT DOUBLE DATE VARIANT".split()},
}
"""Flink's names of types and Spark's. Lengths, and digits of seconds, have no counterpart."""
_NESTED = ("ARRAY", "MULTISET", "MAP", "ROW")
_ZONES = (("WITHOUT", "TIME", "ZONE"), ("WITH", "LOCAL", "TIME", "ZONE"), ("WITH", "TIME", "ZONE"))
_ORDER = {
    "tumble": ("SIZE", "OFFSET"),
    "hop": ("SLIDE", "SIZE", "OFFSET"),
    "cumulate": ("STEP", "SIZE", "OFFSET"),
    "session": ("GAP",),
}
"""Arguments of a window after its table and time column, in Flink's order."""


@dataclass(frozen=True)
class WindowCall:
    """A windowing TVF in FROM."""

    kind: str
    relation: exp.Table
    time: exp.Column
    lengths: dict[str, exp.Expr]
    """Its intervals, by Flink's names of the arguments."""
    partition_by: Sequence[exp.Expr] = field(default=())


class Tokenizer(Spark.Tokenizer):
    """Reads a backslash in a text as itself: Flink's only escape is a doubled quote."""

    STRING_ESCAPES = ["'"]  # noqa: RUF012
    QUOTES = ["'"]  # noqa: RUF012
    IDENTIFIERS = ["`", '"']  # noqa: RUF012
    # Spark's numbers may end in the letter of a type; Flink's don't.
    NUMERIC_LITERALS: ClassVar[dict[str, str]] = {}
    COMMANDS: ClassVar[set[TokenType]] = set()
    # Hints are comments, which `script` looks at.
    KEYWORDS = {word: kind for word, kind in Spark.Tokenizer.KEYWORDS.items() if word != "/*+"}  # noqa: RUF012


def ddl_name(name: str) -> str:
    """Returns the name of a column, quoted if SQL couldn't read it otherwise.

    >>> ddl_name("id"), ddl_name("the id")
    ('id', '`the id`')
    """
    return name if name.isidentifier() else exp.to_identifier(name, quoted=True).sql(dialect=DIALECT)


def tokens_of(text: str) -> list[Token]:
    """Returns the tokens of a script.

    Raises:
        Untranslatable: a text or a name has no end.
    """
    try:
        return list(Tokenizer(dialect=DIALECT).tokenize(text))
    except SqlglotError as problem:
        message = str(problem).partition("\n")[0]
        raise Untranslatable(f"a text or a name in quotes has no end ({message}).") from problem


class Parser(DIALECT.parser_class):  # type: ignore[name-defined]
    """Parses Flink's queries, and its types in CAST."""

    FUNCTION_PARSERS = DIALECT.parser_class.FUNCTION_PARSERS | {
        "JSON_VALUE": lambda self: self._parse_json_call(),
        "JSON_QUERY": lambda self: self._parse_json_call(),
    }

    # Functions that mean something else in Spark are kept as written, for `functions`.
    FUNCTIONS = {  # noqa: RUF012
        name: made for name, made in DIALECT.parser_class.FUNCTIONS.items() if name not in RENAMED
    }

    def reset(self) -> None:
        """Forgets what has been parsed."""
        super().reset()
        self._fields: list[tuple[str, str]] = []

    def parse_tokens(self, tokens: Sequence[Token], text: str, part: Callable[[Parser], Any]) -> Any:
        """Parses a statement's tokens with a method of the parser."""
        try:
            (found,) = self._parse(part, list(tokens), text)
        except SqlglotError as problem:
            at = (getattr(problem, "errors", None) or [{}])[0]
            near = f" near '{at['highlight']}'" if at.get("highlight") else ""
            raise Untranslatable(
                f"The statement can't be read{near}: {str(at.get('description') or problem).partition(' but got')[0]}",
                at.get("line"),
            ) from problem
        except IndexError as problem:
            raise Untranslatable("The statement can't be read: it ends too early.") from problem
        return found

    def skip_words(self, *texts: str) -> bool:
        """Skips the words if they come next. Returns whether they came."""
        return bool(self._match_text_seq(*texts))

    # -- types ---------------------------------------------------------------------------------------

    def parse_flink_type(self) -> str:
        """Parses a type, and returns it as Spark writes it."""
        name = self._curr.text.upper() if self._curr else ""
        line = self._curr.line if self._curr else None
        self._advance()
        if name in ("ARRAY", "MULTISET"):
            found = self._collection_type(name, self._parse_nested(self.parse_flink_type))
        elif name == "MAP":
            found = f"map<{', '.join(self._parse_nested(self.parse_flink_type))}>"
        elif name == "ROW":
            found = self._parse_row_type()
        elif name in _SIMPLE:
            self.skip_words("PRECISION")
            digits = self._parse_wrapped_csv(self._parse_number) if self._is_next("(") else []
            found = _SIMPLE[name]
            if found == "decimal":
                found = f"decimal({', '.join(each.name for each in digits) or '10, 0'})"
            for zone in _ZONES if found == "timestamp" else ():
                self.skip_words(*zone)
        else:
            raise Untranslatable(f"The type {name} has no counterpart in Spark.", line)
        while True:
            if self.skip_words("NOT", "NULL") or self.skip_words("NULL"):
                continue
            if not (self._is_next("ARRAY") or self._is_next("MULTISET")):
                return found
            found = self._collection_type(self._curr.text.upper(), [found])
            self._advance()

    def _collection_type(self, name: str, of: Sequence[str]) -> str:
        return f"array<{of[0]}>" if name == "ARRAY" else MultisetType(f"map<{of[0]}, int>")

    def _parse_row_type(self) -> RowType:
        before = len(self._fields)
        found = RowType(f"struct<{', '.join(self._parse_nested(self._parse_row_field))}>")
        found.fields = tuple(self._fields[before:])
        return found

    def _parse_nested(self, part: object) -> list[str]:
        """Parses the types between < and >, or between parentheses."""
        is_angle = bool(self._match(TokenType.LT))
        if not is_angle:
            self._match_l_paren()
        found = self._parse_csv(part)
        if is_angle:
            self._match(TokenType.GT) or self.raise_error("Expecting >")
        else:
            self._match_r_paren()
        return list(found)

    def _parse_row_field(self) -> str:
        name = self.parse_name()
        kind = self.parse_flink_type()
        if self._curr and self._curr.token_type == TokenType.STRING:
            self._advance()
        self._fields.append((name.name, kind))
        return f"{ddl_name(name.name)}: {kind}"

    def parse_name(self) -> exp.Identifier:
        """Parses a name, which may be a keyword of Spark's."""
        found = self._parse_id_var(any_token=True)
        if not isinstance(found, exp.Identifier):
            self.raise_error("Expecting a name")
        return found

    def _is_next(self, text: str) -> bool:
        return bool(self._curr) and self._curr.text.upper() == text

    def _parse_types(
        self,
        check_func: bool = False,
        schema: bool = False,
        allow_identifiers: bool = True,
        with_collation: bool = False,
    ) -> exp.Expr | None:
        if check_func:
            return super()._parse_types(check_func, schema, allow_identifiers, with_collation)
        name = self._curr.text.upper() if self._curr else ""
        if name not in {*_SIMPLE, *_NESTED} - {"TIME"}:
            return None
        kind = self.parse_flink_type()
        found = exp.DataType.build(kind, dialect=DIALECT)
        found.meta[MULTISET] = isinstance(kind, MultisetType)
        if name in ("CHAR", "CHARACTER", "VARCHAR") and self._prev.text == ")":
            length = self._tokens[self._index - 2].text
            if not length.isdigit():
                self.raise_error("Expecting a length")
            found.meta[LENGTH] = int(length)
        return found

    # -- values --------------------------------------------------------------------------------------

    def _parse_primary(self) -> exp.Expr | None:
        """Parses MAP['a', 1] and ARRAY[1, 2], too."""
        if (
            self._curr
            and self._curr.text.upper() in ("MAP", "ARRAY")
            and self._next.token_type == TokenType.L_BRACKET
        ):
            is_map = self._curr.text.upper() == "MAP"
            self._advance(2)
            items = self._parse_csv(self._parse_disjunction)
            self._match(TokenType.R_BRACKET)
            return exp.Anonymous(this="map", expressions=items) if is_map else exp.Array(expressions=items)
        return super()._parse_primary()

    def _parse_json_call(self) -> exp.Expr:
        """Parses the arguments of JSON_VALUE or JSON_QUERY, and returns Spark's call."""
        line = self._prev.line
        items = self._parse_csv(self._parse_disjunction)
        kind = self.parse_flink_type() if self.skip_words("RETURNING") else None
        if not self._is_next(")"):
            raise Untranslatable(
                "JSON_VALUE has no ON EMPTY, ON ERROR and wrappers in Spark: use get_json_object.", line
            )
        if len(items) != 2:
            self.raise_error("Expecting a path")
        found = json_value_call(items)
        return found if kind is None else exp.cast(found, kind, dialect=DIALECT)

    # -- FROM ----------------------------------------------------------------------------------------

    def _parse_table(self, *arguments: object, **options: object) -> exp.Expr | None:
        index = self._index
        lateral = self.skip_words("LATERAL")
        if self.skip_words("TABLE", "("):
            found = self._parse_window_call()
            if not self._curr:
                self.raise_error("Expecting a table function")
            if found is None or lateral:
                raise Untranslatable(
                    f"TABLE({self._curr.text}(…)) calls a table function of Flink's. Spark has none of that name: write it "
                    "with LATERAL VIEW and explode(), or compute its rows before the stream.",
                    self._curr.line,
                )
            self._match_r_paren()
        else:
            self._retreat(index)
            found = self._parse_window_call()
        if found is None:
            return super()._parse_table(*arguments, **options)
        table = exp.Table(this=exp.to_identifier("window"))
        table.meta[WINDOW] = found
        table.meta["line"] = found.relation.this.meta.get("line")
        if alias := self._parse_table_alias():
            table.set("alias", alias)
        return table

    def _parse_window_call(self) -> WindowCall | None:
        kind = self._curr.text.lower() if self._curr else ""
        if kind not in KINDS or not (self._next and self._next.token_type == TokenType.L_PAREN):
            return None
        index, line = self._index, self._curr.line
        self._advance(2)
        found: dict[str, exp.Expr] = {}
        partition_by: list[exp.Expr] = []
        for number in range(9):
            if number and not self._match(TokenType.COMMA):
                break
            names = ("DATA", "TIMECOL", *_ORDER.get(kind, ()))
            name = names[min(number, len(names) - 1)]
            if self._next and self._next.token_type == TokenType.FARROW:
                name = self._curr.text.upper()
                self._advance(2)
            if name in found or name not in names:
                raise Untranslatable(f"{kind.upper()}(…) has another argument than {', '.join(names)}.", line)
            if self.skip_words("TABLE"):
                found[name] = self._parse_table_parts()
                if self._match(TokenType.PARTITION_BY):
                    is_wrapped = bool(self._match(TokenType.L_PAREN))
                    partition_by = (
                        self._parse_csv(self._parse_column) if is_wrapped else [self._parse_column()]
                    )
                    while not is_wrapped and not self._is_argument_next() and self._match(TokenType.COMMA):
                        partition_by.append(self._parse_column())
                    if is_wrapped:
                        self._match_r_paren()
            elif self.skip_words("DESCRIPTOR", "("):
                found[name] = self._parse_column()
                self._match_r_paren()
            else:
                found[name] = self._parse_disjunction()
        relation, time = found.pop("DATA", None), found.pop("TIMECOL", None)
        if not isinstance(relation, exp.Table) or not isinstance(time, exp.Column):
            self._retreat(index)
            raise Untranslatable(
                f"{kind.upper()}(…) isn't over TABLE name, DESCRIPTOR(column). Give what it is over a name in a view, and "
                f"write FROM {{{{ {kind}(ref('view'), 'time_column', …) }}}}.",
                line,
            )
        if not all(isinstance(each, exp.Column) for each in partition_by):
            raise Untranslatable(
                "PARTITION BY of a window takes columns only. Compute the expression in a view, and name its column.",
                line,
            )
        self._match_r_paren()
        return WindowCall(kind, relation, time, found, partition_by)

    def _is_argument_next(self) -> bool:
        """Returns whether a comma and the next argument of a window follow, not another column to partition by."""
        following = self._tokens[self._index + 1 : self._index + 3]
        return bool(following) and (
            following[0].text.upper() == "DESCRIPTOR" or following[-1].token_type == TokenType.FARROW
        )
