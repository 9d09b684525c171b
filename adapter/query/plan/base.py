"""The operators: frozen dataclasses, each with its inputs and what flows out of it.

An operator's `name` is a digest of what it computes, so that its state keeps its identity when the text around
it changes. Its SQL reads the relations ``__input_0``, ``__input_1`` …, its inputs.
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
    """What an operator's SQL calls its input."""
    return f"__input_{number}"


def over(text: str, relations: Sequence[str]) -> str:
    """An operator's SQL over its inputs, which are queries."""
    inputs = ",\n".join(f"{input_name(n)} as (\n{each}\n)" for n, each in enumerate(relations))
    return f"with {inputs}\n{text}"


OVER_LIFE = "__life"
"""What an `OverAggregate` also partitions by under a TTL."""


@dataclass(frozen=True)
class UnboundedState:
    """What an operator's state grows with, where nothing bounds it."""

    what: str
    """What is kept, in the words of a sentence: "a row for every value of k"."""
    columns: frozenset[str] | None
    """The columns whose sets of values must not grow for the state to be bounded; None: no such columns exist."""
    instead: str = ""
    """What may be missing in the query, as a sentence of its own."""
    or_else: str = ""
    """What else would bound it, at the end of a sentence."""


@dataclass(frozen=True)
class Source:
    """The new rows of a stream, or the changes in a changelog."""

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


@dataclass(frozen=True)
class WindowAggregate:
    """GROUP BY over windows, kept as partial aggregates per slice or session: a window's rows come when it closes."""

    name: str
    inputs: tuple[Operator, ...]
    """Windows whose results it is over; empty: it reads streams."""
    stage: AggregateStage
    streams: tuple[str, ...]
    """The relations of the streams it reads."""
    relation: Relation
    label: str
    growth: UnboundedState | None = None
    at_once: bool = False
    """Whether it feeds other windows, as its rows come."""


@dataclass(frozen=True)
class WindowBuffer:
    """Rows kept until their windows close, for what can't be kept as partial aggregates."""

    name: str
    inputs: tuple[Operator, ...]
    """As of `WindowAggregate`."""
    stage: RowsStage
    streams: tuple[str, ...]
    """As of `WindowAggregate`."""
    relation: Relation
    label: str
    growth: UnboundedState | None = None
    at_once: bool = False
    """As of `WindowAggregate`."""


@dataclass(frozen=True)
class WindowResults:
    """A query over the rows of windows that have closed, which come together; over no windows, row by row. No state."""

    name: str
    inputs: tuple[Operator, ...]
    """The windows; without any the sources, where others read these, too."""
    sql: str
    """Reads windows by their names, and streams by their views."""
    relation: Relation
    label: str
    growth: UnboundedState | None = None
    carried: Mapping[str, str] = field(default_factory=dict)
    """Output column → the window column or group key it carries (``stage.key``)."""
    unique: frozenset[str] | None = None
    """What identifies a row of the output; None: nothing does."""
    ranks: tuple[str, ...] = ()
    """The rankings that a filter ends, as the user wrote them."""
    grouped_rows: tuple[Window, ...] = ()
    """The windows whose kept rows a GROUP BY is over."""
    certain: bool = True
    """Whether nothing in it can make two rows of one."""
    closed: bool = True
    """Whether the window columns it carries are of windows that have closed: all rows of one come at once."""
    written: str = ""
    """`sql` as its author wrote it, where that is another text: for looking at."""

    @property
    def windows(self) -> tuple[WindowAggregate | WindowBuffer, ...]:
        """The windows below it, lower ones first."""
        return tuple(each for each in in_order(self) if isinstance(each, WindowAggregate | WindowBuffer))

    @property
    def stages(self) -> tuple[Stage, ...]:
        """What each of these keeps."""
        return tuple(each.stage for each in self.windows)

    @property
    def at_once(self) -> bool:
        """Whether its windows feed other windows, as their rows come."""
        return any(each.at_once for each in self.windows)

    @property
    def grouped(self) -> list[Window]:
        """The windows whose rows are grouped."""
        own = [each.stage.window for each in in_order(self) if isinstance(each, WindowAggregate)]
        return [*own, *self.grouped_rows]


@dataclass(frozen=True)
class WindowChanges:
    """Results of windows that have several: of each window that has one now the rows of before are retracted."""

    name: str
    inputs: tuple[Operator, ...]
    """`WindowResults` of one stage: all rows of the windows that have a result now."""
    end: str
    """The column with the window's end."""
    start: str | None
    """That with its start, where a window may be another one when more rows come; None: it stays what it is."""
    by: tuple[tuple[str, str], ...]
    """Columns that such windows are partitioned by: of the result, and of the windows that have one."""
    relation: Relation
    label: str
    growth: UnboundedState | None = None


@dataclass(frozen=True)
class Project:
    """Row by row: projection, filter, LATERAL VIEW, joins with static tables. No state."""

    name: str
    inputs: tuple[Operator, ...]
    sql: str
    """With the weight among its columns where the input has one."""
    relation: Relation
    label: str
    growth: UnboundedState | None = None


@dataclass(frozen=True)
class MaterializedProject:
    """The same of rows that change, where what they give isn't the same when it is computed again: a table that is no
    stream may have other rows by then, and rand() another value. What each row gave is kept, and taken back as it was."""

    name: str
    inputs: tuple[Operator, ...]
    sql: str
    """With `GIVEN_BY` among its columns, which each row of the input has."""
    relation: Relation
    label: str
    growth: UnboundedState | None = None
    ends: tuple[str, ...] = ()
    """As of `GroupAggregate`."""


GIVEN_BY = "__given_by"
"""The column of a `MaterializedProject`'s input and result with the row that gives it."""


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
    """A query that needs only the rows that came together in this micro-batch. No state."""

    name: str
    inputs: tuple[Operator, ...]
    sql: str
    relation: Relation
    label: str
    growth: UnboundedState | None = None


@dataclass(frozen=True)
class GroupAggregate:
    """GROUP BY kept as partial aggregates per key; of each touched key the old row is retracted, the new one put in."""

    name: str
    inputs: tuple[Operator, ...]
    stage: GroupStage
    relation: Relation
    label: str
    growth: UnboundedState | None = None
    groups: str = ""
    """What tells the groups themselves, whatever is computed of them."""
    ends: tuple[str, ...] = ()
    """By input, the column with the end of the window with which its rows go; empty: they don't go with windows."""
    lasts: int = 0
    """For how many microseconds after that end rows may still come."""


@dataclass(frozen=True)
class WindowRows:
    """Each row once for each window it is in, at once: of tumble, hop and cumulate. No state."""

    name: str
    inputs: tuple[Operator, ...]
    sql: str
    relation: Relation
    label: str
    window: Window
    growth: UnboundedState | None = None


@dataclass(frozen=True)
class WindowClose:
    """Holds changes of open windows back until these close; what changes in a closed one is passed on at once."""

    name: str
    inputs: tuple[Operator, ...]
    window_end: str
    """The column whose value the watermark must be at."""
    relation: Relation
    label: str
    growth: UnboundedState | None = None
    lasts: int | None = None
    """For how many microseconds after that its rows may still come: it closes then, and nothing of it changes any more.
    None: that can't be told, so it closes at once, and its changes are passed on."""


@dataclass(frozen=True)
class SetOperation:
    """DISTINCT, UNION, INTERSECT and EXCEPT: how often each row is there, on either side."""

    name: str
    inputs: tuple[Operator, ...]
    times: str
    """How often a row is in the result: SQL over ``l`` and ``r``, how often it is on either side."""
    relation: Relation
    label: str
    growth: UnboundedState | None = None
    ends: tuple[str, ...] = ()
    """As of `GroupAggregate`."""


@dataclass(frozen=True)
class LateRows:
    """The rows that it reads, those behind the watermark among them: these are counted, as what they would have met may
    be forgotten. Rows without a time are dropped and counted. No state."""

    name: str
    inputs: tuple[Operator, ...]
    time: str
    """The column that the watermark is measured on."""
    relation: Relation
    label: str = "late rows counted"
    growth: UnboundedState | None = None

    @property
    def rows(self) -> str:
        """What its rows are called when they are looked through."""
        return f"{self.name}_rows"


@dataclass(frozen=True)
class Join:
    """An inner join of changing inputs: the change of each joined with all rows of the others."""

    name: str
    inputs: tuple[Operator, ...]
    sql: str
    """With the product of the inputs' weights among its columns."""
    relation: Relation
    label: str
    growth: UnboundedState | None = None
    ends: tuple[str, ...] = ()
    """As of `GroupAggregate`."""
    until: tuple[Until, ...] = ()
    """By input, until when a row of it may find others. Empty: that can't be told."""


@dataclass(frozen=True)
class OuterIntervalJoin:
    """An outer or anti join of two relations whose rows only come, bounded in time: pairs come as they meet, and a row
    that has met none comes once, when it can meet none any more."""

    name: str
    inputs: tuple[Operator, ...]
    sql: str
    relation: Relation
    label: str
    pairs: str | None
    """The same as an inner join; None: it gives no pairs."""
    alone: tuple[str | None, ...]
    """By input its rows that meet none of the other's, as SQL over both; None: they aren't asked for."""
    meet: tuple[str | None, ...]
    """The same of those that meet some."""
    until: tuple[Until, ...]
    """By input, until when a row is kept."""
    due: tuple[Until, ...]
    """By input, until when a row may find others."""
    growth: UnboundedState | None = None


@dataclass(frozen=True)
class TemporalFilter:
    """A predicate on event time and its clock: rows that only come are put in, and taken out when the watermark has passed
    the bound."""

    name: str
    inputs: tuple[Operator, ...]
    """One, with the rows' event time in the column `ROW_TIME`, which isn't handed on."""
    lasts: int
    """Microseconds of event time for which a row is in the result, from its own."""
    relation: Relation
    label: str
    growth: UnboundedState | None = None


ROW_TIME = "__event_time"
"""The column of a `TemporalFilter`'s input with a row's event time."""


@dataclass(frozen=True)
class OverAggregate:
    """OVER in order of event time, of rows that only come: each is put out once, when no row before it can come any more."""

    name: str
    inputs: tuple[Operator, ...]
    sql: str
    """With the weight among its columns: 1 of a row that is put out, 0 of one that only frames reach back to."""
    keys: tuple[str, ...]
    """What partitions the rows, over `alias`."""
    alias: str
    time: str
    """The column that is ordered by first."""
    reach: FrameExtent
    relation: Relation
    label: str
    waits: bool = True
    """Whether rows come in any order, and wait until the watermark has passed their time; else they come in order."""
    growth: UnboundedState | None = None
    until: Until = ()
    """Until when a partition may get rows, by a key that carries event time; empty: that can't be told."""
    running: tuple[RunningValue, ...] = ()
    """The values that are put together with those of the rows before: of these one row is kept. Empty: rows are kept."""
    written: str = ""
    """The query with its aggregates as they were, where `sql` is of `running` values."""


@dataclass(frozen=True)
class Recompute:
    """Anything else: the query over all rows of the touched partitions, less what it gave before."""

    name: str
    inputs: tuple[Operator, ...]
    sql: str
    keys: tuple[tuple[str, ...], ...]
    """For each input the expressions that partition it, over its alias; empty: all is computed anew."""
    aliases: tuple[str, ...]
    """What the keys call each input."""
    relation: Relation
    label: str
    top: TopRows | None = None
    growth: UnboundedState | None = None
    busy: str | None = None
    """Until when a row keeps its partition from being idle: SQL over ``own``, an input's row. None: until it comes."""
    ends: tuple[str, ...] = ()
    """As of `GroupAggregate`."""

    until: tuple[Until, ...] = ()
    """As of `Join`."""

    asks_for_rows: bool = False
    """Whether a query stands in its select list, or in LATERAL."""

    shown: tuple[str, ...] | None = None
    """Of a GROUP BY that is the result, the columns with its keys, in lower case; None: it is something else."""

    always: tuple[int, ...] = ()
    """The numbers of inputs of which each row of the result has a row."""

    @property
    def is_anchored(self) -> bool:
        """Whether each row of the result is made with a row that expires under a TTL. Then it is what that has met, and
        inputs that stay are there for those that come later; else these keep their partitions from expiring."""
        return not all(stay(self.inputs[number]) for number in self.always)

    @property
    def is_whole(self) -> bool:
        """Whether no partition limits what is computed anew."""
        return not any(self.keys)


@dataclass(frozen=True)
class TopRows:
    """The only rows of an append-only input that a ranking needs."""

    place: str
    """The rank's SQL, over the input's alias."""
    rows: int
    where: str | None
    """The condition that rows pass before they are ranked."""


BY, ORDER, ID = "__by_", "__order_", "__id_"
"""What the columns of a `TopN`'s rows begin with that say what they are ranked within and by, and which group they are."""


@dataclass(frozen=True)
class TopN:
    """The first rows of a ranking: over rows that only come, of which those are kept that are among the first; or over
    groups, whose places change: then its members are kept, and where one falls the groups are read."""

    name: str
    inputs: tuple[Operator, ...]
    """One: rows that only come; or groups, or what is computed from them row by row."""
    sql: str
    """The rows that are ranked: with the weight, if they have one, and columns that begin with `BY`, `ORDER` and `ID`."""
    relation: Relation
    label: str
    top: Ranking
    """Within the columns that begin with `BY`, by an order over the column with a row."""
    rank: str
    """The column of the place."""
    written: str
    """The SELECT of the ranking, over its input."""
    orders: int
    """How many columns there are that begin with `ORDER`."""
    ids: tuple[str, ...]
    """Those that begin with `ID`: of groups."""
    columns: tuple[str, ...] | None
    """The result's, in order; None: they aren't known by name, and the rank is the last."""
    of_groups: tuple[str, ...] | None
    """The keys of the groups that it is within; None: something else."""
    improves: bool
    """Whether a group's place can only get better through its own rows."""
    descends: bool | None = None
    """Whether what rows are ordered by first is so in descending order; None: that doesn't say which of them can't be among
    the first."""
    growth: UnboundedState | None = None
    of_ids: tuple[str, ...] = ()
    """The groups' columns that `ids` are, where groups expire."""
    shown: tuple[str | None, ...] = ()
    """The result's columns with what it is within, in lower case; None: there is none with that."""
    final: bool = False
    """Whether a row comes once, when no other can come before it any more: the first in order of event time."""


Until: TypeAlias = tuple[tuple[str, int], ...]
"""Watermarks, the last of which is meant: columns of a row, and microseconds after each."""

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
    """A query as a tree of operators; equal parts of it are one operator."""

    root: Operator
    key: tuple[str, ...] | None
    """The columns that identify a row of the result, where rows change."""
    operators: tuple[Operator, ...] = field(default=())
    """All of them, inputs first."""

    @property
    def windows(self) -> WindowResults | None:
        """The result, where windows are all there is; None: other operators stand above them, or there are none."""
        return self.root if isinstance(self.root, WindowResults) else None

    @property
    def is_stateless(self) -> bool:
        """Whether rows are only passed on, and nothing is remembered of them."""
        if self.windows is not None:
            return not self.windows.stages
        passed = all(isinstance(each, Source | Project | UnionAll) for each in self.operators)
        uses = Counter(each.name for operator in self.operators for each in operator.inputs)
        # What another reading would give otherwise is decided once, for all that read it.
        once = all(each.relation.repeatable or uses[each.name] <= 1 for each in self.operators)
        return passed and once and not self.root.relation.changes

    @property
    def groups(self) -> dict[str, GroupAggregate]:
        """Each GROUP BY, by what its state is called: the same while its groups are the same, so that aggregates may come
        and go. Two of the same groups are told apart by their aggregates."""
        found = [each for each in self.operators if isinstance(each, GroupAggregate)]
        times = Counter(each.groups for each in found)
        return {each.groups if times[each.groups] == 1 else each.name: each for each in found}

    @property
    def windowed(self) -> tuple[Stage, ...]:
        """The stages with windows."""
        windows = (each for each in self.operators if isinstance(each, WindowAggregate | WindowBuffer))
        return tuple(each.stage for each in windows)

    @property
    def has_windows(self) -> bool:
        """Whether results come when windows end."""
        return bool(self.windowed) or any(isinstance(each, WindowRows) for each in self.operators)

    @property
    def grouped(self) -> list[Window]:
        """The windows whose rows are grouped."""
        below = [each.grouped for each in self.operators if isinstance(each, WindowResults)]
        rows = {each.name: each.window for each in self.operators if isinstance(each, WindowRows)}
        groups = [each for each in self.operators if isinstance(each, GroupAggregate)]
        over = [rows[below.name] for each in groups for below in in_order(each) if below.name in rows]
        return [*(window for each in below for window in each), *over]


def ttl_of(operator: Operator, ttl: int | None) -> int | None:
    """Microseconds after which what an operator keeps expires when it is idle, or its window has ended; None: never."""
    if getattr(operator, "ends", ()):
        lasts: int = getattr(operator, "lasts", 0)
        return lasts
    return None if keeps(operator) else ttl


def ttl_over(operator: Operator, ttl: int | None) -> int | None:
    """The same of what is kept of an operator's rows. Those of a table that is read through its changes, or whose rows
    replace each other, stay there however long they are idle, and are taken away when they go: they can't grow for ever."""
    return None if stay(operator) else ttl


def keeps(operator: Operator) -> bool:
    """Whether what an operator keeps stays: so do all rows that it is computed from, or it is in one piece, of which nothing
    is idle."""
    return in_one_piece(operator) or all(map(stay, operator.inputs or (operator,)))


def stay(operator: Operator) -> bool:
    """Whether the rows that an operator gives stay until they are taken away."""
    found: dict[str, bool] = {}
    for each in in_order(operator):
        below = [found[other.name] for other in each.inputs]
        if isinstance(each, ChangelogNormalize | Source):
            stays = isinstance(each, ChangelogNormalize) or each.changelog
        elif isinstance(each, Recompute) and each.always:
            # Its partitions don't expire while they have such rows.
            stays = all(below[number] for number in each.always)
        elif isinstance(each, SetOperation) and each.label.startswith(("INTERSECT", "EXCEPT")):
            stays = any(below) if each.label.startswith("INTERSECT") else below[0]
        else:
            stays = in_one_piece(each) or (bool(below) and all(below))
        found[each.name] = stays
    return found[operator.name]


def is_mixed(inputs: Sequence[Operator]) -> bool:
    """Whether rows of some inputs stay, and those of others expire under a TTL."""
    found = {stay(each) for each in inputs}
    return len(found) > 1


def in_one_piece(operator: Operator) -> bool:
    """Whether an operator gives one row of totals, or the first of all rows that only come: as many as the query says, of
    which those that no longer hold are taken back."""
    if isinstance(operator, GroupAggregate):
        return not operator.stage.keys
    return isinstance(operator, TopN) and not (operator.top.partition or operator.inputs[0].relation.changes)


def has_rows_of_nothing(operator: Operator) -> bool:
    """Returns whether an operator may give rows though its inputs have none: a total does, and what is computed anew as a
    whole may."""
    if isinstance(operator, GroupAggregate):
        return not operator.stage.keys
    return isinstance(operator, Recompute) and operator.is_whole


def is_timed(operator: Operator) -> bool:
    """Whether what an operator gives depends on how far event time has come, also where no key expires."""
    if isinstance(operator, Source | ChangelogNormalize | Project | MaterializedProject | UnionAll):
        return False
    if isinstance(operator, GroupAggregate | SetOperation | Recompute | Join):
        return bool(operator.ends) or bool(getattr(operator, "until", ()))
    return operator.final if isinstance(operator, TopN) else True


def row_by_row(operator: Operator) -> tuple[list[Project], Operator]:
    """An operator as what is done row by row, the first step first, over another; and that."""
    path: list[Project] = []
    while isinstance(operator, Project):
        path.insert(0, operator)
        (operator,) = operator.inputs
    return path, operator


def in_order(root: Operator) -> Iterator[Operator]:
    """An operator and all below it, inputs first, each once."""
    seen: set[str] = set()

    def walk(node: Operator) -> Iterator[Operator]:
        if node.name in seen:
            return
        seen.add(node.name)
        for each in node.inputs:
            yield from walk(each)
        yield node

    yield from walk(root)
