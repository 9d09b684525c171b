"""Texts of queries in messages: their beginnings, where they are long."""

from __future__ import annotations


def shortened(text: str, length: int) -> str:
    """A text of so many characters at most, cut off behind a word.

    >>> shortened("a long text", 8), shortened("a text", 8)
    ('a long …', 'a text')
    """
    return text if len(text) <= length else f"{text[: length - 1].rpartition(' ')[0]} …"
