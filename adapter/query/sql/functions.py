"""What a function of SQL is: one that makes a value of a row, of many rows, or rows of a row.

Spark's own functions are listed in `spark_functions`. Of any other (a UDF, a UDAF, a function of a
catalog) only a session can tell; planning without one takes it for a function of a row, and the plan
names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import cache
from typing import TypeAlias

from sqlglot import exp

from ..errors import QueryError
from . import spark_functions
from .dialect import arguments, function_name, sql
from .nodes import every
from .spark_functions import NONDETERMINISTIC


class Kind(Enum):
    """What a function makes of rows."""

    SCALAR = "a value of each row"
    AGGREGATE = "one value of many rows"
    GENERATOR = "rows of each row"
    WINDOW = "a value of each row and its neighbours"


Functions: TypeAlias = Callable[[str, int], "Kind | None"]
"""Name and number of arguments → the kind of a function that isn't Spark's own; None: there is none."""

QueryRunner: TypeAlias = Callable[[str], Sequence[object]]
"""Carries out a query of one row in a session."""

_BUILTIN = ("builtin", "system.builtin")
# What a UDF may ask of its arguments' types.
_SAMPLES = ("null", "'1'", "1", "1D", "true", "timestamp'2000-01-01'", "array(1)", "map('a', 1)", "x''")


def builtin(name: str) -> Kind | None:
    """The kind of one of Spark's own functions, by its name in lower case.

    >>> builtin("try_sum"), builtin("my_function")
    (<Kind.AGGREGATE: 'one value of many rows'>, None)
    """
    if name in spark_functions.AGGREGATES:
        return Kind.AGGREGATE
    if name in spark_functions.GENERATORS:
        return Kind.GENERATOR
    if name in spark_functions.WINDOWS:
        return Kind.WINDOW
    return Kind.SCALAR if name in spark_functions.SCALARS else None


def makes_rows(node: exp.Expr) -> bool:
    """Whether a part of a query makes rows of a row, as EXPLODE and STACK do."""
    if isinstance(node, exp.UDTF):
        return not isinstance(node, exp.Values)  # rows of their own
    return isinstance(node, exp.Func) and builtin(function_name(node)) is Kind.GENERATOR


def mark(tree: exp.Expr, functions: Functions | None) -> tuple[str, ...]:
    """Makes the calls of aggregates that aren't Spark's own known as such. Changes the tree.

    Args:
        tree: of a query.
        functions: asks a session; None: there is none.

    Returns:
        The functions that nobody could be asked about.

    Raises:
        QueryError: the session can't tell what a function is.
    """
    unknown: dict[str, None] = {}
    for call, whole, name, kind in _calls(tree):
        if kind is None and functions is not None:
            kind = functions(name, len(arguments(call)))
        elif kind is None:
            unknown.setdefault(name)
        if kind is Kind.AGGREGATE:
            whole.replace(exp.AnonymousAggFunc(this=name, expressions=call.expressions))
    return tuple(unknown)


def missing(tree: exp.Expr, functions: Functions) -> tuple[str, ...]:
    """The functions that a query calls and a session doesn't have.

    Args:
        tree: of the query.
        functions: asks the session.
    """
    others = ((name, call) for call, _, name, kind in _calls(tree) if kind is None)
    return tuple({name: None for name, call in others if functions(name, len(arguments(call))) is None})


def _calls(tree: exp.Expr) -> Iterator[tuple[exp.Anonymous, exp.Expr, str, Kind | None]]:
    """The calls that sqlglot has no class for, each with what it is qualified by, its name, and its kind if Spark's own."""
    for call in list(every(tree, exp.Anonymous)):
        whole = _qualified(call)
        if isinstance(whole.parent, exp.Hint | exp.Table | exp.Lateral):
            continue
        name = _name(whole)
        prefix, _, last = name.rpartition(".")
        own = not prefix or prefix.lower() in _BUILTIN
        yield call, whole, name, builtin(last.strip("`").lower()) if own else None


def asked_by(ask: QueryRunner) -> Functions:
    """What a session says of functions.

    Args:
        ask: carries out a query of one row.
    """

    @cache
    def kind(name: str, count: int) -> Kind | None:
        answer = ""
        for sample in _SAMPLES if count else _SAMPLES[:1]:
            call = f"{name}({', '.join([sample] * count)})"
            answer = str(ask(f"explain extended select {call}")[0])
            _, found, plan = answer.partition("== Analyzed Logical Plan ==")
            if "WINDOW_FUNCTION" in answer and "OVER" in answer:
                return Kind.WINDOW
            if found and not plan.strip().startswith("org.apache") and "AnalysisException" not in plan:
                return _of_plan(plan)
            if "UNRESOLVED_ROUTINE" in answer:
                return None
        raise QueryError(
            f"Whether {name}() makes one value of many rows can't be told: Spark refuses it for every kind of argument "
            f"({_reason(answer)}). Register it so that it takes what it is given."
        )

    return kind


def _of_plan(plan: str) -> Kind:
    # What stands in brackets of ":" is a subquery, as in the body of a function that is written in SQL.
    lines = (line.lstrip() for line in plan.splitlines())
    operators = [line.lstrip(" +-").partition(" ")[0] for line in lines if not line.startswith(":")]
    if "Aggregate" in operators:
        return Kind.AGGREGATE
    return Kind.GENERATOR if "Generate" in operators else Kind.SCALAR


def _reason(answer: str) -> str:
    found = [line.strip() for line in answer.splitlines() if "[" in line]
    return (found or answer.strip().splitlines() or [""])[0].rstrip(".")[:200]


def _qualified(call: exp.Expr) -> exp.Expr:
    """A call with the catalog and schema it is named in."""
    while isinstance(call.parent, exp.Dot) and call.parent.expression is call:
        call = call.parent
    return call


def _function(call: exp.Anonymous) -> exp.Expr:
    name = call.this
    return name if isinstance(name, exp.Expr) else exp.Identifier(this=name)


def _name(node: exp.Expr) -> str:
    """The name of a function, as it is written but for its arguments."""
    if isinstance(node, exp.Dot):
        return f"{_name(node.this)}.{_name(node.expression)}"
    return sql(_function(node)) if isinstance(node, exp.Anonymous) else sql(node)


def is_random(call: exp.Func) -> bool:
    """Whether a call gives another value each time it is computed."""
    return (
        not isinstance(call, exp.Connector | exp.Cast | exp.Case) and function_name(call) in NONDETERMINISTIC
    )
