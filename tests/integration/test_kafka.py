"""Topics of a real broker on this machine as sources of a project, as streams and in batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt, write_file
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.environment.java import find_java
from dbt.adapters.spark_streaming.environment.packages import default_cache, jars_of_packages
from dbt.adapters.spark_streaming.sources.connectors import KAFKA as CONNECTOR
from dbt.adapters.spark_streaming.stream.common.session import static_method
from dbt.adapters.spark_streaming.stream.state.table import StateTable
from tests.integration.project import ROOT

pytestmark = pytest.mark.kafka

SCRIPT = ROOT / "integration_tests" / "kafka"
NO_JARS = 3
"""The script's exit status where there are none."""

TOKENS = "org.apache.spark:spark-token-provider-kafka-0-10_2.13"

SOURCES = """
sources:
  - name: raw
    tables:
      - name: views
        config:
          event_time: ts
          meta:
            stream: &views
              format: kafka
              options: &options
                kafka.bootstrap.servers: "{broker}"
                subscribe: views
                maxOffsetsPerTrigger: 5
              value_format: json
              schema: ts timestamp, page string, device bigint
      - name: messages
        config:
          meta:
            stream: {{format: kafka, options: *options}}
      - name: new_views
        config:
          event_time: ts
          meta:
            stream:
              <<: *views
              options: {{<<: *options, startingOffsets: latest}}
      - name: what_is_left
        config:
          meta:
            stream: {{format: kafka, options: {{<<: *options, failOnDataLoss: false}}}}
      - name: unknown
        config:
          meta:
            stream: {{format: kafka, options: {{<<: *options, subscribe: no_such_topic}}}}
      - name: no_host
        config:
          meta:
            stream:
              format: kafka
              options: {{<<: *options, kafka.bootstrap.servers: "no-such-host.invalid:9092"}}
      - name: nowhere
        config:
          meta:
            stream:
              format: kafka
              options:
                <<: *options
                kafka.bootstrap.servers: "127.0.0.1:1"
                kafka.default.api.timeout.ms: 2000
                kafka.request.timeout.ms: 1000
"""
MINUTES = """
select window_start, page, count(*) as views, count(distinct device) as devices
from {{ tumble(source('raw', 'views'), 'ts', '1 minute') }}
group by window_start, window_end, page
"""
STREAMED = "{{ config(materialized='streaming_table') }} select %s from {{ stream(source('raw', '%s')) }}"
TABLE = "{{ config(materialized='table') }} select %s from {{ source('raw', '%s') }}"
AS_THEY_ARE = "partition, offset, cast(value as string) as text"
SECOND = "select cast(value as string) from {{ stream(source('raw', 'messages')) }}"
MODELS = {
    "minutes.sql": "{{ config(materialized='window_aggregate', watermark='10 seconds') }}" + MINUTES,
    "minutes_in_batch.sql": "{{ config(materialized='table') }}" + MINUTES,
    "messages.sql": STREAMED % (f"/*+ MINI_BATCH(2) */ {AS_THEY_ARE}", "messages"),
    "messages_in_batch.sql": TABLE % (AS_THEY_ARE, "messages"),
    "both.sql": f"{STREAMED % ('page', 'views')} union all {SECOND}",
    "what_is_left.sql": STREAMED % (AS_THEY_ARE, "what_is_left"),
    "new_views.sql": STREAMED % ("ts, page", "new_views"),
}
for missing in ("unknown", "nowhere", "no_host"):
    MODELS[f"{missing}.sql"] = STREAMED % ("offset", missing)
    MODELS[f"{missing}_in_batch.sql"] = TABLE % ("offset", missing)


@pytest.fixture(scope="module")
def connector() -> list[Path]:
    """The jars of Spark's connector."""
    java, cache = find_java(), default_cache()
    try:
        return jars_of_packages([CONNECTOR], java, cache)
    except DbtRuntimeError as problem:
        said = problem.msg
    try:
        # Not every registry has all of a release; what the connector needs for logging in hardly changes.
        rest = jars_of_packages([CONNECTOR], java, cache, {"spark.jars.excludes": TOKENS})
        found = jars_of_packages([f"{TOKENS}:4.0.0"], java, cache)
    except DbtRuntimeError:
        pytest.skip(said)
    return [*rest, *(path for path in found if TOKENS.partition(":")[2] in path.name)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The bootstrap server of a broker on this machine."""
    folder = tmp_path_factory.mktemp("kafka")
    environment = {**os.environ, "PORT": "0"}
    command = [sys.executable, str(SCRIPT)]
    started = subprocess.run(
        [*command, "start", str(folder)], env=environment, capture_output=True, text=True
    )
    if started.returncode == NO_JARS:
        pytest.skip(started.stderr)
    assert started.returncode == 0, started.stderr
    yield started.stdout.strip().splitlines()[-1]
    subprocess.run([*command, "stop", str(folder)], check=True)


class Topic:
    """A topic with two partitions."""

    def __init__(self, spark: Any, broker: str, name: str) -> None:
        self.spark, self.broker, self.name = spark, broker, name
        self.create()

    def create(self) -> None:
        """Make it, once the broker has let go of one that was there."""
        topic = self.spark._jvm.org.apache.kafka.clients.admin.NewTopic(self.name, 2, 1)
        for _ in range(100):
            try:
                self.ask("createTopics", topic)
                return
            except Exception as problem:
                if "TopicExistsException" not in str(problem):
                    raise
                time.sleep(0.1)
        raise AssertionError(f"{self.name} is still there")

    def delete(self) -> None:
        """Delete it, with its messages."""
        self.ask("deleteTopics", self.name)

    def ask(self, what: str, about: Any) -> None:
        """Have the broker do something about a topic."""
        java = self.spark._jvm
        settings = java.java.util.HashMap()
        settings.put("bootstrap.servers", self.broker)
        admin = java.org.apache.kafka.clients.admin.AdminClient.create(settings)
        try:
            getattr(admin, what)(java.java.util.Collections.singletonList(about)).all().get()
        finally:
            admin.close()

    def send(self, *values: str | None) -> None:
        """Messages, to one partition and the other in turn."""
        rows = [(number % 2, value) for number, value in enumerate(values)]
        sent = self.spark.createDataFrame(rows, "partition int, value string").coalesce(1)
        to = {"kafka.bootstrap.servers": self.broker, "topic": self.name}
        sent.write.format("kafka").options(**to).save()


def view(minute: int, page: str, device: int) -> str:
    return json.dumps({"ts": f"2026-03-01T10:{minute:02}:30Z", "page": page, "device": device})


class TestKafka:
    """One topic all along: each test begins where the one before it ended."""

    @pytest.fixture(scope="class")
    def dbt_profile_target(self, spark_target: dict[str, Any], connector: Sequence[Path]) -> dict[str, Any]:
        settings = {"spark.jars": ",".join(map(str, connector)), "spark.driver.memory": "1g"}
        return {**spark_target, "server_side_parameters": settings}

    @pytest.fixture(scope="class")
    def models(self, broker: str) -> dict[str, str]:
        return {**MODELS, "sources.yml": SOURCES.format(broker=broker)}

    @pytest.fixture(scope="class")
    def views(self, project: Any, broker: str) -> Topic:
        return Topic(project.adapter.environment.session(), broker, "views")

    def run(self, name: str, *options: str) -> tuple[int, int, int]:
        """Micro-batches, rows in, and rows without a time."""
        (result,) = run_dbt(["run", "--select", name, *options])
        found = result.adapter_response
        assert found["late_rows"] == 0
        return found["batches"], found["rows_in"], found["null_time_rows"]

    def rows(self, project: Any, name: str) -> Counter[tuple[Any, ...]]:
        found = project.run_sql(f"select * from {project.test_schema}.{name}", fetch="all")
        return Counter(tuple(map(str, row)) for row in found)

    def minutes(self, project: Any, name: str = "minutes") -> dict[tuple[str, str], tuple[int, int]]:
        """Views and devices by minute and page."""
        every = self.rows(project, name)
        assert set(every.values()) <= {1}, every
        return {(start[14:16], page): (int(views), int(devices)) for start, page, views, devices in every}

    def failure(self, name: str) -> str:
        """What dbt says of a model that fails: without its own heading, and without a trace of Java."""
        (result,) = run_dbt(["run", "--select", name], expect_pass=False).results
        message = str(result.message)
        assert f"Error in model {name} " in message
        assert "Exception" not in message and "\tat " not in message, message
        lines = [line.strip() for line in message.splitlines()[1:]]
        (sentence,) = [
            line for line in lines if line != "Runtime Error" and not line.startswith("compiled code")
        ]
        return sentence

    def test_windows(self, project: Any, views: Topic) -> None:
        # Of both partitions a micro-batch takes two messages: no more than five in all.
        views.send(
            *(view(minute, page, 1) for minute in range(3) for page in ("home", "home", "shop", "home"))
        )
        assert self.run("minutes") == (3, 12, 0)
        assert self.minutes(project) == {
            ("00", "home"): (3, 1),
            ("00", "shop"): (1, 1),
            ("01", "home"): (3, 1),
            ("01", "shop"): (1, 1),
        }, "the last minute is open"

    def test_on_with_what_is_new(self, project: Any, views: Topic) -> None:
        assert self.run("minutes") == (0, 0, 0)
        views.send(view(2, "home", 2), view(3, "home", 1))
        assert self.run("minutes") == (1, 2, 0)
        found = self.minutes(project)
        assert len(found) == 6
        assert found["02", "home"] == (4, 2)

    def test_what_is_no_json(self, project: Any, views: Topic) -> None:
        views.send("{ts", None, '{"page": "home"}', view(4, "home", 1))
        assert self.run("minutes") == (1, 4, 3)
        assert self.minutes(project)["03", "home"] == (1, 1)

    def test_in_batch(self, project: Any) -> None:
        run_dbt(["run", "--select", "minutes_in_batch"])
        self.run("minutes", "--vars", "{flush: true}")
        assert self.minutes(project) == self.minutes(project, "minutes_in_batch")
        assert len(self.minutes(project)) == 8

    def test_messages_as_they_are(self, project: Any) -> None:
        assert self.run("messages") == (9, 18, 0), "the hint cuts too"
        run_dbt(["run", "--select", "messages_in_batch"])
        assert self.rows(project, "messages") == self.rows(project, "messages_in_batch")

    def test_two_streams(self, project: Any) -> None:
        assert self.run("both")[1] == 36
        both = Counter(page for (page,) in self.rows(project, "both").elements())
        texts = Counter(text for _, _, text in self.rows(project, "messages_in_batch").elements())
        pages = Counter(str(json.loads(text)["page"]) for text in texts.elements() if text.startswith('{"'))
        # What isn't JSON, and a message without a value.
        assert both == texts + pages + Counter({"None": 2})

    def test_history_at_once_and_on_from_there(self, project: Any, views: Topic) -> None:
        assert self.run("minutes", "--full-refresh") == (1, 18, 3)
        assert self.run("minutes") == (0, 0, 0)
        views.send(*(view(minute, "home", minute) for minute in range(5, 11)))
        assert self.run("minutes") == (2, 6, 0), "the limit is back"
        self.run("minutes", "--vars", "{flush: true}")
        run_dbt(["run", "--select", "minutes_in_batch"])
        assert self.minutes(project) == self.minutes(project, "minutes_in_batch")
        assert len(self.minutes(project)) == 14

    def test_history_cut_short(self, project: Any, views: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
        def crash(*_: Any) -> None:
            raise RuntimeError("crash")

        with monkeypatch.context() as patched:
            patched.setattr(StateTable, "append", crash)
            run_dbt(["run", "--select", "minutes", "--full-refresh"], expect_pass=False)
        assert not self.minutes(project)
        views.send(view(11, "home", 1), view(11, "home", 2))
        assert self.run("minutes") == (2, 26, 3), "the micro-batch that was planned, and what came since"
        self.run("minutes", "--vars", "{flush: true}")
        run_dbt(["run", "--select", "minutes_in_batch"])
        assert self.minutes(project) == self.minutes(project, "minutes_in_batch")

    def test_from_now_on(self, project: Any, views: Topic) -> None:
        assert self.run("new_views")[1:] == (0, 0)
        views.send(view(12, "new", 1))
        assert self.run("new_views") == (1, 1, 0)
        assert [page for _, page in self.rows(project, "new_views")] == ["new"]

    @pytest.mark.parametrize(
        ("source", "why"),
        [
            ("unknown", "there is no such topic."),
            ("nowhere", "no broker answers."),
            ("no_host", "no broker answers."),
        ],
    )
    def test_what_is_not_there_is_named(self, project: Any, source: str, why: str) -> None:
        stream = f"Model {source}: its stream raw.{source} can't be read from Kafka: {why}"
        assert self.failure(source).startswith(stream)
        assert self.failure(f"{source}_in_batch").startswith(f"A source can't be read from Kafka: {why}")

    def test_a_new_aggregate_with_its_past(self, project: Any, views: Topic) -> None:
        """Messages are read again up to where the stream is, and no further."""

        def edit(items: str) -> None:
            text = "select page, {} from {{{{ stream(source('raw', 'views')) }}}} as v group by page"
            config = "materialized='streaming_table', constant_domains=['page'], on_new_metric='backfill'"
            model = f"{{{{ config({config}) }}}}\n{text.format(items)}"
            write_file(model, project.project_root, "models", "pages_seen.sql")

        def is_right(items: str) -> None:
            made = f"select page, {items} from {project.test_schema}.seen group by page"
            expected = Counter(tuple(map(str, row)) for row in project.run_sql(made, fetch="all"))
            columns = "page, views, devices, last"
            found = project.run_sql(f"select {columns} from {project.test_schema}.pages_seen", fetch="all")
            assert Counter(tuple(map(str, row)) for row in found) == expected

        seen = "select ts, page, device from {{ source('raw', 'views') }}"
        write_file(
            f"{{{{ config(materialized='table') }}}}\n{seen}", project.project_root, "models", "seen.sql"
        )
        views.send(*(view(12, "home", device) for device in range(8)))
        edit("count(*) as views")
        self.run("pages_seen")
        views.send(view(12, "home", 3), view(12, "late", 4))
        more = "count(*) as views, count(distinct device) as devices, max(ts) as last"
        edit(more)
        # What came since is in the next micro-batch.
        assert self.run("pages_seen")[1] == 2
        run_dbt(["run", "--select", "seen"])
        is_right(more)
        edit(f"{more}, min(ts) as first")
        java = views.spark._jvm
        partition = java.org.apache.kafka.common.TopicPartition(views.name, 0)
        records = "org.apache.kafka.clients.admin.RecordsToDelete"
        gone = static_method(views.spark, records, "beforeOffset")(3)
        settings = java.java.util.HashMap()
        settings.put("bootstrap.servers", views.broker)
        admin = java.org.apache.kafka.clients.admin.AdminClient.create(settings)
        try:
            admin.deleteRecords(java.java.util.Collections.singletonMap(partition, gone)).all().get()
        finally:
            admin.close()
        said = self.failure("pages_seen")
        assert "messages that were read are no longer in Kafka, or can't be read" in said
        assert said.endswith(
            "Nothing was changed. Write on_new_metric='from_now' to have them count the rows that come from now on."
        )
        edit(more)
        assert self.run("pages_seen") == (0, 0, 0)
        is_right(more)

    def test_a_topic_made_anew(self, project: Any, views: Topic) -> None:
        views.send(view(13, "home", 1), view(13, "home", 2))
        self.run("minutes")
        self.run("what_is_left")
        views.delete()
        assert "there is no such topic." in self.failure("minutes")
        views.create()
        made_again = "Model minutes: the topic views of its stream raw.views was deleted and made again since it was read"
        assert self.failure("minutes").startswith(made_again)
        assert self.run("what_is_left")[1] == 0
        views.send(view(1, "home", 1))
        assert self.run("what_is_left") == (1, 1, 0)
        assert self.run("minutes", "--full-refresh") == (1, 1, 0)
        # With as many messages as were read its offsets look as if nothing had happened.
        views.delete()
        views.create()
        views.send(*(view(2, "home", number) for number in range(4)))
        assert self.failure("minutes").startswith(made_again)
        assert self.run("minutes", "--full-refresh") == (1, 4, 0)
