"""What is in a tree, and what it says: a plan asks hundreds of times, and sqlglot's own walk goes through two generators for
each node, and its texts are printed."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from sqlglot import exp

_T = TypeVar("_T", bound=exp.Expr)


def every(tree: exp.Expr, *kinds: type[_T]) -> Iterator[_T]:
    """The nodes of a tree that are of a kind, the outermost first, as sqlglot's `find_all` gives them.

    >>> from .dialect import parse
    >>> [each.name for each in every(parse("select a, b + c from t"), exp.Column)]
    ['a', 'b', 'c']
    """
    queue: list[exp.Expr] = [tree]
    # It grows as it is gone through.
    for node in queue:
        if isinstance(node, kinds):
            yield node
        for value in node.args.values():
            if type(value) is list:
                queue += [each for each in value if isinstance(each, exp.Expr)]
            elif isinstance(value, exp.Expr):
                queue.append(value)


def holds(tree: exp.Expr, *kinds: type[exp.Expr]) -> bool:
    """Whether a tree has a node of a kind."""
    return next(every(tree, *kinds), None) is not None


def with_notes_of(node: _T, item: exp.Expr) -> _T:
    """A node with what is noted of an item (of which type it is, say) that it hands on. Changes the node."""
    node.meta.update(item.unalias().meta)
    return node


@contextmanager
def standing_in(nodes: Sequence[tuple[exp.Expr, exp.Expr]]) -> Iterator[None]:
    """Has other nodes stand in the place of some of a tree, each of which has another above it, for as long as the tree is
    copied or printed: what is below them needn't be then.

    Args:
        nodes: pairs of one of the tree and one that is in none.
    """
    for node, other in nodes:
        assert node.parent is not None  # or it would be left where it is
        node.replace(other)
    try:
        yield
    finally:
        for node, other in nodes:
            other.replace(node)


def shape(node: object, exact: bool = False) -> Hashable:
    """What a tree says, to be compared: that of two is the same only if these are of the same text, but for quotes,
    comments, the case of names, and words that are meant where they aren't written (ASC). With `exact` these words make
    a difference.

    >>> from .dialect import parse
    >>> shape(parse("select `A` from t -- all of them")) == shape(parse("select a from T"))
    True
    >>> shape(parse("select 'A' from t")) == shape(parse("select 'a' from t"))
    False
    >>> one, other = parse("select a from t order by a"), parse("select a from t order by a asc")
    >>> shape(one) == shape(other), shape(one, exact=True) == shape(other, exact=True)
    (True, False)
    """
    if isinstance(node, exp.Identifier):
        return exp.Identifier, node.this.lower()
    if isinstance(node, exp.Expr):
        if exact:
            # In their own order, which may be that in which they are printed.
            said = [(name, value) for name, value in node.args.items() if value is not None]
        else:
            said = [(name, value) for name, value in sorted(node.args.items()) if not _is_nothing(value)]
        return (type(node), *((name, shape(value, exact)) for name, value in said))
    return tuple(shape(each, exact) for each in node) if isinstance(node, list) else node


def _is_nothing(value: object) -> bool:
    return value is None or value is False or (type(value) is list and not value)
