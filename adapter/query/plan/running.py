"""Running aggregates: an OVER whose frame begins with the partition's first row stores one row per partition
instead of all.

Each row has values that are merged with those of the preceding rows. The merged values of all emitted rows
are stored with the last one, and used in the frames of later rows.

>>> from ..sql.dialect import parse, sql
>>> query = parse("select k, avg(v) over (partition by k order by ts) as mean from __input_0 as s")
>>> made, values = with_running_values(query, "s")
>>> for each in values: print(each.value)
v / 1
CAST(NOT v IS NULL AS BIGINT)
>>> sql(made.expressions[1].this).replace(" OVER (PARTITION BY k ORDER BY ts)", " …")
'(SUM(`s`.`__run_f73e986967`) … / NULLIF(SUM(`s`.`__run_472596ee25`) …, 0))'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from ..aggregates.types import types_of
from ..sql.clauses import over_clauses
from ..sql.dialect import DIALECT, arguments, canonical, function_name, sql
from ..sql.names import digest
from ..sql.nodes import every

_PLAIN = ("bigint", "double")
"""Types whose sums can be summed again without a cast."""


@dataclass(frozen=True)
class RunningValue:
    """A value of each row, and the SQL that merges it with the values of the preceding rows."""

    value: str
    """SQL over the row."""
    merge: str = "sum({0}) {over}"
    """SQL over ``{0}``, the rows' values, and ``{1}``, the values of `counted`; ``{over}`` is the OVER clause."""
    counted: str = ""
    """Column with the number of values that a row's value is the sum of; empty if `merge` needs none."""

    @property
    def column(self) -> str:
        """Returns the column's name. It contains a digest of the definition, so that a query over other
        values has another text."""
        return f"__run_{digest(self.value, self.merge)}"

    def merge_sql(self, over: str, alias: str | None = None) -> str:
        """Returns SQL that merges it with the values of other rows."""
        columns = [
            sql(exp.column(name, table=alias, quoted=True)) for name in (self.column, self.counted) if name
        ]
        return self.merge.format(*columns, over=over)


def with_running_values(
    template: exp.Select, alias: str
) -> tuple[exp.Select, tuple[RunningValue, ...]] | None:
    """Returns a SELECT whose OVER clauses merge running values, and these values.

    Args:
        template: SELECT whose frames end with the row itself.

    Returns:
        None if a clause is another aggregate, or its frame begins elsewhere.
    """
    made = template.copy()
    computed = {
        item.alias.lower() for item in made.expressions if item.alias and item.this.name != item.alias
    }
    values: list[RunningValue] = []
    found = []
    for window in over_clauses(made):
        of_window = _running_values(window, alias)
        # A name may be that of another select item, and a subquery's columns aren't columns of the row.
        names = {each.name.lower() for each in every(window.this, exp.Column) if not each.table}
        if of_window is None or names & computed or window.find(exp.Query):
            return None
        values += [each for each in of_window[0] if each not in values]
        found.append((window, *of_window))
    for window, running, result in found:
        over = [each.merge_sql(_over_clause_sql(window), alias) for each in running]
        window.replace(exp.Paren(this=exp.maybe_parse(result.format(*over), dialect=DIALECT)))
    return made, tuple(values)


def _over_clause_sql(window: exp.Window) -> str:
    """Returns the text from OVER on."""
    copy = window.copy()
    copy.set("this", exp.RowNumber())
    return sql(copy).removeprefix("ROW_NUMBER() ")


def _running_values(window: exp.Window, alias: str) -> tuple[Sequence[RunningValue], str] | None:
    """Returns the running values of an OVER clause, and a template of its result over them, merged; None if its function
    or its frame isn't running."""
    function = window.this.copy()
    for column in every(function, exp.Column):
        # The state names a value by its text, independent of the alias.
        if column.table.lower() == alias.lower():
            column.set("table", None)
    spec = window.args.get("spec")
    if spec is not None and not _is_running_frame(spec):
        return None
    if not isinstance(function, exp.AggFunc) or any(
        isinstance(each, exp.Distinct) for each in function.walk()
    ):
        return None
    name, values = function_name(function), arguments(function)
    if name == "count":
        return [_count_of_row([each for each in values if not isinstance(each, exp.Star)])], "{0}"
    if len(values) != 1:
        return None
    (value,) = values
    if name in ("min", "max"):
        return [RunningValue(canonical(value), f"{name}({{0}}) {{over}}")], "{0}"
    return _sum_or_mean(function, name, value) if name in ("sum", "avg", "mean") else None


def _count_of_row(values: Sequence[exp.Expr]) -> RunningValue:
    """Returns the running value of COUNT: 1 for a row in which no value is NULL, and 0 for other rows."""
    in_brackets = (exp.Connector, exp.Not, exp.Predicate)
    operands = [exp.paren(each) if isinstance(each, in_brackets) else each.copy() for each in values]
    tests = [exp.Not(this=exp.Is(this=each, expression=exp.null())) for each in operands]
    return RunningValue(canonical(_cast(exp.and_(*tests) if tests else exp.true(), "bigint")))


def _cast(value: exp.Expr, kind: str) -> exp.Expr:
    return exp.cast(value, kind, dialect=DIALECT)


def _sum_or_mean(function: exp.Expr, name: str, value: exp.Expr) -> tuple[Sequence[RunningValue], str] | None:
    """Returns the running values of SUM or AVG, and a template of the result, as `_running_values` does."""
    types = types_of(function)
    is_mean = name != "sum"
    count = _count_of_row([value])
    mean = "{0} / nullif({1}, 0)"
    if types is None:
        # Planned without a session: the types are unknown, and the plan is only displayed.
        total = RunningValue(canonical(value / 1 if is_mean else value))
        return ([total, count], mean) if is_mean else ([total], "{0}")
    if is_mean and types.result == "double":
        return [RunningValue(canonical(_cast(value, "double"))), count], mean
    of_type = canonical(_cast(value, types.sum))
    if types.sum in _PLAIN and not is_mean:
        return [RunningValue(of_type)], "{0}"
    if not types.sum.startswith("decimal"):
        return None
    # Without ANSI mode an overflowing sum is NULL, and stays NULL.
    overflowed = "bool_or({0} is null and {1} <> 0) {over}"
    total = RunningValue(
        of_type, f"case when not {overflowed} then cast(sum({{0}}) {{over}} as {types.sum}) end", count.column
    )
    return [total, count], f"cast({mean} as {types.result})" if is_mean else "{0}"


def _is_running_frame(spec: exp.Expr) -> bool:
    """Whether a frame has all rows from the first of the partition to the row itself."""
    start, end = (str(spec.args.get(each) or "CURRENT ROW").upper() for each in ("start", "end"))
    return start == "UNBOUNDED" and end == "CURRENT ROW" and not spec.args.get("exclude")
