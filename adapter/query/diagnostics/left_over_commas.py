"""Finds a comma after the last item of a list, which sqlglot reads and Spark doesn't."""

from __future__ import annotations

from itertools import pairwise

from sqlglot import TokenType

from ..errors import QueryError
from ..sql.dialect import tokens

_ENDS = (
    TokenType.FROM,
    TokenType.WHERE,
    TokenType.GROUP_BY,
    TokenType.HAVING,
    TokenType.QUALIFY,
    TokenType.ORDER_BY,
    TokenType.R_PAREN,
)


def check_commas(text: str) -> None:
    """Raises if a comma has nothing after it.

    >>> check_commas("select f(a, b), 'a, from' from t where c in (1, 2)")
    >>> try:
    ...     check_commas("select a, from t")
    ... except QueryError as problem:
    ...     print(problem)
    The query doesn't parse at line 1: there is a comma before 'from'. Remove it.

    Args:
        text: a query that sqlglot parses.
    """
    for token, following in pairwise(tokens(text)):
        if token.token_type == TokenType.COMMA and following.token_type in _ENDS:
            raise QueryError(
                f"The query doesn't parse at line {token.line}: there is a comma before '{following.text}'. Remove it."
            )
