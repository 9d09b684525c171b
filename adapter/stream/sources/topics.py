"""Checks that Kafka's topics are those that a stream has read so far: one that was made again has other messages.

Offsets alone don't tell. A broker gives each topic an id when it is made (KIP-516), which is kept beside the offsets in the
checkpoint and compared whenever a query begins.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dbt.adapters.events.logging import AdapterLogger

from ..common.errors import StreamError
from ..common.session import jvm, static_method
from ..storage.checkpoint import read_checkpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..common.model import StreamModel, StreamSource

logger = AdapterLogger("Spark")

TOPICS = "topics.json"
"""The file of a checkpoint with the ids of topics, by the place of their source."""
_ADMIN = "org.apache.kafka.clients.admin.AdminClient"
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
_NOT_TOLD = re.compile(r"UnknownTopicOrPartition|TopicAuthorization|InvalidTopic|UnsupportedVersion")

Ids = dict[str, dict[str, str]]


def check_topics(spark: SparkSession, model: StreamModel) -> Ids:
    """Returns the ids of the topics that a stream reads, by the place of their source and their name.

    Args:
        spark: a session.
        model: the model, its sources in the order of the checkpoint.

    Raises:
        StreamError: a topic isn't the one that was read; and what to run.
    """
    places = [place for place, source in enumerate(model.sources) if source.format == "kafka"]
    if not places:
        return {}
    noted = _noted(model)
    found: Ids = {}
    for place in places:
        source, known = model.sources[place], noted.get(str(place), {})
        ids = topic_ids(spark, source)
        for topic in sorted(ids.keys() & known.keys()):
            if ids[topic] != known[topic]:
                _other_topic(model, source, topic)
        # A topic that isn't there now may be there again later, as another one.
        found[str(place)] = {**known, **ids}
    return found


def note_topics(model: StreamModel, ids: Ids) -> None:
    """Keep the ids of topics (as of `check_topics`) with the checkpoint."""
    if ids and ids != _noted(model):
        model.storage.write_text(f"{model.checkpoint}/{TOPICS}", json.dumps(ids))


def _noted(model: StreamModel) -> Ids:
    checkpoint = read_checkpoint(model.storage, model.checkpoint)
    if checkpoint is None or checkpoint.planned is None:
        return {}  # nothing was read, whatever an earlier attempt noted
    text = model.storage.read_text(f"{model.checkpoint}/{TOPICS}")
    return {} if text is None else dict(json.loads(text))


def _other_topic(model: StreamModel, source: StreamSource, topic: str) -> None:
    begins = (
        f"Model {model.name}: the topic {topic} of its stream {source.relation} was deleted and made again since it was "
        "read, so the offsets up to which it was read mean other messages"
    )
    if source.option_is("failOnDataLoss", "false"):
        logger.warning(
            f"{begins}. As its option failOnDataLoss is false, those at lower offsets are passed over."
        )
        return
    raise StreamError(
        f"{begins}. Rebuild the model with {model.rebuild}, or pass over the messages at lower offsets with the source's "
        "option 'failOnDataLoss: false'."
    )


def topic_ids(spark: SparkSession, source: StreamSource) -> dict[str, str]:
    """Returns the ids of the topics of a source by their names, without those of which the broker tells none."""
    java = jvm(spark)
    settings = java.java.util.HashMap()
    for name, value in source.options.items():
        if name.lower().startswith("kafka."):
            settings.put(name[len("kafka.") :], value)
    admin = static_method(spark, _ADMIN, "create")(settings)
    try:
        return {name: id for name, id in _ids(java, admin, source.options) if id != _NO_ID}
    finally:
        admin.close()


def _ids(java: Any, admin: Any, options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    said = {name.lower(): value for name, value in options.items()}
    if (pattern := said.get("subscribepattern")) is not None:
        # Java's own syntax of patterns.
        matches = java.java.util.regex.Pattern.compile(pattern)
        for each in admin.listTopics().listings().get():
            if matches.matcher(each.name()).matches():
                yield each.name(), each.topicId().toString()
        return
    listed = json.loads(said["assign"]) if "assign" in said else said.get("subscribe", "").split(",")
    names = java.java.util.ArrayList()
    for name in listed:
        names.add(name.strip())
    for name, described in admin.describeTopics(names).topicNameValues().items():
        try:
            yield name, described.get().topicId().toString()
        except Exception as problem:
            # Spark says what keeps it from reading the topic.
            if not _NOT_TOLD.search(str(problem)):
                raise
