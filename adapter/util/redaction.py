"""What must not be shown: passwords, tokens and keys, taken out of any text that leaves the process.

Two ways, for either alone leaves gaps. A secret that the profile or a source declares is known by its value,
wherever it comes up again. Any other is recognised by the form that it stands in: the user part of a URL, a
parameter or an option whose name says what it is.

>>> without_secrets("jdbc:postgresql://me:p@ss@db:5432/shop?ssl=true&password=secret")
'jdbc:postgresql://***@db:5432/shop?ssl=true&password=***'
"""

from __future__ import annotations

import re
import threading
import traceback
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from dbt_common.context import try_get_invocation_context

HIDDEN = "***"

_SHORTEST = 4
"""A shorter value is found by its form alone: letters that come up everywhere would make any text unreadable."""

_A_WORD = re.compile(r"[A-Za-z]?[a-z]{,11}\Z|[A-Z]{,11}\Z")
"""dbt takes a value out of words that hold it too, so one that may be a part of others isn't told to it."""

_WORDS = (
    r"password|passwd|passphrase|pwd|secret|token|credential|api[_.-]?key|private[_.-]?key|account[_.-]?key|"
    r"access[_.-]?key|encryption[_.-]?key|jaas[_.-]?config|signature|sharedaccess|user[_.-]?info"
)
_NAME = rf"[\w.-]*(?:{_WORDS}|(?<![\w])sig(?![\w]))[\w.-]*"
_SECRET = re.compile(rf"{_NAME}\Z", re.I)
# These tell something about a secret: where it lies, how long it holds, who gives it. (The id of a key isn't one of them:
# Hadoop calls it an access key, and it goes with the secret.)
_ABOUT = re.compile(
    r"(?:file|path|location|provider|class|type|timeout|enabled|uri|url|(?<!key)(?<!key[_.-])id|scope|interval|algorithm"
    r"|ms|in|count)\Z",
    re.I,
)

_QUOTED = r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|''|[^'\\])*'|\{(?:\}\}|[^}])*\}"
_END = r"\s\"'`"

# scott/tiger@host: Oracle has no // before it.
_ORACLE = re.compile(rf"(?P<before>jdbc:oracle:\w+:)(?P<secret>[^@{_END}][^{_END}]*)(?=@)", re.I)
# Up to the last @: a password may hold one, or a slash.
_USER = re.compile(
    rf"(?P<before>\b(?P<scheme>[a-z][\w+.-]*):/{{2,}})(?P<secret>[^@{_END}][^{_END}]*)(?=@)", re.I
)
# What stands before their @ is a container.
_CONTAINERS = re.compile(r"(?:abfs|wasb)s?\Z", re.I)
_BEARER = re.compile(r"(?P<before>\b(?:bearer|basic)\s+)(?P<secret>[\w.~+/=-]{8,})", re.I)

_BRACKET = rf"\)(?![^\s(),;:/\]{_END}])|,(?=\s*[\w.-]+\s*=)"
_PARAMETERS = tuple(
    re.compile(
        rf"(?P<before>{mark}\s*(?P<name>{_NAME})\s*=)(?P<secret>{_QUOTED}|(?:(?!{end}|[{_END}]).)+)", re.I
    )
    for mark, end in (
        # ';password=a&b;' and '?password=a;b&': what ends a value depends on what its parameter stands behind.
        (r"(?:;|:(?=\w+=))", ";"),
        (r"[?&]", "&"),
        (r"[(,]", _BRACKET),
    )
)
# An option: password -> x, 'password' 'x', "password": "x", (spark.password,x), password=x, password: x.
_OPTION = re.compile(
    rf"(?<![\w.-])(?P<name>{_NAME})"
    rf"(?:[\"'`]\s*(?:[:,=]\s*)?(?=[\"'])|[\"'`]?\s*(?:=>|->|=)\s*|(?<=word):\s+|(?<=\w),(?=[^\s,]+\)))"
    rf"(?P<secret>{_QUOTED}|[^\s,;&)\]}}\"'`]+)",
    re.I,
)
_FORMS = (*_PARAMETERS, _OPTION, _ORACLE, _USER, _BEARER)

_known: set[str] = set()
_lock = threading.Lock()


def without_secrets(text: object) -> str:
    """A text as it may be shown."""
    return _values().sub(_hidden, without_recognised(str(text)))


def without_recognised(text: str) -> str:
    """A text without the secrets that the form they stand in tells. It is the same whatever else is known to be secret.

    >>> without_recognised("jdbc:postgresql://me:p@ss@db/shop"), without_recognised("s3a://shop/orders")
    ('jdbc:postgresql://***@db/shop', 's3a://shop/orders')
    """
    for form in _FORMS:
        text = form.sub(_hidden, text)
    return text


def _hidden(match: re.Match[str]) -> str:
    start, end = match.span("secret")
    first = match.start()
    return match[0][: start - first] + HIDDEN + match[0][end - first :] if _hides(match) else match[0]


def _hides(match: re.Match[str]) -> bool:
    groups = match.groupdict()
    if "name" in groups:
        return is_secret(groups["name"])
    return _CONTAINERS.match(groups.get("scheme") or "") is None or ":" in groups["secret"]


def is_secret(name: str) -> bool:
    """Whether an option of that name holds a secret.

    >>> [is_secret(name) for name in ("fs.s3a.secret.key", "PWD", "ssl.keystore.location", "token-provider")]
    [True, True, False, False]
    """
    return _SECRET.match(name) is not None and _ABOUT.search(name) is None


def has_secrets(options: Mapping[str, Any]) -> bool:
    """Returns whether some options hold secrets.

    >>> has_secrets({"user": "me", "url": "jdbc:postgresql://db/shop"}), has_secrets({"url": "jdbc:postgresql://me:pw@db/shop"})
    (False, True)
    """
    return any(True for _ in _secrets_of(options))


def remember(options: Mapping[str, Any]) -> None:
    """Have the secrets among some options known by their values, also to what dbt writes into its logs."""
    forms = {form for value in _secrets_of(options) for form in _spellings(value) if _is_telling(form)}
    with _lock:
        _known.update(forms)
        context = try_get_invocation_context()
        if context is not None:
            # A list of dbt's, of what the environment calls secret; its loggers put asterisks in their place.
            listed = context.env_secrets
            listed.extend(form for form in _known if form not in listed and not _A_WORD.match(form))


def _is_telling(value: str) -> bool:
    return len(value) >= _SHORTEST and re.fullmatch(r"true|false|[\d.:]+", value, re.I) is None


def _secrets_of(options: Mapping[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _secrets_of(value)
        elif isinstance(value, str) and is_secret(str(name)):
            yield value
        if isinstance(value, str):
            # Alone, a URL ends where the text does, whatever spaces are in it.
            text = value.replace(" ", "\0") if "://" in value or value.startswith("jdbc:") else value
            found = (match["secret"] for form in _FORMS for match in form.finditer(text) if _hides(match))
            yield from (secret.replace("\0", " ") for secret in found)


def _spellings(value: str) -> Iterator[str]:
    """A secret as it was written, and as it is in a URL or out of one; of a user and a password the password."""
    for whole in (value, value.strip("\"'{}")):
        for each in (whole, *(part for part in re.split(r"[:/]", whole, maxsplit=1)[1:])):
            yield each
            for plain in (unquote(each), unquote_plus(each)):
                yield from (plain, quote(plain, safe=""), quote_plus(plain))


def _values() -> re.Pattern[str]:
    """What is known by its value; the longest first, for one may hold another."""
    with _lock:
        known = sorted(_known, key=len, reverse=True)
    return re.compile(
        rf"(?<![A-Za-z0-9])(?P<secret>{'|'.join(map(re.escape, known)) or '(?!)'})(?![A-Za-z0-9])"
    )


def kind_of(value: object) -> str:
    """What a value of YAML is, to be told without it.

    >>> kind_of(["a"]), kind_of("secret"), kind_of(4)
    ('a list', 'text', '4')
    """
    kinds: dict[type, str] = {
        type(None): "nothing",
        bool: "a boolean",
        str: "text",
        list: "a list",
        dict: "a mapping",
    }
    return kinds.get(type(value)) or repr(value)


class Cause(Exception):
    """What an error comes from, with its stack, as a log may show it."""

    def __init__(self, text: str, problem: BaseException) -> None:
        super().__init__(text)
        self.problem = problem
        """The exception itself, whose text may hold secrets."""


def cause_of(problem: BaseException) -> Cause:
    """Stands for an exception behind another one: dbt writes both into its log."""
    return Cause(without_secrets("".join(traceback.format_exception(problem))), problem)
