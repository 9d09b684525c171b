"""What macros ask of the adapter about rewrites."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dbt.adapters.base import available
from dbt.adapters.base.meta import AdapterMeta

from ..query.errors import QueryError
from ..util.lazily import Lazily

if TYPE_CHECKING:
    from ..project import batch, stream_config, streaming
    from ..query.rewrites import rewrite_configs, rewriting, stream_rewrites
else:
    batch, stream_config, streaming = map(
        Lazily, ("project.batch", "project.stream_config", "project.streaming")
    )
    rewrite_configs, rewriting, stream_rewrites = map(
        Lazily,
        ("query.rewrites.rewrite_configs", "query.rewrites.rewriting", "query.rewrites.stream_rewrites"),
    )


class RewriteMethods(metaclass=AdapterMeta):
    """The methods of the adapter that macros/rewrites and macros/materializations call."""

    @available.parse(lambda *arguments, **named: "")
    def rewrite(self, name: str, sql: str, materialized: str | None, **options: Any) -> str:
        """What a rewrite's macro prints for the SELECT in its block: in a streaming model it is the state that
        is made another way, so there it is the SELECT with a hint.

        Raises:
            CompilationError: it can't be rewritten; why.
        """
        make = (
            stream_rewrites.hinted if materialized in stream_config.MATERIALIZATIONS else rewriting.rewritten
        )
        with streaming.sentences():
            return make(name, sql, **options)

    @available.parse(lambda *arguments, **named: "")
    def rewrite_by_config(self, sql: str, model: Mapping[str, Any] | None) -> str:
        """A batch model's text with the rewrites that its config asks for.

        Raises:
            CompilationError: one can't be made; why.
        """
        # Anything may be made into a table, tests' failures too; only models have these configs.
        if not model or model.get("resource_type") != "model":
            return sql
        if model.get("batch") and model["config"].get("incremental_strategy") == batch.MICROBATCH:
            return sql  # done when the batch was planned, below the condition that it has
        with streaming.sentences():
            try:
                return rewriting.by_config(sql, model["config"])
            except QueryError as problem:
                raise QueryError(f"Model {model['name']}: {problem}") from problem

    def check_rewrite_configs(self, node: Any) -> None:
        """Passes a node for which no config of a rewrite would be passed over in silence.

        Raises:
            CompilationError: one would be.
        """
        with streaming.sentences():
            for each in (node, *self._ephemeral_below(node)):
                _check(each)

    def _ephemeral_below(self, node: Any) -> list[Any]:
        """The models that are compiled into this one, and so never built themselves."""
        nodes = getattr(getattr(self, "_macro_resolver", None), "nodes", {})
        below = [nodes[name] for name in getattr(node, "depends_on_nodes", ()) if name in nodes]
        return [each for each in below if each.config.get("materialized") == "ephemeral"]


def _check(node: Any) -> None:
    try:
        asked = rewrite_configs.asked_for({name: node.config.get(name) for name in rewrite_configs.NAMES})
    except QueryError as problem:
        raise QueryError(f"Model {node.name}: {problem}") from problem
    materialized = node.config.get("materialized")
    for name in asked:
        if getattr(node, "language", "sql") != "sql":
            raise QueryError(
                f"Model {node.name}: config '{name}' is for SQL, and this is a Python model; leave it out."
            )
        if materialized not in ("table", "incremental", *stream_config.MATERIALIZATIONS):
            raise QueryError(
                f"Model {node.name}: config '{name}' works with materialized='table', 'incremental' and streaming models, "
                f"found '{materialized}'. Put the SELECT into {{% call {name}() %}} … {{% endcall %}} instead."
            )
