"""Removes semicolons at the end of a model's text, because dbt embeds it in other statements.

>>> without_semicolons("select ';' as a; -- done;")
"select ';' as a  -- done;"
>>> without_semicolons("with a as (select 1; /* ; */\\n) select * from a;;")
'with a as (select 1  /* ; */\\n) select * from a  '
>>> without_semicolons("select 1; select 2")
'select 1; select 2'
"""

from __future__ import annotations

from sqlglot import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType


def without_semicolons(text: str) -> str:
    """Replaces each semicolon at the end of the text, or of a query in brackets, by a blank. Nothing else moves."""
    if ";" not in text:
        return text
    try:
        tokens = Dialect.get_or_raise("spark").tokenize(text)
    except SqlglotError:
        return text  # the parser reports the error
    for token in _trailing_semicolons(tokens):
        text = f"{text[: token.start]} {text[token.end + 1 :]}"
    return text


def _trailing_semicolons(tokens: list[Token]) -> list[Token]:
    """Semicolons that are followed by nothing or a closing bracket."""
    found = []
    ends = True
    for token in reversed(tokens):
        is_semicolon = token.token_type == TokenType.SEMICOLON
        if is_semicolon and ends:
            found.append(token)
        ends = (is_semicolon and ends) or token.token_type == TokenType.R_PAREN
    return found
