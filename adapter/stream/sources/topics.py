"""Checks that Kafka's topics were not recreated since a stream read them: a recreated topic has other messages.

Offsets don't show that a topic was recreated. A broker assigns each new topic an id (KIP-516). The checkpoint stores the
ids with the offsets, and each query compares them when it starts and before each micro-batch."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dbt.adapters.events.logging import AdapterLogger

from ..common.errors import StreamError
from ..common.session import jvm, static_method
from ..storage.checkpoint import planned_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..common.model import StreamModel, StreamSource

logger = AdapterLogger("Spark")

TOPICS = "topics.json"
"""File of a checkpoint: place of a source → topic → id."""
_ADMIN = "org.apache.kafka.clients.admin.AdminClient"
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
_TOPIC_ERRORS = re.compile(r"UnknownTopicOrPartition|TopicAuthorization|InvalidTopic|UnsupportedVersion")

Ids = dict[str, dict[str, str]]


def check_topics(spark: SparkSession, model: StreamModel) -> None:
    """Raises if a topic that a stream reads was recreated. The model's sources are in the checkpoint's order."""
    _checked_topic_ids(spark, model, _kafka_places(model), noted_topics(model))


def note_topics(spark: SparkSession, model: StreamModel) -> None:
    """Checks topics as `check_topics` does, and stores their ids in the checkpoint."""
    places = _kafka_places(model)
    if not places:
        return
    noted = noted_topics(model)
    if (ids := _checked_topic_ids(spark, model, places, noted)) != noted:
        model.storage.write_text(f"{model.checkpoint}/{TOPICS}", json.dumps(ids))


def _kafka_places(model: StreamModel) -> list[int]:
    return [place for place, source in enumerate(model.sources) if source.format == "kafka"]


def _checked_topic_ids(spark: SparkSession, model: StreamModel, places: Sequence[int], noted: Ids) -> Ids:
    """Returns the ids of the topics that a stream reads or has read: for each place of a source, topic → id."""
    found: Ids = {}
    for place in places:
        source, known = model.sources[place], noted.get(str(place), {})
        ids = topic_ids(spark, source)
        for topic in sorted(ids.keys() & known.keys()):
            if ids[topic] != known[topic]:
                _raise_recreated(model, source, topic)
        # A missing topic may be recreated later, with another id.
        found[str(place)] = {**known, **ids}
    return found


def noted_topics(model: StreamModel) -> Ids:
    """Returns place of a source → topic → id, as stored in the checkpoint; empty if nothing was read."""
    if planned_batch(model.storage, model.checkpoint) is None:
        return {}  # nothing was read, whatever an earlier attempt stored
    return model.storage.read_json(f"{model.checkpoint}/{TOPICS}")


def _raise_recreated(model: StreamModel, source: StreamSource, topic: str) -> None:
    begins = (
        f"Model {model.name}: the topic {topic} of its stream {source.relation} was deleted and made again since it was "
        "read, so the offsets up to which it was read mean other messages"
    )
    if source.option_is("failOnDataLoss", "false"):
        logger.warning(
            f"{begins}. As its option failOnDataLoss is false, messages at lower offsets are skipped."
        )
        return
    raise StreamError(
        f"{begins}. Rebuild the model with {model.rebuild}, or skip the messages at lower offsets with the source's "
        "option 'failOnDataLoss: false'."
    )


def topic_ids(spark: SparkSession, source: StreamSource) -> dict[str, str]:
    """Returns topic → id of a source, without topics for which the broker reports no id."""
    java = jvm(spark)
    settings = java.java.util.HashMap()
    for name, value in source.options.items():
        if name.lower().startswith("kafka."):
            settings.put(name[len("kafka.") :], value)
    admin = static_method(spark, _ADMIN, "create")(settings)
    try:
        return {name: id for name, id in _topic_ids(java, admin, source) if id != _NO_ID}
    finally:
        admin.close()


def _topic_ids(java: Any, admin: Any, source: StreamSource) -> Iterator[tuple[str, str]]:
    if (pattern := source.option("subscribePattern")) is not None:
        # Kafka uses Java's pattern syntax.
        matches = java.java.util.regex.Pattern.compile(pattern)
        for each in admin.listTopics().listings().get():
            if matches.matcher(each.name()).matches():
                yield each.name(), each.topicId().toString()
        return
    assigned = source.option("assign")
    listed = (source.option("subscribe") or "").split(",") if assigned is None else json.loads(assigned)
    names = java.java.util.ArrayList()
    for name in listed:
        names.add(name.strip())
    for name, described in admin.describeTopics(names).topicNameValues().items():
        try:
            yield name, described.get().topicId().toString()
        except Exception as problem:
            # Spark reports why it can't read the topic.
            if not _TOPIC_ERRORS.search(str(problem)):
                raise
