"""Reads a dbt project for ``dbt-stream``: its models, by dbt's own selection, and its target."""

from __future__ import annotations

import gc
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..project import model_names
from ..stream.common.identifiers import last_part, with_last
from ..util.redaction import redacted_cause

# Slow imports are local to functions, so that `--help` is fast.
if TYPE_CHECKING:
    from ..credentials import SparkStreamingCredentials
    from ..environment import Environment
    from ..query.frontend.streams import RelationInfo
    from ..stream.common.model import StreamModel


_RAISED = ("CatchableExceptionOnRun", "InternalErrorOnRun", "GenericExceptionOnRun")
"""Names of dbt's events for an exception that a node has raised."""


class ProjectError(Exception):
    """An error in a project or a selection, as a sentence for the user."""


@dataclass(frozen=True)
class Selection:
    """dbt's node selection. An empty one selects all models."""

    select: Sequence[str] = ()
    exclude: Sequence[str] = ()

    @property
    def options(self) -> list[str]:
        """The selection as options of dbt's commands."""
        given = (("--select", self.select), ("--exclude", self.exclude))
        return [word for option, words in given if words for word in (option, *words)]

    def __str__(self) -> str:
        return " ".join(self.options)

    @property
    def refusal(self) -> str:
        """The message if it selects no model."""
        if self == Selection():
            return "The project has no streaming models."
        return f"No streaming model is selected by {self}; `dbt-stream status` lists those there are."


@dataclass(frozen=True)
class DbtProject:
    """A dbt project and the options to read it with. Reading is lazy."""

    folder: Path
    profiles: Path | None
    profile: str | None
    target: str | None
    variables: str | None
    threads: int | None = None
    log_format: str | None = None
    quiet: bool = False

    @property
    def logs_json(self) -> bool:
        """Whether lines of a run are JSON objects, as dbt's ``--log-format json`` asks."""
        return self.log_format == "json"

    def compile_with_relations(
        self, name: str, may_query: bool = False
    ) -> tuple[Mapping[str, Any], Mapping[str, RelationInfo]]:
        """Returns the compiled node of a streaming model, and the relations it reads as the project describes them.

        Streaming models upstream are planned, too: their plans say whether their rows change.

        Args:
            name: the model, as `streaming_model` takes it.
            may_query: whether Jinja and planning may run queries in a Spark session, which is started.
        """
        from ..project import streaming
        from ..project.model_configs import MATERIALIZATIONS

        manifest = self._run_dbt("parse")
        chosen = _model_named(name, manifest)
        selected, path = model_names.exact_selector(chosen), model_names.path_selector(chosen)
        # Batch models upstream are not compiled: they may run introspective queries.
        streams = [f"+{path},config.materialized:{kind}" for kind in MATERIALIZATIONS]
        options = ("--no-populate-cache", *(() if may_query else ("--no-introspect",)))
        result = self._run_dbt("compile", "--select", selected, *streams, *options, manifest=manifest)
        nodes = [entry.node.to_dict() for entry in result if entry.node.resource_type == "model"]
        node: dict[str, Any] = next(each for each in nodes if each["unique_id"] == chosen["unique_id"])
        if node["config"]["materialized"] not in MATERIALIZATIONS:
            raise ProjectError(
                f"Model {node['name']} is materialized as '{node['config']['materialized']}', not as a stream "
                f"({', '.join(MATERIALIZATIONS)})."
            )
        graph = _graph_of(manifest)
        upstream = [other for other in nodes if other["config"]["materialized"] in MATERIALIZATIONS]
        ask = streaming.query_runner(self.environment()) if may_query else None
        return node, streaming.known_relations(
            graph, [other for other in upstream if other is not node], ask, node
        )

    def run(
        self, names: Sequence[str], *options: str, tables: Mapping[str, str] | None = None
    ) -> tuple[list[Mapping[str, Any]], Mapping[str, Any]]:
        """Runs models as `dbt run` does. Returns the compiled nodes of those that were not stopped, and dbt's graph.

        Args:
            tables: full names of the tables to write instead of the models' own, by name of the model.
        """
        manifest = self._run_dbt("parse")
        chosen = [_model_named(name, manifest) for name in names]
        for name, found in zip(names, chosen, strict=True):
            if tables and (table := tables.get(name)) is not None:
                node = manifest.nodes[found["unique_id"]]
                node.alias = last_part(table)
                node.relation_name = with_last(node.relation_name, node.alias)
        if tables:
            # target/ keeps the files of the last dbt command, in which the models have their own tables.
            options = (*options, "--no-write-json")
        selected = map(model_names.exact_selector, chosen)
        result = self._run_dbt("run", "--select", *selected, *options, manifest=manifest, quiet=False)
        nodes = {
            entry.node.unique_id: entry.node.to_dict()
            for entry in result
            if not entry.adapter_response.get("stopped")
        }
        ran = [nodes[each["unique_id"]] for each in chosen if each["unique_id"] in nodes]
        return ran, _graph_of(manifest)

    def streaming_model(self, name: str) -> Mapping[str, Any]:
        """Returns the node of a streaming model.

        Args:
            name: its name, with its version or its package if the name is ambiguous: `m.v2`, `package.m`.
        """
        if (found := _node_named(name, self.streaming_models())) is None:
            raise ProjectError(
                f"There is no streaming model '{name}'; `dbt-stream status` lists those there are."
            )
        return found

    def check_models(self, names: Sequence[str]) -> None:
        """Raises `ProjectError` if a name after the first isn't a streaming model's. A command checks the first one itself,
        before it changes it."""
        for name in names[1:]:
            self.streaming_model(name)

    def table_of(self, name: str) -> str:
        """Returns the full name of a streaming model's table."""
        from ..project import stream_node

        return stream_node.name_with_catalog(
            str(self.streaming_model(name)["relation_name"]), self.environment()
        )

    def parsed_manifest(self) -> Any:
        """Returns dbt's manifest of the project."""
        return self._run_dbt("parse")

    def run_each(
        self,
        manifest: Any,
        nodes: Sequence[Mapping[str, Any]],
        on_result: Callable[[str, str, str, BaseException | None], None],
        quiet: bool,
    ) -> None:
        """Runs models as `dbt run --no-fail-fast` does.

        Args:
            on_result: called for each model once it is done, with its unique id, dbt's status and message, and the exception
                that made it fail.
            quiet: whether dbt prints nothing and leaves target/ unchanged.
        """
        problems: dict[str, BaseException] = {}

        def on_event(event: Any) -> None:
            if event.info.name in _RAISED and (problem := sys.exc_info()[1]) is not None:
                # dbt fires this event while it handles the exception; afterwards only its text is left.
                problems[event.data.node_info.unique_id] = problem
            if event.info.name == "NodeFinished":
                result, unique_id = event.data.run_result, event.data.node_info.unique_id
                on_result(unique_id, str(result.status), str(result.message), problems.get(unique_id))

        outcome = self._invoke_dbt(
            "run",
            ("--select", *map(model_names.exact_selector, nodes), "--no-fail-fast"),
            manifest,
            quiet,
            on_event,
        )
        results = getattr(outcome.result, "results", None) or ()
        for entry in results:
            unique_id = entry.node.unique_id
            on_result(unique_id, str(entry.status), str(entry.message or ""), problems.get(unique_id))
        if outcome.exception is not None and not results:
            raise ProjectError(str(outcome.exception)) from outcome.exception

    def streaming_models(
        self, selection: Selection = Selection(), manifest: Any = None
    ) -> list[Mapping[str, Any]]:
        """Returns the nodes of the selected streaming models, by depth in the graph and then by name."""
        from ..project.model_configs import MATERIALIZATIONS

        manifest = manifest or self.parsed_manifest()
        nodes = {
            unique_id: node.to_dict()
            for unique_id, node in manifest.nodes.items()
            if node.resource_type == "model" and node.config.materialized in MATERIALIZATIONS
        }
        if selection != Selection():
            output = "--resource-type model --output json --output-keys unique_id".split()
            listed = self._run_dbt("ls", *selection.options, *output, manifest=manifest)
            # Not by path: a package may have a model in a file of the same path.
            wanted = {json.loads(line)["unique_id"] for line in listed}
            nodes = {k: node for k, node in nodes.items() if k in wanted}
        depths = _depths({unique_id: node.depends_on_nodes for unique_id, node in manifest.nodes.items()})
        return sorted(
            nodes.values(), key=lambda node: (depths[node["unique_id"]], model_names.versioned_name(node))
        )

    def names_by_id(self, manifest: Any) -> Mapping[str, str]:
        """Returns a name of each model, as `streaming_model` takes it, by unique id."""
        return model_names.unambiguous_names(_model_nodes(manifest))

    def selected_names(self, selection: Selection) -> list[str]:
        """Returns the names of the selected streaming models, as `streaming_model` takes them."""
        manifest = self.parsed_manifest()
        names = self.names_by_id(manifest)
        found = [names[node["unique_id"]] for node in self.streaming_models(selection, manifest)]
        if not found:
            raise ProjectError(selection.refusal)
        return found

    def environment(self) -> Environment:
        """Returns the environment of the target. Doesn't start Spark."""
        from ..environment import get_environment

        return get_environment(self.credentials())

    def credentials(self) -> SparkStreamingCredentials:
        """Returns the target's credentials from the profile."""
        from dbt.config.runtime import load_profile

        profile = load_profile(str(self.folder), self.parsed_variables(), self.profile, self.target)
        credentials: Any = profile.credentials
        if credentials.type != "spark_streaming":
            raise ProjectError(
                f"The target is of type '{credentials.type}'; dbt-stream works with 'spark_streaming'."
            )
        credentials.resolve_paths(self.folder.resolve())
        checked: SparkStreamingCredentials = credentials
        return checked

    def parsed_variables(self) -> dict[str, Any]:
        """Returns the variables of dbt's ``--vars``."""
        import yaml

        try:
            return dict(yaml.safe_load(self.variables or "") or {})
        except (yaml.YAMLError, ValueError, TypeError):
            raise ProjectError(
                f"--vars: '{self.variables}' is not a YAML mapping; write for example --vars '{{flush: true}}'."
            ) from None

    def _run_dbt(self, command: str, *arguments: str, manifest: Any = None, quiet: bool = True) -> Any:
        outcome = self._invoke_dbt(command, arguments, manifest, quiet)
        if outcome.exception is not None:
            raise ProjectError(_with_jinja_advice(str(outcome.exception)))
        if not outcome.success:
            messages = [str(entry.message) for entry in outcome.result or () if has_failed(entry)]
            raise ProjectError(
                _with_jinja_advice("\n".join(messages)) or f"`dbt {command}` failed; see logs/dbt.log."
            )
        return outcome.result

    def _check_readable(self) -> None:
        """Raises unless there are a project and variables that can be read."""
        if not (self.folder / "dbt_project.yml").is_file():
            raise ProjectError(
                f"There is no dbt_project.yml in {self.folder.resolve()}. Go to the folder of a dbt project, or name it "
                "with --project-dir."
            )
        self.parsed_variables()

    def _invoke_dbt(
        self,
        command: str,
        arguments: Sequence[str],
        manifest: Any,
        quiet: bool,
        on_event: Callable[[Any], None] | None = None,
    ) -> Any:
        self._check_readable()
        options = ["--project-dir", str(self.folder)]
        for name, value in (
            ("--profiles-dir", self.profiles),
            ("--profile", self.profile),
            ("--target", self.target),
            ("--vars", self.variables),
            ("--threads", self.threads if command in ("run", "compile") else None),
        ):
            if value is not None:
                options += [name, str(value)]
        if quiet:
            # Commands that only read the project leave target/ unchanged.
            output = ["--quiet", "--log-level", "none", "--no-write-json"]
        else:
            output = ["--log-format", self.log_format] if self.log_format else []
            output += ["--quiet"] if self.quiet else []
        outcome = _dbt_runner(manifest, on_event).invoke([*output, command, *arguments, *options])
        if outcome.exception is not None:
            # Its frames refer to dbt's pool of threads. If that is alive at the end, Python prints a stack trace.
            outcome.exception.__traceback__ = None
        return outcome


def _with_jinja_advice(message: str) -> str:
    """Returns a message of dbt, with the one on a missing connection explained: Jinja needed it in a command without Spark.

    >>> _with_jinja_advice("Runtime Error in model m (m.sql)\\n  connection never acquired for thread (1, 2), have []")
    ... # doctest: +ELLIPSIS
    'Runtime Error in model m (m.sql)\\n  Its Jinja asks the database, as run_query(), dbt_utils.star() and is_inc...'
    """
    meaning = (
        "Its Jinja asks the database, as run_query(), dbt_utils.star() and is_incremental() do, and this command starts no "
        "Spark. Write into the model what it asks for; commands that start Spark, as `dbt-stream verify` does, can read it. "
        "A streaming model reads each row once, so it needs no is_incremental(): leave that out."
    )
    return re.sub(r"connection never acquired for thread .*", meaning, message)


def _depths(parents: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Returns the number of nodes on the longest path to each node, including itself.

    >>> _depths({"c": ["b"], "a": ["raw"], "b": ["a"]})
    {'a': 1, 'b': 2, 'c': 3}
    """
    depths: dict[str, int] = {}
    for name in TopologicalSorter(parents).static_order():
        if name in parents:
            depths[name] = 1 + max((depths.get(parent, 0) for parent in parents[name]), default=0)
    return depths


def has_failed(entry: Any) -> bool:
    """Returns whether dbt's result of a node is a failure with a message."""
    return bool(entry.message) and str(getattr(entry, "status", "")) in ("error", "fail", "runtime error")


def _dbt_runner(manifest: Any, on_event: Callable[[Any], None] | None = None) -> Any:
    """Returns dbt's programmatic runner. Garbage collection is off while it is imported, which saves a tenth of the time."""
    gc.disable()
    try:
        from dbt.cli.main import dbtRunner
    finally:
        gc.enable()
    return dbtRunner(manifest=manifest, callbacks=[on_event] if on_event else [])


def _model_nodes(manifest: Any) -> list[dict[str, Any]]:
    return [node.to_dict() for node in manifest.nodes.values() if node.resource_type == "model"]


def _model_named(name: str, manifest: Any) -> Mapping[str, Any]:
    """Returns the node of a model."""
    if (found := _node_named(name, _model_nodes(manifest))) is None:
        raise ProjectError(f"There is no model '{name}' in the project; `dbt ls` lists those there are.")
    return found


def _node_named(name: str, nodes: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    found = model_names.models_named(name, nodes)
    if len(found) > 1:
        raise ProjectError(model_names.ambiguous_name_message(name, found))
    return found[0] if found else None


def _graph_of(manifest: Any) -> dict[str, dict[str, Any]]:
    return {
        group: {unique_id: each.to_dict() for unique_id, each in getattr(manifest, group).items()}
        for group in ("nodes", "sources")
    }


@contextmanager
def raising_project_errors() -> Iterator[None]:
    """Raises errors in queries, of dbt, of streams, of Spark and of files as `ProjectError`."""
    try:
        yield
    except (click.ClickException, click.Abort, click.exceptions.Exit):
        raise
    except Exception as problem:
        from dbt_common.exceptions import DbtBaseException

        from ..environment.spark_errors import readable_error, spark_exceptions
        from ..query.errors import QueryError

        if isinstance(problem, QueryError | DbtBaseException):
            raise ProjectError(str(problem)) from problem
        if isinstance(problem, spark_exceptions()):
            raise ProjectError(readable_error(problem)) from redacted_cause(problem)
        # click ends a command whose output nobody reads any more.
        if isinstance(problem, OSError) and problem.strerror and not isinstance(problem, BrokenPipeError):
            where = "" if problem.filename is None else f"{problem.filename}: "
            raise ProjectError(f"{where}{problem.strerror}.") from problem
        raise


def owned_model(project: DbtProject, name: str) -> tuple[StreamModel, Environment]:
    """Returns a streaming model whose files belong to this target, and the environment that it runs in."""
    from ..project import stream_node

    node, environment = project.streaming_model(name), project.environment()
    return model_if_owned(environment, stream_node.stream_model(node, environment)), environment


def model_if_owned(environment: Environment, model: StreamModel) -> StreamModel:
    """Returns the model if its files belong to its table in this target's catalog.

    Starts Spark only if the target's settings don't decide that.

    Raises:
        StreamError: the files belong to another target's table.
    """
    from ..stream.iceberg import owner

    if owner.other_catalog_problem(model) is not None:
        owner.check_owner(environment.session(), model)
    return model
