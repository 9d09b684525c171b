"""Walks the tree of operators that `explain` prints, and writes it as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..plan.explanation import Explanation


def operators_in_order(root: Explanation) -> Iterator[Explanation]:
    """Yields an operator and all operators below it, the operator first, each once."""
    seen: set[str] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.identity not in seen:
            seen.add(node.identity)
            yield node
            waiting += reversed(node.inputs)


def text_in_one_line(root: Explanation) -> str:
    """Returns the tree as a line of text, from the operator at the top to its inputs. A repeated operator is only named.

    >>> source = Explanation("Source", "orders", "source_1")
    >>> join = Explanation("Join", "a.k = b.k", "join_1", inputs=(source, source))
    >>> text_in_one_line(Explanation("Sink", "shop.paid", "sink", inputs=(join,)))
    'Sink shop.paid ← Join a.k = b.k ← (Source orders, Source as before)'
    """
    seen: set[str] = set()

    def shown(node: Explanation) -> str:
        if node.identity in seen:
            return f"{node.operator} as before"
        seen.add(node.identity)
        inputs = [shown(each) for each in node.inputs]
        below = ", ".join(inputs) if len(inputs) < 2 else f"({', '.join(inputs)})"
        return f"{node.operator} {node.description}{' ← ' if inputs else ''}{below}"

    return shown(root)


def tree_as_dict(root: Explanation) -> dict[str, Any]:
    """Returns the tree as plain JSON; a repeated operator is replaced by its identity.

    >>> source = Explanation("Source", "orders", "source_1")
    >>> tree = tree_as_dict(Explanation("Join", "a.k = b.k", "join_1", inputs=(source, source)))
    >>> [each.get("description", "as above") for each in tree["inputs"]]
    ['orders', 'as above']
    """
    seen: set[str] = set()

    def shown(node: Explanation) -> dict[str, Any]:
        if node.identity in seen:
            return {"operator": node.operator, "see": node.identity}
        seen.add(node.identity)
        computing = node.computing
        return {
            "operator": node.operator,
            "description": node.description,
            "identity": node.identity,
            "changelog": {"mode": node.changelog.kind, "key": list(node.changelog.key)},
            "key": None if node.key is None else list(node.key),
            "event_time": node.event_time,
            "computes": {"how": computing.how, "by": list(computing.by), "cost": computing.cost or None},
            "state": [
                {"part": s.part, "columns": list(s.columns), "rows": s.rows, "clears": s.clears}
                for s in node.state
            ],
            "shares_state": list(node.shares),
            "metrics": [
                {"sql": m.sql, "function": m.function, "columns": list(m.columns), "how": m.how}
                for m in node.metrics
            ],
            "notes": list(node.notes),
            "inputs": [shown(each) for each in node.inputs],
        }

    return shown(root)
