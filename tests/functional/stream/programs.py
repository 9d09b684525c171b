"""Programs written by hand, in the shape the planner gives them."""

from __future__ import annotations

from dbt.adapters.spark_streaming.query.program import (
    Boundaries,
    Program,
    Rows,
    StatePart,
    Step,
    StreamInput,
)
from dbt.adapters.spark_streaming.query.state_signature import Signature, WindowOperatorState, WindowState

SECOND = 1_000_000
MINUTE = 60 * SECOND
DAY = 24 * 60 * MINUTE


def _signature(window: WindowState) -> Signature:
    return Signature((WindowOperatorState("slices", window=window),))


def pass_through(relation: str = "events") -> Program:
    """A projection and a filter: no state."""
    return Program(
        inputs=(StreamInput(relation, "stream", ("ts", "k", "v"), "ts"),),
        items=(),
        output="select ts, k, v * 2 as doubled from stream where v is not null",
        boundaries=None,
    )


def tumble(size: int, relation: str = "events") -> Program:
    """`select window_start, window_end, k, count(*) c, sum(v) s … group by …` over fixed windows."""
    rows = f"""
        select
          ts as event_time,
          timestamp_micros(unix_micros(ts) - pmod(unix_micros(ts), {size}) + {size}) as expires_at,
          timestamp_micros(unix_micros(ts) - pmod(unix_micros(ts), {size})) as window_start,
          k, v
        from stream
    """
    partials = """
        select window_start, expires_at, k, count(*) as c, sum(v) as s
        from rows_0
        group by window_start, expires_at, k
    """
    fold = """
        select window_start, expires_at, k, sum(c) as c, sum(s) as s
        from state cross join clock
        where part = 'slices' and coalesce(expires_at > watermark_after, true)
        group by window_start, expires_at, k
    """
    closed = """
        select window_start, expires_at as window_end, k, sum(c) as c, sum(s) as s
        from state cross join clock
        where
          part = 'slices' and expires_at <= watermark_after and coalesce(expires_at > watermark_before, true)
        group by window_start, expires_at, k
    """
    return Program(
        inputs=(StreamInput(relation, "stream", ("ts", "k", "v"), "ts"),),
        items=(Rows("rows_0", rows, ("stream",)), StatePart("slices", partials, fold)),
        output_steps=(Step("closed", closed),),
        flushes_from_state=True,
        output="select window_start, window_end, k, c, s from closed",
        boundaries=(Boundaries(size, 0),),
        signature=_signature(WindowState("tumble", size=size, step=size)),
    )


def cumulate(step: int, max_size: int, relation: str = "events") -> Program:
    """Count, sum and an exact distinct count of x per k, over windows that grow by `step`."""
    rows = f"""
        select
          ts as event_time,
          timestamp_micros(unix_micros(ts) - pmod(unix_micros(ts), {max_size}) + {max_size}) as expires_at,
          timestamp_micros(unix_micros(ts) - pmod(unix_micros(ts), {max_size})) as window_start,
          timestamp_micros(
            unix_micros(ts) - pmod(pmod(unix_micros(ts), {max_size}), {step}) + {step}
          ) as slice_end,
          k, v, x
        from stream
    """
    # A late row counts from the first end that has not been put out.
    sliced = f"""
        select
          window_start, expires_at, k, v, x,
          greatest(slice_end, {_end_after("watermark_before", step)}) as slice_end
        from rows_0 cross join clock
    """
    seen = """
        select window_start, expires_at, k, x, min(slice_end) as first_slice
        from sliced
        where x is not null
        group by window_start, expires_at, k, x
    """
    first = "select *, cast(null as timestamp) as had from seen"
    new = """
        select seen.*, known.first_slice as had
        from seen
        left join (
          select state.window_start, state.k, state.x, min(state.first_slice) as first_slice
          from state
          left semi join seen
            on state.window_start = seen.window_start and state.k <=> seen.k and state.x = seen.x
          where state.part = 'distinct_0'
          group by state.window_start, state.k, state.x
        ) as known
          on known.window_start = seen.window_start and known.k <=> seen.k and known.x = seen.x
        where known.first_slice is null or seen.first_slice < known.first_slice
    """
    slices = """
        select window_start, expires_at, slice_end, k, sum(c) as c, sum(v) as s, sum(d) as d
        from (
          select window_start, expires_at, slice_end, k, 1 as c, v, 0 as d from sliced
          union all
          select window_start, expires_at, first_slice, k, 0, null, 1 from distinct_0_new
          union all
          select window_start, expires_at, had, k, 0, null, -1 from distinct_0_new where had is not null
        )
        group by window_start, expires_at, slice_end, k
    """
    fold_slices = f"""
        select
          window_start, expires_at,
          case when slice_end <= watermark_after
            then {_end_before("watermark_after", step)} else slice_end end as slice_end,
          k, sum(c) as c, sum(s) as s, sum(d) as d
        from state cross join clock
        where part = 'slices' and coalesce(expires_at > watermark_after, true)
        group by all
    """
    fold_distinct = """
        select window_start, expires_at, k, x, min(first_slice) as first_slice
        from state cross join clock
        where part = 'distinct_0' and coalesce(expires_at > watermark_after, true)
        group by window_start, expires_at, k, x
    """
    opened = """
        select window_start, expires_at, slice_end, k, c, s, d, watermark_before, watermark_after
        from state cross join clock
        where
          part = 'slices' and slice_end <= watermark_after and coalesce(expires_at > watermark_before, true)
    """
    curves = f"""
        select window_start, window_end, k, c, s, d
        from (
          select
            window_start, slice_end as window_end, k, is_due,
            sum(c) over (partition by window_start, k order by slice_end) as c,
            sum(s) over (partition by window_start, k order by slice_end) as s,
            sum(d) over (partition by window_start, k order by slice_end) as d
          from (
            select window_start, slice_end, k, sum(c) as c, sum(s) as s, sum(d) as d, max(is_due) as is_due
            from (
              select window_start, slice_end, k, c, s, d, false as is_due from opened
              union all
              select window_start, explode(sequence(first_end, last_end, interval {step} microseconds)),
                k, null, null, null, true
              from (
                select
                  window_start, k,
                  greatest(min(slice_end), {_end_after("first(watermark_before)", step)}) as first_end,
                  least(max(expires_at), {_end_before("first(watermark_after)", step)}) as last_end
                from opened
                group by window_start, k
              )
              where first_end <= last_end
            )
            group by window_start, slice_end, k
          )
        )
        where is_due
    """
    return Program(
        inputs=(StreamInput(relation, "stream", ("ts", "k", "v", "x"), "ts"),),
        items=(
            Rows("rows_0", rows, ("stream",)),
            Step("sliced", sliced),
            Step("seen", seen, persist=True),
            Step("distinct_0_new", new, persist=True, initial=first),
            StatePart("slices", slices, fold_slices),
            StatePart(
                "distinct_0",
                "select window_start, expires_at, k, x, first_slice from distinct_0_new",
                fold_distinct,
            ),
        ),
        output_steps=(Step("opened", opened), Step("curves", curves)),
        flushes_from_state=True,
        output="select window_start, window_end, k, c, s, d from curves",
        boundaries=(Boundaries(step, 0),),
        signature=_signature(WindowState("cumulate", size=max_size, step=step)),
    )


def _end_after(time: str, step: int) -> str:
    return (
        f"timestamp_micros(unix_micros(window_start) + "
        f"((unix_micros({time}) - unix_micros(window_start)) div {step} + 1) * {step})"
    )


def _end_before(time: str, step: int) -> str:
    return (
        f"timestamp_micros(unix_micros(window_start) + "
        f"((unix_micros({time}) - unix_micros(window_start)) div {step}) * {step})"
    )
