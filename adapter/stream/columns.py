"""Are the columns of a query some that its table can take? Told before anything is made or read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..query.program import BATCH_ID, CHANGE_TYPE, Program
from .errors import StreamError
from .model import StreamModel

_NOT_COMPARED = re.compile(r"\b(map|variant)\b(?!`)")


def check_columns(
    model: StreamModel, program: Program, gives: Mapping[str, str], has: Sequence[str] | None
) -> None:
    """Return if the query's columns are those of the table, and some that a changing row can have.

    Args:
        model: the model.
        program: what a micro-batch does.
        gives: the query's columns and their types.
        has: the table's columns; None: it is made by this run.

    Raises:
        StreamError: they are not; what to write instead.
    """
    if has is not None:
        check_same(model, list(gives), has)
    if model.changelog:
        for name in gives:
            if name.lower() in (CHANGE_TYPE, BATCH_ID):
                raise StreamError(
                    f"Model {model.name}: its column {name} is one that the table of its changes has for itself; give it "
                    "another name."
                )
    if program.upsert is None:
        return
    for name, kind in gives.items():
        if found := _NOT_COMPARED.search(kind):
            which = found[1].upper()
            other = f"map_entries({name}) or to_json({name})" if which == "MAP" else f"to_json({name})"
            raise StreamError(
                f"Model {model.name}: its column {name} is or holds a {which}, which Spark can't compare, and rows of this "
                f"query change, so they are compared with those in the table. Select {other} instead."
            )


def check_same(model: StreamModel, of_query: Sequence[str], of_table: Sequence[str]) -> None:
    """Return if a query has a table's columns.

    Raises:
        StreamError: it hasn't, and which are missing where.
    """
    has = {name.lower() for name in of_table}
    gives = {name.lower() for name in of_query}
    if has == gives:
        return
    differences = [
        *(f"the query gives {name}, which the table lacks" for name in sorted(gives - has)),
        *(f"the table has {name}, which the query doesn't give" for name in sorted(has - gives)),
    ]
    raise StreamError(
        f"Model {model.name}: its table {model.target} has other columns than its query "
        f"({'; '.join(differences)}). To build it anew from its sources: {model.rebuild}. To keep it as it is, name the "
        "table's columns in the select list."
    )
