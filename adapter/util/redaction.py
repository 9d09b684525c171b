"""Redacts secrets (passwords, tokens, keys) in all text that leaves the process.

There are two ways, because either alone leaves gaps. Secrets of the profile and of declared sources are found by their
value. Others are found by their form: the user part of a URL, or a parameter or an option with a telling name.

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
"""Minimum length of a value that is redacted wherever it occurs. Shorter ones would make any text unreadable."""

_A_WORD = re.compile(r"[A-Za-z]?[a-z]{,11}\Z|[A-Z]{,11}\Z")
"""Values that look like a word. They aren't passed to dbt, which would redact them inside other words, too."""

_WORDS = (
    r"password|passwd|passphrase|pwd|secret|token|credential|api[_.-]?key|private[_.-]?key|account[_.-]?key|"
    r"access[_.-]?key|encryption[_.-]?key|jaas[_.-]?config|signature|sharedaccess|user[_.-]?info"
)
_NAME = rf"[\w.-]*(?:{_WORDS}|(?<![\w])sig(?![\w]))[\w.-]*"
_SECRET = re.compile(rf"{_NAME}\Z", re.I)
# Options about a secret that aren't secret: where it is stored, how long it is valid, who provides it. The id of a key is
# redacted: Hadoop calls it an access key, and it belongs to the secret.
_ABOUT = re.compile(
    r"(?:file|path|location|provider|class|type|timeout|enabled|uri|url|(?<!key)(?<!key[_.-])id|scope|interval|algorithm"
    r"|ms|in|count)\Z",
    re.I,
)

_QUOTED = r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|''|[^'\\])*'|\{(?:\}\}|[^}])*\}"
_END = r"\s\"'`"

# scott/tiger@host: in Oracle's URLs no // precedes it.
_ORACLE = re.compile(rf"(?P<before>jdbc:oracle:\w+:)(?P<secret>[^@{_END}][^{_END}]*)(?=@)", re.I)
# Up to the last @: a password may contain an @ or a slash.
_USER = re.compile(
    rf"(?P<before>\b(?P<scheme>[a-z][\w+.-]*):/{{2,}})(?P<secret>[^@{_END}][^{_END}]*)(?=@)", re.I
)
# In these URLs the part before the @ is a container.
_CONTAINERS = re.compile(r"(?:abfs|wasb)s?\Z", re.I)
_BEARER = re.compile(r"(?P<before>\b(?:bearer|basic)\s+)(?P<secret>[\w.~+/=-]{8,})", re.I)

_BRACKET = rf"\)(?![^\s(),;:/\]{_END}])|,(?=\s*[\w.-]+\s*=)"
_PARAMETERS = tuple(
    re.compile(
        rf"(?P<before>{mark}\s*(?P<name>{_NAME})\s*=)(?P<secret>{_QUOTED}|(?:(?!{end}|[{_END}]).)+)", re.I
    )
    for mark, end in (
        # ';password=a&b;' and '?password=a;b&': the separator before a parameter also ends its value.
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
    """Returns a text with all secrets redacted."""
    return _registered_secrets_pattern().sub(_redact_match, redact_by_form(str(text)))


def redact_by_form(text: str) -> str:
    """Returns a text with secrets redacted by form only. The result doesn't depend on the registered secrets.

    >>> redact_by_form("jdbc:postgresql://me:p@ss@db/shop"), redact_by_form("s3a://shop/orders")
    ('jdbc:postgresql://***@db/shop', 's3a://shop/orders')
    """
    for form in _FORMS:
        text = form.sub(_redact_match, text)
    return text


def _redact_match(match: re.Match[str]) -> str:
    start, end = match.span("secret")
    first = match.start()
    return (
        match[0][: start - first] + HIDDEN + match[0][end - first :] if _is_secret_match(match) else match[0]
    )


def _is_secret_match(match: re.Match[str]) -> bool:
    groups = match.groupdict()
    if "name" in groups:
        return is_secret(groups["name"])
    return _CONTAINERS.match(groups.get("scheme") or "") is None or ":" in groups["secret"]


def is_secret(name: str) -> bool:
    """Returns whether an option of that name holds a secret.

    >>> [is_secret(name) for name in ("fs.s3a.secret.key", "PWD", "ssl.keystore.location", "token-provider")]
    [True, True, False, False]
    """
    return _SECRET.match(name) is not None and _ABOUT.search(name) is None


def has_secrets(options: Mapping[str, Any]) -> bool:
    """Returns whether any of the options holds a secret.

    >>> has_secrets({"user": "me", "url": "jdbc:postgresql://db/shop"}), has_secrets({"url": "jdbc:postgresql://me:pw@db/shop"})
    (False, True)
    """
    return any(True for _ in _secrets_of(options))


def register_secrets(options: Mapping[str, Any]) -> None:
    """Registers the secrets of options, so that their values are redacted everywhere, in dbt's logs too."""
    forms = {
        form for value in _secrets_of(options) for form in _secret_spellings(value) if _is_specific(form)
    }
    with _lock:
        _known.update(forms)
        context = try_get_invocation_context()
        if context is not None:
            # dbt's list of secret environment variables, which its loggers redact.
            listed = context.env_secrets
            listed.extend(form for form in _known if form not in listed and not _A_WORD.match(form))


def _is_specific(value: str) -> bool:
    """Returns whether a value is too specific to occur in a text by chance."""
    return len(value) >= _SHORTEST and re.fullmatch(r"true|false|[\d.:]+", value, re.I) is None


def _secrets_of(options: Mapping[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _secrets_of(value)
        elif isinstance(value, str) and is_secret(str(name)):
            yield value
        if isinstance(value, str):
            # A URL extends to the end of the value, even if it contains spaces.
            text = value.replace(" ", "\0") if "://" in value or value.startswith("jdbc:") else value
            found = (
                match["secret"] for form in _FORMS for match in form.finditer(text) if _is_secret_match(match)
            )
            yield from (secret.replace("\0", " ") for secret in found)


def _secret_spellings(value: str) -> Iterator[str]:
    """Yields a secret as written, URL-encoded and URL-decoded; of ``user:password`` also the password alone."""
    for whole in (value, value.strip("\"'{}")):
        for each in (whole, *(part for part in re.split(r"[:/]", whole, maxsplit=1)[1:])):
            yield each
            for plain in (unquote(each), unquote_plus(each)):
                yield from (plain, quote(plain, safe=""), quote_plus(plain))


def _registered_secrets_pattern() -> re.Pattern[str]:
    """Returns a pattern of all registered secrets, the longest first, as one may contain another."""
    with _lock:
        known = sorted(_known, key=len, reverse=True)
    return re.compile(
        rf"(?<![A-Za-z0-9])(?P<secret>{'|'.join(map(re.escape, known)) or '(?!)'})(?![A-Za-z0-9])"
    )


def yaml_kind(value: object) -> str:
    """Describes the kind of a YAML value without showing its content.

    >>> yaml_kind(["a"]), yaml_kind("secret"), yaml_kind(4)
    ('a list', 'text', '4')
    """
    kinds: dict[type, str] = {
        type(None): "nothing",
        bool: "a boolean",
        str: "text" if str(value).strip() else "an empty text",
        list: "a list",
        dict: "a mapping",
    }
    return kinds.get(type(value)) or repr(value)


class Cause(Exception):
    """The redacted stack trace of an exception, as the cause of another one."""

    def __init__(self, text: str, problem: BaseException) -> None:
        super().__init__(text)
        self.problem = problem
        """The original exception, whose text may contain secrets."""


def redacted_cause(problem: BaseException) -> Cause:
    """Returns a redacted substitute for an exception, to raise another one from: dbt logs both."""
    return Cause(without_secrets("".join(traceback.format_exception(problem))), problem)
