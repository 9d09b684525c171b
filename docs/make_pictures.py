"""Draws the pictures of the docs from the tables of the examples.

uv run dbt build
uv run --group pictures python docs/make_pictures.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt
from dbt.cli.main import dbtRunner

IMAGES = Path(__file__).parent / "images"
GREEN, RED, BLUE, GREY = "#1b7f79", "#d1495b", "#30638e", "#999999"

# A blizzard closed the airports on the afternoon of 8 February 2013.
CURVES = """
    select window_start, window_end, origin, departures
    from {{ ref('departures_since_midnight') }}
    where window_start between timestamp '2013-02-06' and timestamp '2013-02-10'
    order by window_end, origin
"""

WORKING_DAYS = """
    select tailnum, window_start, last_departed_at, window_end
    from {{ ref('aircraft_working_days') }}
    where
        tailnum in ('N723MQ', 'N725MQ', 'N736MQ')
        and window_start >= timestamp '2013-02-04'
        and window_end <= timestamp '2013-02-08 12:00'
    order by tailnum, window_start
"""

DEPARTURES = """
    select tailnum, departed_at
    from {{ ref('flights') }}
    where
        tailnum in ('N723MQ', 'N725MQ', 'N736MQ')
        and not cancelled
        and departed_at between timestamp '2013-02-04' and timestamp '2013-02-08'
    order by tailnum, departed_at
"""

PLACES = """
    select window_end, place, tailnum, carrier, departures
    from {{ ref('busiest_aircraft') }}
    where window_start = timestamp '2013-12-20'
    order by window_end, place
"""

WEEKS = """
    select window_start, departures, cast('in the table' as string) as result
    from {{ ref('airline_weeks') }}
    where carrier = 'UA'
    union all
    select window_start, departures, 'early, replaced' as result
    from {{ ref('airline_weeks').incorporate(path={'identifier': 'airline_weeks__changes'}) }}
    where carrier = 'UA' and _change_type = 'update_before'
    order by window_start, departures
"""


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    for name, chart in {
        "departures-since-midnight": curves(rows_of(CURVES)),
        "working-days": working_days(rows_of(WORKING_DAYS), rows_of(DEPARTURES)),
        "busiest-aircraft": places(rows_of(PLACES)),
        "airline-weeks": weeks(rows_of(WEEKS)),
    }.items():
        styled(chart).save(IMAGES / f"{name}.svg")


def rows_of(query: str) -> list[dict[str, Any]]:
    """The rows of a query on the project's models, times as no browser moves them to another zone."""
    result = dbtRunner().invoke(["--log-level", "none", "show", "--inline", query, "--limit", "-1"])
    if not result.success:
        raise SystemExit("The examples' tables aren't there; run `uv run dbt build` first.")
    shown: Any = result.result
    table = shown.results[0].agate_table
    rows = [dict(zip(table.column_names, row, strict=True)) for row in table.rows]
    times = ("window_start", "window_end", "departed_at", "last_departed_at")
    return [{key: utc(value) if key in times else value for key, value in row.items()} for row in rows]


def utc(moment: Any) -> str:
    """A time that no browser moves to another zone."""
    return f"{str(moment).replace(' ', 'T')[:19]}Z"


def days(field: str, form: str = "%a %-d %b", **more: Any) -> alt.X:
    """Time from left to right, in UTC."""
    return alt.X(f"{field}:T", scale=alt.Scale(type="utc"), axis=alt.Axis(format=form, title=None, **more))


def curves(points: list[dict[str, Any]]) -> alt.LayerChart:
    """The curves of a few days, one colour for each airport."""
    shared = alt.Chart(alt.Data(values=points)).encode(
        x=alt.X(
            "window_end:T",
            scale=alt.Scale(type="utc", domain=["2013-02-06T00:00:00Z", "2013-02-11T00:00:00Z"]),
            axis=alt.Axis(format="%a %-d %b", tickCount=5, title=None),
        ),
        y=alt.Y("departures:Q", title="departures since midnight"),
        color=alt.Color(
            "origin:N",
            scale=alt.Scale(domain=["EWR", "JFK", "LGA"], range=[GREEN, RED, BLUE]),
            legend=alt.Legend(title=None, orient="top-left"),
        ),
        detail="window_start:N",
    )
    both: alt.LayerChart = shared.mark_line(strokeWidth=1.5) + shared.mark_circle(size=10)
    return both.properties(width=720, height=260)


def working_days(windows: list[dict[str, Any]], departures: list[dict[str, Any]]) -> alt.LayerChart:
    """Departures as dots on the windows they make; the gap that ends a window is pale."""
    tailnum = alt.Y("tailnum:N", title=None)
    shared = alt.Chart(alt.Data(values=windows)).encode(y=tailnum)
    gaps = shared.mark_bar(size=12, color=GREEN, opacity=0.25).encode(
        x=days("last_departed_at", tickCount=5), x2="window_end:T"
    )
    worked = shared.mark_bar(size=12, color=GREEN, opacity=0.7).encode(
        x=days("window_start"), x2="last_departed_at:T"
    )
    dots = (
        alt.Chart(alt.Data(values=departures))
        .mark_circle(size=28, color="#222222", opacity=1)
        .encode(x=days("departed_at"), y=tailnum)
    )
    layers: alt.LayerChart = gaps + worked + dots
    return layers.properties(width=720, height=100)


def places(ranked: list[dict[str, Any]]) -> alt.LayerChart:
    """The ranking at each step, with a line for each aircraft."""
    labelled = [
        {**row, "label": f"{row['tailnum']} ({row['carrier']}) {row['departures']}"} for row in ranked
    ]
    shared = alt.Chart(alt.Data(values=labelled)).encode(
        x=alt.X(
            "window_end:T",
            scale=alt.Scale(type="utc", padding=60),
            axis=alt.Axis(format="%H:%M", title=None, values=sorted({row["window_end"] for row in ranked})),
        ),
        y=alt.Y(
            "place:Q",
            scale=alt.Scale(reverse=True, domain=[0.5, 10.5]),
            axis=alt.Axis(values=list(range(1, 11)), grid=False),
        ),
    )
    lines = shared.mark_line(color=GREEN, opacity=0.5).encode(detail="tailnum:N")
    names = shared.mark_text(fontSize=11, stroke="white", strokeWidth=4)
    layers: alt.LayerChart = (
        lines + names.encode(text="label:N") + shared.mark_text(fontSize=11).encode(text="label:N")
    )
    return layers.properties(width=680, height=240)


def weeks(results: list[dict[str, Any]]) -> alt.Chart:
    """One dot for each week, and one for what stood there before."""
    chart: alt.Chart = (
        alt.Chart(alt.Data(values=results))
        .mark_point(filled=True, size=40, opacity=1)
        .encode(
            x=days("window_start", "%b"),
            y=alt.Y("departures:Q", title="departures in a week"),
            color=alt.Color(
                "result:N",
                scale=alt.Scale(domain=["in the table", "early, replaced"], range=[GREEN, RED]),
                legend=alt.Legend(title=None, orient="bottom-right"),
            ),
        )
        .properties(width=720, height=200)
    )
    return chart


def styled(chart: Any) -> Any:
    """What all pictures share."""
    return (
        chart.properties(background="white")
        .configure(aria=False)
        .configure_view(stroke=None)
        .configure_axis(gridColor="#eeeeee", domainColor=GREY, labelColor="#444444", titleColor="#444444")
    )


if __name__ == "__main__":
    main()
