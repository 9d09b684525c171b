"""Applies rewrites by name to the text of a SELECT; the result is formatted for reading and gives the same
rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from ..errors import QueryError
from ..sql.dialect import parse, sql
from . import stream_rewrites
from .enum_distinct import enum_distinct
from .rewrite_configs import requested_rewrites
from .split_distinct import split_distinct
from .split_topn import split_topn

REWRITES: Mapping[str, Callable[..., exp.Query]] = {
    "enum_distinct": enum_distinct,
    "split_distinct": split_distinct,
    "split_topn": split_topn,
}
"""Name, as macro and config → function from tree to tree."""


def rewrite(name: str, text: str, **options: Any) -> str:
    """Returns a SELECT with one rewrite applied."""
    try:
        return sql(REWRITES[name](parse(text, f"What {name} rewrites"), **options), pretty=True)
    except QueryError as problem:
        raise QueryError(f"{name}: {problem}") from problem


def rewrite_by_config(text: str, config: Mapping[str, Any], streaming: bool = False) -> str:
    """Returns a model's text with the rewrites that its config requests; with `streaming`, with hints that
    request them."""
    make = stream_rewrites.with_hints if streaming else rewrite
    for name, options in requested_rewrites(config).items():
        try:
            text = make(name, text, **options)
        except QueryError as problem:
            raise QueryError(f"config {problem}") from problem
    return text
