"""SQL of a ranking over groups: only the members of each ranking are stored, not the groups again.

The change of a ranking is computed from its members and the changed groups. If a member falls behind, another group
may move up; then the groups of that ranking are read from the groups' own state.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....util.quoting import quote
from ...program import EXPIRES_AT, STEP, StatePart, Step, Whole, now
from ..operator import with_inputs
from ..relation import WEIGHT
from .generations import NO_STEP, SINCE, equal_keys, is_not_reached, matching, of_keys
from .group_state import Groups
from .ranking import ROW, Ranking, TopNFields, first_of

_CAME, _FRESH, _MEMBER, _LIFE = "__came", "__fresh", "__member", "__life_of_group"


class RankedGroups(Ranking):
    """Steps and state of a `TopN` over groups.

    Args:
        path: SQL of the row-by-row operators between these and the ranking, the lowest first.
    """

    def __init__(self, operator: TopNFields, groups: Groups, path: Sequence[str]) -> None:
        super().__init__(operator, operator.top.partition)
        self.groups, self.path, self.ids = groups, path, operator.ids
        self.member, self.since = (quote(f"{self.part}_{what}") for what in ("there", "since"))
        self.columns = ", ".join([*self.keys, *self.ids, ROW])
        self.candidates, self.known = f"{self.name}_candidates", f"{self.name}_known"
        self.members = self.known if groups.generations.ttl is None else f"{self.name}_known_all"
        """The step with all previous members, including those whose groups have expired."""
        self.gone = f"(select * from {self.candidates} where not {_CAME})"
        self.front, self.fallen = f"{self.name}_front", f"{self.name}_fallen"
        self.moved = f"{self.name}_moved"

    def steps(self) -> list[Step]:
        """Returns the steps up to the rankings after the batch, and the members that changed."""
        (below,) = self.operator.inputs
        came = f"select {self.columns}, true as {_FRESH} from {self.candidates} where {_CAME}"
        # Shuffling a few rows is cheaper than a separate broadcast job.
        hint = "" if self.operator.descends is None else "/*+ merge(gone) */ "
        stay = (
            f"select {hint}{self.columns}, false as {_FRESH} from {self.known} as known\n"
            f"left anti join {self.gone} as gone on {equal_keys('known', 'gone', [*self.keys, *self.ids])}"
        )
        last = self.now if self.operator.improves else self.front
        ranked, first = self._first(f"{stay}\nunion all\n{came}"), self._first(came)
        return [
            *self._candidates(self._rows(f"select * from {below.name}")),
            Step(last, ranked, persist=True, initial=first),
            *([] if self.operator.improves else self._moving_up()),
            self._moved_members(),
        ]

    def _candidates(self, changed: str) -> list[Step]:
        """Returns the steps with inserted and retracted rows, and the members of their rankings."""
        if self.operator.descends is None:
            return [
                Step(self.candidates, changed, persist=True),
                *self._known_members(self.candidates, self.candidates),
            ]
        assert self.operator.of_groups is not None
        within = zip(self.keys, self.operator.of_groups, strict=True)
        named = ", ".join(f"{quote(name)} as {key}" for key, name in within) or "true as anything"
        return [
            *self._known_members(
                f"(select distinct {named} from {self.groups.changed})",
                f"(\n{changed}\n)",
                Whole(self._members(self._stored_rows()), self.part),
            ),
            # Materialized to be counted: the steps after it read few rows.
            Step(
                self.candidates,
                self._possible_members(changed),
                persist=True,
                materialize=True,
                initial=changed,
            ),
        ]

    def _known_members(self, touched: str, candidates: str, whole: Whole | None = None) -> list[Step]:
        """Returns the steps with the members of rankings in another relation.

        Args:
            candidates: rows with the same columns.
            whole: the alternative that reads all members, used where that is less work.
        """
        none = f"select {self.columns} from {candidates} where false"
        members = self._members(of_keys(f"(\n{self._stored_rows()}\n)", self.keys, touched))
        steps = [Step(self.members, members, persist=True, initial=none, whole=whole)]
        if self.expires:
            living = self._unexpired_members(
                f"select * from {self.members}", "watermark_before", self.columns
            )
            steps.append(Step(self.known, living, persist=True, initial=none))
        return steps

    def _possible_members(self, changed: str) -> str:
        """Filters changed rows: members that are retracted, and inserted rows that may be members. A row behind the
        last member of a full ranking, by the first order column, can't be one, unless a member falls behind that
        place, and then all groups of the ranking are read anyway.

        Retracted members are found by their identity, because a recomputed sum of doubles may differ from the
        member's in the last digit.
        """
        ids = [*self.keys, *self.ids]
        last = self.last_places(self.known)
        members = f"select {', '.join([*ids, f'true as {_MEMBER}'])} from {self.known}"
        return (
            f"select own.* from (\n{changed}\n) as own\n"
            f"left join (\n{last}\n) as last on {equal_keys('own', 'last', self.keys)}\n"
            f"left join (\n{members}\n) as members on {equal_keys('own', 'members', ids)}\n"
            f"where if(own.{_CAME}, not {self.is_behind}, members.{_MEMBER} is not null)"
        )

    def _rows(self, rows: str) -> str:
        """Returns rows of the input (with weights) with their partition columns, and whether they are insertions."""
        made = with_inputs(self.operator.sql, [rows])
        listed = [f"{ROW}.{name}" for name in (*self.keys, *self.ids)]
        return (
            f"select {', '.join([*listed, ROW, _CAME])} from (\n"
            f"select struct(* except ({WEIGHT})) as {ROW}, {WEIGHT} > 0 as {_CAME} from (\n{made}\n)\n)"
        )

    def _first(self, rows: str) -> str:
        """Returns the rows that are in the rankings, with their ranks."""
        return first_of(rows, self.operator.top, self.keys, ROW)

    def _moving_up(self) -> list[Step]:
        """Returns the steps with the rankings in which other groups may have moved up, and all rankings after the
        batch."""
        groups = f"select *, 1L as {WEIGHT} from (\n{self._groups_of_fallen()}\n)"
        for each in self.path:
            groups = with_inputs(each, [groups])
        of_fallen = of_keys(f"({self._rows(groups)})", self.keys, self.fallen)
        anew = self._first(f"select {self.columns}, true as {_FRESH} from (\n{of_fallen}\n)")
        fallen = (
            f"{self._rankings_to_read_again()}\nunion\n{self._with_room()}"
            if self.expires
            else self._rankings_to_read_again()
        )
        stay = (
            f"select front.* from {self.front} as front\n"
            f"left anti join {self.fallen} as fallen on {equal_keys('front', 'fallen', self.keys)}"
        )
        none = f"select {self.listed_keys} from {self.front} where false"
        return [
            # Usually there are none, and then no groups are read. If the state is empty, there are only candidates.
            Step(self.fallen, fallen, persist=True, materialize=True, initial=none),
            Step(
                self.now,
                f"{stay}\nunion all\n{anew}",
                persist=True,
                initial=f"select * from {self.front}",
                unless_empty=self.fallen,
            ),
        ]

    @property
    def expires(self) -> bool:
        """Whether idle groups expire."""
        return self.groups.generations.ttl is not None

    @property
    def _group_keys(self) -> list[str]:
        """Columns of the groups' state that identify a member."""
        return [quote(name) for name in self.operator.of_ids]

    def _of_members(self, members: str) -> str:
        """Returns the keys of the members' groups."""
        named = ", ".join(f"{own} as {key}" for own, key in zip(self.ids, self._group_keys, strict=True))
        return f"(select {named or 'true as anything'} from (\n{members}\n))"

    def _unexpired_members(self, members: str, at: str, columns: str = "*") -> str:
        """Filters members whose groups haven't expired at a watermark. A group that has returned since is another
        generation."""
        keys = self._group_keys
        by = ", ".join([*keys, SINCE])
        living = (
            f"select {by} from (\n{matching(self.groups.part, keys, self._of_members(members))}\n) "
            f"group by {by} having {is_not_reached(f'max({EXPIRES_AT})', at)}"
        )
        on = [f"own.{own} <=> living.{key}" for own, key in zip(self.ids, keys, strict=True)]
        return (
            f"select {columns} from (\n{members}\n) as own left semi join (\n{living}\n) as living "
            f"on {' and '.join([*on, f'own.{_LIFE} = living.{SINCE}'])}"
        )

    def _with_room(self) -> str:
        """Returns the touched rankings with fewer members than N: if a member expired, another group moves up,
        whether or not the state still has the expired one."""
        touched = "\nunion all\n".join(
            f"select {self.listed_keys}, {n} as is_known from {rows}"
            for n, rows in ((0, self.candidates), (0, self.front), (1, self.known))
        )
        # Members with equal values share a dense rank.
        top = self.operator.top
        has_room = "count(*) > 0" if top.function == "dense_rank" else f"sum(is_known) < {top.rows}"
        by = f"\ngroup by {', '.join(self.keys)}" if self.keys else ""
        return f"select {self.listed_keys} from (\n{touched}\n){by} having {has_room}"

    def _groups_of_fallen(self) -> str:
        """Returns the groups after the batch in the rankings in which other groups may have moved up."""
        rows, of = self.groups.known_and_new(), self.operator.of_groups
        if of is None or not self.keys:
            return self.groups.groups_matching(rows, self.fallen, [])
        named = ", ".join(f"{key} as {quote(name)}" for key, name in zip(self.keys, of, strict=True))
        return self.groups.groups_matching(
            rows, f"(select {named} from {self.fallen})", [quote(name) for name in of]
        )

    def _rankings_to_read_again(self) -> str:
        """Returns the full rankings in which a row that isn't a candidate may have moved up."""
        if self.operator.top.function == "dense_rank":
            # If two values become equal, another one moves up.
            return (
                f"select distinct {self.listed_keys} from {self.known} as known\n"
                f"left semi join {self.gone} as gone on {equal_keys('known', 'gone', [*self.keys, *self.ids])}"
            )
        # Fewer than N candidates rank before the last member's old place. (With N of them, they are the first N.)
        top = self.operator.top
        by = f"partition by {', '.join(self.keys)} " if self.keys else ""
        total = top.order if top.order.endswith(ROW) else f"{top.order}, {', '.join(self.ids)}"
        last = (
            f"select {self.columns} from (\n"
            f"  select *, row_number() over ({by}order by {total}) as place, count(*) over ({by}) as members\n"
            f"  from {self.known}\n) where place = members and members >= {top.rows}"
        )
        return (
            f"select {self.listed_keys} from (\n"
            f"  select *, sum(if(is_last, 0, 1)) over ({by}order by {top.order}) as ahead from (\n"
            f"    select {self.columns}, false as is_last from {self.front}\n"
            f"    union all\n    select {self.columns}, true as is_last from (\n{last}\n)\n  )\n"
            f") where is_last and ahead < {top.rows}"
        )

    def _moved_members(self) -> Step:
        """Returns the step with inserted, changed and removed members."""
        is_same = equal_keys("known", "now", [*self.keys, *self.ids])
        moved = (
            f"select coalesce(now.{ROW}, known.{ROW}) as {ROW}, now.{ROW} is not null as {_MEMBER}\n"
            f"from {self.members} as known full join {self.now} as now on {is_same}\n"
            # rows with a MAP can't be compared
            f"where known.{ROW} is null or now.{ROW} is null or now.{_FRESH}"
        )
        first = f"select {ROW}, true as {_MEMBER} from {self.now}"
        return Step(self.moved, moved, persist=True, initial=first)

    def change(self) -> Step:
        """Returns the step with the change of the result."""
        return self.changed_ranks(self._first(f"select * from {self.known}"))

    def emit(self) -> list[Step]:
        """Returns the steps with the changed rankings, after the commit."""
        noted = (
            f"select distinct {self.listed_keys} from (\n{self._stored_rows()}\n) where {STEP} = {now(STEP)}"
        )
        moved = (
            f"select {', '.join(f'{ROW}.{key}' for key in self.keys) or 'true as anything'} from {self.moved}"
        )
        rows = self._first(self._members(of_keys(f"(\n{self._stored_rows()}\n)", self.keys, self.touched)))
        fresh = of_keys(self.now, self.keys, self.touched, in_memory=True)
        return [
            Step(self.touched, noted, persist=True, fresh=moved),
            Step(
                self.put_out,
                self.current_output_rows(rows),
                fresh=self.current_output_rows(fresh),
            ),
        ]

    # -- state -------------------------------------------------------------------------------------

    def _stored_rows(self) -> str:
        """Returns all rows of the state table."""
        listed = [f"{self.kept_row}.{name}" for name in (*self.keys, *self.ids)]
        columns = [STEP, *listed, f"{self.kept_row} as {ROW}", f"{self.member} as {_MEMBER}"]
        columns += [f"{self.since} as {_LIFE}"] if self.expires else []
        return f"select {', '.join(columns)} from (\n{matching(self.part, [], None)}\n)"

    def _members(self, rows: str) -> str:
        """Returns the current members, by the last state row of each."""
        by = ", ".join([*self.keys, *self.ids])
        own = [ROW, _LIFE] if self.expires else [ROW]
        last = f"max_by(struct({', '.join([_MEMBER, *own])}), coalesce({STEP}, -1L)) as last"
        found = f"select {by}, {last} from (\n{rows}\n) group by {by}"
        listed = ", ".join([by, *(f"last.{name} as {name}" for name in own)])
        return f"select {listed} from (\n{found}\n) where last.{_MEMBER}"

    def state(self) -> StatePart:
        """Returns the state table with inserted, changed and removed members."""
        columns = f"{ROW} as {self.kept_row}, {_MEMBER} as {self.member}"
        append = f"select {now(STEP)} as {STEP}, {columns} from {self.moved}"
        folded = f"{NO_STEP}, {ROW} as {self.kept_row}, true as {self.member}"
        members, initial = self._members(self._stored_rows()), None
        if self.expires:
            append = self._with_generations(self.groups.known_and_new())
            initial = self._with_generations(f"select * from {self.groups.changed}")
            folded += f", {_LIFE} as {self.since}"
            members = self._unexpired_members(members, "watermark_after")
        fold = f"select {folded} from (\n{members}\n)"
        return StatePart(self.part, append, fold, initial, closes=None, forgets=self.groups.generations.ttl)

    def _with_generations(self, groups: str) -> str:
        """Returns the changed members with the step in which their groups' generation began."""
        ids = ", ".join(f"{ROW}.{name} as {name}" for name in self.ids)
        moved = f"select {', '.join(filter(None, [ids, ROW, _MEMBER]))} from {self.moved}"
        keys = self._group_keys
        rows = of_keys(f"(\n{groups}\n)", keys, self._of_members(moved))
        by = f" group by {', '.join(keys)}" if keys else ""
        lives = f"select {', '.join([*keys, f'max({SINCE}) as {SINCE}'])} from (\n{rows}\n){by}"
        on = " and ".join(f"own.{own} <=> lives.{key}" for own, key in zip(self.ids, keys, strict=True))
        return (
            f"select {now(STEP)} as {STEP}, own.{ROW} as {self.kept_row}, own.{_MEMBER} as {self.member}, "
            f"lives.{SINCE} as {self.since}\nfrom (\n{moved}\n) as own left join (\n{lives}\n) as lives on {on or 'true'}"
        )
