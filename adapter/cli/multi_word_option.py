"""A click option that takes several words, ``--select one two``, as dbt's options do.

It replaces `dbt.cli.options.MultiOption`, because importing that imports all of dbt, which makes `--help` slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click


class MultiWordOption(click.Option):
    """An option that takes all words up to the next option. Its value is a tuple; a repeated option adds to it."""

    def __init__(self, names: Sequence[str], **settings: Any) -> None:
        super().__init__(names, multiple=True, **settings)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        super().add_to_parser(parser, ctx)
        option = next(
            each[name] for name in self.opts for each in (parser._long_opt, parser._short_opt) if name in each
        )
        one_word = option.process

        def all_words(value: str, state: Any) -> None:
            one_word(value, state)
            while state.rargs and not state.rargs[0].startswith(tuple(option.prefixes)):
                one_word(state.rargs.pop(0), state)

        option.process = all_words

    def type_cast_value(self, ctx: click.Context, value: Any) -> tuple[str, ...]:
        """See `click.Parameter.type_cast_value`. A quoted argument is split into words."""
        return tuple(word for text in super().type_cast_value(ctx, value) or () for word in text.split())
