"""The work that `compare.py` gives to each peer: the data, and each query in the SQL of who runs it.

A query is written once, with what engines spell differently asked of a `Dialect`. Where plain Spark has a better way to
the same rows (it has no cumulate, and its session is a key), that is written by hand: `plain`.

Data: `events` is a day of page views and sales (200 skewed pages, up to 1,000 products of each, a device seen five
times, one city with half of all rows); `person`, `auction` and `bid` are Nexmark's, 1 : 3 : 46, one each millisecond.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments

BEGIN = "2026-03-01 00:00:00"
SCHEMAS = {
    "events": "ts timestamp, page string, city string, channel string, product bigint, seller bigint, device bigint, "
    "amount bigint",
    "person": "ts timestamp, id bigint, name string, city string, state string",
    "auction": "ts timestamp, id bigint, seller bigint, category bigint, item string",
    "bid": "ts timestamp, auction bigint, bidder bigint, price bigint, channel string, extra string",
}
BEGIN_MICROS = 1_772_323_200_000_000
SPANS = {"events": 86_390_000_000}
"""Microseconds from the first row to the last, however many there are. Nexmark's are a millisecond apart."""
DOMAINS = ("page", "city", "category", "product", "channel", "auction", "bidder", "as_of")
"""Keys that make no state grow for ever, as `constant_domains` says it in a model."""


def rows_of(source: str, time: str, devices: int) -> tuple[str, tuple[str, ...]]:
    """Which of the numbers `id` are rows of a source, and the columns these have.

    Args:
        source: of `SCHEMAS`.
        time: the microseconds of a number since `BEGIN`.
        devices: how many there are.
    """

    def chance(salt: int, below: int) -> str:
        return f"pmod(xxhash64(id, {salt}), {below})"

    ts = f"timestamp_micros(unix_micros(timestamp'{BEGIN}') + {time}) as ts"
    if source == "events":
        # Skewed as 1/sqrt: the first of 200 pages has some 7 % of the views.
        page = f"concat('p', cast(pow({chance(1, 1048576)} / 1048576.0, 2) * 200 as int)) as page"
        city = f"if({chance(2, 2)} = 0, 'hot', concat('c', {chance(3, 1000)})) as city"
        channel = f"concat('channel ', {chance(4, 10)}) as channel"
        product = chance(5, 1000)
        device = f"{chance(6, devices)} as device"
        # Uneven, so that sums of amounts tell products apart.
        amount = f"{chance(7, 100)} - 20 as amount"
        return "true", (
            ts,
            page,
            city,
            channel,
            f"{product} as product",
            f"{product} % 100 as seller",
            device,
            amount,
        )
    # Of 50 events in a row the first is a person, three are auctions, and the rest bids, as Nexmark has it.
    person, auction = "id div 50", "id div 50 * 3 + least(2, greatest(0, id % 50 - 1))"
    if source == "person":
        where = "id % 50 = 0"
        name, city = f"concat('name ', {chance(1, 500)}) as name", f"concat('city ', {chance(2, 50)}) as city"
        return where, (ts, f"{person} as id", name, city, f"concat('state ', {chance(3, 6)}) as state")
    if source == "auction":
        seller = f"greatest(0, {person} - {chance(1, 100)}) as seller"
        columns = (
            f"{auction} as id",
            seller,
            f"10 + {chance(2, 5)} as category",
            "concat('item ', id) as item",
        )
        return "id % 50 between 1 and 3", (ts, *columns)
    # Half of the bids go to one hot auction of the last hundred, and three in four come from one hot bidder.
    hot = f"if({chance(1, 2)} = 0, ({auction}) div 100 * 100, greatest(0, {auction} - {chance(2, 100)})) as auction"
    bidder = f"if({chance(3, 4)} > 0, ({person}) div 100 * 100, greatest(0, {person} - {chance(4, 1000)})) as bidder"
    price = f"cast(100 * pow(10.0, {chance(5, 1000000)} / 1000000.0 * 5) as bigint) as price"
    channel = f"concat('channel ', if({chance(6, 2)} = 0, {chance(7, 4)}, {chance(8, 1000)})) as channel"
    return "id % 50 > 3", (ts, hot, bidder, price, channel, "concat('extra ', hex(xxhash64(id, 9))) as extra")


@dataclass(frozen=True)
class Dialect:
    """How an engine spells what engines spell differently."""

    trickle: bool = False
    """Whether rows tell their newest time, so that one can see how long it took until they were there."""

    @property
    def last(self) -> str:
        """In a GROUP BY: the newest time."""
        return ", max(ts) as last_ts" if self.trickle else ""

    @property
    def at(self) -> str:
        """In a row: its time."""
        return ", ts" if self.trickle else ""

    def stream(self, source: str) -> str:
        """The rows of a source as they come."""
        return source

    def day(self, column: str) -> str:
        """The day of a time."""
        return f"date({column})"

    def window(self, kind: str, source: str, *lengths: str) -> str:
        """A windowing table function over a source."""
        raise NotImplementedError

    def session(self, source: str, key: str, gap: str) -> str:
        """The sessions of each key."""
        raise NotImplementedError


class Ours(Dialect):
    """A model's compiled text."""

    def stream(self, source: str) -> str:
        return f"(select /*+ STREAM */ * from raw.{source})"

    def window(self, kind: str, source: str, *lengths: str) -> str:
        return expansion.expand_window(f"raw.{source}", window_arguments.make_window(kind, "ts", *lengths))

    def session(self, source: str, key: str, gap: str) -> str:
        return expansion.expand_window(
            f"raw.{source}", window_arguments.make_window("session", "ts", gap, partition_by=[key])
        )


class Flink(Dialect):
    """Apache Flink's SQL."""

    def day(self, column: str) -> str:
        return f"cast({column} as date)"

    def window(self, kind: str, source: str, *lengths: str) -> str:
        spans = ", ".join(_interval(length) for length in lengths)
        return f"table({kind}(table {source}, descriptor(ts), {spans}))"

    def session(self, source: str, key: str, gap: str) -> str:
        return f"table(session(table {source} partition by {key}, descriptor(ts), {_interval(gap)}))"


class Plain(Dialect):
    """Spark's own SQL."""

    def window(self, kind: str, source: str, *lengths: str) -> str:
        spans = ", ".join(f"'{length}'" for length in reversed(lengths))
        columns = "*, w.start as window_start, w.end as window_end"
        return f"(select {columns} from (select *, window(ts, {spans}) as w from {source}))"


def _interval(length: str) -> str:
    """
    >>> _interval("10 seconds")
    "interval '10' second"
    """
    number, unit = length.split()
    return f"interval '{number}' {unit.removesuffix('s')}"


@dataclass(frozen=True)
class Workload:
    """One query."""

    name: str
    title: str
    sources: tuple[str, ...]
    text: Callable[[Dialect], str]
    key: tuple[str, ...]
    """The columns that tell its rows apart."""
    moment: str | None
    """The column with the time from which a row can be known; None: rows also come when others go."""
    updates: bool = False
    """Whether its rows change."""
    plain: str | None = None
    """The same rows in Spark's own SQL, by hand; None: the text says it."""
    native: str | None = None
    """The same rows by Structured Streaming's own operators; None: it has none for them."""
    speed: int = field(default=60)
    """Seconds of event time in each second of a trickle."""


_PER_MINUTE = "window_start, window_end, page"
_UV = f"select {_PER_MINUTE}, count(*) as n, sum(amount) as total, count(distinct device) as devices from"
# A key's row holds from its slice to the one before its next; first sights give the distinct counts.
_UV_BY_HAND = """
with rows as (
  select page, device, amount, date_trunc('day', ts) as day, date_trunc('minute', ts) + interval 1 minute as slice
  from events
),
firsts as (select day, page, min(slice) as slice from rows group by day, page, device),
slices as (
  select day, page, slice, sum(n) as n, sum(total) as total, sum(devices) as devices from (
    select day, page, slice, count(*) as n, sum(amount) as total, 0L as devices from rows group by day, page, slice
    union all
    select day, page, slice, 0L, null, count(*) from firsts group by day, page, slice
  ) group by day, page, slice
),
running as (
  select day, page, slice, sum(n) over w as n, sum(total) over w as total, sum(devices) over w as devices,
    lead(slice) over (partition by day, page order by slice) as following
  from slices window w as (partition by day, page order by slice rows between unbounded preceding and current row)
)
select day as window_start,
  explode(sequence(slice, coalesce(following - interval 1 minute, day + interval 1 day), interval 1 minute)) as window_end,
  page, n, total, devices
from running
"""
_TUMBLE_BY_HAND = """
select window.start as window_start, window.end as window_end, page, count(*) as n, sum(amount) as total
from events group by window(ts, '1 minute'), page
"""


def _groups(d: Dialect) -> str:
    return (
        f"select page as category, product, count(*) as n, sum(amount) as total{d.last} "
        f"from {d.stream('events')} group by page, product"
    )


def _ranked(of: str, order: str, by: str = "category", places: int = 10) -> str:
    rank = f"row_number() over (partition by {by} order by {order}) as place"
    return f"select * from (select *, {rank} from ({of})) where place <= {places}"


def _enum(d: Dialect) -> str:
    counts = ", ".join(
        f"count(distinct device) filter (where channel = 'channel {each}') as devices_{each}"
        for each in range(10)
    )
    devices = f"count(distinct device) as devices, {counts}"
    return f"select page, count(*) as n, {devices}{d.last} from {d.stream('events')} group by page"


def _flagship(window: Callable[[str], str]) -> str:
    """Products' sales joined to their sellers', the first hundred of each window."""
    products = (
        "select window_start, window_end, product, seller, sum(amount) as sales, count(*) as n, count(distinct device) "
        f"as buyers from {window('events')} group by window_start, window_end, product, seller"
    )
    sellers = (
        "select window_start, window_end, seller, sum(amount) as seller_sales, count(distinct device) as seller_buyers "
        f"from {window('events')} group by window_start, window_end, seller"
    )
    joined = (
        "select p.window_start, p.window_end, p.product, p.seller, p.sales, p.n, p.buyers, s.seller_sales, "
        f"s.seller_buyers from ({products}) as p join ({sellers}) as s on p.window_start = s.window_start "
        "and p.window_end = s.window_end and p.seller = s.seller"
    )
    return _ranked(joined, "sales desc, product, seller", "window_start, window_end", 100)


_STEPS = (
    "(select e.*, date_trunc('day', ts) as window_start, explode(sequence(date_trunc('hour', ts) + interval 1 hour, "
    "date_trunc('day', ts) + interval 1 day, interval 1 hour)) as window_end from {} as e)"
)


def _q5(d: Dialect) -> str:
    counts = (
        "select auction, count(*) as num, window_start, window_end "
        f"from {d.window('hop', 'bid', '2 seconds', '10 seconds')} group by auction, window_start, window_end"
    )
    return (
        f"select n.auction, n.num, n.window_end from ({counts}) as n join (select max(num) as most, window_start, "
        f"window_end from ({counts}) group by window_start, window_end) as m on n.window_start = m.window_start "
        "and n.window_end = m.window_end and n.num >= m.most"
    )


def _q7(d: Dialect) -> str:
    return (
        f"select b.auction, b.price, b.bidder, b.ts, b.extra, w.window_end from {d.stream('bid')} as b join "
        f"(select max(price) as most, window_end from {d.window('tumble', 'bid', '10 seconds')} "
        "group by window_start, window_end) as w "
        "on b.price = w.most and b.ts between w.window_end - interval '10' second and w.window_end"
    )


def _q8(d: Dialect) -> str:
    return (
        "select p.id, p.name, p.window_start, p.window_end from (select id, name, window_start, window_end from "
        f"{d.window('tumble', 'person', '10 seconds')} group by id, name, window_start, window_end) as p join "
        f"(select seller, window_start, window_end from {d.window('tumble', 'auction', '10 seconds')} "
        "group by seller, window_start, window_end) as a "
        "on p.id = a.seller and p.window_start = a.window_start and p.window_end = a.window_end"
    )


_Q8_BY_HAND = """
select p.id, p.name, p.window.start as window_start, p.window.end as window_end
from (select id, name, window(ts, '10 seconds') as window from person group by id, name, window(ts, '10 seconds')) as p
join (select seller, window(ts, '10 seconds') as window from auction group by seller, window(ts, '10 seconds')) as a
on p.id = a.seller and p.window = a.window
"""
_Q11_BY_HAND = """
select bidder, count(*) as bids, session_window.start as window_start, session_window.end as window_end
from bid group by session_window(ts, '10 seconds'), bidder
"""
_RANKS = (
    ("rank1", "price < 10000"),
    ("rank2", "price >= 10000 and price < 1000000"),
    ("rank3", "price >= 1000000"),
)
_COUNTS = ", ".join(
    ["count(*) as bids", "count(distinct bidder) as bidders", "count(distinct auction) as auctions"]
    + [
        f"count(*) filter (where {where}) as {name}_bids, count(distinct bidder) filter (where {where}) as {name}_bidders, "
        f"count(distinct auction) filter (where {where}) as {name}_auctions"
        for name, where in _RANKS
    ]
)


def _q17(d: Dialect) -> str:
    ranks = ", ".join(f"count(*) filter (where {where}) as {name}" for name, where in _RANKS)
    return (
        f"select auction, {d.day('ts')} as as_of, count(*) as bids, {ranks}, min(price) as min_price, max(price) as "
        f"max_price, avg(cast(price as double)) as avg_price, sum(price) as sum_price{d.last} from {d.stream('bid')} "
        f"group by auction, {d.day('ts')}"
    )


_ALL = (
    Workload(
        "cumulate",
        "cumulate, 1 minute of a day, exact distinct",
        ("events",),
        lambda d: f"{_UV} {d.window('cumulate', 'events', '1 minute', '1 day')} group by {_PER_MINUTE}",
        ("window_end", "page"),
        "window_end",
        plain=_UV_BY_HAND,
    ),
    Workload(
        "tumble",
        "tumble, 1 minute",
        ("events",),
        lambda d: (
            f"select {_PER_MINUTE}, count(*) as n, sum(amount) as total "
            f"from {d.window('tumble', 'events', '1 minute')} group by {_PER_MINUTE}"
        ),
        ("window_end", "page"),
        "window_end",
        plain=_TUMBLE_BY_HAND,
        native=_TUMBLE_BY_HAND,
    ),
    Workload(
        "topn_count",
        "top 10 of a category by count",
        ("events",),
        lambda d: _ranked(_groups(d), "n desc, product"),
        ("category", "product"),
        "last_ts",
        updates=True,
    ),
    Workload(
        "topn_sum",
        "top 10 of a category by sum",
        ("events",),
        lambda d: _ranked(_groups(d), "total desc, product"),
        ("category", "product"),
        None,
        updates=True,
    ),
    Workload(
        "topn_rows",
        "top 10 rows of a category",
        ("events",),
        lambda d: _ranked(
            f"select page as category, product, amount{d.at} from {d.stream('events')}",
            "amount desc, product" + d.at,
        ),
        ("category", "product", "ts"),
        "ts",
        updates=True,
    ),
    Workload(
        "enum_distinct",
        "distinct devices of 10 channels, by FILTER",
        ("events",),
        _enum,
        ("page",),
        "last_ts",
        updates=True,
    ),
    Workload(
        "skewed_distinct",
        "distinct devices of cities, half of the rows in one",
        ("events",),
        lambda d: (
            f"select city, count(*) as n, count(distinct device) as devices, sum(amount) as total{d.last} "
            f"from {d.stream('events')} group by city"
        ),
        ("city",),
        "last_ts",
        updates=True,
    ),
    Workload(
        "two_cumulates",
        "two cumulates of 1 hour of a day joined, top 100",
        ("events",),
        lambda d: _flagship(lambda source: d.window("cumulate", source, "1 hour", "1 day")),
        ("window_end", "product", "seller"),
        "window_end",
        plain=_flagship(_STEPS.format),
        speed=3600,
    ),
    Workload(
        "q5",
        "Nexmark q5, hot items",
        ("bid",),
        _q5,
        ("auction", "window_end"),
        "window_end",
        speed=10,
    ),
    Workload(
        "q7",
        "Nexmark q7, highest bid",
        ("bid",),
        _q7,
        ("auction", "bidder", "ts", "window_end"),
        "window_end",
        speed=10,
    ),
    Workload(
        "q8",
        "Nexmark q8, new users who sell",
        ("person", "auction"),
        _q8,
        ("id", "window_end"),
        "window_end",
        plain=_Q8_BY_HAND,
        native=_Q8_BY_HAND,
        speed=10,
    ),
    Workload(
        "q11",
        "Nexmark q11, sessions",
        ("bid",),
        lambda d: (
            "select bidder, count(*) as bids, window_start, window_end "
            f"from {d.session('bid', 'bidder', '10 seconds')} group by bidder, window_start, window_end"
        ),
        ("bidder", "window_end"),
        "window_end",
        plain=_Q11_BY_HAND,
        native=_Q11_BY_HAND,
        speed=10,
    ),
    Workload(
        "q15",
        "Nexmark q15, distinct bidders and auctions of a day",
        ("bid",),
        lambda d: (
            f"select {d.day('ts')} as as_of, {_COUNTS}{d.last} from {d.stream('bid')} group by {d.day('ts')}"
        ),
        ("as_of",),
        "last_ts",
        updates=True,
        speed=10,
    ),
    Workload(
        "q16",
        "Nexmark q16, the same of channels",
        ("bid",),
        lambda d: (
            f"select channel, {d.day('ts')} as as_of, {_COUNTS}{d.last} from {d.stream('bid')} "
            f"group by channel, {d.day('ts')}"
        ),
        ("channel", "as_of"),
        "last_ts",
        updates=True,
        speed=10,
    ),
    Workload(
        "q17",
        "Nexmark q17, an auction's day",
        ("bid",),
        _q17,
        ("auction", "as_of"),
        "last_ts",
        updates=True,
        speed=10,
    ),
    Workload(
        "q18",
        "Nexmark q18, a bidder's last bid",
        ("bid",),
        lambda d: (
            "select auction, bidder, price, channel, ts from (select *, row_number() over (partition by bidder, auction "
            f"order by ts desc) as place from {d.stream('bid')}) where place <= 1"
        ),
        ("auction", "bidder"),
        "ts",
        updates=True,
        speed=10,
    ),
    Workload(
        "q19",
        "Nexmark q19, an auction's 10 highest bids",
        ("bid",),
        lambda d: _ranked(
            f"select auction, bidder, price, ts from {d.stream('bid')}", "price desc, ts", "auction"
        ),
        ("auction", "bidder", "ts"),
        "ts",
        updates=True,
        speed=10,
    ),
)
WORKLOADS = {each.name: each for each in _ALL}
