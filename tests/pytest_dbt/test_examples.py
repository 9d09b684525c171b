"""The logic of the examples on a handful of rows. What a window is, is tested on Spark."""

from __future__ import annotations

from typing import Any

from pytest_dbt.pytest_dbt import run_model

from tests.pytest_dbt.manifest import WINDOW, plain


def results(model: str, tables: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = run_model(model, tables=tables).to_dict("records")
    return sorted(rows, key=lambda row: str(list(row.values())))


def flight(**values: Any) -> dict[str, Any]:
    usual = {
        "departed_at": "2013-02-08 00:30",
        "carrier": "B6",
        "dest": "BOS",
        "distance": 187,
        "dep_delay": 20,
    }
    return {**usual, "cancelled": False, **values}


def test_airline_days_name_the_airline_and_leave_out_what_did_not_fly() -> None:
    found = results(
        "airline_days",
        {
            "flights": [
                flight(),
                flight(dest="SFO", distance=2586),
                flight(dest="LAX", cancelled=True),
                flight(carrier="UA", dest="BOS"),
                flight(carrier="??"),
            ],
            "airlines": [
                {"carrier": "B6", "name": "JetBlue Airways"},
                {"carrier": "UA", "name": "United Air Lines Inc."},
            ],
        },
    )
    assert found == [
        {**WINDOW, "airline": "JetBlue Airways", "departures": 2, "destinations": 2, "miles": 2773},
        {**WINDOW, "airline": "United Air Lines Inc.", "departures": 1, "destinations": 1, "miles": 187},
    ]


def test_carrier_delays_are_shown_from_five_late_departures_on() -> None:
    four, five = [flight(carrier="UA")] * 4, [flight(dep_delay=minutes) for minutes in (16, 17, 18, 19, 90)]
    punctual = [flight(dep_delay=15), flight(dep_delay=-5)]
    cancelled = [flight(dep_delay=None, cancelled=True)]
    found = results(
        "carrier_delays", {"flight_files": [{"file": ""}], "flights": [*four, *five, *punctual, *cancelled]}
    )
    assert found == [
        {
            **WINDOW,
            "carrier": "B6",
            "departures": 7,
            "late_departures": 5,
            "cancellations": 1,
            "mean_delay": 24.3,
            "longest_delay": 90,
        }
    ]


def test_a_window_function_becomes_one_window() -> None:
    compiled = """
        select window_end, sum(x) filter (where y > 1) as s
        from (
          select /*+ TUMBLE(`ts`, '1 hour', '0 seconds') */ input.*, timestamp_micros(0) as window_end
          from (select * from `lakehouse`.`raw`.`t`) as input
          lateral view explode(array(1)) windows as end_micros
        )
        group by window_end
    """
    assert plain(compiled) == (
        "SELECT window_end, SUM(CASE WHEN y > 1 THEN x END) AS s "
        "FROM (SELECT *, 'its start' AS window_start, 'its end' AS window_end FROM \"t\") GROUP BY window_end"
    )
