"""Secrets of sources stand in the profile: sources name a connection, and nothing of it is written down."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.credentials import SparkStreamingCredentials
from dbt.adapters.spark_streaming.sources import profile_connections
from dbt.adapters.spark_streaming.sources.stream_source import DeclaredSource
from dbt.adapters.spark_streaming.stream.common.lookup_source import LookupSource
from dbt.adapters.spark_streaming.util.redaction import without_secrets

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="hunter22x";'
CONNECTIONS: dict[str, dict[str, Any]] = {
    "broker": {"kafka.bootstrap.servers": "b:9092", "kafka.sasl.jaas.config": JAAS, "failOnDataLoss": False},
    "crm": {
        "url": "jdbc:postgresql://db/crm",
        "driver": "org.postgresql.Driver",
        "user": "me",
        "password": "tr0ub4dor",
    },
}


@pytest.fixture(autouse=True)
def used() -> Iterator[None]:
    profile: dict[str, Any] = {"schema": "shop", "connections": CONNECTIONS}
    SparkStreamingCredentials.validate(profile)
    profile_connections.use_connections(SparkStreamingCredentials.from_dict(profile).connections)
    yield
    profile_connections.use_connections({})


def topic(**more: Any) -> DeclaredSource:
    said = {"format": "kafka", "connection": "broker", "options": {"subscribe": "views"}, **more}
    return DeclaredSource.from_config("raw.views", "db.views", said)


def test_a_source_is_read_with_the_options_of_its_connection() -> None:
    assert topic().options == {
        "kafka.bootstrap.servers": "b:9092",
        "kafka.sasl.jaas.config": JAAS,
        "failOnDataLoss": "false",
        "subscribe": "views",
    }


def test_its_own_options_have_the_last_word_whatever_their_case() -> None:
    own = topic(options={"subscribe": "views", "FAILONDATALOSS": True}).options
    assert own["FAILONDATALOSS"] == "true" and "failOnDataLoss" not in own


def test_a_lookup_table_has_its_url_of_the_connection() -> None:
    made = LookupSource.from_config("crm.people", "db.people", {"connection": "crm"}, "people")
    assert made.options == {**CONNECTIONS["crm"], "dbtable": "people"}
    own = LookupSource.from_config(
        "crm.people",
        "db.people",
        {"connection": "crm", "url": "jdbc:h2:mem:x", "options": {"user": "you"}},
        "people",
    )
    assert (own.options["url"], own.options["user"]) == ("jdbc:h2:mem:x", "you")


def test_nothing_shows_them() -> None:
    people = LookupSource.from_config("crm.people", "db.people", {"connection": "crm"}, "people")
    shown = f"{topic()!r} {people!r} {people.as_table!r} {without_secrets('it said hunter22x and tr0ub4dor')}"
    assert "hunter22x" not in shown and "tr0ub4dor" not in shown


@pytest.mark.parametrize("name", ["crn", 7, ["crm"]])
def test_an_unknown_one_is_told_with_those_there_are(name: Any) -> None:
    with pytest.raises(
        DbtRuntimeError, match=r"Source raw.views: 'connection' is .* The target has broker, crm"
    ):
        topic(connection=name)
    with pytest.raises(
        DbtRuntimeError, match=r"Source crm.people: 'connection' is .* The target has broker, crm"
    ):
        LookupSource.from_config("crm.people", "db.people", {"connection": name}, "people")


@pytest.mark.parametrize("connections", ["crm", ["crm"], {"crm": "password"}, {"crm": {"a": {"b": "c"}}}])
def test_what_they_can_be(connections: Any) -> None:
    with pytest.raises(DbtRuntimeError, match=r"connections?'? ") as problem:
        profile: dict[str, Any] = {"schema": "shop", "connections": connections}
        SparkStreamingCredentials.validate(profile)
        SparkStreamingCredentials.from_dict(profile)
    assert "mapping of" in str(problem.value)


@pytest.mark.parametrize(
    ("lookup", "named"),
    [
        ({"url": "jdbc:postgresql://db/crm", "options": {"password": "hidden77"}}, "'password'"),
        ({"url": "jdbc:postgresql://me:hidden77@db/crm"}, "'url'"),
        ({"url": "jdbc:postgresql://db/crm", "options": {"user": "me"}}, None),
    ],
)
def test_one_in_the_projects_yaml_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, lookup: dict[str, Any], named: str | None
) -> None:
    told: list[str] = []
    monkeypatch.setattr(profile_connections, "_warned", set())
    monkeypatch.setattr(profile_connections.logger, "warning", told.append)
    for _ in range(2):
        LookupSource.from_config("crm.people", "db.people", lookup, "people")
    assert len(told) == (named is not None)
    for text in told:
        assert (
            f"Source crm.people: {named} in sources.yml is or holds a secret" in text
            and "hidden77" not in text
        )
        assert "connection: <name>" in text
