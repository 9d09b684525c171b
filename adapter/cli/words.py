"""An option of several words, ``--select one two``, as dbt's own are.

`dbt.cli.options.MultiOption` is the same; to import it imports all of dbt, which no help text needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click


class Words(click.Option):
    """An option that takes all words up to the next option; given again, the words of both. Its value: a tuple."""

    def __init__(self, names: Sequence[str], **settings: Any) -> None:
        super().__init__(names, multiple=True, **settings)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """See `click.Option.add_to_parser`."""
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
        """See `click.Parameter.type_cast_value`. Words in quotes are several, too."""
        return tuple(word for text in super().type_cast_value(ctx, value) or () for word in text.split())
