"""Checks the constraints of a contract: for the rows of each micro-batch and, after an edit of the contract, for the
table's rows."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...util.quoting import literal
from ...util.quoting import quote as quoted
from ..common.errors import StreamError, cause_text
from ..common.session import sql
from ..progress.position import PREFIX

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..common.model import Constraint, StreamModel

_CHECKED = f"{PREFIX}constraints"
"""Table property with a digest of the constraints that all its rows meet."""
_BREAKS = "breaks its contract: "
_RAISED = re.compile(
    rf"(Model [^\n]{{1,300}}?: its query gives a row that {_BREAKS}.*?)\s*SQLSTATE: P0001", re.DOTALL
)
_ROW = "left(to_json(struct(*), map('ignoreNullFields', 'false')), 500)"
"""SQL for a row as text of at most 500 characters, for a message."""


def with_checks(model: StreamModel, rows: str, names: Sequence[str]) -> str:
    """Adds constraint checks to a query. Spark raises an error at a row that breaks a constraint. The checks are in the
    select list, from where no optimizer moves them below a join or a filter."""
    if not model.constraints:
        return rows
    first, *others = map(quoted, names)
    cases = []
    for each in model.constraints:
        begin = f"Model {model.name}: its query gives a row that {_BREAKS}{each.says}. The row is "
        end = (
            ". Nothing of this micro-batch is in the table or the state. Leave such rows out in the query, correct "
            "them in their source, or change the contract; the next run continues."
        )
        cases.append(f"when {each.broken} then raise_error(concat({literal(begin)}, {_ROW}, {literal(end)}))")
    checks = f"case {' '.join(cases)} else {first} end as {first}"
    return f"select {', '.join([checks, *others])}\nfrom (\n{rows}\n)"


def violation_error(problem: BaseException) -> StreamError | None:
    """Returns the error about a row that breaks a constraint, if that ended a query; else None."""
    found = _RAISED.search(cause_text(problem))
    return None if found is None else StreamError(found[1])


def check_existing_rows(spark: SparkSession, model: StreamModel, comes: Mapping[str, str]) -> None:
    """Checks a table's rows if the constraints have changed since its last check, and records the check. `comes`:
    columns to be added to the table, with their types; existing rows are NULL in them."""
    rows = dict(map(tuple, spark.sql(f"show tblproperties {model.target}").collect()))
    digest = _digest(model.constraints)
    if rows.get(_CHECKED, "") == digest:
        return
    more = "".join(f", cast(null as {kind}) as {quoted(name)}" for name, kind in comes.items())
    for each in model.constraints:
        select = f"select {_ROW} from (select *{more} from {model.target}) where {each.broken} limit 1"
        if found := sql(spark, select).collect():
            raise StreamError(
                f"Model {model.name}: its table {model.target} has a row that {_BREAKS}{each.says}. The row is "
                f"{found[0][0]}. Correct it in the table, change the contract, or rebuild the table: {model.rebuild}."
            )
    spark.sql(f"alter table {model.target} set tblproperties ({literal(_CHECKED)} = {literal(digest)})")


def _digest(constraints: Sequence[Constraint]) -> str:
    """Returns a digest of the constraints; empty if there are none."""
    listed = sorted(each.broken for each in constraints)
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()[:16] if listed else ""
