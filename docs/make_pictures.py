"""Draws the picture of the README from the tables of the examples.

uv run dbt build
uv run --group docs python docs/make_pictures.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt
from dbt.cli.main import dbtRunner

IMAGES = Path(__file__).parent / "images"

# A blizzard closed the airports on the afternoon of 8 February 2013.
CURVES = """
    select window_start, window_end, origin, departures
    from {{ ref('departures_since_midnight') }}
    where window_start between timestamp '2013-02-06' and timestamp '2013-02-10'
    order by window_end, origin
"""


def main() -> None:
    points = [
        {**row, "day": utc(row["window_start"]), "at": utc(row["window_end"])} for row in rows_of(CURVES)
    ]
    for point in points:
        del point["window_start"], point["window_end"]
    IMAGES.mkdir(exist_ok=True)
    picture(points).save(IMAGES / "departures-since-midnight.svg")


def rows_of(query: str) -> list[dict[str, Any]]:
    """The rows of a query on the project's models."""
    result = dbtRunner().invoke(["--log-level", "none", "show", "--inline", query, "--limit", "-1"])
    if not result.success:
        raise SystemExit("The examples' tables aren't there; run `uv run dbt build` first.")
    shown: Any = result.result
    table = shown.results[0].agate_table
    return [dict(zip(table.column_names, row, strict=True)) for row in table.rows]


def utc(moment: Any) -> str:
    """A time that no browser moves to another zone."""
    return f"{str(moment).replace(' ', 'T')[:19]}Z"


def picture(points: list[dict[str, Any]]) -> alt.LayerChart:
    """The curves of a few days, one colour for each airport."""
    shared = alt.Chart(alt.Data(values=points)).encode(
        x=alt.X(
            "at:T",
            scale=alt.Scale(type="utc", domain=["2013-02-06T00:00:00Z", "2013-02-11T00:00:00Z"]),
            axis=alt.Axis(format="%a %-d %b", tickCount=5, title=None),
        ),
        y=alt.Y("departures:Q", title="departures since midnight"),
        color=alt.Color(
            "origin:N",
            scale=alt.Scale(domain=["EWR", "JFK", "LGA"], range=["#1b7f79", "#d1495b", "#30638e"]),
            legend=alt.Legend(title=None, orient="top-left"),
        ),
        detail="day:N",
    )
    chart: alt.LayerChart = (
        (shared.mark_line(strokeWidth=1.5) + shared.mark_circle(size=10))
        .properties(width=720, height=260, background="white")
        .configure(aria=False)
        .configure_view(stroke=None)
        .configure_axis(
            gridColor="#eeeeee", domainColor="#999999", labelColor="#444444", titleColor="#444444"
        )
    )
    return chart


if __name__ == "__main__":
    main()
