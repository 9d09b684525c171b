"""Splits a script of Flink SQL into statements, each with its line, its comments and its hints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from ..query.sql.dialect import DIALECT
from .errors import Untranslatable
from .flink_parser import Parser, tokens_of


@dataclass(frozen=True)
class Column:
    """A column of a CREATE TABLE."""

    name: str
    type: str | None
    """Its type in Spark's words; None if it is computed."""
    computed: exp.Expr | None = None
    metadata: str | None = None
    """The connector's name of a metadata column."""
    is_virtual: bool = False
    """Whether it is a metadata column that INSERT doesn't write."""

    @property
    def is_processing_time(self) -> bool:
        """Whether it is the processing time."""
        return self.computed is not None and is_processing_time(self.computed)

    @property
    def is_computed(self) -> bool:
        """Whether it is computed from other columns."""
        return self.computed is not None and not self.is_processing_time


def is_processing_time(node: exp.Expr | None) -> bool:
    """Returns whether an expression is PROCTIME()."""
    return isinstance(node, exp.Anonymous) and node.name.upper() == "PROCTIME"


def processing_time_note(column: str) -> str:
    """Returns the note on a column with the processing time."""
    return f"the column {column} has the processing time, and is left out."


@dataclass
class CreateTable:
    """A CREATE TABLE."""

    name: str
    columns: list[Column] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    watermark: tuple[str, exp.Expr] | None = None
    """The event time column, and the expression for the watermark."""
    key: tuple[str, ...] = ()
    like: str | None = None
    excluding: frozenset[str] = frozenset()
    """The parts of its LIKE table that it doesn't take over, as in EXCLUDING OPTIONS."""
    partition_by: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """The words of clauses that have no counterpart."""
    query: exp.Query | None = None
    line: int = 0

    @property
    def physical(self) -> list[Column]:
        """The columns that its rows store: neither computed ones nor metadata."""
        return [each for each in self.columns if each.computed is None and each.metadata is None]


@dataclass(frozen=True)
class View:
    """A CREATE VIEW."""

    name: str
    columns: Sequence[str]
    query: exp.Query


@dataclass(frozen=True)
class Insert:
    """An INSERT INTO."""

    name: str
    columns: Sequence[str]
    partition: dict[str, exp.Expr]
    query: exp.Query
    overwrites: bool = False


@dataclass(frozen=True)
class Setting:
    """A SET or a RESET."""

    name: str
    """Empty for a RESET of all."""
    value: str | None
    """None for a RESET."""


@dataclass(frozen=True)
class Function:
    """A CREATE FUNCTION."""

    name: str


@dataclass(frozen=True)
class Other:
    """A statement without a translation, or one that can't be parsed."""

    words: str
    problem: str | None = None
    sink: str | None = None
    """The table or view that it would make."""


@dataclass(frozen=True)
class Statement:
    """A statement of a script."""

    line: int
    text: str
    comments: Sequence[str]
    """The comments above it."""
    hints: Sequence[tuple[str, str]]
    """Name and arguments of the hints in it."""
    what: CreateTable | View | Insert | Setting | Function | exp.Query | Other


_HINT = re.compile(r"(\w+)\s*(?:\(((?:'(?:[^']|'')*'|[^()'])*)\))?")
_PARTS = ("CONSTRAINTS", "GENERATED", "METADATA", "OPTIONS", "WATERMARKS")
_BEFORE_KIND = "TEMPORARY SYSTEM OR REPLACE ALTER MATERIALIZED".split()
"""Words between CREATE and the kind of what is created."""
_SETS = ("begin statement set", "execute statement set")
_BEGINNINGS = ("begin statement set", "execute statement set begin")


def parse_statements(text: str) -> Iterator[Statement]:
    """Yields the statements of a script."""
    for tokens in _split_tokens(tokens_of(text)):
        yield _parse_statement(tokens, text)


def _split_tokens(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Yields the tokens of each statement. Statements of a statement set are yielded one by one."""
    found: list[Token] = []
    for token in (*tokens, None):
        if token is not None and token.token_type != TokenType.SEMICOLON:
            found.append(token)
            if _lower_case_words(found[:5]) not in _BEGINNINGS:
                continue
        words = _lower_case_words(found[:3])
        if words.startswith("execute ") and words not in _SETS:
            found[1].comments = [*found[0].comments, *found[1].comments]
            found = found[1:]
        if found and words not in _SETS and found[0].text.lower() != "end":
            yield found
        found = []


def _lower_case_words(tokens: Sequence[Token]) -> str:
    return " ".join(each.text.lower() for each in tokens)


def _parse_statement(tokens: Sequence[Token], script: str) -> Statement:
    first = tokens[0]
    hints = []
    comments = [each.strip() for each in first.comments if not each.startswith("+")]
    for token in tokens:
        hints += [
            (name.upper(), arguments)
            for each in token.comments
            if each.startswith("+")
            for name, arguments in _HINT.findall(each[1:])
        ]
        token.comments = [each for each in token.comments if not each.startswith("+") and token is not first]
    text = script[first.start : tokens[-1].end + 1]
    what: Any
    try:
        for token in tokens:
            if token.text.upper() == "MATCH_RECOGNIZE" and token.token_type != TokenType.IDENTIFIER:
                raise Untranslatable(
                    "MATCH_RECOGNIZE isn't supported. Write a pattern of two rows with LAG() OVER (PARTITION BY … ORDER BY "
                    "time), or as an interval join of the stream with itself; longer ones need a program.",
                    token.line,
                )
        what = _StatementParser(dialect=DIALECT).parse_tokens(
            tokens, script, _StatementParser.parse_statement
        )
    except Untranslatable as problem:
        words = " ".join(each.text for each in tokens[:2])
        line = problem.line or first.line
        return Statement(line, text, comments, hints, Other(words, str(problem), _created_relation(tokens)))
    return Statement(first.line, text, comments, hints, what)


def _created_relation(tokens: Sequence[Token]) -> str | None:
    """Returns the name of the view or the table that a statement makes or fills; an empty text for a query."""
    words = [token.text.upper() for token in tokens[:8]]
    if words[0] in ("SELECT", "WITH", "(", "VALUES"):
        return ""
    for number, word in enumerate(words[:-1]):
        if word in ("INTO", "OVERWRITE", "VIEW", "EXISTS") and words[number + 1] != "IF":
            return _relation_name_at(tokens[number + (2 if words[number + 1] == "TABLE" else 1) :])
    return None


def _relation_name_at(tokens: Sequence[Token]) -> str | None:
    """Returns the name of a relation by the path that tokens begin with. None without tokens."""
    parts = [each.text for each in tokens[:1]]
    for dot, name in zip(tokens[1::2], tokens[2::2], strict=False):
        if dot.token_type != TokenType.DOT:
            break
        parts.append(name.text)
    return relation_name(parts) if parts else None


class _StatementParser(Parser):
    """Parses the statements of a script."""

    def parse_statement(self) -> Any:
        """Parses a statement."""
        if self.skip_words("SET"):
            name, _, value = self._parse_rest().partition("=")
            return Setting(name, value)
        if self.skip_words("RESET"):
            return Setting(self._parse_rest(), None)
        if self.skip_words("INSERT"):
            return self._parse_insert()
        if self._curr.text.upper() in ("SELECT", "WITH", "VALUES", "("):
            return self._parse_query()
        if not self.skip_words("CREATE"):
            return self._parse_other()
        while self._curr and self._curr.text.upper() in _BEFORE_KIND:
            self._advance()
        for word, parse in (
            ("TABLE", self._parse_create_table),
            ("VIEW", self._parse_view),
            ("FUNCTION", self._parse_create_function),
        ):
            if self.skip_words(word):
                self.skip_words("IF", "NOT", "EXISTS")
                return parse()
        return self._parse_other("CREATE ")

    def _parse_other(self, before: str = "") -> Other:
        words = before + " ".join(each.text for each in self._tokens[self._index : self._index + 2])
        self._parse_rest()
        return Other(words.strip())

    def _parse_query(self, *others: type[exp.Expr]) -> exp.Query:
        found = self._parse_ddl_select()
        if not isinstance(found, (exp.Query, *others)):
            self.raise_error("Expecting a query")
        return found

    def _parse_rest(self) -> str:
        """Skips the rest of a statement, and returns it without spaces."""
        parts: list[str] = []
        while self._curr:
            parts.append(self._curr.text)
            self._advance()
        return "".join(parts)

    def parse_path(self) -> str:
        """Returns the name of a table, without the names of Flink's default catalog and database."""
        names = [self.parse_name().name]
        while self._match(TokenType.DOT):
            names.append(self.parse_name().name)
        return relation_name(names)

    def _parse_names(self) -> list[str]:
        """Parses names in parentheses, if there are any."""
        if not self._is_next("(") or (self._next and self._next.text.upper() in ("SELECT", "WITH", "VALUES")):
            return []
        return [each.name for each in self._parse_wrapped_csv(self.parse_name)]

    def _parse_insert(self) -> Insert:
        overwrites = not self.skip_words("INTO") and self.skip_words("OVERWRITE")
        self.skip_words("TABLE")
        name, partition = self.parse_path(), {}
        if self.skip_words("PARTITION"):
            for each in self._parse_wrapped_csv(self._parse_assignment):
                if isinstance(each, exp.EQ):
                    partition[each.this.name] = each.expression
        return Insert(name, self._parse_names(), partition, self._parse_query(exp.Values), overwrites)

    def _parse_view(self) -> View:
        name = self.parse_path()
        columns = self._parse_names()
        self._skip_comment()
        self._match(TokenType.ALIAS)
        return View(name, columns, self._parse_query())

    def _parse_create_function(self) -> Function:
        name = self.parse_path()
        self._parse_rest()
        return Function(name)

    def _skip_comment(self) -> None:
        if self._match(TokenType.COMMENT):
            self._advance()

    def _parse_create_table(self) -> CreateTable:
        found = CreateTable(self.parse_path())
        if self._is_next("("):
            self._parse_wrapped_csv(lambda: self._parse_table_element(found))
        while self._curr and not self._match(TokenType.ALIAS):
            if self._match(TokenType.WITH):
                found.options.update(self._parse_options())
            elif self._match(TokenType.LIKE):
                found.like = self.parse_path()
                found.excluding = self._parse_excluding()
            elif self._match(TokenType.PARTITION_BY):
                found.partition_by = self._parse_names()
            elif self._match(TokenType.COMMENT):
                self._advance()
            else:
                found.left_out.append(self._curr.text)
                self._advance()
        if self._prev.token_type == TokenType.ALIAS:
            found.query = self._parse_query()
        return found

    def _parse_excluding(self) -> frozenset[str]:
        found: set[str] = set()
        words: list[str] = []
        while self._is_next("(") or words:
            words.append(self._curr.text.upper())
            self._advance()
            if words[-1] == ")":
                break
            if words[-2:-1] == ["EXCLUDING"]:
                found |= set(_PARTS) if words[-1] == "ALL" else {words[-1]}
            elif words[-2:-1] in (["INCLUDING"], ["OVERWRITING"]):
                found -= set(_PARTS) if words[-1] == "ALL" else {words[-1]}
        return frozenset(found)

    def _parse_options(self) -> Iterator[tuple[str, str]]:
        self._match_l_paren()
        while self._curr and not self._match(TokenType.R_PAREN):
            name = self._curr.text
            self._advance()
            self._match(TokenType.EQ)
            yield name, self._curr.text
            self._advance()
            self._match(TokenType.COMMA)

    def _parse_table_element(self, table: CreateTable) -> bool:
        """Parses a column, the watermark or the key of a table."""
        if self.skip_words("WATERMARK", "FOR"):
            column = self.parse_name().name
            self._match(TokenType.ALIAS)
            table.watermark = column, self._parse_disjunction()
            return True
        if self.skip_words("CONSTRAINT"):
            self.parse_name()
        if self._match(TokenType.PRIMARY_KEY):
            table.key = tuple(each.name for each in self._parse_wrapped_csv(self.parse_name))
            self.skip_words("NOT", "ENFORCED")
            return True
        name = self.parse_name().name
        if self._match(TokenType.ALIAS):
            table.columns.append(Column(name, None, computed=self._parse_disjunction()))
            self._skip_comment()
            return True
        kind, metadata, is_virtual = self.parse_flink_type(), None, False
        while self._curr and self._curr.token_type not in (TokenType.COMMA, TokenType.R_PAREN):
            if self.skip_words("METADATA"):
                metadata = name
                if self._match(TokenType.FROM):
                    metadata = self._curr.text
                    self._advance()
            elif self._match(TokenType.PRIMARY_KEY):
                table.key = (name,)
            elif self.skip_words("VIRTUAL"):
                is_virtual = True
            else:
                self._advance()
        table.columns.append(Column(name, kind, metadata=metadata, is_virtual=is_virtual))
        return True


def relation_name(parts: Sequence[str]) -> str:
    """Returns the name that a model or a source has for a table of Flink's.

    >>> relation_name(["default_catalog", "default_database", "orders"]), relation_name(["shop", "my-orders"])
    ('orders', 'shop_my_orders')
    """
    left = [each for each in parts if each not in ("default_catalog", "default_database")]
    return re.sub(r"\W", "_", "_".join(left or parts))
