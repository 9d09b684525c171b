"""Shortens texts of queries in messages."""

from __future__ import annotations


def shorten(text: str, length: int) -> str:
    """Returns a text of at most `length` characters, cut at a word.

    >>> shorten("a long text", 8), shorten("a text", 8)
    ('a long …', 'a text')
    """
    return text if len(text) <= length else f"{text[: length - 1].rpartition(' ')[0]} …"
