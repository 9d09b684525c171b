"""Fast walks and comparisons of sqlglot trees. Planning does hundreds, and sqlglot's own use two generators per node,
or print text."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TypeVar, cast

from sqlglot import exp

_T = TypeVar("_T", bound=exp.Expr)
_NODE = exp.Expr
_NODE_OR_LIST = (_NODE, list)  # a union would be built for each comparison
_LEAVES = frozenset({exp.Identifier, exp.Literal})
_NAMES = frozenset({exp.Identifier, str})


@cache
def _leaves(kinds: tuple[type[exp.Expr], ...]) -> frozenset[type[exp.Expr]]:
    """Returns the types of nodes that contain no node of the given types if their content is a name. (A column may also
    contain a star, or a call after a schema.)"""
    return _LEAVES if issubclass(exp.Identifier, kinds) else _LEAVES | {exp.Column}


def every(tree: exp.Expr, *kinds: type[_T]) -> Iterator[_T]:
    """Yields the nodes of these types, outermost first, in the order of sqlglot's `find_all`.

    >>> from .dialect import parse
    >>> [each.name for each in every(parse("select a, b + c from t"), exp.Column)]
    ['a', 'b', 'c']
    """
    queue: list[exp.Expr] = [tree]
    add = queue.append
    leaves = _leaves(kinds)
    # The queue grows while it is iterated.
    for node in queue:
        if isinstance(node, kinds):
            yield node
        if type(node) in leaves and type(node.args["this"]) in _NAMES:
            continue
        for value in node.args.values():
            if not value:
                continue
            if type(value) is list:
                for each in value:
                    if isinstance(each, _NODE):
                        add(each)
            elif isinstance(value, _NODE):
                add(value)


def children(node: exp.Expr) -> list[exp.Expr]:
    """Returns the nodes directly below a node, in the order of the text."""
    found: list[exp.Expr] = []
    for value in node.args.values():
        if isinstance(value, _NODE):
            found.append(value)
        elif type(value) is list:
            found += [each for each in value if isinstance(each, _NODE)]
    return found


def holds(tree: exp.Expr, *kinds: type[exp.Expr]) -> bool:
    """Whether a tree has a node of these types."""
    return next(every(tree, *kinds), None) is not None


def copied(tree: _T, replacements: Mapping[int, exp.Expr] | None = None) -> _T:
    """Returns a copy of a tree, in half the time of sqlglot's. Values of its metadata are shared, and must not be changed.

    Args:
        replacements: id of a node → the tree that is copied instead of it.

    >>> from .dialect import parse
    >>> tree = parse("select a, b + c from t")
    >>> copied(tree) == tree, copied(tree) is tree
    (True, False)
    >>> copied(tree, {id(tree.expressions[0]): exp.column("d")}).expressions[0].name
    'd'
    """
    copy = _copied_under(tree, replacements, None, None, None)
    return cast(_T, copy)


def _copied_under(
    tree: exp.Expr,
    replacements: Mapping[int, exp.Expr] | None,
    parent: exp.Expr | None,
    arg_key: str | None,
    index: int | None,
) -> exp.Expr:
    """Returns a copy of a tree, or of the tree that replaces it, under a new parent."""
    if replacements and (other := replacements.get(id(tree))) is not None:
        return _copied_under(other, None, parent, arg_key, index)
    copy = tree.__class__.__new__(tree.__class__)
    copy.parent, copy.arg_key, copy.index = parent, arg_key, index
    copy.comments = tree.comments and [*tree.comments]
    copy._type = tree._type
    copy._meta = tree._meta and {**tree._meta}
    copy._hash = None if replacements else tree._hash
    args = copy.args = {**tree.args}
    if type(tree) in _LEAVES and type(args["this"]) is str:
        return copy
    for name, value in args.items():
        if isinstance(value, _NODE):
            args[name] = _copied_under(value, replacements, copy, name, None)
        elif type(value) is list:
            args[name] = [
                _copied_under(each, replacements, copy, name, place) if isinstance(each, _NODE) else each
                for place, each in enumerate(value)
            ]
    return copy


def selects_around(node: exp.Expr) -> Iterator[exp.Select]:
    """Yields the SELECTs that a node is in, innermost first."""
    around = node.parent
    while around is not None:
        if isinstance(around, exp.Select):
            yield around
        around = around.parent


def with_metadata_of(node: _T, item: exp.Expr) -> _T:
    """Copies an item's metadata (such as its type) to a node that selects it. Changes the node."""
    node.meta.update(item.unalias().meta)
    return node


def quoted_column(name: str, table: str | None = None) -> exp.Column:
    """Returns a column with quotes around its name, but not around the alias of its relation."""
    return exp.column(exp.to_identifier(name, quoted=True), table=table)


def star_without(names: Iterable[str], quoted: bool = True) -> exp.Star:
    """Returns a star that leaves columns out."""
    hidden = [exp.to_identifier(name, quoted=quoted) for name in names]
    return exp.Star(except_=hidden) if hidden else exp.Star()


def is_name(node: exp.Expr) -> bool:
    """Whether a node is a name, a unit or a type, which has no value: a field of a struct may be called like a column.

    >>> from .dialect import parse
    >>> kinds = exp.Identifier, exp.Var, exp.DataType
    >>> names = every(parse("select struct(k), v + interval 1 day, cast(v as date)"), *kinds)
    >>> all(map(is_name, names)), is_name(exp.column("k"))
    (True, False)
    """
    return isinstance(node, exp.Identifier | exp.Var | exp.DataType)


def replace_each(tree: exp.Query, kind: type[_T], rewrite: Callable[[_T], exp.Query | None]) -> exp.Query:
    """Replaces each node of a type by what `rewrite` returns for it, innermost first because outer ones copy inner ones.
    Nodes for which it returns None stay. Changes the tree, and returns it with its root replaced, too."""
    for node in reversed(list(every(tree, kind))):
        if (made := rewrite(node)) is not None:
            if node is tree:
                tree = made
            else:
                node.replace(made)
    return tree


@contextmanager
def temporarily_replaced(nodes: Sequence[tuple[exp.Expr, exp.Expr]]) -> Iterator[None]:
    """Replaces nodes of a tree within the context, so that copying or printing skips what is below them.

    Args:
        nodes: pairs of a node (not the root) and its replacement, which is in no tree.
    """
    for node, other in nodes:
        assert node.parent is not None  # a root can't be replaced
        node.replace(other)
    try:
        yield
    finally:
        for node, other in nodes:
            other.replace(node)


def shape(node: object, exact: bool = False) -> Hashable:
    """Returns a hashable value that is equal for two trees only if their texts are equal, ignoring quotes, comments,
    case of names, and default keywords (ASC). With `exact`, default keywords count.

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
    if not isinstance(node, _NODE):
        return tuple([shape(each, exact) for each in node]) if isinstance(node, list) else node
    found: list[object] = [type(node)]
    # With `exact` unsorted, because texts may be printed in the order of the arguments.
    for name, value in node.args.items() if exact else sorted(node.args.items()):
        if value is None or (not exact and (value is False or (type(value) is list and not value))):
            continue
        found += [name, shape(value, exact) if isinstance(value, _NODE_OR_LIST) else value]
    return tuple(found)
