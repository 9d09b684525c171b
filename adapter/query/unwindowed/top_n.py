"""SQL of a ranking over a whole stream, or over the groups of one: never all of history is ranked.

`AppendOnlyTopN`
    A row that isn't among the first when it comes in never will be, and isn't kept.
`UpdatableTopN`
    Over groups that can only move up. The members of a ranking and the groups that changed are all
    that can be among the first.
`RetractableTopN`
    The same, but a member that falls may make way for a group that was none. If not enough of the
    candidates stand before where the last member stood, that ranking alone is recomputed from the
    state of all groups it is of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..plan import TopStage
from ..program import EXPIRES_AT, STEP, StatePart, Step, now
from ..ranks import Top
from ..window_buffer import first_of, row_column
from ..windows import quote
from .changelog_normalize import ChangelogNormalize
from .groups import Groups
from .hidden_columns import ROW_TIME
from .key_generations import (
    NO_STEP,
    TIME,
    KeyGenerations,
    comes_due,
    lasts,
    later,
    matching,
    of_keys,
    same,
    touched_in_step,
)

DUE = "due"
"""The column with the watermark at which a row is put out."""


def members_part(stage: str) -> str:
    """The part of the state with the members of a stage's rankings."""
    return f"{stage}_members"


def behind_the_last(
    known: str, front: str, top: Top, keys: Sequence[str], ids: Sequence[str], columns: Sequence[str]
) -> str:
    """The full rankings in which a row that is no candidate may have moved up: not as many candidates stand before where the
    last member stood as there are places. (If so many do, they are the first.)

    Args:
        known: the step with the members of before.
        front: that with the first of the candidates.
        top: the ranking.
        keys: what it is within.
        ids: what tells its rows apart, over those.
        columns: of both steps, the last of them the row.
    """
    by = f"partition by {', '.join(keys)} " if keys else ""
    listed, row = ", ".join(columns), columns[-1]
    total = top.order if top.order.endswith(row) else f"{top.order}, {', '.join(ids)}"
    last = (
        f"select {listed} from (\n"
        f"  select *, row_number() over ({by}order by {total}) as place, count(*) over ({by}) as members\n"
        f"  from {known}\n) where place = members and members >= {top.rows}"
    )
    return (
        f"select {', '.join(keys) or 'true as anything'} from (\n"
        f"  select *, sum(if(is_last, 0, 1)) over ({by}order by {top.order}) as ahead from (\n"
        f"    select {listed}, false as is_last from {front}\n"
        f"    union all\n    select {listed}, true as is_last from (\n{last}\n)\n  )\n"
        f") where is_last and ahead < {top.rows}"
    )


def with_fallen(front: str, fallen: Step, now: str, anew: str, keys: Sequence[str]) -> list[Step]:
    """The steps with the rankings in which others may have moved up, and with all as they are after the batch.

    Args:
        front: the step with the first of the candidates.
        fallen: that with those rankings.
        now: what the last step is called.
        anew: the rows of those rankings, as `front` has its own.
        keys: what rankings are within.
    """
    stay = (
        f"select front.* from {front} as front\n"
        f"left anti join {fallen.name} as fallen on {same('front', 'fallen', keys)}"
    )
    none = f"select {', '.join(keys) or 'true as anything'} from {front} where false"
    return [
        # Of an empty state the candidates are all there is.
        replace(fallen, persist=True, initial=none),
        Step(
            now,
            f"{stay}\nunion all\n{anew}",
            persist=True,
            lazy=True,
            initial=f"select * from {front}",
            unless_empty=fallen.name,
        ),
    ]


class TopN:
    """What both kinds of ranking share.

    Args:
        stage: the stage.
    """

    def __init__(self, stage: TopStage) -> None:
        self.stage, self.name = stage, stage.name
        self.part = members_part(stage.name)
        self.touched = f"{stage.name}_touched"
        self.now = f"{stage.name}_now"
        """The step with the rankings that the batch touches, as they are after it."""
        self.row = row_column(stage.name)
        self.keys = [quote(key.name) for key in stage.keys]
        self.listed = ", ".join(self.keys) or "true as anything"
        """Select items: which ranking it is."""
        self.made_keys = [f"q.`__by_{number}` as {key}" for number, key in enumerate(self.keys)]

    def first(self, rows: str) -> str:
        """Of some rows those that are in the ranking, with their place."""
        return first_of(rows, self.stage.top, self.keys, self.row)

    def _fresh(self) -> str:
        """The rankings that changed, without a look at the state."""
        return self.shown(of_keys(self.now, self.keys, self.touched, in_memory=True))

    def shown(self, rows: str) -> str:
        """The query's columns of ranked rows."""
        count = self.stage.top.order.count("`__order_")
        own = [f"`__by_{number}`" for number in range(len(self.keys))]
        own += [f"`__order_{number}`" for number in range(count)]
        own += [f"`{ROW_TIME}`"] if ROW_TIME in self.stage.rows else []
        rank = f"place as {quote(self.stage.rank)}"
        items = [f"* except ({', '.join(own)})", *self.stage.hidden]
        return f"select {', '.join(items)} from (\nselect {self.row}.*, {rank} from (\n{rows}\n)\n)"


class AppendOnlyTopN(TopN):
    """The pieces of a `TopStage` over rows as they come.

    Args:
        stage: the stage.
        ttl: microseconds after which a ranking without new members is forgotten; None: never.
    """

    def __init__(self, stage: TopStage, ttl: int | None) -> None:
        super().__init__(stage)
        self.rows = f"{stage.name}_rows"
        self.generations = KeyGenerations(stage.name, self.part, self.keys, ttl)
        self.timed = ttl is not None or stage.final

    def rows_text(self) -> str:
        """The stage's rows, with the step they come in."""
        times = [f"q.`{ROW_TIME}` as event_time", f"q.`{ROW_TIME}` as {TIME}"] if self.timed else []
        items = [f"{now(STEP)} as {STEP}", *times, *self.made_keys, f"struct(q.*) as {self.row}"]
        return f"select {', '.join(items)}\nfrom (\n{self.stage.rows}\n) as q"

    def ingest(self) -> list[Step]:
        """The generations of the rankings, and these with the rows of the batch."""
        generations = self.generations.steps(f"select {self.listed} from {self.rows}")
        columns = ", ".join(self._columns())
        new = self.generations.with_since(f"select *{self._added()} from {self.rows}")
        known = matching(self.part, self.keys, self.rows)
        fresh = of_batch = f"select {columns}, true as fresh from (\n{new}\n)"
        if self.stage.final:
            # What is out stays: later rows of its key aren't taken.
            done = f"(select * from (\n{known}\n) where {DUE} <= {now('watermark_before')})"
            on = same("new", "done", [*self.keys, *self.generations.since])
            fresh = f"select new.* from (\n{fresh}\n) as new left anti join {done} as done on {on}"
        both = f"{fresh}\nunion all\nselect {columns}, false as fresh from (\n{known}\n)"
        ranked, initial = self.first(self.generations.latest(both)), self.first(of_batch)
        return [*generations, Step(self.now, ranked, persist=True, lazy=True, initial=initial)]

    def parts(self) -> list[StatePart]:
        """The rows that are, or were, in the ranking."""
        append = f"select {', '.join(self._columns())} from {self.now} where fresh"
        kept = self.first(self.generations.alive(matching(self.part, self.keys, None)))
        folded = ", ".join([NO_STEP, *(name for name in self._columns() if name != STEP)])
        return [
            StatePart(
                self.part,
                append,
                f"select {folded} from (\n{kept}\n)",
                forgets=self.generations.ttl,
                closes=DUE if self.stage.final else None,
            )
        ]

    def _columns(self) -> list[str]:
        return [STEP, *self.generations.columns, *([DUE] if self.stage.final else []), *self.keys, self.row]

    def _added(self) -> str:
        added = self.generations.expiry(TIME)
        if self.stage.final:
            # From then on no row that isn't late can come before it.
            added.append(f"{later(TIME, 1)} as {DUE}")
        return "".join(f", {text}" for text in added)

    def emit(self, whole: bool) -> list[Step]:
        """The rankings that changed; all for `whole`, unless rows that are out never change: then what
        stands above takes them in once."""
        if whole and not self.stage.final:
            rows = self.generations.alive(matching(self.part, self.keys, None))
            return [Step(self.name, self.shown(self.first(rows)))]
        rows = self.first(self.generations.latest(matching(self.part, self.keys, self.touched)))
        if self.stage.final:
            due = comes_due(DUE, "state")
            touched = f"select distinct {self.listed} from state\nwhere part = '{self.part}' and {due}"
            due = comes_due(DUE, "ranked")
            rows = f"select ranked.* from (\n{rows}\n) as ranked where {due}"
            return [Step(self.touched, touched, persist=True), Step(self.name, self.shown(rows))]
        added = f"(select * from {self.now} where fresh)"
        return [
            touched_in_step(self.touched, self.part, self.keys, added),
            Step(self.name, self.shown(rows), fresh=self._fresh()),
        ]


class UpdatableTopN(TopN):
    """The pieces of a `TopStage` over the groups of another stage, whose place only gets better.

    Args:
        stage: the stage.
        groups: those groups.
        anew: whether the step makes the rankings of all groups that the state has; it knows no members then.
    """

    def __init__(self, stage: TopStage, groups: Groups | ChangelogNormalize, anew: bool) -> None:
        super().__init__(stage)
        self.groups, self.anew = groups, anew
        self.ids = [f"{self.row}.{quote(column)}" for column, _ in stage.identity]
        self.new, self.known = f"{stage.name}_new", f"{stage.name}_known"
        self.candidates, self.changes = f"{stage.name}_candidates", f"{stage.name}_changes"
        # A member goes when its group is forgotten.
        self.ttl = groups.generations.ttl if isinstance(groups, Groups) else None
        self._until = [EXPIRES_AT] if self.ttl is not None else []

    def ingest(self) -> list[Step]:
        """From the groups that changed to the members that did."""
        columns = ", ".join([*self.keys, self.row])
        if self.anew:
            return self._of_nothing_known()
        steps = [
            Step(self.new, self._as_candidates(self.stage.rows)),
            Step(
                self.known,
                self._members(self._of_touched_rankings()),
                persist=True,
                lazy=True,
                initial=f"select {columns} from {self.new} where false",
            ),
            Step(
                self.candidates,
                f"select {columns}, false as fresh from {self.known} as known\n"
                f"left anti join {self.groups.changed} as changed on {self._same_group('known')}\n"
                f"union all\nselect {columns}, true as fresh from {self.new}",
            ),
        ]
        steps += self._ranked(self.first(f"select {columns}, fresh from {self.candidates}"))
        is_same = f"{same('known', 'now', self.keys)} and {self._same_ids('known', 'now')}"
        keys = [f"coalesce(now.{key}, known.{key}) as {key}" for key in self.keys]
        row = f"coalesce(now.{self.row}, known.{self.row}) as {self.row}"
        items = [f"{now(STEP)} as {STEP}", *keys, row, f"now.{self.row} is not null as member"]
        # By what came, for a row with a MAP can't be compared with another.
        differs = f"known.{self.row} is null or now.{self.row} is null or now.fresh"
        initial = None
        if self.ttl is not None:
            items.append(f"generations.{EXPIRES_AT}")
            initial = self._changes(
                items, is_same, differs, self._generations(f"select * from {self.groups.changed}")
            )
        generations = "" if self.ttl is None else self._generations(self.groups.known_and_new())
        text = self._changes(items, is_same, differs, generations)
        steps.append(Step(self.changes, text, persist=True, lazy=True, initial=initial))
        return steps

    def _changes(self, items: Sequence[str], is_same: str, differs: str, generations: str) -> str:
        """The members that came, changed or went."""
        return (
            f"select {', '.join(items)}\n"
            f"from {self.known} as known full join {self.now} as now on {is_same}{generations}\n"
            f"where {differs}"
        )

    def _generations(self, rows: str) -> str:
        """A join with until when the groups of members live, going by rows of their state."""
        assert isinstance(self.groups, Groups)
        members = ", ".join(
            f"{self.row}.{quote(column)} as {self._group_key(group)}" for column, group in self.stage.identity
        )
        columns = [self._group_key(group) for _, group in self.stage.identity]
        found = self.groups.generations.latest(
            of_keys(f"(\n{rows}\n)", columns, f"(select {members} from {self.now})")
        )
        by = f"\ngroup by {', '.join(columns)}" if columns else ""
        listed = ", ".join([*columns, f"max({EXPIRES_AT}) as {EXPIRES_AT}"])
        same_group = " and ".join(
            f"now.{self.row}.{quote(column)} <=> generations.{self._group_key(group)}"
            for column, group in self.stage.identity
        )
        return f"\nleft join (\nselect {listed} from (\n{found}\n){by}\n) as generations on {same_group or 'true'}"

    def _ranked(self, candidates: str) -> list[Step]:
        """The rankings as they are after the batch, out of the first of the candidates."""
        return [Step(self.now, candidates, persist=True, lazy=True)]

    def _as_candidates(self, rows: str) -> str:
        """The stage's rows with what they are ranked within."""
        made = ", ".join([*self.made_keys, f"struct(q.*) as {self.row}"])
        return f"select {made}\nfrom (\n{rows}\n) as q"

    def _of_nothing_known(self) -> list[Step]:
        """The members of all rankings out of all groups."""
        rows = self._of_groups("(select true as anything)", [])
        items = [f"{now(STEP)} as {STEP}", *self.keys, self.row, "true as member"]
        return [
            Step(self.now, self.first(self._as_candidates(rows)), persist=True, lazy=True),
            Step(self.changes, f"select {', '.join(items)} from {self.now}", persist=True, lazy=True),
        ]

    def _of_groups(self, wanted: str, by: list[str]) -> str:
        """The stage's rows out of the groups that are wanted, of those that the state has and those that came."""
        text = self.groups.of(self.groups.known_and_new(), wanted, by)
        # The query below reads the groups under their stage's name, which are those that changed.
        return f"with {self.groups.name} as (\n{text}\n)\n{self.stage.rows}"

    def _group_keys(self) -> list[str] | None:
        """The keys of the groups that rankings are within; None: something else."""
        return None if self.stage.within is None else [self._group_key(name) for name in self.stage.within]

    def _group_key(self, column: str) -> str:
        """What the state calls a column that tells groups apart."""
        place = [group for _, group in self.stage.identity].index(column)
        return self.groups.keys[place]

    def _of_touched_rankings(self) -> str:
        """The state of the rankings that groups of the batch are, or were, in."""
        state = matching(self.part, self.keys, None)
        by = self._group_keys()
        if by is None or not self.keys:
            return state
        named = ", ".join(f"{group} as {key}" for key, group in zip(self.keys, by, strict=True))
        return of_keys(f"({state})", self.keys, f"(select {named} from {self.groups.changed})")

    def _members(self, state: str, at: str = "watermark_before") -> str:
        """Who is in the rankings, by the last that the state says of each, and not forgotten by then."""
        keys = [*self.keys, *(f"{identity} as `__id_{n}`" for n, identity in enumerate(self.ids))]
        by = [*self.keys, *(f"`__id_{number}`" for number in range(len(self.ids)))]
        kept = ["member", self.row, *self._until]
        last = f"max_by(struct({', '.join(kept)}), coalesce({STEP}, -1L)) as last"
        shown = [f"last.{name} as {name}" for name in kept[1:]]
        gone = f" and {lasts(f'last.{EXPIRES_AT}', at)}" if self._until else ""
        return (
            f"select {', '.join([*self.keys, *shown])} from (\n"
            f"  select {', '.join([*by, last])} from (\n"
            f"    select {', '.join([*keys, STEP, *kept])} from (\n{state}\n)\n  )\n"
            f"  group by {', '.join(by)}\n"
            f") where last.member{gone}"
        )

    def _same_group(self, alias: str) -> str:
        return " and ".join(
            f"{alias}.{self.row}.{quote(column)} <=> changed.{self._group_key(group)}"
            for column, group in self.stage.identity
        )

    def _same_ids(self, one: str, other: str) -> str:
        return " and ".join(f"{one}.{identity} <=> {other}.{identity}" for identity in self.ids)

    def parts(self) -> list[StatePart]:
        """Members that came, changed or went."""
        columns = ", ".join([STEP, *self.keys, self.row, "member", *self._until])
        folded = ", ".join([NO_STEP, *self.keys, self.row, "true as member", *self._until])
        fold = f"select {folded} from (\n{self._members(matching(self.part, self.keys, None), 'watermark_after')}\n)"
        append = f"select {columns} from {self.changes}"
        return [StatePart(self.part, append, fold, closes=None, forgets=self.ttl)]

    def emit(self, whole: bool) -> list[Step]:
        """The rankings that changed; all for `whole`."""
        state = matching(self.part, self.keys, None if whole else self.touched)
        rows = self.shown(self.first(self._members(state)))
        if whole:
            return [Step(self.name, rows)]
        touched = touched_in_step(self.touched, self.part, self.keys, self.changes)
        return [touched, Step(self.name, rows, fresh=self._fresh())]


class RetractableTopN(UpdatableTopN):
    """The same over groups that may fall.

    Args:
        stage: the stage.
        groups: those groups.
        anew: as of `UpdatableTopN`.
    """

    def __init__(self, stage: TopStage, groups: Groups | ChangelogNormalize, anew: bool) -> None:
        super().__init__(stage, groups, anew)
        self.front, self.fallen = f"{stage.name}_front", f"{stage.name}_fallen"

    def _ranked(self, candidates: str) -> list[Step]:
        """See `UpdatableTopN._ranked`. Of rankings that candidates don't fill the first of all groups."""
        columns = ", ".join([*self.keys, self.row])
        fallen = self._fallen()
        if self.ttl is not None:
            fallen = f"{fallen}\nunion\n{self._with_room()}"
        found = of_keys(f"(\n{self._as_candidates(self._of_all())}\n)", self.keys, self.fallen)
        anew = self.first(f"select {columns}, true as fresh from (\n{found}\n)")
        return [
            Step(self.front, candidates, persist=True, lazy=True),
            *with_fallen(self.front, Step(self.fallen, fallen), self.now, anew, self.keys),
        ]

    def _fallen(self) -> str:
        """The rankings in which a group that was no member may have moved up."""
        if self.stage.top.function == "dense_rank":
            # Where two values become one, another moves up.
            return (
                f"select distinct {self.listed} from {self.known} as known\n"
                f"left semi join {self.groups.changed} as changed on {self._same_group('known')}"
            )
        columns = [*self.keys, self.row]
        return behind_the_last(self.known, self.front, self.stage.top, self.keys, self.ids, columns)

    def _with_room(self) -> str:
        """The touched rankings with fewer members than places: where one was forgotten, a group that was none moves up,
        whether the state still has the one that was or not."""
        touched = "\nunion all\n".join(
            f"select {self.listed}, {n} as is_known from {rows}"
            for n, rows in enumerate((self.front, self.known))
        )
        # As many members as places needn't be as many values.
        has_room = (
            "count(*) > 0"
            if self.stage.top.function == "dense_rank"
            else f"sum(is_known) < {self.stage.top.rows}"
        )
        by = f"\ngroup by {', '.join(self.keys)}" if self.keys else ""
        return f"select {self.listed} from (\n{touched}\n){by} having {has_room}"

    def _of_all(self) -> str:
        """The stage's rows out of all groups that the fallen rankings are of."""
        by = self._group_keys()
        if by is None or not self.keys:
            return self._of_groups(self.fallen, [])
        named = ", ".join(f"{key} as {group}" for key, group in zip(self.keys, by, strict=True))
        return self._of_groups(f"(select {named} from {self.fallen})", by)
