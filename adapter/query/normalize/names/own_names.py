"""Avoids collisions between names in generated SQL and the author's.

Generated SQL has columns such as ``__row_time`` and ``__stream_weight``. State is found by some of these names, so
they can't vary. A model whose author uses such a name (rare) is planned with the author's names marked. In the
generated SQL the marks are removed, and generated names that collide are renamed.

>>> from ...sql.dialect import parse, sql
>>> tree = parse("select __sign, v as __life from t where x = '__sign'")
>>> taken = names_taken_by_author(tree)
>>> mark_names(tree)
>>> sql(tree)
"SELECT __of_author0sign, v AS __of_author0life FROM t WHERE x = '__sign'"
>>> separate_names("select *, `__SIGN` as __sign, __time from (" + sql(tree) + ")", taken)
"select *, `__SIGN__2` as __sign__2, __time from (SELECT __sign, v AS __life FROM t WHERE x = '__sign')"
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from sqlglot import exp

from ...errors import QueryError
from ...frontend.streams import RelationInfo
from ...program import Program, with_texts
from ...sql import names
from ...sql.functions import QueryRunner
from ...sql.names import remove_marks
from ...sql.nodes import every

_T = TypeVar("_T")
_IS_OURS = re.compile(r"__\w+|_[wt](?:_\d+)?")
"""Names that generated SQL may use, including those of sqlglot's rewrite of QUALIFY."""
_TOKEN = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`]|``)*`|[^\W\d]\w*""", re.DOTALL)
_PRINTED = "__minute"
"""A lambda variable that macros print."""


def may_be_ours(name: str) -> bool:
    """Whether generated SQL may use this name."""
    return _IS_OURS.fullmatch(name.lower()) is not None and name.lower() != _PRINTED


def names_taken_by_author(tree: exp.Expr, columns: Iterable[str] = ()) -> frozenset[str]:
    """Returns the author's names, in lower case, that generated SQL may use as well.

    Args:
        tree: a model's query.
        columns: of the relations that it reads.
    """
    return frozenset(
        {node.name.lower() for node in _author_names_to_mark(tree)} | set(filter(may_be_ours, columns))
    )


def mark_names(tree: exp.Expr) -> None:
    """Marks the author's names of columns and subqueries that generated SQL may use as well. Changes the tree."""
    for node in list(_author_names_to_mark(tree)):
        node.set("this", names.mark_name(node.this))


def _author_names_to_mark(tree: exp.Expr) -> list[exp.Expr]:
    """Returns the identifiers of a tree that `mark_names` marks."""
    queries = {
        alias.this.name.lower()
        for alias in every(tree, exp.TableAlias)
        if isinstance(alias.this, exp.Identifier)
    }
    found: list[exp.Expr] = []
    for node in every(tree, exp.Identifier):
        if not may_be_ours(node.name):
            continue
        if names.is_marked(node.name.lower()):
            raise QueryError(
                f"'{node.name}' begins with a prefix that is reserved for the planning of queries; give the "
                "column another name."
            )
        around = node.parent
        is_table = isinstance(around, exp.Table)
        is_qualified = around is not None and bool(around.args.get("db"))
        is_relation = is_table or (isinstance(around, exp.Column) and node.arg_key != "this")
        if not is_relation or (node.name.lower() in queries and not is_qualified):
            found.append(node)
    return found


def marked_column(name: str) -> str:
    """Returns the name of an author's column in a marked tree."""
    return names.mark_name(name) if may_be_ours(name) else name


def marked_columns(columns: tuple[str, ...], taken: Collection[str]) -> tuple[str, ...]:
    """Returns the names that columns of the author have in a plan. They are unchanged if `taken` is empty (see
    `names_taken_by_author`), because nothing is marked then."""
    return tuple(map(marked_column, columns)) if taken else columns


def with_marked_columns(known: Mapping[str, RelationInfo]) -> dict[str, RelationInfo]:
    """Returns the properties of relations, with marks in the names of their columns."""
    return {
        relation: replace(
            what,
            event_time=None if what.event_time is None else marked_column(what.event_time),
            key=tuple(map(marked_column, what.key)),
        )
        for relation, what in known.items()
    }


def mark_names_in_answer(answer: object, taken: Collection[str]) -> object:
    """Marks names in a session's answer, such as a struct type.

    Answers that aren't text are returned unchanged.
    """
    if not isinstance(answer, str):
        return answer
    return re.sub(
        r"\w+", lambda found: names.mark_name(found[0]) if found[0].lower() in taken else found[0], answer
    )


def query_runner_of_marked_tree(ask: QueryRunner | None, taken: Collection[str]) -> QueryRunner | None:
    """Returns a query runner for a marked tree: it removes the marks from a query, runs it, and marks the names in its
    answer. None without a session."""
    if ask is None:
        return None
    return lambda query: [mark_names_in_answer(each, taken) for each in ask(separate_names(query, taken))]


@contextmanager
def unmark_errors() -> Iterator[None]:
    """Removes marks from messages of errors raised in the context."""
    try:
        yield
    except QueryError as problem:
        raise type(problem)(remove_marks(str(problem))) from problem.__cause__


def separate_names(made: _T, taken: Collection[str]) -> _T:
    """Removes the marks from generated SQL, and renames generated names that collide with the author's.

    Args:
        made: the plan of a marked tree, or text.
        taken: the author's names. Empty if nothing was marked.
    """
    if not taken:
        return made

    def renamed(name: str) -> str:
        # An unnamed column is called like its text, as in `max(__value)`.
        if (written := remove_marks(name)) != name:
            return written
        if name.lower() not in taken:
            return name
        number = 2
        while f"{name.lower()}__{number}" in taken:
            number += 1
        return f"{name}__{number}"

    def of_token(found: re.Match[str]) -> str:
        token = found[0]
        if token[0] in "'\"":
            return remove_marks(token)
        return f"`{renamed(token[1:-1])}`" if token[0] == "`" else renamed(token)

    def of_text(text: str) -> str:
        return _TOKEN.sub(of_token, text)

    result: Any = with_texts(made, of_text)
    if isinstance(made, Program):
        # Names of state are independent of renamed columns.
        found = None if made.fingerprints is None else partial(_unmarked_result, made.fingerprints)
        return replace(result, signature=with_texts(made.signature, remove_marks), fingerprints=found)
    return result


def _unmarked_result(made: Callable[[], Any]) -> Any:
    return with_texts(made(), remove_marks)
