"""Operators of a plan: frozen dataclasses, each with its inputs and the relation that it returns.

An operator's `name` is a digest of what it computes, so that its state is found again when the text around it
changes. Its SQL reads its inputs as the relations ``__input_0``, ``__input_1`` …
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from .frame_extent import FrameExtent
from .relation import Relation

if TYPE_CHECKING:
    from ..aggregates.model import AggregateStage, GroupStage
    from ..normalize.rankings.ranks import Top as Ranking
    from ..windows.windows import Window
    from .running import RunningValue
    from .stages import RowsStage, Stage


def input_name(number: int) -> str:
    """Returns the name of an input in an operator's SQL."""
    return f"__input_{number}"


def over(text: str, relations: Sequence[str]) -> str:
    """Returns an operator's SQL with its inputs, which are queries, as CTEs."""
    inputs = ",\n".join(f"{input_name(n)} as (\n{each}\n)" for n, each in enumerate(relations))
    return f"with {inputs}\n{text}"


OVER_LIFE = "__life"
"""Column that an `OverAggregate` also partitions by under a TTL: the key's TTL generation."""


@dataclass(frozen=True)
class UnboundedState:
    """Describes what an operator's state grows with if nothing bounds it."""

    what: str
    """Name of the stored rows, to be used in a sentence: "a row for every value of k"."""
    columns: frozenset[str] | None
    """Columns whose sets of values must not grow for the state to be bounded; None if no such columns exist."""
    instead: str = ""
    """A sentence on what may be missing in the query."""
    or_else: str = ""
    """An alternative bound, to be used at the end of a sentence."""


@dataclass(frozen=True)
class Source:
    """New rows of a stream, or changes of a changelog."""

    name: str
    view: str
    relation: Relation
    label: str
    changelog: bool = False
    inputs: tuple[Operator, ...] = ()
    growth: UnboundedState | None = None


@dataclass(frozen=True)
class ChangelogNormalize:
    """An upsert source: each row retracts the one before it with the same key."""

    name: str
    inputs: tuple[Operator, ...]
    """The `Source`."""
    key: tuple[str, ...]
    """Columns that identify a row, as the source declares them."""
    time: str | None
    """Column of the event time that orders the rows of a key; None if they are ordered by arrival."""
    relation: Relation
    label: str
    growth: UnboundedState | None = None


@dataclass(frozen=True, kw_only=True)
class _Windows:
    """Windows over streams, or over the results of other windows. The rows of a window are emitted when it closes."""

    inputs: tuple[Operator, ...]
    """Windows whose results are read; empty if it reads streams."""
    stage: Stage
    streams: tuple[str, ...]
    """Relations of the streams that are read."""
    at_once: bool = False
    """Whether its rows feed other windows as they are emitted."""
    relation: Relation = field(default_factory=Relation)
    growth: UnboundedState | None = None

    @property
    def name(self) -> str:
        """Name of the stage, and of the view with its results."""
        return self.stage.name

    @property
    def label(self) -> str:
        """The windowing table function."""
        return str(self.stage.window)


@dataclass(frozen=True, kw_only=True)
class WindowAggregate(_Windows):
    """GROUP BY over windows, stored as partial aggregates per slice or session."""

    stage: AggregateStage


@dataclass(frozen=True, kw_only=True)
class WindowBuffer(_Windows):
    """Rows stored until their windows close, for queries that can't be stored as partial aggregates."""

    stage: RowsStage


WindowOperator: TypeAlias = WindowAggregate | WindowBuffer


@dataclass(frozen=True)
class WindowResults:
    """A query over the rows of closed windows, which arrive together. Without windows it works row by row. No
    state."""

    name: str
    inputs: tuple[Operator, ...]
    """The windows; without windows the sources, if other operators read these too."""
    sql: str
    """Reads windows by their names, and streams by their views."""
    relation: Relation
    label: str
    growth: UnboundedState | None = None
    carried: Mapping[str, str] = field(default_factory=dict)
    """Output column → the window column or group key it holds (``stage.key``)."""
    unique: frozenset[str] | None = None
    """Columns that identify a row of the output; None if nothing does."""
    ranks: tuple[str, ...] = ()
    """Rankings that a filter limits, as written."""
    grouped_rows: tuple[Window, ...] = ()
    """Windows whose buffered rows a GROUP BY reads."""
    certain: bool = True
    """Whether no operation in it can multiply a row."""
    closed: bool = True
    """Whether the window columns in its output belong to closed windows, so that all rows of a window arrive
    at once."""
    written: str = ""
    """`sql` as written in the model, if it differs; for display."""

    @property
    def windows(self) -> tuple[WindowOperator, ...]:
        """Returns the windows below it, inputs first."""
        return tuple(each for each in in_order(self) if isinstance(each, WindowOperator))

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Returns the stage of each window."""
        return tuple(each.stage for each in self.windows)

    @property
    def at_once(self) -> bool:
        """Whether its windows feed other windows as they are emitted."""
        return any(each.at_once for each in self.windows)

    @property
    def grouped(self) -> list[Window]:
        """Returns the windows whose rows are grouped."""
        own = [each.stage.window for each in in_order(self) if isinstance(each, WindowAggregate)]
        return [*own, *self.grouped_rows]


@dataclass(frozen=True)
class WindowChanges:
    """Changelog of windows that fire several times: a new result of a window retracts the rows of the one
    before."""

    name: str
    inputs: tuple[Operator, ...]
    """`WindowResults` of one stage: all rows of the windows that have a result in this micro-batch."""
    end: str
    """Column with the window's end."""
    start: str | None
    """Column with the window's start, where later rows can change a window's bounds; None if they can't."""
    by: tuple[tuple[str, str], ...]
    """Partition columns of such windows: name in the result, and name in the relation of windows that fired."""
    relation: Relation
    label: str
    growth: UnboundedState | None = None


@dataclass(frozen=True)
class Project:
    """Row by row: projection, filter, LATERAL VIEW, joins with static tables. No state."""

    name: str
    inputs: tuple[Operator, ...]
    sql: str
    """Has the weight among its columns if the input has one."""
    relation: Relation
    label: str
    growth: UnboundedState | None = None


@dataclass(frozen=True)
class MaterializedProject:
    """A projection of an updating table that may give another result when computed again: a static table may
    have changed, and rand() differs. The output of each row is stored, and retracted as it was."""

    name: str
    inputs: tuple[Operator, ...]
    sql: str
    """Has `GIVEN_BY`, which each input row has, among its columns."""
    relation: Relation
    label: str
    growth: UnboundedState | None = None
    ends: tuple[str, ...] = ()
    """See `GroupAggregate.ends`."""


GIVEN_BY = "__given_by"
"""Column of a `MaterializedProject`'s input and output that holds the source row."""


@dataclass(frozen=True)
class UnionAll:
    """The rows of all inputs. No state."""

    name: str
    inputs: tuple[Operator, ...]
    relation: Relation
    label: str = "UNION ALL"
    growth: UnboundedState | None = None


@dataclass(frozen=True)
class Local:
    """A query that needs only the rows of this micro-batch that arrived together. No state."""

    name: str
    inputs: tuple[Operator, ...]
    sql: str
    relation: Relation
    label: str
    growth: UnboundedState | None = None


@dataclass(frozen=True)
class GroupAggregate:
    """GROUP BY stored as partial aggregates per key. For each affected key it retracts the old row and
    inserts the new one."""

    name: str
    inputs: tuple[Operator, ...]
    stage: GroupStage
    relation: Relation
    label: str
    growth: UnboundedState | None = None
    groups: str = ""
    """Identity of the groups, independent of the aggregates."""
    ends: tuple[str, ...] = ()
    """Per input, the column with the end of the window with which its rows expire; empty if they don't expire
    with windows."""
    lasts: int = 0
    """Microseconds after that end in which rows may still arrive."""


@dataclass(frozen=True)
class WindowRows:
    """Returns each row once per tumble, hop or cumulate window that it is in, immediately. No state."""

    name: str
    inputs: tuple[Operator, ...]
    sql: str
    relation: Relation
    label: str
    window: Window
    growth: UnboundedState | None = None


@dataclass(frozen=True)
class WindowClose:
    """Holds back changes of open windows until they close; changes of closed windows pass through."""

    name: str
    inputs: tuple[Operator, ...]
    window_end: str
    """Column with the window's end, which the watermark must have reached."""
    relation: Relation
    label: str
    growth: UnboundedState | None = None
    lasts: int | None = None
    """Microseconds after the window's end in which rows may still arrive. The window closes then, and is
    final. None if unknown: it closes at its end, and later changes pass through."""


@dataclass(frozen=True)
class SetOperation:
    """DISTINCT, UNION, INTERSECT and EXCEPT, stored as the multiplicity of each row on either side."""

    name: str
    inputs: tuple[Operator, ...]
    times: str
    """SQL for the multiplicity of a row in the result, over ``l`` and ``r``, its multiplicities on either
    side."""
    relation: Relation
    label: str
    growth: UnboundedState | None = None
    ends: tuple[str, ...] = ()
    """See `GroupAggregate.ends`."""


@dataclass(frozen=True)
class LateRows:
    """Counts rows behind the watermark, because the rows they would have met may have expired, and returns
    them with the others. Rows without a time are dropped and counted. No state."""

    name: str
    inputs: tuple[Operator, ...]
    time: str
    """Column that the watermark is measured on."""
    relation: Relation
    label: str = "late rows counted"
    growth: UnboundedState | None = None

    @property
    def rows(self) -> str:
        """Returns the name of its `Rows`."""
        return f"{self.name}_rows"


@dataclass(frozen=True)
class Join:
    """An inner join of changing inputs: the changes of each input joined with all rows of the others."""

    name: str
    inputs: tuple[Operator, ...]
    sql: str
    """Has the product of the inputs' weights among its columns."""
    relation: Relation
    label: str
    growth: UnboundedState | None = None
    ends: tuple[str, ...] = ()
    """See `GroupAggregate.ends`."""
    until: tuple[Until, ...] = ()
    """Per input, the watermark until which a row may find matches. Empty if unknown."""


@dataclass(frozen=True)
class OuterIntervalJoin:
    """An outer or anti interval join of append-only inputs. Pairs are emitted when they meet; a row without a
    match is emitted once, when it can't find one any more."""

    name: str
    inputs: tuple[Operator, ...]
    sql: str
    relation: Relation
    label: str
    pairs: str | None
    """SQL of the inner join; None if no pairs are emitted."""
    alone: tuple[str | None, ...]
    """Per input, SQL for its rows without a match, over both inputs; None if they aren't part of the result."""
    meet: tuple[str | None, ...]
    """Per input, SQL for its rows that have a match."""
    until: tuple[Until, ...]
    """Per input, the watermark until which a row is stored."""
    due: tuple[Until, ...]
    """Per input, the watermark until which a row may find matches."""
    growth: UnboundedState | None = None


@dataclass(frozen=True)
class TemporalFilter:
    """A predicate on event time and the current time: rows of append-only input are inserted, and retracted
    when the watermark is after the bound."""

    name: str
    inputs: tuple[Operator, ...]
    """One, with the rows' event time in the column `ROW_TIME`, which isn't passed on."""
    lasts: int
    """Microseconds of event time for which a row stays in the result."""
    relation: Relation
    label: str
    growth: UnboundedState | None = None


ROW_TIME = "__event_time"
"""Column of a `TemporalFilter`'s input with a row's event time."""


@dataclass(frozen=True)
class OverAggregate:
    """OVER in order of event time, over append-only input: each row is emitted once, when no row before it
    can arrive any more."""

    name: str
    inputs: tuple[Operator, ...]
    sql: str
    """Has the weight among its columns: 1 for a row to emit, 0 for a row that only frames of other rows read."""
    keys: tuple[str, ...]
    """Partition keys, over `alias`."""
    alias: str
    time: str
    """First column of the order."""
    reach: FrameExtent
    relation: Relation
    label: str
    waits: bool = True
    """Whether rows arrive in any order and are buffered until the watermark has reached their time; otherwise
    they arrive in order."""
    growth: UnboundedState | None = None
    until: Until = ()
    """Watermark until which a partition may get rows, known from a key that holds event time; empty if
    unknown."""
    running: tuple[RunningValue, ...] = ()
    """Running aggregates, for which the last row of a partition is stored; empty if rows are stored."""
    written: str = ""
    """The query with its original aggregates, where `sql` uses `running` values."""


@dataclass(frozen=True)
class Recompute:
    """Any other query, computed over all rows of the affected partitions, minus its previous result."""

    name: str
    inputs: tuple[Operator, ...]
    sql: str
    keys: tuple[tuple[str, ...], ...]
    """Per input, the partition expressions over its alias; empty if everything is recomputed."""
    aliases: tuple[str, ...]
    """Name of each input in the keys."""
    relation: Relation
    label: str
    top: TopRows | None = None
    growth: UnboundedState | None = None
    busy: str | None = None
    """SQL over ``own``, an input's row, for the time until which the row keeps its partition from being idle.
    None if that is its arrival."""
    ends: tuple[str, ...] = ()
    """See `GroupAggregate.ends`."""

    until: tuple[Until, ...] = ()
    """See `Join.until`."""

    asks_for_rows: bool = False
    """Whether it has a subquery in its select list, or LATERAL."""

    shown: tuple[str, ...] | None = None
    """Columns with the keys of a GROUP BY that is the result, in lower case; None if the result is something
    else."""

    always: tuple[int, ...] = ()
    """Indexes of the inputs that contribute a row to each result row."""

    @property
    def is_anchored(self) -> bool:
        """Whether a row that expires under a TTL contributes to each result row. If so, rows that don't
        expire are stored for later rows of that input; if not, they prevent their partitions from expiring."""
        return not all(stay(self.inputs[number]) for number in self.always)

    @property
    def is_whole(self) -> bool:
        """Whether everything is recomputed, since no partition limits it."""
        return not any(self.keys)


@dataclass(frozen=True)
class TopRows:
    """The only rows of an append-only input that a ranking needs."""

    place: str
    """The rank's SQL, over the input's alias."""
    rows: int
    where: str | None
    """Condition that rows must meet to be ranked."""


BY, ORDER, ID = "__by_", "__order_", "__id_"
"""Prefixes of the columns of a `TopN`'s input: partition keys, order keys, and keys that identify a group."""


@dataclass(frozen=True)
class TopN:
    """Top-N. Over append-only rows it stores the rows that are among the first N. Over groups, whose ranks
    change, it stores the groups that are among the first N, and reads the groups' state when one of these
    falls."""

    name: str
    inputs: tuple[Operator, ...]
    """One: append-only rows, or groups, or a row-by-row query over groups."""
    sql: str
    """SQL of the rows to rank: with the weight, if they have one, and columns whose names begin with `BY`,
    `ORDER` and `ID`."""
    relation: Relation
    label: str
    top: Ranking
    """The ranking, partitioned by the columns that begin with `BY` and ordered by the row's column."""
    rank: str
    """Column of the rank."""
    written: str
    """SELECT with the ranking, over its input."""
    orders: int
    """Number of columns that begin with `ORDER`."""
    ids: tuple[str, ...]
    """Columns that begin with `ID`, which identify a group."""
    columns: tuple[str, ...] | None
    """Columns of the result in order; None if they aren't known by name, and the rank is the last one."""
    of_groups: tuple[str, ...] | None
    """Keys of the groups that it partitions by; None if it partitions by something else."""
    improves: bool
    """Whether a group's rank can only get better when rows of it are added."""
    descends: bool | None = None
    """Whether the first order key is descending; None if that key can't exclude rows from the first N."""
    growth: UnboundedState | None = None
    of_ids: tuple[str, ...] = ()
    """Columns of the groups that `ids` are, where groups expire."""
    shown: tuple[str | None, ...] = ()
    """Columns of the result with the partition keys, in lower case; None for a key that isn't in the result."""
    final: bool = False
    """Whether a row is emitted once, when no other row can come before it any more: the first rows in order
    of event time."""


Until: TypeAlias = tuple[tuple[str, int], ...]
"""Pairs of a column and microseconds after its value; the watermark that counts is the last of these."""

Operator: TypeAlias = (
    Source
    | ChangelogNormalize
    | WindowAggregate
    | WindowBuffer
    | WindowResults
    | WindowChanges
    | WindowRows
    | WindowClose
    | Project
    | MaterializedProject
    | UnionAll
    | Local
    | GroupAggregate
    | SetOperation
    | LateRows
    | Join
    | OuterIntervalJoin
    | TemporalFilter
    | OverAggregate
    | Recompute
    | TopN
)


@dataclass(frozen=True)
class Dataflow:
    """A query as a tree of operators; equal subtrees are one operator."""

    root: Operator
    key: tuple[str, ...] | None
    """Columns that identify a row of the result, if the result is an updating table."""
    operators: tuple[Operator, ...] = field(default=())
    """All operators, inputs first."""

    @property
    def windows(self) -> WindowResults | None:
        """Returns the result, if the query consists of windows only; None if there are no windows, or other operators
        above them."""
        return self.root if isinstance(self.root, WindowResults) else None

    @property
    def is_stateless(self) -> bool:
        """Whether rows are only passed through and nothing is stored."""
        if self.windows is not None:
            return not self.windows.stages
        passed = all(isinstance(each, Source | Project | UnionAll) for each in self.operators)
        uses = Counter(each.name for operator in self.operators for each in operator.inputs)
        # Non-deterministic rows with several readers are computed once, so they have to be stored.
        once = all(each.relation.repeatable or uses[each.name] <= 1 for each in self.operators)
        return passed and once and not self.root.relation.changes

    @property
    def groups(self) -> dict[str, GroupAggregate]:
        """Returns each GROUP BY under the name of its state.

        The name depends on the groups only, so that aggregates can be added and removed. Two GROUP BY over the same
        groups are distinguished by their aggregates.
        """
        found = [each for each in self.operators if isinstance(each, GroupAggregate)]
        times = Counter(each.groups for each in found)
        return {each.groups if times[each.groups] == 1 else each.name: each for each in found}

    @property
    def windowed(self) -> tuple[Stage, ...]:
        """Returns the stages with windows."""
        windows = (each for each in self.operators if isinstance(each, WindowOperator))
        return tuple(each.stage for each in windows)

    @property
    def has_windows(self) -> bool:
        """Whether the query has windows."""
        return bool(self.windowed) or any(isinstance(each, WindowRows) for each in self.operators)

    @property
    def grouped(self) -> list[Window]:
        """Returns the windows whose rows are grouped."""
        below = [each.grouped for each in self.operators if isinstance(each, WindowResults)]
        rows = {each.name: each.window for each in self.operators if isinstance(each, WindowRows)}
        groups = [each for each in self.operators if isinstance(each, GroupAggregate)]
        over = [rows[below.name] for each in groups for below in in_order(each) if below.name in rows]
        return [*(window for each in below for window in each), *over]


def ttl_of(operator: Operator, ttl: int | None) -> int | None:
    """Microseconds until an operator's state expires, when it is idle or its window has ended; None for
    never."""
    if getattr(operator, "ends", ()):
        lasts: int = getattr(operator, "lasts", 0)
        return lasts
    return None if keeps(operator) else ttl


def ttl_over(operator: Operator, ttl: int | None) -> int | None:
    """Microseconds until stored rows of an operator expire; None for never. Rows of a changelog or an upsert
    source don't expire: they are retracted when they are deleted, so they are bounded."""
    return None if stay(operator) else ttl


def keeps(operator: Operator) -> bool:
    """Whether an operator's state never expires: either its input rows don't, or it is a single global group,
    which is never idle."""
    return in_one_piece(operator) or all(map(stay, operator.inputs or (operator,)))


def stay(operator: Operator) -> bool:
    """Whether the rows that an operator returns never expire: they stay until they are retracted."""
    found: dict[str, bool] = {}
    for each in in_order(operator):
        below = [found[other.name] for other in each.inputs]
        if isinstance(each, ChangelogNormalize | Source):
            stays = isinstance(each, ChangelogNormalize) or each.changelog
        elif isinstance(each, Recompute) and each.always:
            # A partition doesn't expire while it has such rows.
            stays = all(below[number] for number in each.always)
        elif isinstance(each, SetOperation) and each.label.startswith(("INTERSECT", "EXCEPT")):
            stays = any(below) if each.label.startswith("INTERSECT") else below[0]
        else:
            stays = in_one_piece(each) or (bool(below) and all(below))
        found[each.name] = stays
    return found[operator.name]


def is_mixed(inputs: Sequence[Operator]) -> bool:
    """Whether some inputs' rows never expire, and other inputs' rows expire under a TTL."""
    found = {stay(each) for each in inputs}
    return len(found) > 1


def in_one_piece(operator: Operator) -> bool:
    """Whether the operator has a single global group: an aggregate without keys, or a Top-N without PARTITION
    BY over append-only input."""
    if isinstance(operator, GroupAggregate):
        return not operator.stage.keys
    return isinstance(operator, TopN) and not (operator.top.partition or operator.inputs[0].relation.changes)


def has_rows_of_nothing(operator: Operator) -> bool:
    """Returns whether an operator may return rows for empty inputs: a global aggregate does, and a query that
    is recomputed as a whole may."""
    if isinstance(operator, GroupAggregate):
        return not operator.stage.keys
    return isinstance(operator, Recompute) and operator.is_whole


def is_timed(operator: Operator) -> bool:
    """Whether an operator's output depends on the watermark, even without a TTL."""
    if isinstance(operator, Source | ChangelogNormalize | Project | MaterializedProject | UnionAll):
        return False
    if isinstance(operator, GroupAggregate | SetOperation | Recompute | Join):
        return bool(operator.ends) or bool(getattr(operator, "until", ()))
    return operator.final if isinstance(operator, TopN) else True


def row_by_row(operator: Operator) -> tuple[list[Project], Operator]:
    """Splits off the `Project` operators at the top: returns them, the lowest first, and the operator below."""
    path: list[Project] = []
    while isinstance(operator, Project):
        path.insert(0, operator)
        (operator,) = operator.inputs
    return path, operator


def in_order(root: Operator) -> Iterator[Operator]:
    """Yields an operator and all operators below it, inputs first, each once."""
    seen: set[str] = set()

    def walk(node: Operator) -> Iterator[Operator]:
        if node.name in seen:
            return
        seen.add(node.name)
        for each in node.inputs:
            yield from walk(each)
        yield node

    yield from walk(root)
