"""``dbt-stream run``: runs streaming models continuously in one Spark application, each supervised on its own."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

from ..environment import Environment
from ..query.sql import intervals
from ..service.failures import says_model_runs_elsewhere
from ..service.health import (
    FAILED,
    STOPPED,
    WAITING,
    Health,
    Publisher,
    belongs_to_other_catalog,
    health_in_other_process,
    publisher,
)
from ..service.preparation import Outcome, Preparer, preparing, without_dbt_headings
from ..service.restart_policy import RestartPolicy
from ..service.running_models import RunningModel, RunningModels, table_key
from ..service.supervisor import Supervisor
from ..service.watchdog import NO_ANSWER, Watchdog
from ..stream.common.stop_requests import stop_requests
from ..util.log_lines import log_line
from ..util.redaction import without_secrets
from ..util.text import counted
from .interrupts import Signals, end_now, recording_signals, run_unless_stopped
from .progress_board import ProgressBoard
from .project import DbtProject, ProjectError, Selection

_LOOK = 0.2
"""Seconds between two checks of the models."""
_ASK = 10.0
"""Seconds between two checks of Spark by the watchdog."""
_ORDERLY = 5.0
"""Seconds that models have after SIGTERM to end in order."""

Node = Mapping[str, Any]


def run_models(
    project: DbtProject,
    selection: Selection,
    every: str,
    policy: RestartPolicy | None = None,
    fail_fast: bool = False,
    signals: Signals | None = None,
) -> bool:
    """Keeps the selected models up to date until they are stopped. Returns whether none failed.

    Args:
        every: the interval between micro-batches of models whose trigger is 'available_now'.
        signals: the signals received so far, if the caller handles them.
    """
    if signals is None:
        with recording_signals() as signals:
            return run_models(project, selection, every, policy, fail_fast=fail_fast, signals=signals)
    interval = intervals.parse(every, "--every:")
    if interval <= 0:
        raise ProjectError(f"--every: '{every}' must be longer than zero; write '1 second'.")
    loaded = run_unless_stopped(
        partial(_load_selection, project, selection), signals, project.logs_json, project.quiet
    )
    service = Service(project, *loaded, intervals.format(interval), policy or RestartPolicy(), fail_fast)
    return service.run(signals)


def _load_selection(project: DbtProject, selection: Selection) -> tuple[Any, list[Node], Environment]:
    """Returns dbt's manifest, the selected models, and the environment that they run in."""
    manifest = project.parsed_manifest()
    nodes = project.streaming_models(selection, manifest)
    if not nodes:
        raise ProjectError(selection.refusal)
    return manifest, nodes, project.environment()


class Service:
    """The models that this process supervises."""

    def __init__(
        self,
        project: DbtProject,
        manifest: Any,
        nodes: Sequence[Node],
        environment: Environment,
        every: str,
        policy: RestartPolicy,
        fail_fast: bool,
    ) -> None:
        from ..project import stream_node

        self._project, self._manifest, self._environment = project, manifest, environment
        known = project.names_by_id(manifest)
        self._nodes = {known[node["unique_id"]]: node for node in nodes}
        self._models = {
            name: stream_node.model_without_configs(node, environment) for name, node in self._nodes.items()
        }
        names = list(self._nodes)
        self._streams = {name: RunningModel(name, *self._upstream_models_and_tables(name)) for name in names}
        self._preparer = Preparer(self._prepare_models, names)
        streams = RunningModels(self._streams, self._preparer, environment.session, every)
        self._board = ProgressBoard(as_json=project.logs_json, is_quiet=project.quiet)
        self.supervisor = Supervisor(names, streams.run, policy, fail_fast, say=self._board.say)
        self._began = time.monotonic()
        self._publisher: Publisher = publisher(environment.storage)
        self._published: dict[str, Health] = {}
        self._watch = _Watch(environment, streams, self.supervisor, self._board.say)
        # For remote storage this is only known once Spark runs.
        local = self._models if environment.storage.is_local else {}
        self._foreign = {name for name, model in local.items() if belongs_to_other_catalog(model)}
        """Models whose files belong to a table of another target's catalog."""
        for name in local.keys() - self._foreign:
            self._streams[name].request = stop_requests(environment.storage).watch(local[name])
        self._ours = {name for name, model in local.items() if health_in_other_process(model) is None}
        """Models whose health this process publishes, because no other process runs them."""
        self._is_quiet = False
        self._is_up = False
        self._is_abandoned = False
        self._problem: str | None = None

    def run(self, signals: Signals) -> bool:
        """Supervises the models until all have ended or a signal arrives. Returns whether none failed."""
        with self._board:
            self._board.inform(
                f"Starting {counted(len(self._models), 'model')}: {', '.join(self._models)}. Ctrl-C stops them after the "
                "micro-batches that they are in."
            )
            self._watch.start()
            end: str | None = None
            while not self.supervisor.is_over and not signals and end is None:
                self._check_models_once()
                time.sleep(_LOOK)
                end = self._environment.jvm_end_message() or self._watch.spark_ended
            if signals:
                self._environment.speed_up_close()
                self._stop_models(signals)
            elif end is not None:
                self.supervisor.fail_all(end)
            with suppress(Exception):
                self._show_and_publish(f"stopped after {clock_text(time.monotonic() - self._began)}")
                if not self._board.is_live:
                    self._print_totals()
        self._publisher.wait_until_written(1.5)
        failed = self.supervisor.failed_names
        signals.exit_code = 1 if failed else 0
        if end is not None:
            # The terminal may be gone.
            with suppress(OSError, ValueError):
                line = log_line(without_secrets(end), self._project.logs_json, "error")
                print(line, file=sys.stderr, flush=True)
        self._board.inform(self._closing_line())
        if end is not None or (signals and (self._is_abandoned or self._preparer.is_busy)):
            # Threads that are still busy would delay the exit, perhaps without end.
            end_now(signals.exit_code)
        return not failed

    def _check_models_once(self) -> None:
        """Checks the models once. An exception is printed; the next check tries again."""
        try:
            self._update_models()
            self._problem = None
        except Exception as problem:
            text = f"{type(problem).__name__}: {without_secrets(problem)}"
            if text != self._problem:
                self._problem = text
                self._board.say(f"The models couldn't be checked; this is tried again: {text}")

    def _update_models(self) -> None:
        """Passes on requests to stop, collects the notes of the watchdog, and shows the models."""
        self.supervisor.advance()
        for name, stream in self._streams.items():
            if stream.request is not None and stream.request.is_asked:
                self.supervisor.stop(name)
            self.supervisor.models[name].note = self._watch.notes.get(name)
        self._watch.warn_if_silent()
        self._show_and_publish(self._header_line())
        if not self._is_up:
            self._print_models_up()

    def _header_line(self) -> str:
        """Returns the line above the table: how long the service is up, when it looks for rows, and how it ends."""
        triggers = {stream.trigger for stream in self._streams.values() if stream.trigger is not None}
        up = f"up {clock_text(time.monotonic() - self._began)}"
        soonest = [phrase for _, phrase in sorted(next_look_phrase(each, time.time()) for each in triggers)][
            :1
        ]
        return " · ".join([up, *soonest, "Ctrl-C stops"])

    def _print_totals(self) -> None:
        for name, stream in self._streams.items():
            if stream.model is not None:
                before, now = (
                    (each or {}).get("total", {}) for each in (stream.earlier_progress, stream.progress)
                )
                rows_in, rows_out = (
                    max(0, now.get(each, 0) - before.get(each, 0)) for each in ("rows_in", "rows_out")
                )
                self._board.inform(
                    f"{name}: {counted(rows_in, 'row')} in and {rows_out:,} out since it was started."
                )

    def _show_and_publish(self, header: str) -> None:
        """Shows and publishes the health of the models."""
        found = []
        for name, stream in self._streams.items():
            health = self.supervisor.health(name)
            if health != self._published.get(name) and self._is_supervised_here(name):
                self._published[name] = health
                text = (self._nodes[name].get("checksum") or {}).get("checksum")
                self._publisher.publish(self._models[name].health, replace(health, text=text))
            found.append(
                {
                    "model": name,
                    **health.as_json(),
                    "progress": stream.progress,
                    "is_new": stream.progress_in_this_process is not None,
                }
            )
        self._board.show_progress(found, header)

    def _is_supervised_here(self, name: str) -> bool:
        """Returns whether this process, and no other, supervises a model."""
        if name in self._foreign:
            if self._streams[name].running is None:
                return False
            # It runs, so it is the same catalog under other settings.
            self._foreign.discard(name)
        if name not in self._ours:
            model = self.supervisor.models[name]
            failed = model.last_error is not None and not says_model_runs_elsewhere(model.last_error)
            if self._streams[name].running is not None or failed:
                self._ours.add(name)
        return name in self._ours

    def _stop_models(self, signals: Signals) -> None:
        """Ends the models in order. After SIGTERM, models that don't end in time are abandoned."""
        self.supervisor.stop_all()
        began = time.monotonic()
        while not self.supervisor.is_over:
            if self._environment.jvm_end_message() or (
                signals.is_urgent and time.monotonic() - began > _ORDERLY
            ):
                self._is_abandoned = True
                self.supervisor.abandon_all()
            self.supervisor.advance()
            signals.exit_code = 1 if self.supervisor.failed_names else 0
            time.sleep(_LOOK)

    def _print_models_up(self) -> None:
        """Prints which models are up, once each of them has started, failed, or waits for another one."""
        up = sorted(name for name, each in self._streams.items() if each.running is not None)
        others = [each for name, each in self.supervisor.models.items() if name not in up]
        if any(each.state == WAITING and not each.lacks_table for each in others):
            return
        self._is_up = True
        line = f"{counted(len(up), 'model')} up: {', '.join(up)}." if up else "No model is up."
        rest = "; ".join(f"{each.name} is {each.state}" for each in others)
        self._board.inform(f"{line} {rest}." if rest else line)

    def _closing_line(self) -> str:
        models = self.supervisor.models
        stopped, failed = (
            [name for name, each in models.items() if each.state == state] for state in (STOPPED, FAILED)
        )
        parts = [f"stopped: {', '.join(stopped)}"] if stopped else ["stopped"]
        return "; ".join([*parts, *([f"failed: {', '.join(failed)}"] if failed else [])])

    def _upstream_models_and_tables(self, name: str) -> tuple[frozenset[str], frozenset[str]]:
        """Returns the service's models that a model reads, directly or through other nodes, and the tables of these other
        nodes."""
        by_id = {node["unique_id"]: each for each, node in self._nodes.items()}
        found: set[str] = set()
        tables: set[str] = set()
        seen: set[str] = set()
        left = [self._nodes[name]["unique_id"]]
        while left:
            node = self._manifest.nodes.get(left.pop())
            for other in node.depends_on_nodes if node is not None else ():
                if other in by_id:
                    found.add(by_id[other])
                elif other not in seen:
                    seen.add(other)
                    left.append(other)
                    table = self._manifest.nodes.get(other) or self._manifest.sources.get(other)
                    if table is not None and table.relation_name:
                        tables.add(table_key(table.relation_name))
        return frozenset(found), frozenset(tables)

    def _prepare_models(self, names: Sequence[str], on_outcome: Callable[[Outcome], None]) -> None:
        """Runs models with dbt up to the start of their streams, and passes on the outcome of each."""
        nodes = [self._nodes[name] for name in names]
        by_id = {node["unique_id"]: name for name, node in zip(names, nodes, strict=True)}
        with preparing() as handed_over:

            def on_result(unique_id: str, status: str, message: str, problem: BaseException | None) -> None:
                name = by_id.get(unique_id)
                if name is not None:
                    prepared = handed_over.get(unique_id) if status == "success" else None
                    on_outcome(Outcome(name, status, without_dbt_headings(message), prepared, problem))

            quiet, self._is_quiet = self._is_quiet, True
            self._project.run_each(self._manifest, nodes, on_result, quiet)


@dataclass
class _Watch:
    """Collects Spark's status for the watchdog, in a separate thread because Spark may not answer."""

    environment: Environment
    streams: RunningModels
    supervisor: Supervisor
    say: Callable[[str], None]
    spark_ended: str | None = None
    _asked_at: float | None = None
    _has_printed: bool = False

    def __post_init__(self) -> None:
        self._watchdog = Watchdog(self.say)

    @property
    def notes(self) -> Mapping[str, str]:
        return self._watchdog.notes

    def start(self) -> None:
        threading.Thread(target=self._check_spark_forever, name="watchdog", daemon=True).start()

    def warn_if_silent(self) -> None:
        """Prints a line if Spark doesn't answer."""
        asked_at = self._asked_at
        lasts = 0.0 if asked_at is None else time.monotonic() - asked_at
        if lasts > NO_ANSWER and not self._has_printed:
            self._has_printed = True
            self.say(f"Spark has not answered for {lasts:.0f} s.")
        elif asked_at is None:
            self._has_printed = False

    def _check_spark_forever(self) -> None:
        while True:
            time.sleep(_ASK)
            self._asked_at = time.monotonic()
            # If the JVM has ended, the main loop notices.
            with suppress(Exception):
                self._check_activities()
            self._asked_at = None

    def _check_activities(self) -> None:
        activities: dict[str, tuple[str, object] | None] = {}
        running = False
        for name, each in self.supervisor.models.items():
            stream = self.streams.streams[name]
            latest = stream.progress_in_this_process or {}
            done = (each.restarts, latest.get("batch"), latest.get("flush"))
            if stream.running is not None:
                running = True
                what = self.streams.describe_activity(name)
                activities[name] = None if what is None else (what, done)
            elif each.attempt is not None:
                activities[name] = ("starting", done)
            else:
                activities[name] = None
        if not running:
            self._watchdog.check_progress(time.monotonic(), activities, None)
            return
        session = self.environment.session()
        context = session.sparkContext._jsc.sc()
        if context.isStopped():
            self.spark_ended = (
                "Spark's context was shut down, so no model can continue: the cluster's master went away or somebody ended "
                "the application. See the messages above and the log of the cluster."
            )
            return
        local = str(session.sparkContext.master).startswith("local")
        executors = None if local else max(0, int(context.getExecutorMemoryStatus().size()) - 1)
        self._watchdog.check_progress(time.monotonic(), activities, executors)


def clock_text(seconds: float) -> str:
    """Returns a time span as a clock shows it.

    >>> clock_text(42.7), clock_text(3 * 3600 + 125)
    ('0:00:42', '3:02:05')
    """
    return str(timedelta(seconds=int(seconds)))


def next_look_phrase(trigger: str, now: float) -> tuple[float, str]:
    """Returns the seconds until a model's next micro-batch may begin, and a phrase with them. Spark begins micro-batches at
    multiples of the interval.

    >>> next_look_phrase("1 second", 0.4)[1], next_look_phrase("30 seconds", 65.5)
    ('looks for new rows every 1 second', (24.5, 'next look for new rows in 25 s'))
    """
    interval = intervals.parse(trigger) / 1e6
    left = interval - now % interval
    if interval <= 2:
        return left, f"looks for new rows every {trigger}"
    return left, f"next look for new rows in {math.ceil(left)} s"
