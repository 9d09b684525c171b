"""SQL of a ranking over groups. It stores the members of each ranking, and reads other groups from the groups' state.

The change of a ranking is computed from its members and the changed groups. If a member falls behind, another group
may move up; then all groups of that ranking are read.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....util.quoting import quote
from ...program import EXPIRES_AT, STEP, FullScan, StatePart, Step, clock_sql
from ..operator import with_inputs
from ..relation import WEIGHT
from .generations import (
    NO_STEP,
    SINCE,
    equal_keys_condition,
    matching_rows,
    not_reached_condition,
    rows_of_keys,
)
from .group_state import Groups
from .ranking import ROW, Ranking, TopNFields, first_rows

_INSERTED, _FRESH, _MEMBER, _SINCE = "__came", "__fresh", "__member", "__life_of_group"


class RankedGroups(Ranking):
    """Steps and state of a `TopN` over groups.

    Args:
        part: name of the state table.
        groups: the groups, which are ranked.
        path: SQL of the row-by-row operators between the groups and the ranking, the lowest first.
    """

    def __init__(self, operator: TopNFields, part: str, groups: Groups, path: Sequence[str]) -> None:
        super().__init__(operator, part, operator.top.partition)
        self.groups, self.path, self.ids = groups, path, operator.ids
        self.member, self.since = (quote(f"{self.part}_{what}") for what in ("there", "since"))
        self.columns = ", ".join([*self.keys, *self.ids, ROW])
        self.candidates, self.known = f"{self.name}_candidates", f"{self.name}_known"
        self.members = self.known if groups.generations.ttl is None else f"{self.name}_known_all"
        """The step with all stored members, including those whose groups have expired."""
        self.retracted = f"(select * from {self.candidates} where not {_INSERTED})"
        self.front, self.fallen = f"{self.name}_front", f"{self.name}_fallen"
        """Steps with the rankings of members and candidates, and with the rankings whose groups are read."""
        self.moved = f"{self.name}_moved"

    def steps(self) -> list[Step]:
        """Returns the steps up to the rankings after the batch and the changes of their members."""
        (below,) = self.operator.inputs
        inserted = f"select {self.columns}, true as {_FRESH} from {self.candidates} where {_INSERTED}"
        # Shuffling a few rows is cheaper than a separate broadcast job.
        hint = "" if self.operator.descends is None else "/*+ merge(gone) */ "
        stay = (
            f"select {hint}{self.columns}, false as {_FRESH} from {self.known} as known\n"
            f"left anti join {self.retracted} as gone on {equal_keys_condition('known', 'gone', [*self.keys, *self.ids])}"
        )
        last = self.now if self.operator.improves else self.front
        ranked, first = self._first_rows(f"{stay}\nunion all\n{inserted}"), self._first_rows(inserted)
        return [
            *self._candidate_steps(self._rows_to_rank(f"select * from {below.name}")),
            Step(last, ranked, persist=True, initial=first),
            *([] if self.operator.improves else self._moving_up_steps()),
            self._moved_members_step(),
        ]

    def _candidate_steps(self, changed: str) -> list[Step]:
        """Returns the steps with the inserted and retracted rows that matter, and the members of their rankings."""
        if self.operator.descends is None:
            return [
                Step(self.candidates, changed, persist=True),
                *self._known_member_steps(self.candidates, self.candidates),
            ]
        assert self.operator.of_groups is not None
        within = zip(self.keys, self.operator.of_groups, strict=True)
        named = ", ".join(f"{quote(name)} as {key}" for key, name in within) or "true as anything"
        return [
            *self._known_member_steps(
                f"(select distinct {named} from {self.groups.changed})",
                f"(\n{changed}\n)",
                FullScan(self._current_members(self._stored_rows()), self.part),
            ),
            # Materialized, so that Spark plans the steps after it for the few rows that it has.
            Step(
                self.candidates,
                self._possible_members(changed),
                persist=True,
                materialize=True,
                initial=changed,
            ),
        ]

    def _known_member_steps(self, touched: str, candidates: str, whole: FullScan | None = None) -> list[Step]:
        """Returns the steps with the members of the touched rankings.

        Args:
            touched: relation with the keys of these rankings.
            candidates: rows with the same columns.
            whole: the alternative that reads all members, used where that is less work.
        """
        none = f"select {self.columns} from {candidates} where false"
        members = self._current_members(rows_of_keys(f"(\n{self._stored_rows()}\n)", self.keys, touched))
        steps = [Step(self.members, members, persist=True, initial=none, full_scan=whole)]
        if self.groups_expire:
            living = self._unexpired_members(
                f"select * from {self.members}", "watermark_before", self.columns
            )
            steps.append(Step(self.known, living, persist=True, initial=none))
        return steps

    def _possible_members(self, changed: str) -> str:
        """Returns the changed rows that are retracted members, or inserted and possibly members. A row behind the last
        member of a full ranking, by the first order column, can't be one, unless a member falls behind that place;
        then all groups of the ranking are read anyway.

        Retracted members are found by their identity, because a recomputed sum of doubles may differ from the
        member's in the last digit.
        """
        ids = [*self.keys, *self.ids]
        last = self.last_places(self.known)
        members = f"select {', '.join([*ids, f'true as {_MEMBER}'])} from {self.known}"
        return (
            f"select own.* from (\n{changed}\n) as own\n"
            f"left join (\n{last}\n) as last on {equal_keys_condition('own', 'last', self.keys)}\n"
            f"left join (\n{members}\n) as members on {equal_keys_condition('own', 'members', ids)}\n"
            f"where if(own.{_INSERTED}, not {self.behind_condition}, members.{_MEMBER} is not null)"
        )

    def _rows_to_rank(self, rows: str) -> str:
        """Returns rows of the input (with weights) with their partition columns, and whether they are insertions."""
        made = with_inputs(self.operator.sql, [rows])
        listed = [f"{ROW}.{name}" for name in (*self.keys, *self.ids)]
        return (
            f"select {', '.join([*listed, ROW, _INSERTED])} from (\n"
            f"select struct(* except ({WEIGHT})) as {ROW}, {WEIGHT} > 0 as {_INSERTED} from (\n{made}\n)\n)"
        )

    def _first_rows(self, rows: str) -> str:
        """Returns the rows that are in the rankings, with their ranks."""
        return first_rows(rows, self.operator.top, self.keys, ROW)

    def _moving_up_steps(self) -> list[Step]:
        """Returns the steps with the rankings in which other groups may have moved up, and with all rankings after the
        batch."""
        groups = f"select *, 1L as {WEIGHT} from (\n{self._groups_of_fallen()}\n)"
        for each in self.path:
            groups = with_inputs(each, [groups])
        of_fallen = rows_of_keys(f"({self._rows_to_rank(groups)})", self.keys, self.fallen)
        of_all_groups = self._first_rows(f"select {self.columns}, true as {_FRESH} from (\n{of_fallen}\n)")
        fallen = (
            f"{self._rankings_to_read_again()}\nunion\n{self._rankings_with_room()}"
            if self.groups_expire
            else self._rankings_to_read_again()
        )
        stay = (
            f"select front.* from {self.front} as front\n"
            f"left anti join {self.fallen} as fallen on {equal_keys_condition('front', 'fallen', self.keys)}"
        )
        none = f"select {self.listed_keys} from {self.front} where false"
        return [
            # Usually there are none, so that no groups are read. For an empty state all groups are candidates.
            Step(self.fallen, fallen, persist=True, materialize=True, initial=none),
            Step(
                self.now,
                f"{stay}\nunion all\n{of_all_groups}",
                persist=True,
                initial=f"select * from {self.front}",
                unless_empty=self.fallen,
            ),
        ]

    @property
    def groups_expire(self) -> bool:
        """Whether idle groups expire."""
        return self.groups.generations.ttl is not None

    @property
    def _group_keys(self) -> list[str]:
        """Columns of the groups' state that identify a member."""
        return [quote(name) for name in self.operator.of_ids]

    def _keys_of_members(self, members: str) -> str:
        """Returns a relation with the keys of the members' groups."""
        named = ", ".join(f"{name} as {key}" for name, key in zip(self.ids, self._group_keys, strict=True))
        return f"(select {named or 'true as anything'} from (\n{members}\n))"

    def _unexpired_members(self, members: str, at: str, columns: str = "*") -> str:
        """Returns the members whose groups haven't expired at a watermark. A group that expired and returned is of another
        generation."""
        keys = self._group_keys
        by = ", ".join([*keys, SINCE])
        living = (
            f"select {by} from (\n{matching_rows(self.groups.part, keys, self._keys_of_members(members))}\n) "
            f"group by {by} having {not_reached_condition(f'max({EXPIRES_AT})', at)}"
        )
        on = [f"own.{name} <=> living.{key}" for name, key in zip(self.ids, keys, strict=True)]
        return (
            f"select {columns} from (\n{members}\n) as own left semi join (\n{living}\n) as living "
            f"on {' and '.join([*on, f'own.{_SINCE} = living.{SINCE}'])}"
        )

    def _rankings_with_room(self) -> str:
        """Returns the touched rankings with fewer than N members: if a member expired, another group moves up, whether or
        not the state still has the member."""
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
        """Returns all groups, after the batch, of the rankings in which other groups may have moved up."""
        rows, of_groups = self.groups.known_and_new_rows(), self.operator.of_groups
        if of_groups is None or not self.keys:
            return self.groups.groups_matching(rows, self.fallen, [])
        named = ", ".join(f"{key} as {quote(name)}" for key, name in zip(self.keys, of_groups, strict=True))
        return self.groups.groups_matching(
            rows, f"(select {named} from {self.fallen})", [quote(name) for name in of_groups]
        )

    def _rankings_to_read_again(self) -> str:
        """Returns the full rankings in which a group that isn't a candidate may have moved up."""
        if self.operator.top.function == "dense_rank":
            # If two values become equal, another one moves up.
            on = equal_keys_condition("known", "gone", [*self.keys, *self.ids])
            return (
                f"select distinct {self.listed_keys} from {self.known} as known\n"
                f"left semi join {self.retracted} as gone on {on}"
            )
        # These have fewer than N candidates before the last member's old place; N of them would be the first N.
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

    def _moved_members_step(self) -> Step:
        """Returns the step with the members that were added, changed or removed."""
        is_same = equal_keys_condition("known", "now", [*self.keys, *self.ids])
        moved = (
            f"select coalesce(now.{ROW}, known.{ROW}) as {ROW}, now.{ROW} is not null as {_MEMBER}\n"
            f"from {self.members} as known full join {self.now} as now on {is_same}\n"
            # not by comparing rows, which fails for a MAP
            f"where known.{ROW} is null or now.{ROW} is null or now.{_FRESH}"
        )
        first = f"select {ROW}, true as {_MEMBER} from {self.now}"
        return Step(self.moved, moved, persist=True, initial=first)

    def change_step(self) -> Step:
        """Returns the step with the change of the result."""
        return self.changed_ranks_step(self._first_rows(f"select * from {self.known}"))

    def emit_steps(self) -> list[Step]:
        """Returns the steps with the changed rankings, after the commit."""
        stored = f"select distinct {self.listed_keys} from (\n{self._stored_rows()}\n) where {STEP} = {clock_sql(STEP)}"
        moved = (
            f"select {', '.join(f'{ROW}.{key}' for key in self.keys) or 'true as anything'} from {self.moved}"
        )
        rows = self._first_rows(
            self._current_members(rows_of_keys(f"(\n{self._stored_rows()}\n)", self.keys, self.touched))
        )
        fresh = rows_of_keys(self.now, self.keys, self.touched, in_memory=True)
        return [
            Step(self.touched, stored, persist=True, fresh=moved),
            Step(
                self.output,
                self.current_output_rows(rows),
                fresh=self.current_output_rows(fresh),
            ),
        ]

    # -- state -------------------------------------------------------------------------------------

    def _stored_rows(self) -> str:
        """Returns all rows of the state table."""
        listed = [f"{self.stored_row}.{name}" for name in (*self.keys, *self.ids)]
        columns = [STEP, *listed, f"{self.stored_row} as {ROW}", f"{self.member} as {_MEMBER}"]
        columns += [f"{self.since} as {_SINCE}"] if self.groups_expire else []
        return f"select {', '.join(columns)} from (\n{matching_rows(self.part, [], None)}\n)"

    def _current_members(self, rows: str) -> str:
        """Returns the current members, from the last state row of each group."""
        by = ", ".join([*self.keys, *self.ids])
        columns = [ROW, _SINCE] if self.groups_expire else [ROW]
        last = f"max_by(struct({', '.join([_MEMBER, *columns])}), coalesce({STEP}, -1L)) as last"
        found = f"select {by}, {last} from (\n{rows}\n) group by {by}"
        listed = ", ".join([by, *(f"last.{name} as {name}" for name in columns)])
        return f"select {listed} from (\n{found}\n) where last.{_MEMBER}"

    def state(self) -> StatePart:
        """Returns the state table with the members that were added, changed or removed."""
        columns = f"{ROW} as {self.stored_row}, {_MEMBER} as {self.member}"
        append = f"select {clock_sql(STEP)} as {STEP}, {columns} from {self.moved}"
        folded = f"{NO_STEP}, {ROW} as {self.stored_row}, true as {self.member}"
        members, initial = self._current_members(self._stored_rows()), None
        if self.groups_expire:
            append = self._with_generations(self.groups.known_and_new_rows())
            initial = self._with_generations(f"select * from {self.groups.changed}")
            folded += f", {_SINCE} as {self.since}"
            members = self._unexpired_members(members, "watermark_after")
        fold = f"select {folded} from (\n{members}\n)"
        return StatePart(self.part, append, fold, initial, closes=None, forgets=self.groups.generations.ttl)

    def _with_generations(self, groups: str) -> str:
        """Returns the changed members with the step in which their groups' generation began."""
        ids = ", ".join(f"{ROW}.{name} as {name}" for name in self.ids)
        moved = f"select {', '.join(filter(None, [ids, ROW, _MEMBER]))} from {self.moved}"
        keys = self._group_keys
        rows = rows_of_keys(f"(\n{groups}\n)", keys, self._keys_of_members(moved))
        by = f" group by {', '.join(keys)}" if keys else ""
        began = f"select {', '.join([*keys, f'max({SINCE}) as {SINCE}'])} from (\n{rows}\n){by}"
        on = " and ".join(f"own.{name} <=> lives.{key}" for name, key in zip(self.ids, keys, strict=True))
        return (
            f"select {clock_sql(STEP)} as {STEP}, own.{ROW} as {self.stored_row}, own.{_MEMBER} as {self.member}, "
            f"lives.{SINCE} as {self.since}\nfrom (\n{moved}\n) as own left join (\n{began}\n) as lives on {on or 'true'}"
        )
