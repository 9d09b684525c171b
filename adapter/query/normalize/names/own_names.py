"""Names of columns that generated SQL makes, kept apart from those of a model's author.

Generated SQL calls columns of its own ``__row_time``, ``__stream_weight`` and so on, and what is kept in a state is found
by some of these names, so they stay what they are. A model whose author has such a name, which is rare, is planned with
the author's ones marked. What is generated then tells whose each is: the marks are taken off, and names of generated SQL
that the author has, too, become others.

>>> from ...sql.dialect import parse, sql
>>> tree = parse("select __sign, v as __life from t where x = '__sign'")
>>> taken = taken_by_author(tree)
>>> mark(tree)
>>> sql(tree)
"SELECT __of_author0sign, v AS __of_author0life FROM t WHERE x = '__sign'"
>>> apart("select *, `__SIGN` as __sign, __time from (" + sql(tree) + ")", taken)
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
from ...frontend.streams import Known
from ...program import Program, with_texts
from ...sql import names
from ...sql.names import unmarked
from ...sql.nodes import every

_T = TypeVar("_T")
_IS_OURS = re.compile(r"__\w+|_[wt](?:_\d+)?")
"""What generated SQL, and sqlglot where it writes QUALIFY otherwise, may call something."""
_TOKEN = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`]|``)*`|[^\W\d]\w*""", re.DOTALL)
_PRINTED = "__minute"
"""What macros print: a variable of a lambda."""


def may_be_ours(name: str) -> bool:
    """Whether generated SQL may call something so."""
    return _IS_OURS.fullmatch(name.lower()) is not None and name.lower() != _PRINTED


def taken_by_author(tree: exp.Expr, columns: Iterable[str] = ()) -> frozenset[str]:
    """The names, in lower case, that generated SQL may have for something else.

    Args:
        tree: a model's.
        columns: those of what it reads.
    """
    return frozenset({node.name.lower() for node in _of_author(tree)} | set(filter(may_be_ours, columns)))


def mark(tree: exp.Expr) -> None:
    """Marks the names of the author's columns, and of relations in a query. Changes the tree."""
    for node in list(_of_author(tree)):
        node.set("this", names.marked(node.this))


def _of_author(tree: exp.Expr) -> list[exp.Expr]:
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
                f"'{node.name}' begins with what names of columns are marked with while a query is planned; call it "
                "something else."
            )
        around = node.parent
        is_table = isinstance(around, exp.Table)
        is_qualified = around is not None and bool(around.args.get("db"))
        is_relation = is_table or (isinstance(around, exp.Column) and node.arg_key != "this")
        if not is_relation or (node.name.lower() in queries and not is_qualified):
            found.append(node)
    return found


def marked_column(name: str) -> str:
    """A column of the author's, as it is called in a tree that is marked."""
    return names.marked(name) if may_be_ours(name) else name


def as_planned(columns: tuple[str, ...], taken: Collection[str]) -> tuple[str, ...]:
    """Columns of the author's, as a plan has them in which these names are marked."""
    return tuple(map(marked_column, columns)) if taken else columns


def marked(known: Mapping[str, Known]) -> dict[str, Known]:
    """What is known of relations, for such a tree."""
    return {
        relation: replace(
            what,
            event_time=None if what.event_time is None else marked_column(what.event_time),
            key=tuple(map(marked_column, what.key)),
        )
        for relation, what in known.items()
    }


def marked_in(answer: object, taken: Collection[str]) -> object:
    """What a session answers, as of the types of columns, for such a tree."""
    if not isinstance(answer, str):
        return answer
    return re.sub(
        r"\w+", lambda found: names.marked(found[0]) if found[0].lower() in taken else found[0], answer
    )


@contextmanager
def as_written() -> Iterator[None]:
    """Has messages of the block name things as the author does."""
    try:
        yield
    except QueryError as problem:
        raise type(problem)(unmarked(str(problem))) from problem.__cause__


def apart(made: _T, taken: Collection[str]) -> _T:
    """Generated SQL, or something that holds some, without marks, in which no name is another one's, too.

    Args:
        made: what was planned of a tree that is marked.
        taken: the names that the author has; none: nothing was marked.
    """
    if not taken:
        return made

    def renamed(name: str) -> str:
        if names.is_marked(name):
            return unmarked(name)
        if name.lower() not in taken:
            return name
        number = 2
        while f"{name.lower()}__{number}" in taken:
            number += 1
        return f"{name}__{number}"

    def of_token(found: re.Match[str]) -> str:
        token = found[0]
        if token[0] in "'\"":
            return unmarked(token)
        return f"`{renamed(token[1:-1])}`" if token[0] == "`" else renamed(token)

    def of_text(text: str) -> str:
        return _TOKEN.sub(of_token, text)

    result: Any = with_texts(made, of_text)
    if isinstance(made, Program):
        # Names of states are the same, whatever generated SQL calls its own.
        alike = None if made.alike is None else partial(_unmarked, made.alike)
        return replace(result, signature=with_texts(made.signature, unmarked), alike=alike)
    return result


def _unmarked(told: Callable[[], Any]) -> Any:
    return with_texts(told(), unmarked)
