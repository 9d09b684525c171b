"""Checks the arguments of windowing macros, and reads them back from the hint."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ...util.quoting import quote, time_name, unquote
from ..errors import QueryError
from ..sql import intervals
from .windows import OPTIONS, Window

_LENGTHS = {
    "tumble": ("size",),
    "hop": ("slide", "size"),
    "cumulate": ("step", "max_size"),
    "session": ("gap",),
    "dynamic_cumulate": ("step", "gap"),
}
_EXAMPLES = {
    "time_col": "ordered_at",
    "slide": "5 minutes",
    "step": "5 minutes",
    "size": "1 hour",
    "max_size": "1 hour",
    "gap": "30 minutes",
}
PARAMETERS = frozenset(_EXAMPLES)
"""Names of the macros' required parameters."""


def make_window(
    kind: str,
    time_col: str | None,
    *lengths: object,
    offset: object = "0 seconds",
    emit: str = "every_step",
    partition_by: str | Sequence[str] | None = None,
    time_zone: str | None = None,
) -> Window:
    """Returns a checked `Window` from the arguments of its macro, in the macro's order.

    Raises:
        QueryError: a length doesn't parse or doesn't fit the others (the message names both), or another argument is
            wrong.

    >>> str(make_window("hop", "ts", "5 minutes", "15 minutes", offset="19 minutes"))
    'hop(ts, 5 minutes, 15 minutes, offset 4 minutes)'
    """
    names = _LENGTHS[kind]
    _check_required_arguments(kind, time_col, lengths)
    if len(lengths) != len(names):
        raise QueryError(f"{kind}() takes {' and '.join(names)}, found {len(lengths)} lengths.")
    values = [
        intervals.parse(length, f"{kind}(): {name}") for name, length in zip(names, lengths, strict=True)
    ]
    for name, value, text in zip(names, values, lengths, strict=True):
        if value <= 0:
            raise QueryError(f"{kind}(): {name} '{text}' must be longer than zero.")
    step, size = values[0], values[-1]
    if kind == "cumulate" and size % step:
        raise QueryError(
            f"cumulate(): max_size '{lengths[1]}' is not a multiple of step '{lengths[0]}'; "
            "choose a step that divides max_size."
        )
    if kind == "hop" and step > size:
        raise QueryError(
            f"hop(): slide '{lengths[0]}' is longer than size '{lengths[1]}', so some rows would be in no window; "
            "make the slide at most the size."
        )
    if kind == "dynamic_cumulate" and size < step:
        raise QueryError(
            f"dynamic_cumulate(): gap '{lengths[1]}' is shorter than step '{lengths[0]}', so two sessions could "
            "end at one step; make the gap at least the step."
        )
    if emit not in ("every_step", "on_change"):
        raise QueryError(f"{kind}(): emit '{emit}' is unknown; write 'every_step' or 'on_change'.")
    if not time_col or not str(time_col).strip():
        raise QueryError(f"{kind}(): time_col is empty; name the column that holds the event time.")
    shift = intervals.parse(offset, f"{kind}(): offset") % (step if kind == "hop" else size)
    return Window(
        kind=kind,
        time_col=time_name(str(time_col)),
        size=size,
        step=step if kind != "session" else 1,
        offset=shift,
        emit=emit,
        partition_by=_partition_columns(kind, partition_by),
        time_zone=_checked_zone(kind, time_zone),
    )


def _check_required_arguments(kind: str, time_col: object, lengths: Sequence[object]) -> None:
    """Raises unless the required arguments are present (not None).

    Raises:
        QueryError: some are missing.
    """
    names = ("relation", "time_col", *_LENGTHS[kind])
    found = [name for name, value in zip(names[1:], (time_col, *lengths), strict=False) if value is not None]
    if len(found) + 1 < len(names):
        number = len(found) + 1
        missing = [name for name in names[1:] if name not in found]
        arguments = ", ".join(f"'{_EXAMPLES[name]}'" for name in names[1:])
        raise QueryError(
            f"{kind}() takes {len(names)} arguments ({', '.join(names)}), found {number}: {' and '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing. Write {kind}(ref('orders'), {arguments})."
        )


# A name, with or without quotes, is no call, path or calculation.
_NAME = re.compile(r"\s*(`([^`]|``)+`|(?!.*\s[-+*/%|&<>=]+\s)[^`(),.]*[^`(),.\s][^`(),.]*)")


def _partition_columns(kind: str, partition_by: str | Sequence[str] | None) -> tuple[str, ...]:
    names = [partition_by] if isinstance(partition_by, str) else list(partition_by or ())
    for name in names:
        if not _NAME.fullmatch(str(name)):
            raise QueryError(
                f"{kind}(): partition_by '{name}' is not the name of a column; compute it in a CTE, read that, and name "
                "its column."
            )
    return tuple(unquote(str(name).strip()) for name in names)


def _checked_zone(kind: str, name: str | None) -> str | None:
    if name is None:
        return None
    try:
        ZoneInfo(str(name))
    except (ZoneInfoNotFoundError, ValueError, OSError) as problem:
        raise QueryError(
            f"{kind}(): time_zone '{name}' is unknown; write a name of the IANA database, as 'Europe/Berlin'."
        ) from problem
    return None if kind == "session" else str(name)  # gaps have the same length in every time zone


@lru_cache(maxsize=1024)
def window_from_hint(name: str, time_col: str, literals: tuple[str, ...], columns: tuple[str, ...]) -> Window:
    """Returns the window that `Window.hint` printed. Cached: planning reads the same hint hundreds of times."""
    kind = name.lower()
    options = {}
    texts = []
    for text in literals:
        for option, start in OPTIONS.items():
            if text.startswith(start):
                options[option] = text[len(start) :]
                break
        else:
            texts.append(text)
    count = len(_LENGTHS[kind])
    if len(texts) > count:
        options["offset"] = texts[count]
    return make_window(kind, time_col, *texts[:count], partition_by=[*map(quote, columns)], **options)
