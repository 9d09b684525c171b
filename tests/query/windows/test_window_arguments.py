"""What the arguments of a windowing macro may be."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.windows import window_arguments


@pytest.mark.parametrize("kind", ["tumble", "session"])
def test_a_zone_that_there_is_not(kind: str) -> None:
    with pytest.raises(
        QueryError, match=rf"{kind}\(\): time_zone 'Mars' is unknown; write a name of the IANA"
    ):
        window_arguments.make_window(kind, "ts", "1 hour", time_zone="Mars")


def test_a_gap_is_as_long_on_any_clock() -> None:
    on_clock = window_arguments.make_window("session", "ts", "1 hour", time_zone="Europe/Berlin")
    assert on_clock == window_arguments.make_window("session", "ts", "1 hour")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            ("cumulate", "ts", "7 minutes", "1 hour"),
            "max_size '1 hour' is not a multiple of step '7 minutes'",
        ),
        (("tumble", "ts", "10 parsecs"), "tumble(): size '10 parsecs' is not an interval"),
        (("tumble", "ts", "1 month"), "a month has no fixed length"),
        (("tumble", "ts", "0 seconds"), "size '0 seconds' must be longer than zero"),
        (("hop", "ts", "1 hour", "10 minutes"), "slide '1 hour' is longer than size '10 minutes'"),
        (("tumble", "", "1 hour"), "time_col is empty"),
    ],
)
def test_window_arguments_refused(call: tuple[str, ...], sentence: str) -> None:
    kind, time, *lengths = call
    with pytest.raises(QueryError) as refusal:
        window_arguments.make_window(kind, time, *lengths)
    assert sentence in str(refusal.value)


def test_offsets_are_taken_modulo_the_size() -> None:
    ten = [
        window_arguments.make_window("tumble", "ts", "10 minutes", offset=offset)
        for offset in ("-4 minutes", "6 minutes", "16 minutes")
    ]
    assert ten[0] == ten[1] == ten[2]


def test_sessions_are_of_columns_of_any_name() -> None:
    for name in ("k", "k y", "`k y`", "#k", "/p", "größe", "it's"):
        found = window_arguments.make_window("session", "ts", "1 hour", partition_by=[name])
        assert found.partition_by == (name.strip("`"),)
    for name in ("lower(k)", "a, b", "meta.k", "a + b", "a || b", "`a`b", "", " "):
        with pytest.raises(QueryError, match="is not the name of a column; compute it in a CTE"):
            window_arguments.make_window("session", "ts", "1 hour", partition_by=[name])
