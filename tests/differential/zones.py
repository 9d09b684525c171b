"""Random windows on the clocks of time zones, about the days on which these are put forward and back.

A stream's rows are compared with those of the same text in batch. All in DuckDB, in Python.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.windows import emission, expansion, window_arguments

from .duck import Laboratory, Streamed, rows_of, translated
from .outcome import compare
from .tree import TIME, Column, Model, Written

COLUMNS = (Column("ts", TIME), Column("item", "varchar"), Column("n", "bigint"))
Row = tuple[datetime, str, int]

_STARTS = {
    "Europe/Berlin": ["2024-03-30 18:00", "2024-10-26 18:00"],
    "America/New_York": ["2024-03-10 01:00", "2024-11-03 00:00"],
    "Africa/Cairo": ["2024-04-25 16:00", "2024-10-31 14:00"],
    "America/Santiago": ["2024-04-06 20:00", "2024-09-07 20:00"],
    "Australia/Lord_Howe": ["2024-10-05 09:00", "2024-04-06 09:00"],
    "Antarctica/Troll": ["2024-03-30 18:00", "2024-10-26 18:00"],
    "Asia/Kolkata": ["1969-12-31 12:00"],
}
_WINDOWS = [
    ("tumble", "1 day"),
    ("tumble", "12 hours"),
    ("tumble", "1 hour"),
    ("tumble", "30 minutes"),
    ("hop", "1 hour", "3 hours"),
    ("hop", "1 hour", "24 hours"),
    ("hop", "30 minutes", "1 hour"),
    ("cumulate", "30 minutes", "1 day"),
    ("cumulate", "1 hour", "6 hours"),
    ("dynamic_cumulate", "30 minutes", "45 minutes"),
]
_EMISSIONS: list[dict[str, Any]] = [
    {},
    {"complete_result_offset": "3 hours"},
    {"first_result_offset": "-1 hour", "update_rate": "20 minutes"},
    {"first_result_offset": "-30 minutes", "complete_result_offset": "1 hour"},
    {"late_updates": True, "last_result_offset": "2 hours"},
]


@dataclass(frozen=True)
class Zoned:
    """A query over windows of a zone's clock, its configs, and what comes in, micro-batch by micro-batch."""

    text: str
    columns: str
    configs: dict[str, Any]
    cuts: list[list[Row]]
    folds: bool = False


def windows(kind: str, *lengths: str, **options: Any) -> str:
    """The subquery of a window macro over the stream."""
    return expansion.expand_window("bid", window_arguments.make_window(kind, "ts", *lengths, **options))


def make(seed: str) -> Zoned:
    """A random query."""
    chance = random.Random(seed)
    zone, window = chance.choice(list(_STARTS)), chance.choice(_WINDOWS)
    options: dict[str, Any] = {"time_zone": zone}
    if window[0] == "dynamic_cumulate":
        options["partition_by"] = ["item"]
    elif chance.random() < 0.5:
        options["offset"] = chance.choice(["30 minutes", "-90 minutes"])
    configs = chance.choice(_EMISSIONS)
    if window[0] == "cumulate" and chance.random() < 0.3:
        options["emit"] = "on_change"
    begin = datetime.fromisoformat(chance.choice(_STARTS[zone]))
    minutes = sorted(chance.randint(0, 20 * 60) for _ in range(chance.randint(5, 40)))
    rows = [(begin + timedelta(minutes=at), chance.choice("xy"), chance.randint(0, 3)) for at in minutes]
    places = sorted(chance.randint(0, len(rows)) for _ in range(chance.randint(0, 7)))
    cuts = [rows[since:until] for since, until in zip([0, *places], [*places, len(rows)], strict=True)]
    counted = "count(*) as n, count(distinct n) as d"
    if "emit" not in options and chance.random() < 0.3:
        counted = "median(n + hour(ts)) as n, 0 as d"  # its rows are kept
    text = (
        f"select window_start, window_end, item, {counted} from {windows(*window, **options)} "
        "group by window_start, window_end, item"
    )
    columns = "window_start window_end item n d"
    if not configs and chance.random() < 0.3:
        by = chance.choice(["window_end", "window_start, window_end"])
        text, columns = f"select {by}, sum(n) as n from ({text}) group by {by}", f"{by.replace(',', '')} n"
    return Zoned(text, columns, configs, [cut for cut in cuts if cut], chance.random() < 0.5)


def run(case: Zoned) -> str | None:
    """How the rows of a stream differ from those in batch; None: they don't. ``refused``: nothing runs."""
    known = {"bid": RelationInfo("ts")}
    try:
        program = generate.generate_program(
            plan_query.plan(case.text, known), emission.emission_from_configs(case.configs)
        )
    except QueryError:
        return "refused"
    laboratory = Laboratory()
    laboratory.put("bid", COLUMNS, case.cuts)
    in_batch = whole_query.batch_sql(plan_query.plan_windows(case.text, batch=True))
    expected = rows_of(laboratory.base.cursor().execute(translated(in_batch)).fetchall())
    columns = tuple(Column(name, "bigint") for name in case.columns.split())
    model = Model(Written(case.text, columns))
    streamed = Streamed(model, program, laboratory.base.cursor(), case.folds, delay=0)
    for number in range(len(case.cuts)):
        streamed.take((number, number + 1))
    streamed.flush()
    found = compare(expected, streamed.rows())
    return str(found) if found else None
