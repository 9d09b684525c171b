"""Kinds of SQL functions: scalar, aggregate, generator, OVER.

Spark's own functions are listed in `spark_functions`. The kind of any other (a UDF, a UDAF, a function of a catalog)
is only known to a session. Planning without one assumes a scalar function, and the plan names it.
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
    """Kind of a function by the rows it reads and returns."""

    SCALAR = "a value of each row"
    AGGREGATE = "one value of many rows"
    GENERATOR = "rows of each row"
    WINDOW = "a value of each row and its neighbours"


Functions: TypeAlias = Callable[[str, int], "Kind | None"]
"""Maps name and number of arguments to the kind of a function that isn't built in. None if there is no such function.
"""

QueryRunner: TypeAlias = Callable[[str], Sequence[object]]
"""Runs a query of one row in a session."""

_BUILTIN = ("builtin", "system.builtin")
# Sample arguments of each type that a UDF may require.
_SAMPLES = ("null", "'1'", "1", "1D", "true", "timestamp'2000-01-01'", "array(1)", "map('a', 1)", "x''")


def builtin_kind(name: str) -> Kind | None:
    """Returns the kind of a built-in function, by its name in lower case. None if it isn't built in.

    >>> builtin_kind("try_sum"), builtin_kind("my_function")
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
    """Whether a node is a generator, such as EXPLODE or STACK."""
    if isinstance(node, exp.UDTF):
        return not isinstance(node, exp.Values)  # VALUES has rows, but not from a row
    return isinstance(node, exp.Func) and builtin_kind(function_name(node)) is Kind.GENERATOR


def mark_functions(tree: exp.Expr, functions: Functions | None) -> tuple[str, ...]:
    """Marks the calls of aggregates that aren't built in. Changes the tree.

    Args:
        functions: looks functions up in a session. None without one.

    Returns:
        Functions whose kind is unknown, because there is no session.

    Raises:
        QueryError: the session can't determine a function's kind.
    """
    unknown: dict[str, None] = {}
    for call, whole, name, kind in _calls_without_class(tree):
        if kind is None and functions is not None:
            kind = functions(name, len(arguments(call)))
        elif kind is None:
            unknown.setdefault(name)
        if kind is Kind.AGGREGATE:
            whole.replace(exp.AnonymousAggFunc(this=name, expressions=call.expressions))
    return tuple(unknown)


def missing_functions(tree: exp.Expr, functions: Functions) -> tuple[str, ...]:
    """Returns the functions that a query calls and a session doesn't have."""
    others = ((name, call) for call, _, name, kind in _calls_without_class(tree) if kind is None)
    return tuple({name: None for name, call in others if functions(name, len(arguments(call))) is None})


def _calls_without_class(tree: exp.Expr) -> Iterator[tuple[exp.Anonymous, exp.Expr, str, Kind | None]]:
    """The calls that sqlglot has no class for: each with its qualified node, its name, and its kind if built in."""
    for call in list(every(tree, exp.Anonymous)):
        whole = _qualified_call(call)
        if isinstance(whole.parent, exp.Hint | exp.Table | exp.Lateral):
            continue
        name = _written_name(whole)
        prefix, _, last = name.rpartition(".")
        own = not prefix or prefix.lower() in _BUILTIN
        yield call, whole, name, builtin_kind(last.strip("`").lower()) if own else None


def session_functions(ask: QueryRunner) -> Functions:
    """Returns a function that looks functions up in a session."""

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
                return _kind_in_plan(plan)
            if "UNRESOLVED_ROUTINE" in answer:
                return None
        raise QueryError(
            f"Whether {name}() is an aggregate isn't known: Spark rejects it for every type of argument "
            f"({_error_line(answer)}). Register it with the types of its arguments."
        )

    return kind


def _kind_in_plan(plan: str) -> Kind:
    # Lines that begin with ":" belong to a subquery, such as the body of a SQL function.
    lines = (line.lstrip() for line in plan.splitlines())
    operators = [line.lstrip(" +-").partition(" ")[0] for line in lines if not line.startswith(":")]
    if "Aggregate" in operators:
        return Kind.AGGREGATE
    return Kind.GENERATOR if "Generate" in operators else Kind.SCALAR


def _error_line(answer: str) -> str:
    found = [line.strip() for line in answer.splitlines() if "[" in line]
    return (found or answer.strip().splitlines() or [""])[0].rstrip(".")[:200]


def _qualified_call(call: exp.Expr) -> exp.Expr:
    """Returns a call with the catalog and schema that qualify it."""
    while isinstance(call.parent, exp.Dot) and call.parent.expression is call:
        call = call.parent
    return call


def _function_identifier(call: exp.Anonymous) -> exp.Expr:
    name = call.this
    return name if isinstance(name, exp.Expr) else exp.Identifier(this=name)


def _written_name(node: exp.Expr) -> str:
    """Returns a function's name as written, without arguments."""
    if isinstance(node, exp.Dot):
        return f"{_written_name(node.this)}.{_written_name(node.expression)}"
    return sql(_function_identifier(node)) if isinstance(node, exp.Anonymous) else sql(node)


def is_random(call: exp.Func) -> bool:
    """Whether a call is non-deterministic."""
    if isinstance(call, exp.Connector | exp.Cast | exp.Case):
        return False
    name = function_name(call)
    return name in NONDETERMINISTIC and not (name == "aes_encrypt" and _is_repeatable_cipher(call))


def _is_repeatable_cipher(call: exp.Func) -> bool:
    """Whether an ``aes_encrypt(text, key, mode, padding, iv)`` draws no initialization vector."""
    given = arguments(call)
    if len(given) >= 5:
        return True
    return len(given) >= 3 and given[2].is_string and given[2].name.upper() == "ECB"
