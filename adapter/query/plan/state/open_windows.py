"""SQL of the windows in a state whose result is still to come."""

from __future__ import annotations

from ...aggregates.aggregate_builder import SLICE_END
from ...aggregates.model import WindowAggregateSpec
from ...program import OpenWindowQuery
from ...windows.emission import Emission
from ..window_specs import WindowSpec
from .sessions import Sessions
from .window_trigger import WindowTrigger


def open_windows(spec: WindowSpec, emission: Emission) -> OpenWindowQuery:
    """Returns the query for a window operator's open windows.

    >>> from ..window_specs import WindowBufferSpec
    >>> from ...windows.windows import Window
    >>> read = {"level": 0, "window": Window("tumble", "ts", 60, 60), "streams": (), "rows": "", "source": ""}
    >>> spec = WindowBufferSpec(name="stage_1", **read, reason="")
    >>> print(open_windows(spec, Emission()).sql)
    select distinct unix_micros(slice_end) as first, unix_micros(slice_end) as last, 0 as sessions
    from state where part = 'stage_1_rows'
    """
    window = spec.window
    part = f"{spec.name}_{'slices' if isinstance(spec, WindowAggregateSpec) else 'rows'}"
    if window.merges:
        sql = Sessions(spec, part, WindowTrigger(window, emission)).still_open(":watermark")
    else:
        end = f"unix_micros({SLICE_END})"
        bounds = f"{window.first_end(end)} as first, {window.last_end(end)} as last"
        sql = f"select distinct {bounds}, 0 as sessions\nfrom state where part = '{part}'"
    return OpenWindowQuery(
        part=part,
        sql=sql,
        step=window.step,
        grows=window.grows,
        time_zone=window.time_zone,
        complete=emission.complete,
    )
