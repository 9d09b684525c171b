"""A dbt project as ``dbt-stream`` sees it: its models, by dbt's own selection, and its target."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from ..project import model_names
from ..stream.common.identifiers import last, with_last

# What reads and plans is imported where it is needed: help texts do without.
if TYPE_CHECKING:
    from ..credentials import SparkStreamingCredentials
    from ..environment import Environment
    from ..query.frontend.streams import Known
    from ..stream.common.model import StreamModel


_RAISED = ("CatchableExceptionOnRun", "InternalErrorOnRun", "GenericExceptionOnRun")
"""Events with which dbt reports that a node has raised an exception."""


class ProjectError(Exception):
    """What is wrong with a project or a selection, as a sentence."""


@dataclass(frozen=True)
class Selection:
    """dbt's node selection; empty: all."""

    select: Sequence[str] = ()
    exclude: Sequence[str] = ()


@dataclass(frozen=True)
class Project:
    """Where a project is and with what it is read; nothing is read before it is asked for."""

    folder: Path
    profiles: Path | None
    profile: str | None
    target: str | None
    variables: str | None

    def compiled(self, name: str) -> Mapping[str, Any]:
        """The node of one streaming model, compiled.

        Raises:
            ProjectError: there is no such model, it isn't a stream, or it doesn't compile.
        """
        return self.compiled_with_known(name)[0]

    def compiled_with_known(
        self, name: str, asking: bool = False
    ) -> tuple[Mapping[str, Any], Mapping[str, Known]]:
        """The same, and what the project says of the relations it reads.

        The rows of a model upstream may change; its own plan tells. `asking`: made in a session, which is started.
        """
        from ..project import streaming
        from ..project.stream_config import MATERIALIZATIONS

        manifest = self._dbt("parse")
        chosen = _model_named(name, manifest)
        selected = model_names.selector(chosen)
        # Other models upstream may ask the warehouse something while they are compiled.
        streams = [f"+{selected},config.materialized:{kind}" for kind in MATERIALIZATIONS]
        options = ("--no-populate-cache", "--no-introspect")
        result = self._dbt("compile", "--select", selected, *streams, *options, manifest=manifest)
        nodes = [entry.node.to_dict() for entry in result if entry.node.resource_type == "model"]
        node: dict[str, Any] = next(each for each in nodes if each["unique_id"] == chosen["unique_id"])
        if node["config"]["materialized"] not in MATERIALIZATIONS:
            raise ProjectError(
                f"Model {node['name']} is materialized as '{node['config']['materialized']}', not as a stream "
                f"({', '.join(MATERIALIZATIONS)})."
            )
        graph = _graph(manifest)
        upstream = [other for other in nodes if other["config"]["materialized"] in MATERIALIZATIONS]
        with project_errors():
            ask = streaming.asks(self.environment(), str(self.folder)) if asking else None
            return node, streaming.known(graph, [other for other in upstream if other is not node], ask, node)

    def run(
        self, names: Sequence[str], *options: str, tables: Mapping[str, str] | None = None
    ) -> tuple[list[Mapping[str, Any]], Mapping[str, Any]]:
        """Runs models as `dbt run` does: the nodes of those that weren't stopped meanwhile, compiled, and dbt's graph.

        Args:
            names: of the models, as `streaming_model` takes them.
            options: more of that command's.
            tables: by these names the table that a model has in this run, in full, where that isn't its own.

        Raises:
            ProjectError: one of them fails.
        """
        manifest = self._dbt("parse")
        chosen = [_model_named(name, manifest) for name in names]
        for name, found in zip(names, chosen, strict=True):
            if tables and (table := tables.get(name)) is not None:
                node = manifest.nodes[found["unique_id"]]
                node.alias = last(table)
                node.relation_name = with_last(node.relation_name, node.alias)
        if tables:
            # Who reads target/ finds there what dbt's own commands have written.
            options = (*options, "--no-write-json")
        selected = map(model_names.selector, chosen)
        result = self._dbt("run", "--select", *selected, *options, manifest=manifest, quiet=False)
        nodes = {
            entry.node.unique_id: entry.node.to_dict()
            for entry in result
            if not entry.adapter_response.get("stopped")
        }
        ran = [nodes[each["unique_id"]] for each in chosen if each["unique_id"] in nodes]
        return ran, _graph(manifest)

    def streaming_model(self, name: str) -> Mapping[str, Any]:
        """The node of a streaming model.

        Args:
            name: its name; where that is ambiguous with its version or its package, as in `m.v2`, `package.m`.

        Raises:
            ProjectError: there is none of that name, or there are several.
        """
        found = model_names.matching(name, self.streaming_models())
        if len(found) > 1:
            raise ProjectError(model_names.ambiguous(name, found))
        if not found:
            raise ProjectError(
                f"There is no streaming model '{name}'; `dbt-stream status` lists those there are."
            )
        return found[0]

    def table_of(self, name: str) -> str:
        """The table of a streaming model, in full.

        Raises:
            ProjectError: as in `streaming_model`.
        """
        from ..project import stream_node

        return stream_node.in_catalog(str(self.streaming_model(name)["relation_name"]), self.environment())

    def parsed(self) -> Any:
        """Returns dbt's manifest of the project.

        Raises:
            ProjectError: dbt can't read the project.
        """
        return self._dbt("parse")

    def run_each(
        self,
        manifest: Any,
        nodes: Sequence[Mapping[str, Any]],
        note: Callable[[str, str, str, BaseException | None], None],
        quiet: bool,
    ) -> None:
        """Runs models as `dbt run` does, whether or not others of them fail.

        Args:
            manifest: dbt's.
            nodes: the models.
            note: is told of each as soon as it is done: its unique id, dbt's status and message, and the exception
                that made it fail.
            quiet: whether dbt prints nothing and leaves target/ as it is.

        Raises:
            ProjectError: none of them could be run.
        """

        problems: dict[str, BaseException] = {}

        def heard(event: Any) -> None:
            if event.info.name in _RAISED and (problem := sys.exc_info()[1]) is not None:
                # dbt reports an exception where it handles it, and afterwards only has its text.
                problems[event.data.node_info.unique_id] = problem
            if event.info.name == "NodeFinished":
                result, unique_id = event.data.run_result, event.data.node_info.unique_id
                note(unique_id, str(result.status), str(result.message), problems.get(unique_id))

        outcome = self._invoke(
            "run", ("--select", *map(_exactly, nodes), "--no-fail-fast"), manifest, quiet, heard
        )
        results = getattr(outcome.result, "results", None) or ()
        for entry in results:
            unique_id = entry.node.unique_id
            note(unique_id, str(entry.status), str(entry.message or ""), problems.get(unique_id))
        if outcome.exception is not None and not results:
            raise ProjectError(str(outcome.exception)) from outcome.exception

    def streaming_models(
        self, selection: Selection = Selection(), manifest: Any = None
    ) -> list[Mapping[str, Any]]:
        """Returns the nodes of the selected streaming models: those that others read first, and by name.

        Args:
            selection: which; default: all.
            manifest: dbt's, where it is there.
        """
        from ..project.stream_config import MATERIALIZATIONS

        manifest = manifest or self.parsed()
        nodes = {
            unique_id: node.to_dict()
            for unique_id, node in manifest.nodes.items()
            if node.resource_type == "model" and node.config.materialized in MATERIALIZATIONS
        }
        if selection != Selection():
            listed = self._dbt(
                "ls",
                *(["--select", *selection.select] if selection.select else []),
                *(["--exclude", *selection.exclude] if selection.exclude else []),
                "--resource-type",
                "model",
                "--output",
                "path",
                "--output-keys",
                "unique_id",
                manifest=manifest,
            )
            wanted = set(listed)
            nodes = {k: node for k, node in nodes.items() if node["original_file_path"] in wanted}
        depths = _depths({unique_id: node.depends_on_nodes for unique_id, node in manifest.nodes.items()})
        return sorted(nodes.values(), key=lambda node: (depths[node["unique_id"]], model_names.label(node)))

    def selected(self, selection: Selection) -> list[str]:
        """Returns the names of the selected streaming models, as `streaming_model` takes them.

        Raises:
            ProjectError: none is selected.
        """
        found = [model_names.label(node) for node in self.streaming_models(selection)]
        if not found:
            words = " ".join(
                [*selection.select, *(["--exclude", *selection.exclude] if selection.exclude else [])]
            )
            raise ProjectError(
                f"No streaming model is selected by {words}; `dbt-stream status` lists those there are."
            )
        return found

    def environment(self) -> Environment:
        """The target's environment, once dbt has read the project. Spark isn't started by asking for it."""
        from ..environment import get_environment

        return get_environment(self.credentials())

    def credentials(self) -> SparkStreamingCredentials:
        """What the profile says of the target.

        Raises:
            ProjectError: there is no such target, or it is another adapter's.
        """
        from dbt.config.runtime import load_profile

        with project_errors():
            profile = load_profile(str(self.folder), self.parsed_variables(), self.profile, self.target)
        credentials: Any = profile.credentials
        if credentials.type != "spark_streaming":
            raise ProjectError(
                f"The target is of type '{credentials.type}'; dbt-stream works with 'spark_streaming'."
            )
        credentials.start_at(self.folder.resolve())
        found: SparkStreamingCredentials = credentials
        return found

    def parsed_variables(self) -> dict[str, Any]:
        """dbt's --vars."""
        import yaml

        return dict(yaml.safe_load(self.variables or "") or {})

    def _dbt(self, command: str, *arguments: str, manifest: Any = None, quiet: bool = True) -> Any:
        outcome = self._invoke(command, arguments, manifest, quiet)
        if outcome.exception is not None:
            raise ProjectError(str(outcome.exception))
        if not outcome.success:
            messages = [str(entry.message) for entry in outcome.result or () if has_failed(entry)]
            raise ProjectError("\n".join(messages) or f"`dbt {command}` failed; see logs/dbt.log.")
        return outcome.result

    def _invoke(
        self,
        command: str,
        arguments: Sequence[str],
        manifest: Any,
        quiet: bool,
        heard: Callable[[Any], None] | None = None,
    ) -> Any:
        options = ["--project-dir", str(self.folder)]
        for name, value in (
            ("--profiles-dir", self.profiles),
            ("--profile", self.profile),
            ("--target", self.target),
            ("--vars", self.variables),
        ):
            if value is not None:
                options += [name, str(value)]
        # Who only looks leaves in target/ what dbt's own commands have written there.
        looking = ["--quiet", "--log-level", "none", "--no-write-json"] if quiet else []
        return _runner(manifest, heard).invoke([*looking, command, *arguments, *options])


def _depths(parents: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Returns how many nodes stand one above the other up to each.

    >>> _depths({"c": ["b"], "a": ["raw"], "b": ["a"]})
    {'a': 1, 'b': 2, 'c': 3}
    """
    found: dict[str, int] = {}
    left = dict(parents)
    while ready := [name for name, above in left.items() if not any(each in left for each in above)]:
        for name in ready:
            found[name] = 1 + max((found.get(each, 0) for each in left[name]), default=0)
        left = {name: above for name, above in left.items() if name not in found}
    return found


def _exactly(node: Mapping[str, Any]) -> str:
    """Returns dbt's selection of one model: a folder may be called as a model is, and a name is another package's, too."""
    return f"fqn:{'.'.join(node['fqn'])},file:{PurePath(node['original_file_path']).name}"


def has_failed(entry: Any) -> bool:
    """Returns whether dbt's result of a node is a failure that it has a message for."""
    return bool(entry.message) and str(getattr(entry, "status", "")) in ("error", "fail", "runtime error")


def _runner(manifest: Any, heard: Callable[[Any], None] | None = None) -> Any:
    """dbt's entrance, as it is for programs. What its import makes stays, so nobody looks for garbage meanwhile: that is a
    tenth of its time."""
    gc.disable()
    try:
        from dbt.cli.main import dbtRunner
    finally:
        gc.enable()
    return dbtRunner(manifest=manifest, callbacks=[heard] if heard else [])


def _model_named(name: str, manifest: Any) -> Mapping[str, Any]:
    """The node of a model.

    Raises:
        ProjectError: there is none of that name, or there are several.
    """
    models = [node.to_dict() for node in manifest.nodes.values() if node.resource_type == "model"]
    found = model_names.matching(name, models)
    if not found:
        raise ProjectError(f"There is no model '{name}' in the project; `dbt ls` lists those there are.")
    if len(found) > 1:
        raise ProjectError(model_names.ambiguous(name, found))
    return found[0]


def _graph(manifest: Any) -> dict[str, dict[str, Any]]:
    return {
        group: {unique_id: each.to_dict() for unique_id, each in getattr(manifest, group).items()}
        for group in ("nodes", "sources")
    }


@contextmanager
def project_errors() -> Iterator[None]:
    """Has what is wrong with a query, or with what dbt or a stream was asked for, told as a `ProjectError`."""
    from dbt_common.exceptions import DbtBaseException

    from ..query.errors import QueryError

    try:
        yield
    except (QueryError, DbtBaseException) as problem:
        raise ProjectError(str(problem)) from problem


def owned_model(project: Project, name: str) -> tuple[StreamModel, Environment]:
    """Returns a streaming model, as of `owned`, and where it runs.

    Raises:
        ProjectError: there is none of that name, or its files belong to another target's table.
    """
    from ..project import stream_node

    node = project.streaming_model(name)
    environment = project.environment()
    with project_errors():
        return owned(environment, stream_node.model(node, environment)), environment


def owned(environment: Environment, model: StreamModel) -> StreamModel:
    """Returns a model whose files are those of its table in this target's catalog. Spark is started only where the target's
    settings leave doubt.

    Raises:
        StreamError: they belong to another target's table.
    """
    from ..stream.iceberg import owner

    if owner.problem(model) is not None:
        owner.check(environment.session(), model)
    return model
