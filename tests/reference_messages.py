"""The messages of the adapter, as its code has them: what is raised, warned of, or written for one of these in a function
of its own. Parts that the adapter fills in are shown as …."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ADAPTER = ROOT / "adapter"
PAGE = ROOT / "docs" / "reference" / "messages.md"
MARKER = re.compile(r"<!-- made: messages (.+?) -->")
INTERNAL = {"AssertionError", "AttributeError", "FailPointError", "RuntimeError", "ValueError"}
"""Errors that no user sees, or that are raised again in other words."""
NO_MESSAGES = (
    "cli",
    "include",
    "query/explain",
    "query/plan/explanation",
    "query/plan/operator",
    "query/plan/state/",
    "query/plan/window_operator",
    "stream/state/inspect",
)
"""Where texts that aren't raised are results, helps or what ``explain`` prints."""
RAISED, WRITTEN = 5, 7
"""Words that a message has at least, besides what is filled in: one that is raised, and another."""
FILLED_IN = re.compile(r"(?<!{){\w*}(?!})")
FRAGMENT = re.compile(r"[a-z_ ]+$")
SENTENCE = re.compile(r".*\w.*[.!]$")
CODE = re.compile(
    r"\(?(…|select|alter|merge|left|when|from)\W*(select|as|from|union|join|table|into)\b"
    r"|.*(\b(left anti join|lateral view|select|case when|SELECT … FROM|is not null and|is not null then)\b"
    r"|\b(if|case|from_json|startswith|coalesce|concat)\(|__|\(\?|\\[bs.]|[|&]|/\*|_micros\b|cast\(\S+ as )"
)
"""SQL, patterns, and names of classes."""
SPECIAL = re.compile(r"([\\*_\[\]|#~<>])")


def text_of(node: ast.AST) -> str | None:
    """Returns the text of a literal; None for another node.

    >>> text_of(ast.parse("f'{model.name}: it has ' + what", mode="eval").body)
    '…: it has …'
    """
    if isinstance(node, ast.Constant):
        return FILLED_IN.sub("…", node.value) if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
        return FILLED_IN.sub("…", "".join(map(str, parts)))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = text_of(node.left), text_of(node.right)
        return None if left is right is None else f"{left or '…'}{right or '…'}"
    return None


def is_message(text: str, is_raised: bool, is_in_function: bool) -> bool:
    """Whether a text of the code is a message, or a part of one."""
    count = len(re.findall(r"[^\W_]{2,}", text))
    if FRAGMENT.match(text):
        return False
    if is_raised:
        return count >= RAISED
    if SENTENCE.match(text) and count >= RAISED:
        return text[0].isupper() or not CODE.match(text)
    return is_in_function and count >= WRITTEN and not CODE.match(text)


def in_code(
    node: ast.AST, module: str, is_raised: bool = False, is_in_function: bool = False
) -> Iterator[str]:
    """Yields the messages below a node.

    Args:
        is_raised: whether the node is below a ``raise`` or in a call that warns.
    """
    if isinstance(node, ast.Raise):
        is_raised = node.exc is not None and ast.unparse(node.exc).partition("(")[0] not in INTERNAL
        if not is_raised:
            return
    elif isinstance(node, ast.Call):
        is_raised = is_raised or ast.unparse(node.func).endswith(("warning", "Note", "Error"))
    elif isinstance(node, ast.FunctionDef):
        is_in_function = True
        if node.name in ("explain", "made"):
            return
    text = text_of(node)
    if text is not None:
        joined = " ".join(text.split()).lstrip(",.; ")
        if is_message(joined, is_raised, is_in_function) and (
            is_raised or not module.startswith(NO_MESSAGES)
        ):
            yield joined
    for child in ast.iter_child_nodes(node):
        is_docstring = isinstance(node, ast.Expr) and isinstance(child, ast.Constant)
        if not is_docstring and (text is None or not isinstance(child, ast.Constant)):
            # What is filled in is a message only if it is one of its own.
            yield from in_code(child, module, is_raised and text is None, is_in_function)


@cache
def messages() -> Mapping[str, list[str]]:
    """Returns the messages of each module that has any, by its path in adapter/."""
    found = {}
    for path in sorted(ADAPTER.rglob("*.py")):
        module = str(path.relative_to(ADAPTER))
        found[module] = [*dict.fromkeys(in_code(ast.parse(path.read_text()), module))]
    return {module: texts for module, texts in found.items() if texts}


def topic_of(module: str, topics: Iterator[str] | list[str]) -> str | None:
    """Returns the topic, a text with the beginnings of paths, that a module belongs to: that of the longest beginning.

    >>> topic_of("query/windows/emission.py", ["query", "query/windows stream"])
    'query/windows stream'
    """
    places = {place: topic for topic in topics for place in topic.split()}
    found = [place for place in places if module.startswith(place)]
    return places[max(found, key=len)] if found else None


def listed(topic: str, page: str) -> str:
    """Returns the list of a topic's messages, in the order of their words."""
    topics = MARKER.findall(page)
    texts = {
        text for module, texts in messages().items() if topic_of(module, topics) == topic for text in texts
    }
    return "".join(f"- {markdown(text)}\n" for text in sorted(texts, key=lambda text: (words(text), text)))


def words(text: str) -> str:
    """Returns the words by which a message is sorted: without what most of them begin with.

    >>> words("Model …: its table is gone."), words("'…' is no column.")
    ('its table is gone.', 'is no column.')
    """
    return re.sub(r"^((Model|Source) …:? |config )?\W*", "", text).lower()


def markdown(text: str) -> str:
    """Returns a message as Markdown, with what was found in bold where what to do follows it.

    >>> print(markdown("Model …: `m_x` has 2 <rows>. Write *."))
    **Model …: `m_x` has 2 \\<rows\\>**. Write \\*.
    """
    parts = re.split(r"(`[^`]+`)", text)
    escaped = "".join(part if part.startswith("`") else SPECIAL.sub(r"\\\1", part) for part in parts)
    return re.sub(r"^(.{12,}?\S)([.;] .*)$", r"**\1**\2", escaped)
