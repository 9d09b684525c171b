"""Writes orders of a web shop: a JSON file a minute into data/orders, until Ctrl-C.

python orders.py                 # continues from now
python orders.py --history 12    # first the last 12 hours at once, a file an hour, then ends
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

FOLDER = Path(__file__).parent / "data" / "orders"
SHOPS = ("Berlin", "Paris", "Rome")
PRODUCTS = {"espresso": 290, "tea": 250, "croissant": 340, "sandwich": 650, "mug": 1190, "beans": 1590}
MINUTE = timedelta(minutes=1)


def orders_of(minute: datetime) -> list[dict[str, object]]:
    """Returns the orders of a minute, which are the same each time, in the order in which they arrive.

    >>> noon = datetime(2025, 6, 1, 12, tzinfo=timezone.utc)
    >>> orders_of(noon)[0]["ordered_at"][:16], orders_of(noon) == orders_of(noon)
    ('2025-06-01 12:00', True)
    """
    number = int(minute.timestamp()) // 60
    chance = random.Random(number)
    orders: list[dict[str, object]] = []
    for place in range(chance.randint(2, 6)):
        product = chance.choice(list(PRODUCTS))
        orders.append(
            {
                "order_id": number * 10 + place,
                "ordered_at": f"{minute + timedelta(seconds=chance.randrange(60)):%Y-%m-%d %H:%M:%S}",
                "shop": chance.choice(SHOPS),
                "customer": f"c{chance.randrange(200)}",
                "product": product,
                "cents": PRODUCTS[product] * chance.randint(1, 3),
            }
        )
    return orders


def write(name: str, orders: list[dict[str, object]], end: datetime) -> None:
    """Writes a file of orders until `end`, one a line. It gets its name when it is complete: nobody reads half of it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    partial = FOLDER / f".{name}"
    partial.write_text("".join(f"{json.dumps(each)}\n" for each in orders), encoding="utf-8")
    # A stream reads files in the order of their times.
    os.utime(partial, (end.timestamp(), end.timestamp()))
    partial.rename(FOLDER / name)


def write_history(hours: int, now: datetime) -> None:
    """Writes the hours before `now`, a file each. The last one has an order that is hours late, and a bad value."""
    for ago in range(hours, 0, -1):
        start = now - timedelta(hours=ago)
        orders = [each for n in range(60) for each in orders_of(start + n * MINUTE)]
        if ago == 1:
            late = orders_of(start - timedelta(hours=max(2, hours - 2)))[0]
            orders += [{**late, "order_id": 1}, {**orders[-1], "order_id": 2, "cents": "a lot"}]
        write(f"{start:%Y-%m-%dT%H-%M}.json", orders, start + 60 * MINUTE)


def write_a_file_a_minute() -> None:
    """Writes a file when a minute is over, until Ctrl-C. Every tenth file has an order that is half an hour late."""
    print(f"A file of orders a minute into {FOLDER}. Ctrl-C ends it.", flush=True)
    while True:
        time.sleep(60 - time.time() % 60)
        minute = now_in_minutes() - MINUTE
        orders = orders_of(minute)
        if minute.minute % 10 == 0:
            orders += [{**orders_of(minute - 30 * MINUTE)[0], "order_id": int(minute.timestamp())}]
        write(f"{minute:%Y-%m-%dT%H-%M}-live.json", orders, minute + MINUTE)
        print(f"{minute:%H:%M} UTC: {len(orders)} orders", flush=True)


def now_in_minutes() -> datetime:
    """Returns the time (UTC), down to the minute."""
    return datetime.now(timezone.utc).replace(second=0, microsecond=0)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description="Writes orders of a web shop: a JSON file a minute, until Ctrl-C."
    )
    parser.add_argument("--history", type=int, metavar="HOURS", help="write the last HOURS at once, and end")
    hours = parser.parse_args().history
    if hours:
        write_history(hours, now_in_minutes())
    else:
        try:
            write_a_file_a_minute()
        except KeyboardInterrupt:
            print("stopped")


if __name__ == "__main__":
    main()
