"""What `compare.py` measured: lines to print, the tables and plot of its page in docs/, and whether goals are met."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
KEPT, PAGE, PLOT = (
    DOCS / "project" / "performance.json",
    DOCS / "project" / "performance.md",
    DOCS / "images" / "performance.svg",
)
BEGIN, END = "<!-- begin: bench/compare.py writes from here -->", "<!-- end: to here -->"
NAMES = {
    "ours": "ours",
    "flink": "Flink, in memory",
    "flink_rocksdb": "Flink on RocksDB",
    "native": "native",
    "recompute": "plain Spark",
}
COLOURS = {"flink": "#d1495b", "flink_rocksdb": "#edae49", "native": "#30638e", "recompute": "#999999"}
MODES = {"backfill": "backfill", "pieces": "12 micro-batches", "trickle": "trickle"}
Line = Mapping[str, Any]


@dataclass(frozen=True)
class Spread:
    """A figure of several rounds."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))

    def __str__(self) -> str:
        if self.least == self.most:
            return f"{self.median:.2f}"
        return f"{self.median:.2f} ({self.least:.2f}–{self.most:.2f})"


def spread(line: Line, peer: str, figure: str) -> Spread | None:
    """What a peer took; None if it has no rows, or others."""
    runs = line["runs"].get(peer, [])
    if not runs or any("problem" in run or figure not in run for run in runs):
        return None
    return Spread.of([run[figure] for run in runs])


def ratio(line: Line, peer: str, figure: str) -> Spread | None:
    """Ours against a peer's, round by round; None if it can't be told."""
    if spread(line, peer, figure) is None or spread(line, "ours", figure) is None:
        return None
    pairs = zip(line["runs"]["ours"], line["runs"][peer], strict=True)
    return Spread.of([ours[figure] / theirs[figure] for ours, theirs in pairs if theirs[figure]])


def latencies(taken: Sequence[float]) -> dict[str, float]:
    """The median and the 95th percentile of what rows took."""
    if len(taken) < 20:
        return {"problem": f"only {len(taken)} rows were seen"}  # type: ignore[dict-item]
    cuts = statistics.quantiles(taken, n=20)
    return {"p50": cuts[9], "p95": cuts[18], "shown": len(taken)}


def ratios(line: Line) -> list[str]:
    """What a line of the table says, to print."""
    if line["mode"] == "trickle":
        return []
    found = []
    for peer in line["runs"]:
        if peer == "ours":
            continue
        cpu, wall = ratio(line, peer, "cpu"), ratio(line, peer, "wall")
        said = f"CPU {cpu or '–'}, wall {wall or '–'}" if cpu or wall else why(line, peer)
        found.append(f"{line['workload']}, {MODES[line['mode']]}: ours / {NAMES[peer]}: {said}")
    return found


def why(line: Line, peer: str) -> str:
    """Why a peer has no ratio."""
    for run in line["runs"].get(peer, []):
        if "problem" in run:
            return "no: see the log" if len(run["problem"]) > 200 else run["problem"]
        if "limit" in run:
            ours = spread(line, "ours", "wall")
            below = f", so wall < {ours.median / run['limit']:.2f}" if ours else ""
            return f"not done after {run['limit']:g} s{below}"
    return "–"


Figure = Callable[[Line, Sequence[Line]], float | None]
"""Something of a line; the others are at hand."""


@dataclass(frozen=True)
class Goal:
    """What issue 15 asks for: a figure of some works at most so much."""

    text: str
    works: tuple[str, ...]
    mode: str
    most: float
    figure: Figure


def _against(peer: str, figure: str) -> Figure:
    def of(line: Line, _: Sequence[Line]) -> float | None:
        found = ratio(line, peer, figure)
        if found is None and figure == "wall" and (run := line["runs"].get(peer, [{}])[0]).get("limit"):
            ours = spread(line, "ours", "wall")
            return None if ours is None else ours.median / run["limit"]
        return None if found is None else found.median

    return of


def _warm(line: Line, peer: str, figure: str) -> float | None:
    """The median of the later half of a peer's micro-batches, without the flush."""
    runs = [run for run in line["runs"].get(peer, []) if "batches" in run and "problem" not in run]
    each = [batch[figure] for run in runs for batch in run["batches"][6:12] if figure in batch]
    return statistics.median(each) if each else None


def _against_native_tumble(line: Line, lines: Sequence[Line]) -> float | None:
    """A micro-batch beside one of Spark's own tumble."""
    for other in lines:
        if other["workload"] == "tumble" and (other["mode"], other["events"]) == (
            line["mode"],
            line["events"],
        ):
            ours, theirs = _warm(line, "ours", "wall"), _warm(other, "native", "wall")
            return None if ours is None or theirs is None else ours / theirs
    return None


def _jobs(line: Line, _: Sequence[Line]) -> float | None:
    return _warm(line, "ours", "jobs")


def _later_against_recomputing(line: Line, _: Sequence[Line]) -> float | None:
    """From the fourth micro-batch on."""
    totals = []
    for peer in "ours", "recompute":
        runs = [run for run in line["runs"].get(peer, []) if "batches" in run and "problem" not in run]
        if not runs:
            return None
        totals.append(statistics.median(sum(batch["cpu"] for batch in run["batches"][3:12]) for run in runs))
    return totals[0] / totals[1]


_RANKINGS = ("topn_count", "topn_sum")
_BESIDE_NATIVE = "a micro-batch against native's tumble, wall"
GOALS = (
    Goal(_BESIDE_NATIVE, ("tumble",), "pieces", 1.2, _against_native_tumble),
    Goal(_BESIDE_NATIVE, ("cumulate",), "pieces", 2, _against_native_tumble),
    Goal(_BESIDE_NATIVE, _RANKINGS, "pieces", 3, _against_native_tumble),
    Goal("Spark jobs of a micro-batch", ("tumble", "cumulate"), "pieces", 4, _jobs),
    Goal("Spark jobs of a micro-batch", _RANKINGS, "pieces", 6, _jobs),
    Goal(
        "against Flink on RocksDB, CPU",
        ("cumulate", "topn_sum"),
        "pieces",
        0.5,
        _against("flink_rocksdb", "cpu"),
    ),
    Goal("against Flink on RocksDB, CPU", ("topn_count",), "pieces", 1, _against("flink_rocksdb", "cpu")),
    Goal("against Flink in memory, CPU", ("topn_count",), "pieces", 1.5, _against("flink", "cpu")),
    Goal(
        "from the fourth micro-batch on against plain Spark, CPU",
        (*_RANKINGS, "topn_rows"),
        "pieces",
        1,
        _later_against_recomputing,
    ),
    Goal("against Flink in memory, wall", ("cumulate",), "backfill", 0.5, _against("flink", "wall")),
    Goal("against the batch by hand, wall", ("cumulate",), "backfill", 1.3, _against("recompute", "wall")),
)


def judged(lines: Sequence[Line]) -> list[tuple[str, str, float, float]]:
    """Each goal of what was measured: what it is, of which work, the aim, and what it is."""
    found = []
    for goal in GOALS:
        for line in lines:
            if line["workload"] in goal.works and line["mode"] == goal.mode:
                if (figure := goal.figure(line, lines)) is not None:
                    found.append((goal.text, line["workload"], goal.most, figure))
    return found


def goals(lines: Sequence[Line]) -> list[str]:
    """The same to print."""
    return [
        f"{'met' if figure <= most else 'NOT MET':8} {work}, {text}: {figure:.2f}, at most {most:g}"
        for text, work, most, figure in judged(lines)
    ]


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """In Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines) + "\n"


def page(lines: Sequence[Line], starts: Mapping[str, Mapping[str, float]]) -> str:
    """All that the command knows, in Markdown."""
    parts = []
    for mode in "backfill", "pieces":
        of = [line for line in lines if line["mode"] == mode]
        if of:
            parts += [f"### {MODES[mode].capitalize()}\n", _whole(of)]
    if of := [line for line in lines if line["mode"] == "trickle"]:
        parts += ["### Trickle\n", _trickle(of)]
    parts += ["### Starts\n", _starts(lines, starts)]
    return "\n".join(parts)


def _whole(lines: Sequence[Line]) -> str:
    peers = [peer for peer in NAMES if peer != "ours" and any(peer in line["runs"] for line in lines)]
    rows = []
    for line in lines:
        cpu = spread(line, "ours", "cpu")
        ours = f"{cpu.median:.1f}" if cpu else "–"
        cells = [str(ratio(line, peer, "cpu") or "–") for peer in peers]
        rows.append([line["title"], f"{line['events']:,}", ours, *cells, when(line)])
    against = [f"ours / {NAMES[peer]}" for peer in peers]
    return table(["CPU", "rows", "ours, seconds", *against, "measured"], rows)


def when(line: Line) -> str:
    """When it was measured, and how often."""
    rounds = len(line["runs"]["ours"])
    return f"{line['on']}, {rounds} {'round' if rounds == 1 else 'rounds'}"


def _trickle(lines: Sequence[Line]) -> str:
    peers = [peer for peer in NAMES if any(peer in line["runs"] for line in lines)]
    rows = []
    for line in lines:
        cells = []
        for peer in peers:
            run = line["runs"].get(peer, [{}])[0]
            if "p50" in run and "problem" not in run:
                cells.append(f"{run['p50']:.2f} s · {run['p95']:.2f} s · {run['cpu'] / run['seconds']:.2f}")
            else:
                cells.append("–")
        rows.append([line["title"], *cells, when(line)])
    return table(["p50 · p95 · CPU s a second", *(NAMES[peer] for peer in peers), "measured"], rows)


def _starts(lines: Sequence[Line], starts: Mapping[str, Mapping[str, float]]) -> str:
    rows = [[NAMES[peer], f"{each['wall']:.1f}", f"{each['cpu']:.1f}"] for peer, each in starts.items()]
    for peer in "flink", "flink_rocksdb":
        jobs = [run["start"] for line in lines for run in line["runs"].get(peer, []) if "start" in run]
        if jobs:
            wall, cpu = (statistics.median(job[figure] for job in jobs) for figure in ("wall", "cpu"))
            rows.append([f"{NAMES[peer]}: a job, once warm", f"{wall:.1f}", f"{cpu:.1f}"])
    return table(["peer", "wall s", "CPU s"], rows)


def check() -> None:
    """Passes where the plot can be drawn."""
    try:
        import altair  # noqa: F401
    except ImportError:
        raise SystemExit(
            "The plot needs altair: `uv run --group pictures python bench/compare.py --write`."
        ) from None


def plot(lines: Sequence[Line]) -> Any:
    """CPU of ours against each peer's, a dot for each work."""
    import altair as alt

    points = []
    for line in lines:
        for peer in COLOURS:
            if line["mode"] != "trickle" and (found := ratio(line, peer, "cpu")):
                points.append(
                    {
                        "work": line["title"],
                        "mode": MODES[line["mode"]],
                        "peer": NAMES[peer],
                        "ratio": round(found.median, 3),
                        "least": round(found.least, 3),
                        "most": round(found.most, 3),
                    }
                )
    base = alt.Chart(alt.Data(values=points))
    x = alt.X(
        "ratio:Q",
        scale=alt.Scale(type="log", nice=False, padding=12),
        axis=alt.Axis(
            title="CPU, ours / the peer's", format="~g", values=[0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50]
        ),
    )
    y = alt.Y(
        "work:N",
        sort=list(dict.fromkeys(point["work"] for point in points)),
        axis=alt.Axis(title=None, labelLimit=320),
    )
    colour = alt.Color(
        "peer:N",
        scale=alt.Scale(domain=[NAMES[peer] for peer in COLOURS], range=list(COLOURS.values())),
        legend=alt.Legend(title=None, orient="bottom"),
    )
    dots = base.mark_point(filled=True, size=70, opacity=1).encode(x=x, y=y, color=colour)
    spans = base.mark_rule().encode(x=alt.X("least:Q"), x2="most:Q", y=y, color=colour)
    one = base.transform_calculate(one="1").mark_rule(color="#444444", strokeDash=[4, 3]).encode(x="one:Q")
    height = 22 * len({point["work"] for point in points})
    layered = alt.layer(one, spans, dots).properties(width=300, height=height)
    modes = [mode for mode in MODES.values() if any(point["mode"] == mode for point in points)]
    return (
        layered.facet(column=alt.Column("mode:N", title=None, sort=modes))
        .properties(background="white")
        .configure(aria=False)
        .configure_view(stroke=None)
        .configure_axis(
            gridColor="#eeeeee", domainColor="#999999", labelColor="#444444", titleColor="#444444"
        )
    )


def write(results: Sequence[Line], starts: Mapping[str, Mapping[str, float]]) -> None:
    """Page and plot, of what was measured now and of what was kept of other works."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {"lines": [], "starts": {}}
    now = {(line["workload"], line["mode"]): line for line in results}
    lines = {(line["workload"], line["mode"]): line for line in kept["lines"]} | now
    kept = {"lines": list(lines.values()), "starts": {**kept["starts"], **starts}}
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    head, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{BEGIN}\n\n{page(kept['lines'], kept['starts'])}\n{END}{tail}")
    plot(kept["lines"]).save(PLOT)
