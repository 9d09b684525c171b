"""Options of sources and lookup tables under ``connections`` in the profile: addresses and secrets.

dbt writes a project's YAML into `target/`, and nothing of the profile. A source names a connection, and its own
options override those of the connection.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from dbt.adapters.events.logging import AdapterLogger
from dbt_common.exceptions import DbtRuntimeError

from ..util.redaction import has_secrets, register_secrets, yaml_kind
from ..util.settings import as_options, is_plain_mapping

logger = AdapterLogger("Spark")

_connections: Mapping[str, Mapping[str, str]] = {}
_warned: set[str] = set()
_lock = threading.Lock()


def check_connections(value: Any) -> dict[str, dict[str, str]]:
    """Returns the connections of a profile, with values in the form of Spark's options."""
    if not isinstance(value, Mapping):
        raise DbtRuntimeError(
            f"'connections' in the profile must be a mapping of names to options, not {yaml_kind(value)}."
        )
    found = {}
    for name, options in value.items():
        if not is_plain_mapping(options):
            raise DbtRuntimeError(
                f"The connection '{name}' in the profile must be a mapping of Spark's options to values, as in "
                "{user: me, password: …}."
            )
        found[str(name)] = as_options(options)
    return found


def use_connections(connections: Mapping[str, Mapping[str, str]]) -> None:
    """Sets the connections of a target, which sources name from now on."""
    global _connections
    register_secrets(connections)
    with _lock:
        _connections = connections


def connection_options(source: str, name: Any) -> Mapping[str, str]:
    """Returns the options of the connection that a source names; empty if it names none.

    Raises:
        DbtRuntimeError: the profile has no such connection.
    """
    if name is None:
        return {}
    with _lock:
        known = _connections
    if not isinstance(name, str) or name not in known:
        there = (
            f"The target has {', '.join(sorted(known))}." if known else "The target of the profile has none."
        )
        raise DbtRuntimeError(
            f"Source {source}: 'connection' is {repr(name) if isinstance(name, str) else yaml_kind(name)}, which is no name "
            f"under 'connections' in the profile. {there}"
        )
    return known[name]


def override_connection(connection: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Returns the options of a connection, overridden by a source's own. Spark ignores the case of their names.

    >>> override_connection({"Password": "a", "user": "me"}, {"password": "b"})
    {'user': 'me', 'password': 'b'}
    """
    given = {name.lower() for name in own}
    return {**{name: value for name, value in connection.items() if name.lower() not in given}, **own}


def warn_of_secrets(source: str, options: Mapping[str, Any]) -> None:
    """Warns, once for each source, of secrets in the project's YAML."""
    names = sorted(name for name, value in options.items() if has_secrets({name: value}))
    with _lock:
        if not names or source in _warned:
            return
        _warned.add(source)
    listed = " and ".join(f"'{name}'" for name in names)
    logger.warning(
        f"Source {source}: {listed} in sources.yml is or holds a secret, which dbt writes "
        "into target/ in plain text. Move it to 'connections' in the profile, and name it in the source: connection: <name>."
    )
