"""The effect of an edited query on a state, and its description."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...util.text import counted

GROUPING_SETS = "the grouping sets"
KEY_ORDER = "the order of its group keys, which grouping_id() goes by"
ENUMERATED = "enum_distinct"
RETRACTS = "whether rows of its stream can be retracted"
STORAGE = "how its aggregates are kept: their values are of another type"
SOURCE = "what is read below the aggregates"
STREAMS = "the streams it reads"
BELOW = "the results of a window that another window reads"
RANKING = "the ranking"
RANKED_ROWS = "what the rows that it keeps are made of"
OPERATORS = "the operators that keep it up to date"
HAS_TTL = "whether there is a state_ttl"
RESULTS = "when results of its windows are complete and their state goes: complete_result_offset, last_result_offset"
NOW_ROWS = "it keeps the rows of its windows, and kept aggregates of them"
NOW_AGGREGATES = "it keeps aggregates of its windows, and kept their rows"
VAGUE = (OPERATORS, SOURCE, RANKED_ROWS, RANKING, BELOW, NOW_ROWS, NOW_AGGREGATES)
"""Reasons that are shown with the edited clauses, without which they say too little."""
MORE_ROWS = "the ranking is of {} rows and was of {}, and no others are kept, so those that move up are lost"


@dataclass
class Evolution:
    """The effect of an edited query on a state."""

    kept: list[str] = field(default_factory=list)
    """SQL of the aggregates that are kept."""
    new: list[str] = field(default_factory=list)
    """SQL of the new aggregates, which start with the next row."""
    new_keys: dict[str, set[str]] = field(default_factory=dict)
    """Keys in the signature of the new aggregates, by operator."""
    removed: list[str] = field(default_factory=list)
    """SQL of the removed aggregates."""
    refused: list[str] = field(default_factory=list)
    """Reasons why the state can't be used by the new query; empty if it can."""
    renamed: dict[str, str] = field(default_factory=dict)
    """Old name → new name of the state columns that are kept."""
    kept_columns: set[str] = field(default_factory=set)
    """New names of the columns of kept aggregates."""
    dropped_columns: dict[str, set[str]] = field(default_factory=dict)
    """Columns of removed aggregates, by operator. Another operator may have a column of the same name."""
    new_columns: dict[str, set[str]] = field(default_factory=dict)
    """Columns of new aggregates, by operator."""
    dropped_parts: list[str] = field(default_factory=list)
    """State tables whose rows are deleted."""
    rebuilt: list[str] = field(default_factory=list)
    """Operators that are rebuilt from the rest of the state, in words."""
    limited_rankings: list[str] = field(default_factory=list)
    """Rankings that keep fewer rows than before, in words."""
    changed_output: list[str] = field(default_factory=list)
    """Output whose columns change, in words. The table must contain the output of the last micro-batch before."""
    buffered_columns: set[str] = field(default_factory=set)
    """State columns that hold the complete rows of windows, unranked. Fields of these rows may become unnecessary."""
    drops_other_parts: bool = False
    """Whether operators are rebuilt: columns that no kept state table has are dropped, or start empty."""
    new_parts: set[str] = field(default_factory=set)
    """State tables that are added."""
    new_columns_in: dict[str, set[str]] = field(default_factory=dict)
    """Columns of new aggregates in each kept state table, if `drops_other_parts`."""
    is_of_package: bool = False
    """Whether the query is unchanged, but this version of the package stores its state differently."""
    rebuilt_from: list[str] | None = None
    """Groups and rankings from which the operators above are rebuilt; None if no operator is rebuilt."""

    @property
    def is_migration(self) -> bool:
        """Whether the state has to be changed."""
        if any(was != now for was, now in self.renamed.items()):
            return True
        return bool(self.new or self.removed or self.rebuilt or self.limited_rankings or self.changed_output)

    @property
    def differences(self) -> list[str]:
        """All differences, in words."""
        found = [*self.refused]
        found += [f"the aggregate {text} is gone" for text in self.removed]
        found += [f"the aggregate {text} is new" for text in self.new]
        found += [f"{what} is another one" for what in [*self.rebuilt, *self.limited_rankings]]
        found += [f"{what} has other columns" for what in self.changed_output]
        return list(dict.fromkeys(found))

    @property
    def sentence(self) -> str:
        """The effects of a migration, for the log."""
        return self.describe("new from here on")

    def describe(self, new: str) -> str:
        """Returns the effects of a migration in words. `new` is the text before the list of new aggregates."""
        kept = f"{len(self.kept)} aggregates are kept" if len(self.kept) != 1 else f"{self.kept[0]} is kept"
        effects = [
            *([kept] if self.kept or self.new or self.removed else []),
            *([f"{new}: {', '.join(self.new)}"] if self.new else []),
            *([f"removed: {', '.join(self.removed)}"] if self.removed else []),
            *(f"{what} is rebuilt" for what in self.rebuilt),
            *self.limited_rankings,
            *(f"{what} has other columns" for what in self.changed_output),
        ]
        return "; ".join(effects)

    def limit_ranking(self, had: int, has: int, may_have_expired: bool) -> None:
        """Adds the effect of an edit of N on a ranking's rows.

        >>> found = Evolution()
        >>> found.limit_ranking(had=5, has=3, may_have_expired=False)
        >>> found.sentence
        'the ranking, of 3 rows instead of 5, is rebuilt'
        >>> found.limit_ranking(had=3, has=5, may_have_expired=False)
        >>> found.refused
        ['the ranking is of 5 rows and was of 3, and no others are kept, so those that move up are lost']
        """
        if has > had:
            self.refused.append(MORE_ROWS.format(has, had))
        elif has < had and may_have_expired:
            # Rows of closed windows, and of rankings that may have expired, are not changed.
            self.limited_rankings.append(f"the ranking of {counted(has, 'row')} instead of {had}")
        elif has < had:
            self.rebuilt.append(f"the ranking, of {counted(has, 'row')} instead of {had},")


def edit_text(differences: Sequence[str]) -> str:
    """Returns the beginning of a sentence that lists how the query of a state has changed."""
    return f"its query has changed in what its state depends on ({'; '.join(differences)})"
