"""Compares the signatures of a state and of an edited query, and decides whether the state can be migrated.

A signature lists for each stage the state columns of each aggregate. Aggregates can be added and removed without a
change of the other aggregates' columns. State can't be regrouped by other windows or other keys.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .edited_clauses import CLAUSES, edited_clauses
from .match_parts import ALIKE, CALLED, KEPT, as_kept, kept_alike, same_parts
from .output_schema import is_promotion

RESULTS = "results"
"""Entry with the offsets from the end of a window at which its result fires on time, and at which its state expires."""
_SAID = {
    "source": "what is read below the aggregates",
    "streams": "the streams it reads",
    "grouping_sets": "the grouping sets",
    "key_order": "the order of its group keys, which grouping_id() goes by",
    "state_ttl": "whether there is a state_ttl",
    "lives": "how it is known what has expired, by an earlier version of this package",
    "top": "the ranking",
    "made_of": "what the rows that it keeps are made of",
    "enumerated": "enum_distinct",
    "kept": "how its aggregates are kept, by an earlier version of this package or of values of another type",
    "distinct_sets": "how its distinct values are kept, by an earlier version of this package",
    "retracts": "whether rows of its stream go again",
    "reads": "the results that one of its stages keeps of another",
    "below": "the results that one of its stages keeps of another",
    "operators": "the operators that keep it up to date",
    "inputs": "how its groups are kept, by an earlier version of this package",
    "version": "the state was made by another version of this package",
    RESULTS: "when results of its windows are complete and their state goes: complete_result_offset, last_result_offset",
}
_OF_ROWS, _OF_AGGREGATED = (
    "it keeps the rows of its windows, and kept aggregates of them",
    "it keeps aggregates of its windows, and kept their rows",
)
_VAGUE = (
    *(_SAID[name] for name in ("operators", "source", "made_of", "top", "below")),
    _OF_ROWS,
    _OF_AGGREGATED,
)
"""Reasons that need the edited clauses to be understood."""
_MORE_ROWS = "the ranking is of {} rows and was of {}, and no others are kept, so those that move up are lost"
ROW_KEY, COLUMNS = "row_key", "columns"
"""Entries about the model's table: its row key, and the columns of the query."""
TEXT = "text"
"""Entry with a digest of the model's text and of the configs that its state depends on."""
PACKAGE = "package"
"""Entry with the version of this package that wrote the signature. On its own it is not a difference."""
LOOKUPS = "lookups"
"""Entry with the lookup tables of a state, by the name of the view that replaces each in the SQL."""
EVENT_TIMES = "event_times"
"""Entry with the event-time column of each stream, where it is known."""
FROM_NOW = "from_now"
"""Entry of an aggregate that was added to a state with rows, and doesn't include those rows."""
REPLAYED = "replayed"
"""Entry with the groups and rankings from which the operators above were last rebuilt. That rebuild may still be
pending."""
KINDS = ("slices", "groups", "sessions")
"""Suffixes, after the stage's name, of state tables with partial aggregates."""
_ONE_RESULT = {"first": None, "update": None, "complete": 0, "last": 0}
"""Value of `RESULTS` for windows with one result each, emitted at their end."""
_OF_OPERATORS = (
    "operators",
    "inputs",
    "root",
    "tops",
    "ranked",
    "kept",
    "remade",
    "groups",
    "parts",
    "output",
)
_OF_AGGREGATES = ("metrics", "sets", "left")
_PLACE = re.compile(r"\b__\d+_\d+\.")


@dataclass
class Evolution:
    """The effect of an edited query on a state."""

    kept: list[str] = field(default_factory=list)
    """SQL of the aggregates that are kept."""
    new: list[str] = field(default_factory=list)
    """SQL of the new aggregates, which start with the next row."""
    come: dict[str, set[str]] = field(default_factory=dict)
    """Keys in the signature of the new aggregates, by stage."""
    removed: list[str] = field(default_factory=list)
    """SQL of the removed aggregates."""
    refused: list[str] = field(default_factory=list)
    """Reasons why the state can't be used by the new query; empty if it can."""
    renamed: dict[str, str] = field(default_factory=dict)
    """New names of the state columns that are kept, by their old names."""
    own: set[str] = field(default_factory=set)
    """New names of the columns of kept aggregates."""
    dropped: dict[str, set[str]] = field(default_factory=dict)
    """Columns of removed aggregates, by stage. Another stage may have a column of the same name."""
    begun: dict[str, set[str]] = field(default_factory=dict)
    """Columns of new aggregates, by stage."""
    gone_parts: list[str] = field(default_factory=list)
    """State tables whose rows are deleted."""
    remade: list[str] = field(default_factory=list)
    """Parts of the result that are rebuilt from the rest of the state, in words."""
    shortened: list[str] = field(default_factory=list)
    """Rankings that keep fewer rows than before, in words."""
    reshaped: list[str] = field(default_factory=list)
    """Output whose columns change, in words. The table must contain the output of the last micro-batch before."""
    of_rows: set[str] = field(default_factory=set)
    """State columns that hold the complete rows of windows, unranked. Fields of these rows may become unnecessary."""
    sweeps: bool = False
    """Whether only the state tables that aren't in `gone_parts` are kept."""
    begun_parts: set[str] = field(default_factory=set)
    """State tables that are added."""
    begun_in: dict[str, set[str]] = field(default_factory=dict)
    """Columns of new aggregates in each kept state table, if `sweeps`."""
    is_of_package: bool = False
    """Whether the query is unchanged, but this version of the package stores its state differently."""
    replayed: list[str] | None = None
    """Groups and rankings from which the operators above are rebuilt; None if no operator is rebuilt."""

    @property
    def is_migration(self) -> bool:
        """Whether the state has to be changed."""
        renamed = any(was != now for was, now in self.renamed.items())
        return bool(self.new or self.removed or self.remade or self.shortened or self.reshaped) or renamed

    @property
    def words(self) -> list[str]:
        """All differences, in words."""
        found = [*self.refused]
        found += [f"the aggregate {text} is gone" for text in self.removed]
        found += [f"the aggregate {text} is new" for text in self.new]
        found += [f"{what} is another one" for what in [*self.remade, *self.shortened]]
        found += [f"{what} has other columns" for what in self.reshaped]
        return list(dict.fromkeys(found))

    @property
    def sentence(self) -> str:
        """The effects of a migration, for the log."""
        return self.told("new from here on")

    def told(self, new: str) -> str:
        """Returns the effects of a migration in words. `new` is the text before the list of new aggregates."""
        kept = f"{len(self.kept)} aggregates are kept" if len(self.kept) != 1 else f"{self.kept[0]} is kept"
        told = [
            *([kept] if self.kept or self.new or self.removed else []),
            *([f"{new}: {', '.join(self.new)}"] if self.new else []),
            *([f"removed: {', '.join(self.removed)}"] if self.removed else []),
            *(f"{what} is rebuilt" for what in self.remade),
            *self.shortened,
            *(f"{what} has other columns" for what in self.reshaped),
        ]
        return "; ".join(told)


def changed_in(words: Sequence[str]) -> str:
    """Returns the beginning of a sentence that lists how the query of a state has changed."""
    return f"its query has changed in what its state depends on ({'; '.join(words)})"


def evolution(old: Mapping[str, Any], new: Mapping[str, Any], same_rows: bool = False) -> Evolution:
    """Returns the effect of an edited query on a state.

    Args:
        old: signature of the state.
        new: signature of the query.
        same_rows: whether the author accepts that the input rows of the aggregates differ.

    >>> def metric(column): return {"sql": column, "columns": [column], "kept": ["value"], "rows": ""}
    >>> stage = {"name": "stage_1", "keys": {"page": "page"}, "metrics": {"a": metric("a"), "b": metric("b")}}
    >>> found = evolution({"stages": [stage]}, {"stages": [{**stage, "metrics": {"c": metric("c"), "a": metric("a")}}]})
    >>> found.kept, found.new, found.removed, found.refused, found.dropped, found.begun
    (['a'], ['c'], ['b'], [], {'stage_1': {'b'}}, {'stage_1': {'c'}})
    """
    found = _evolution(old, new, same_rows)
    edited = (
        " and ".join(edited_clauses(old.get(CLAUSES, ()), new.get(CLAUSES, ()))) if CLAUSES in old else ""
    )
    if edited:
        found.refused = [f"{each}: {edited}" if each.startswith(_VAGUE) else each for each in found.refused]
    return found


def _evolution(old: Mapping[str, Any], new: Mapping[str, Any], same_rows: bool) -> Evolution:
    found = Evolution()
    if same_rows:
        new = as_kept(old, new)
    if "stages" not in old or "stages" not in new:
        found.refused += [_SAID.get(name, name) for name in _others(old, new)]
        return found
    if old.get("version") != new.get("version"):
        found.refused.append(_SAID["version"])
        found.is_of_package = True
        return found
    if "operators" in new and any("window" not in stage for stage in old["stages"]):
        # An earlier version planned a query without windows as stages; now it is a tree of operators.
        found.refused.append(_SAID["version"])
        return found
    if ("operators" in old) != ("operators" in new):
        # A query of windows only has another state than a tree of operators.
        found.refused.append(_SAID["operators"])
        return found
    _of_operators(found, old, new, same_rows)
    passed = dict.fromkeys(
        (
            "stages",
            *_OF_OPERATORS,
            REPLAYED,
            ROW_KEY,
            COLUMNS,
            TEXT,
            CLAUSES,
            ALIKE,
            CALLED,
            LOOKUPS,
            EVENT_TIMES,
            PACKAGE,
        )
    )
    found.refused += _other_times(old.get(EVENT_TIMES) or {}, new.get(EVENT_TIMES) or {})
    if not same_rows or "operators" in new:
        found.refused += _other_tables(old.get(LOOKUPS) or {}, new.get(LOOKUPS) or {})
    if RESULTS not in old and RESULTS in new:
        # An earlier version didn't write this entry. In a tree of operators, windows then had one result each.
        is_tree = new.get("operators") is not None
        old = {**old, RESULTS: _ONE_RESULT if is_tree else new[RESULTS]}
    if old.get("state_ttl") != new.get("state_ttl"):
        passed["lives"] = None  # only a state with a TTL has this entry
    of_sources = {*found.refused}
    others = _others({**old, **passed}, {**new, **passed})
    found.refused += [_SAID.get(name, name) for name in others]
    is_edited = TEXT not in old or old[TEXT] != new.get(TEXT)
    before, after = ({stage["name"]: stage for stage in each["stages"]} for each in (old, new))
    for name in dict.fromkeys([*before, *after]):
        if name not in before or name not in after:
            found.refused.append(f"{name} is {'new' if name in after else 'gone'}")
        else:
            _of_stage(found, before[name], after[name], same_rows, is_edited)
            if found.sweeps:
                sets = (after[name].get("sets") or {}).values()
                parts = {*(f"{name}_{kind}" for kind in KINDS), *(each["part"] for each in sets)}
                found.begun_in |= {part: found.begun.get(name, set()) for part in parts}
    if found.is_migration and not is_edited:
        # The query is unchanged, so a difference comes from this version of the package, and no aggregate may restart.
        found.refused.append("the query is what it was, and this version of the package reads it otherwise")
    found.refused = list(dict.fromkeys(found.refused))
    is_other = old.get(PACKAGE) != new.get(PACKAGE)
    found.is_of_package = is_other and not is_edited and not of_sources and bool(found.refused)
    return found


def _other_tables(old: Mapping[str, Sequence[str]], new: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yields lookup tables that replace others, in words. Signatures of an earlier version list none.

    >>> list(_other_tables({"lookup_d_by_id": ["crm", "d"]}, {"lookup_d_by_id": ["erp", "d"]}))
    ['the lookup table erp.d, in the place of crm.d']
    """
    for view in new:
        if view in old and old[view] != new[view]:
            yield f"the lookup table {'.'.join(new[view])}, in the place of {'.'.join(old[view])}"


def _other_times(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    """Yields streams whose event-time column has changed, in words: their watermark is of the old column. Signatures of
    an earlier version list none.

    >>> list(_other_times({"bids": "ts", "asks": "ts"}, {"bids": "seen_at"}))
    ['the event time of bids is seen_at and was ts']
    """
    for relation, column in new.items():
        if (was := old.get(relation, column)) != column:
            yield f"the event time of {relation} is {column} and was {was}"


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Returns the differences between two signatures in words; empty if they are equivalent."""
    return evolution(old, new).words


def carried_on(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    left: Mapping[str, set[str]],
    dropped: Collection[str] = (),
    replayed: Sequence[str] | None = None,
    from_now: Mapping[str, Collection[str]] | None = None,
) -> dict[str, Any]:
    """Returns the signature of a state after its migration to another query.

    Args:
        old: signature of the state before.
        new: signature of the query.
        left: by stage, columns that still hold values of removed aggregates, because another stage uses the column.
        dropped: columns that are dropped from the state.
        replayed: groups from which the operators above are to be rebuilt; None to keep those of `old`.
        from_now: by stage, new aggregates that don't include the rows before them.
    """

    def with_left(name: str, had: Mapping[str, Any], has: Mapping[str, Any]) -> dict[str, Any]:
        listed = sorted(({*had.get("left", ())} - {*dropped}) | {*left.get(name, ())})
        noted = {key for key, metric in had.get("metrics", {}).items() if FROM_NOW in metric}
        noted |= {*(from_now or {}).get(name, ())}
        metrics = {
            key: {**metric, FROM_NOW: True} if key in noted else metric
            for key, metric in has.get("metrics", {}).items()
        }
        return {**has, **({"metrics": metrics} if metrics else {}), **({"left": listed} if listed else {})}

    had = {stage.get("name"): stage for stage in old.get("stages", ())}
    found = dict(new)
    if "stages" in new:
        found["stages"] = [
            with_left(stage.get("name", ""), had.get(stage.get("name"), {}), stage) for stage in new["stages"]
        ]
    if "groups" in new:
        groups = old.get("groups") or {}
        found["groups"] = {
            name: with_left(name, groups.get(name, {}), group) for name, group in new["groups"].items()
        }
    if replayed is None:
        replayed = old.get(REPLAYED)
    return {**found, **({REPLAYED: list(replayed)} if replayed is not None else {})}


def _of_stage(
    found: Evolution,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    same_rows: bool,
    is_edited: bool,
) -> None:
    if old.get("window") != new.get("window"):
        found.refused += _of_windows(old.get("window") or {}, new.get("window") or {})
    if ("metrics" in old) != ("metrics" in new):
        found.refused.append(_OF_ROWS if "metrics" in old else _OF_AGGREGATED)
        return
    found.refused += _of_columns("group key", old.get("keys") or {}, new.get("keys") or {})
    passed = ("keys", "window", "plain", "ordered", *_OF_AGGREGATES, *(("source",) if same_rows else ()))
    is_same = any(name in old and old[name] == new.get(name) for name in ("plain", "ordered"))
    if is_same:
        # The sources differ only in the names of relations or in the order of conditions.
        passed += ("source",)
    if "row" in new and "top" not in old and "top" not in new:
        found.of_rows.add(new["row"])
    passed += _of_results(old, new) + _of_ranking(found, old, new, is_edited)
    rest = [{key: value for key, value in each.items() if key not in passed} for each in (old, new)]
    found.refused += [_SAID.get(key, key) for key in _others(*rest)]
    same_rows = same_rows or (old.get("source") != new.get("source") and not is_same)
    if "metrics" in old and old.get("keys") == new.get("keys"):  # with other keys no aggregate can be kept
        _of_aggregates(found, old, new, same_rows)


def _of_results(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the entries about results of other stages that a stage aggregates, if these results are the same."""
    before, after = old.get("below") or {}, new.get("below") or {}
    others = _renewed(old, new)
    if before.keys() != after.keys() or not all(isinstance(each, dict) for each in after.values()):
        return () if others else ("reads",)
    # An aggregate over * needs all columns.
    whole = any("*" in text.removeprefix("COUNT(*)") for text in new.get("metrics") or ())
    follows = all(_may_follow(before[name], after[name], whole, others) for name in after)
    return ("below", "reads") if follows else ()


def _renewed(old: Mapping[str, Any], new: Mapping[str, Any]) -> set[str]:
    """Returns the state names, in the stages that this stage reads, whose meaning has changed."""
    was, now = old.get("reads") or {}, new.get("reads") or {}
    return {
        name
        for stage in was.keys() & now.keys()
        for name in was[stage].keys() & now[stage].keys()
        if was[stage][name] != now[stage][name]
    }


def _may_follow(was: Any, now: Mapping[str, Any], whole: bool, others: Collection[str]) -> bool:
    if not isinstance(was, Mapping):
        return bool(was == now["text"])

    def same(one: str, other: str) -> bool:
        return one == other and not any(re.search(rf"\b{re.escape(name)}\b", one) for name in others)

    if whole or "columns" not in was or "columns" not in now:
        return same(was["text"], now["text"])
    both = was["columns"].keys() & now["columns"].keys()
    return same(was["rows"], now["rows"]) and all(
        same(was["columns"][each], now["columns"][each]) for each in both
    )


def _of_operators(found: Evolution, old: Mapping[str, Any], new: Mapping[str, Any], same_rows: bool) -> None:
    """Adds the effect on a tree of operators to `found`. Operators that differ are rebuilt from unchanged groups and
    rankings below them, whose state includes all rows so far."""
    old = _as_needed(old, new)
    groups = [each.get("groups") or {} for each in (old, new)]
    if same_rows and kept_alike(old, new):
        for name in groups[0].keys() & groups[1].keys():
            found.refused += _of_group(groups[0][name], groups[1][name], name, same_rows).refused
            _of_aggregates(
                found, {"name": name, **groups[0][name]}, {"name": name, **groups[1][name]}, same_rows
            )
        _of_ranked_rows(found, old, new, same_rows)
        return
    was, now = _alike(old, new)
    of_same = _of_same_rows(was, now, groups[1], same_rows)
    if all(old.get(each) == new.get(each) for each in ("operators", "root", "parts", "tops")) or (
        "inputs" not in old
        and old.get("operators") == new.get("operators")
        and groups[0].keys() == groups[1].keys()
    ):
        for name in groups[0].keys() & groups[1].keys():
            found.refused += _of_group(groups[0][name], groups[1][name], name, name in of_same).words
        return
    if "inputs" not in old and "inputs" in new:
        found.refused.append(_SAID["inputs"])
        return
    if _of_ranked_rows(found, old, new):
        return
    same_stages = old.get("stages") == new.get("stages") or _same_stages(was, now)
    if now and same_stages and same_parts(was, now) and _goes_on(found, old, new, (was, now), same_rows):
        return
    if not new.get("remade") or not same_stages:
        # Window stages are numbered in the order in which the planner reads them.
        found.refused += _of_the_only(old, new)
        return
    if new["state_ttl"]:
        said = _of_the_only(old, new)
        found.refused += (
            [f"{said[0]}; with state_ttl they aren't rebuilt", *said[1:]]
            if said == [_SAID["operators"]]
            else said
        )
        return
    problems = {
        name: [
            *_of_group(_told_apart(was, now, name, groups), groups[1][name], name, name in of_same).refused,
            *_values_of_other_columns(was, now, name, groups),
        ]
        for name in groups[0].keys() & groups[1].keys()
        if _is_whole(old, name) and _is_same_below(old, new, groups[1][name]["operator"])
    }
    problems |= {name: [] for name in _same_rankings(old, new)}
    replayed = _replayed(new, [name for name in problems if not problems[name]])
    if replayed is None:
        more = [_MORE_ROWS.format(has, had) for _, had, has in _places(old, new) if has > had]
        said = more or _of_the_only(old, new)
        found.refused += [*said, *(problem for each in problems.values() for problem in each)]
        return
    found.replayed = sorted(replayed)
    of_groups, of_rankings = replayed & groups[1].keys(), replayed - groups[1].keys()
    made_of = " and ".join([*["groups"][: len(of_groups)], *["rankings"][: len(of_rankings)]])
    found.remade.append(f"what is computed of its {made_of}")
    kept = {part for name in replayed for part in old["parts"].get(_operator(old, name), ())}
    kept |= {
        part
        for name in replayed
        for below in _under(new["inputs"], _operator(new, name))
        for part in new["parts"].get(below, ())
    }
    for name in sorted(of_groups):
        had, has = _told_apart(was, now, name, groups), groups[1][name]
        _of_aggregates(found, {"name": name, **had}, {"name": name, **has}, name in of_same)
        kept -= {had.get("given")}
        found.begun_in |= {part: found.begun[name] for part in new["parts"][has["operator"]]}
    lost, anew = (
        {
            metric["sql"]: None
            for name in groups[one]
            if name not in groups[1 - one]
            for metric in groups[one][name]["metrics"].values()
        }
        for one in (0, 1)
    )
    found.removed += [text for text in lost if text not in anew]
    parts = [_all_parts(each) for each in (old, new)]
    found.gone_parts += sorted((parts[0] | _output(old)) - kept - {*found.gone_parts})
    found.begun_parts |= parts[1] - parts[0]
    found.sweeps = True


def _of_the_only(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Returns the reasons why a state can't be used by a query: specific ones if both have a single stateful operator."""
    was, now = old.get(KEPT), new.get(KEPT)
    if not was or not now:
        return [_SAID["operators"]]
    groups = [each["groups"] for each in (old, new)]
    if len(groups[0]) == len(groups[1]) == 1:
        (had,), (has,) = (each.values() for each in groups)
        keys = [*_of_columns("group key", had.get("keys") or {}, has.get("keys") or {})]
        sets = [_SAID[each] for each in ("grouping_sets", "key_order") if had.get(each) != has.get(each)]
        return [*keys, *sets] or [_SAID["source"]]
    if groups[0] or groups[1]:
        return [_SAID["operators"]]
    return [_SAID["made_of"] if was["by"] == now["by"] else _SAID["top"]]


def _of_ranked_rows(
    found: Evolution, old: Mapping[str, Any], new: Mapping[str, Any], same_rows: bool = False
) -> bool:
    """Returns whether only N of a final Top-N has changed, and adds the effect on its rows to `found`. With `same_rows`,
    everything else is known to be the same."""
    root, tops = new["root"], [each.get("tops") or {} for each in (old, new)]
    is_same = all(old.get(each) == new.get(each) for each in ("operators", "root", "parts", "groups"))
    others = [{**each, root: None} for each in tops]
    if (
        not (is_same or same_rows)
        or new["output"] is not None
        or new["groups"]
        or root not in tops[0]
        or others[0] != others[1]
    ):
        return False
    _of_fewer_rows(found, tops[0][root], tops[1][root], is_forgotten=new["state_ttl"] or not new["remade"])
    if found.remade:
        found.replayed = [*new["parts"][root]]
    return True


def _of_fewer_rows(found: Evolution, had: int, has: int, is_forgotten: bool) -> None:
    """Adds the effect of another N on a ranking's rows to `found`. With `is_forgotten`, its rows may have expired."""
    if has == had:
        return
    if has > had:
        found.refused.append(_MORE_ROWS.format(has, had))
    elif is_forgotten:
        # Rows of closed windows, and of rankings that may have expired, are not changed.
        found.shortened.append(f"the ranking of {has} rows instead of {had}")
    else:
        found.remade.append(f"the ranking, of {has} rows instead of {had},")


def _alike(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Returns the `ALIKE` entries of both trees; both empty if their versions differ."""
    was, now = (each.get(ALIKE) or {} for each in (old, new))
    return (was, now) if was.get("version") == now.get("version") else ({}, {})


def _same_stages(was: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Returns whether the window stages have the same names, and no two of them differ only in their aggregates."""
    stages = now.get("stages", {})
    return bool(now) and was["stages"] == stages and len(set(stages.values())) == len(stages)


def _output(signature: Mapping[str, Any]) -> set[str]:
    """Returns the state table with the output; empty if the output is computed from the other state tables."""
    return {signature["output"]} - {None}


def _all_parts(signature: Mapping[str, Any]) -> set[str]:
    """Returns all state tables of a tree of operators."""
    return {part for listed in signature["parts"].values() for part in listed}


def _parts_of_values(signature: Mapping[str, Any]) -> set[str]:
    """Returns the state tables with the distinct values of groups."""
    return {
        each["part"] for group in signature["groups"].values() for each in (group.get("sets") or {}).values()
    }


def _goes_on(
    found: Evolution,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    told: tuple[Mapping[str, Any], Mapping[str, Any]],
    same_rows: bool,
) -> bool:
    """Returns whether two trees have the same rows and the same state tables, so that at most aggregates and output
    columns differ; adds these differences to `found`. `told` is the result of `_alike`."""
    was, now = told
    groups = old["groups"], new["groups"]
    # State tables of distinct values are added and removed with the aggregates that use them.
    parts = [_all_parts(each) - _parts_of_values(each) for each in (old, new)]
    if was["rows"] != now["rows"] or parts[0] != parts[1] or groups[0].keys() != groups[1].keys():
        return False
    key, columns = new.get(ROW_KEY) or {}, [dict(each["columns"]) for each in (was, now)]
    # Without a state table of the output, the root's output is computed from its state.
    reshaped = was["means"] != now["means"] and bool(_output(old) | _output(new))
    if reshaped and old.get(ROW_KEY) != new.get(ROW_KEY):
        return False
    if reshaped and key:
        # Old rows are found in the table by their key, so its columns must be unchanged.
        names = key["columns"]
        if names is None or any(columns[0].get(each) != columns[1].get(each, "") for each in names):
            return False
    before = {name: _told_apart(was, now, name, groups) for name in groups[0]}
    of_same = _of_same_rows(was, now, groups[1], same_rows)
    for name, had in before.items():
        has = groups[1][name]
        # The state has the last emitted row of a group, with the columns of its aggregates.
        is_given = "given" in has and had["metrics"].keys() != has["metrics"].keys()
        if is_given or _values_of_other_columns(was, now, name, groups):
            return False
        if has["operator"] != new["root"] and _is_reworded(was, now, name):
            return False
        if _of_group(had, has, name, name in of_same).refused:
            return False
    for name, had in before.items():
        _of_aggregates(found, {"name": name, **had}, {"name": name, **groups[1][name]}, name in of_same)
    if reshaped:
        found.reshaped.append("its output")
        for part in sorted(_output(old) | _output(new)):
            found.gone_parts.append(part)
            found.dropped[part] = found.begun[part] = {f"{part}_row"}
    return True


def _other_columns(
    was: Mapping[str, Any], now: Mapping[str, Any], name: str, groups: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Returns the aggregates of a group whose SQL is unchanged, but whose input columns are computed differently."""
    if not now:
        return []
    had, has = (each["metrics"].get(name, {}) for each in (was, now))
    before, after = (each[name]["metrics"] for each in groups)
    return [each for each in after if each in before and had.get(each) != has.get(each)]


def _is_reworded(was: Mapping[str, Any], now: Mapping[str, Any], name: str) -> bool:
    """Returns whether an aggregate of a group may be an old one with another text. It restarts, so the operators above
    have to be rebuilt: otherwise the values that they have ingested would never be retracted."""
    had, has = (each["metrics"].get(name, {}) for each in (was, now))
    gone = {means for key, means in had.items() if key not in has}
    come = {means for key, means in has.items() if key not in had}
    return bool(gone & come) or ("" in gone | come and bool(gone and come))


def _of_same_rows(
    was: Mapping[str, Any], now: Mapping[str, Any], names: Collection[str], same_rows: bool
) -> set[str]:
    """Returns the groups whose input rows are known to be the same, whatever the SQL. With `same_rows`, all groups."""
    if same_rows:
        return {*names}
    told = [each.get("groups") or {} for each in (was, now)]
    return {name for name in names if name in told[1] and told[0].get(name) == told[1][name]}


def _told_apart(
    was: Mapping[str, Any], now: Mapping[str, Any], name: str, groups: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Returns the old entry of a group, with other keys for the aggregates of `_other_columns`, so that they don't match
    the new ones."""
    others = _other_columns(was, now, name, groups)
    metrics = groups[0][name]["metrics"]
    apart = {f"{key} as it was" if key in others else key: each for key, each in metrics.items()}
    return {**groups[0][name], "metrics": apart} if others else groups[0][name]


def _values_of_other_columns(
    was: Mapping[str, Any], now: Mapping[str, Any], name: str, groups: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Returns the distinct aggregates whose input columns are computed differently, in words."""
    metrics = groups[1][name]["metrics"]
    return [
        f"what {metrics[each]['sql']} is made of, below the aggregates"
        for each in _other_columns(was, now, name, groups)
        if "set" in metrics[each]
    ]


def _as_needed(old: Mapping[str, Any], new: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a state's signature without the state tables of last emitted rows that its groups no longer need: an earlier
    version kept these rows for exact sums too."""
    groups = old.get("groups") or {}
    needless = {
        name: group["given"]
        for name, group in groups.items()
        if "given" in group and name in new.get("groups", {}) and "given" not in new["groups"][name]
    }
    if not needless or "parts" not in old:
        return old
    parts = {
        name: [part for part in listed if part not in needless.values()]
        for name, listed in old["parts"].items()
    }
    kept = {
        name: {key: each for key, each in group.items() if key != "given" or name not in needless}
        for name, group in groups.items()
    }
    return {**old, "groups": kept, "parts": parts}


def _operator(signature: Mapping[str, Any], name: str) -> str:
    """Returns the operator of a group, or of the state table of a ranking."""
    groups = signature.get("groups") or {}
    return str(groups[name]["operator"]) if name in groups else _rankings(signature).get(name, name)


def _rankings(signature: Mapping[str, Any]) -> dict[str, str]:
    """Returns the rankings by their state tables, whose names don't depend on how the query is written."""
    parts = signature["parts"]
    return {part: name for name in signature.get("tops") or () for part in parts.get(name, ())}


def _places(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[str, int, int]]:
    """Yields the state table, the old N and the new N of each ranking that both trees have."""
    was, now = _rankings(old), _rankings(new)
    for part in new.get("ranked") or ():
        if part in was:
            yield part, old["tops"][was[part]], new["tops"][now[part]]


def _is_whole(old: Mapping[str, Any], name: str) -> bool:
    """Returns whether the state of a group or ranking is certainly complete. It may not be while a rebuild is pending,
    unless the rebuild starts at or above this operator."""
    if REPLAYED not in old:
        return True
    kept = {_operator(old, each) for each in old[REPLAYED]} & old["inputs"].keys()
    return _operator(old, name) in kept | {below for each in kept for below in _under(old["inputs"], each)}


def _same_rankings(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Returns the state tables of unchanged rankings whose N is the same or smaller."""
    return [
        part
        for part, had, has in _places(old, new)
        if has <= had and _is_whole(old, part) and _is_same_below(old, new, _operator(new, part))
    ]


def _is_same_below(old: Mapping[str, Any], new: Mapping[str, Any], operator: str) -> bool:
    """Returns whether the state of all operators below an operator is unchanged."""
    under = _under(new["inputs"], operator)
    was, now = (
        {group["operator"]: {**group, "left": None} for group in each["groups"].values()}
        for each in (old, new)
    )
    told = _alike(old, new)
    if told[1]:
        # The name of a group depends on the results of the operators below it.
        had = _all_parts(old)
        names = {group["operator"]: name for name, group in new["groups"].items()}
        return same_parts(*told) and all(
            had.issuperset(new["parts"].get(each, ()))
            and (each not in names or _same_group(old, new, names[each]))
            for each in under
        )
    return all(
        each in old["operators"]
        and old["parts"].get(each) == new["parts"].get(each)
        and was.get(each) == now.get(each)
        for each in under
    )


def _same_group(old: Mapping[str, Any], new: Mapping[str, Any], name: str) -> bool:
    """Returns whether the state of a group is unchanged."""
    was, now = ({**each["groups"].get(name, {}), "operator": None, "left": None} for each in (old, new))
    return was == now and not _other_columns(*_alike(old, new), name, (old["groups"], new["groups"]))


def _of_group(old: Mapping[str, Any], new: Mapping[str, Any], name: str, same_rows: bool) -> Evolution:
    """Returns the effect on the state of a GROUP BY in a tree of operators."""
    found = Evolution()
    told = ["keys", "grouping_sets", "retracts", "enumerated"]
    told += ["key_order"] if "key_order" in old else []
    found.refused += [_SAID.get(each, "the group keys") for each in told if old.get(each) != new.get(each)]
    _of_aggregates(found, {"name": name, **old}, {"name": name, **new}, same_rows)
    return found


def _replayed(new: Mapping[str, Any], may_be: Collection[str]) -> set[str] | None:
    """Returns the topmost groups and rankings with usable state on each path from the root, or None if a path has none."""
    names = {_operator(new, name): name for name in may_be}

    def below(operator: str) -> set[str] | None:
        if operator in names:
            return {operator}
        found = [below(each) for each in new["inputs"][operator]]
        return (
            None if not found or None in found else set().union(*(each for each in found if each is not None))
        )

    while (found := below(new["root"])) is not None:
        # An operator above another one would ingest that one's replayed groups a second time.
        upper = {each for each in found if _under(new["inputs"], each) & found}
        if not upper:
            return {names[each] for each in found}
        for each in upper:
            del names[each]
    return None


def _under(inputs: Mapping[str, Sequence[str]], operator: str) -> set[str]:
    """Returns all operators below an operator."""
    found: set[str] = set()
    todo = [*inputs[operator]]
    while todo:
        each = todo.pop()
        if each not in found:
            found.add(each)
            todo += inputs[each]
    return found


def _of_ranking(
    found: Evolution, old: Mapping[str, Any], new: Mapping[str, Any], is_edited: bool
) -> tuple[str, ...]:
    """Returns the entry of a ranking if it may differ: N can decrease, because the state has the rows of all ranks up to
    the old N. An earlier version kept all rows."""
    if "top" not in new:
        return ()
    if "top" not in old:
        if "metrics" in old:
            return ()  # the state has no rows
        if is_edited:
            found.shortened.append(f"the ranking of {new['top'][3]} rows instead of all rows")
        return ("top",)
    (had, was), (has, now) = ((each["top"][3], [*each["top"][:3], *each["top"][4:]]) for each in (old, new))
    if was == now and has != had:
        _of_fewer_rows(found, had, has, is_forgotten=True)
    return ("top",) if was == now else ()


def _is_kept_alike(had: Sequence[str], has: Sequence[str]) -> bool:
    """Returns whether an aggregate has the same state, or the same state with a wider type.

    >>> _is_kept_alike(["sum", "decimal(15,2)"], ["sum", "decimal(22,2)"]), _is_kept_alike(["sum", "double"], ["sum"])
    (True, False)
    """
    *before, was = had
    *after, now = has
    return before == after and (was == now or is_promotion(was.lower(), now.lower()))


def _of_aggregates(found: Evolution, old: Mapping[str, Any], new: Mapping[str, Any], same_rows: bool) -> None:
    before, after = old["metrics"], new["metrics"]
    gone, come = [key for key in before if key not in after], [key for key in after if key not in before]
    kept = [key for key in after if key in before]
    found.kept += [after[key]["sql"] for key in kept]
    found.removed += [before[key]["sql"] for key in gone]
    found.new += [after[key]["sql"] for key in come]
    found.come[new["name"]] = {*come}
    if gone or come:
        _of_qualified(
            found, {key: before[key]["sql"] for key in gone}, {key: after[key]["sql"] for key in come}
        )
    for key in kept:
        if not _is_kept_alike(before[key]["kept"], after[key]["kept"]):
            found.refused.append(_SAID["kept"])
        elif not same_rows and not _is_over_same(before[key], after[key]):
            found.refused.append(f"what {after[key]['sql']} is made of, below the aggregates")
        elif len(before[key]["columns"]) != len(after[key]["columns"]):
            found.refused.append(_SAID["kept"])
        else:
            _call(found, before[key]["columns"], after[key]["columns"])
    if come and new.get("retracts"):
        found.refused += [
            f"the aggregate {after[key]['sql']} is new, and rows of its stream may go that came before it"
            for key in come
        ]
    sets = [each.get("sets") or {} for each in (old, new)]
    found.gone_parts += [sets[0][key]["part"] for key in sets[0] if key not in sets[1]]
    found.begun_parts |= {sets[1][key]["part"] for key in sets[1] if key not in sets[0]}
    for key in sets[0].keys() & sets[1].keys():
        had, has = sets[0][key], sets[1][key]
        if had["part"] != has["part"]:
            found.refused.append(f"how the distinct values of {key} are called")
        else:
            _call(found, had["columns"], has["columns"])
    was = {column for each in (before, sets[0]) for entry in each.values() for column in entry["columns"]}
    own = {column for key in kept for column in after[key]["columns"]}
    own |= {column for key in sets[0].keys() & sets[1].keys() for column in sets[1][key]["columns"]}
    now = {column for each in (after, sets[1]) for entry in each.values() for column in entry["columns"]}
    found.own |= own
    found.dropped[new["name"]] = {column for column in was if found.renamed.get(column, column) not in own}
    found.begun[new["name"]] = now - own
    if stale := (now - own) & set(old.get("left") or ()):
        found.refused.append(
            f"its state still holds what {', '.join(sorted(stale))} was before it was removed, for something else in the "
            "query has a column of that name"
        )


def _is_over_same(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Returns whether an aggregate has the same input rows. Results of other stages are compared by ``over``, whatever
    their names in the query; signatures of an earlier version lack it.

    >>> _is_over_same({"rows": "a", "over": ["c", "stage_1"]}, {"rows": "b", "over": ["c", "stage_1"]})
    True
    >>> _is_over_same({"rows": "a"}, {"rows": "b", "over": ["c", "stage_1"]})
    False
    """
    if "over" in before and "over" in after:
        return bool(before["over"] == after["over"])
    is_ordered = "ordered" in before and before["ordered"] == after.get("ordered")
    return is_ordered or bool(before["rows"] == after["rows"])


def _call(found: Evolution, before: list[str], after: list[str]) -> None:
    for was, now in zip(before, after, strict=True):
        if found.renamed.setdefault(was, now) != now:
            found.refused.append(f"how {was} of its state is called")


def _of_qualified(found: Evolution, gone: Mapping[str, str], come: Mapping[str, str]) -> None:
    """Refuses new aggregates that differ from a removed one only in the qualification of columns."""
    plain = {_PLACE.sub("", key): text for key, text in gone.items()}
    for key, text in come.items():
        if (was := plain.get(_PLACE.sub("", key))) is not None:
            found.refused.append(
                f"{text} was written {was}, and several relations are read, so it may be another column; write it as it was"
            )


def _of_columns(what: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    """Yields the differences between two mappings of state columns to their SQL, in words. `what` names the columns."""
    gone = [text for text in old.values() if text not in new.values()]
    come = [text for text in new.values() if text not in old.values()]
    yield from (f"the {what} {text} is gone" for text in gone)
    yield from (f"the {what} {text} is new" for text in come)
    if not gone and not come and old != new:
        yield f"the order of its {what}s"


def _of_windows(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    if old.get("kind") != new.get("kind"):
        yield f"the window is {new.get('kind')}() and was {old.get('kind')}()"
        return
    for key in _others(old, new):
        if (key, new.get("kind")) != ("step", "tumble"):  # the step of a tumble is its size
            yield f"the window's {key}"


def _others(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
