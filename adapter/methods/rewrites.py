"""Methods of the adapter for rewrites."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dbt.adapters.base import available
from dbt.adapters.base.meta import AdapterMeta

from ..query.errors import QueryError
from ..util.lazy_import import import_lazily

if TYPE_CHECKING:
    from ..project import model_configs, streaming
    from ..query.rewrites import rewrite_configs, rewriting, stream_rewrites
else:
    import_lazily(
        globals(),
        {
            "project": ["model_configs", "streaming"],
            "query.rewrites": ["rewrite_configs", "rewriting", "stream_rewrites"],
        },
    )


class RewriteMethods(metaclass=AdapterMeta):
    """Methods of the adapter that macros/rewrites and macros/materializations call."""

    @available.parse(lambda *arguments, **named: "")
    def rewrite(self, name: str, sql: str, materialized: str | None, **options: Any) -> str:
        """Returns the rewritten SELECT of a macro's block. In a streaming model the rewrite changes the state, so there the
        SELECT only gets a hint."""
        make = (
            stream_rewrites.with_hints
            if materialized in model_configs.MATERIALIZATIONS
            else rewriting.rewrite
        )
        with streaming.raising_dbt_errors():
            return make(name, sql, **options)

    @available.parse(lambda *arguments, **named: "")
    def rewrite_by_config(self, sql: str, model: Mapping[str, Any] | None) -> str:
        """Returns a batch model's text with the rewrites of its config."""
        # Other nodes, such as tests with stored failures, also become tables; only models have these configs.
        if not model or model.get("resource_type") != "model":
            return sql
        if model.get("batch") and model["config"].get("incremental_strategy") == model_configs.MICROBATCH:
            return sql  # already rewritten by `plan_incremental`, below the filter of the batch
        with streaming.raising_dbt_errors():
            try:
                return rewriting.rewrite_by_config(sql, model["config"])
            except QueryError as problem:
                raise QueryError(f"Model {model['name']}: {problem}") from problem

    def check_rewrite_configs(self, node: Any) -> None:
        """Raises if a node, or an ephemeral model that it reads, has a rewrite config without effect."""
        with streaming.raising_dbt_errors():
            for each in (node, *self._ephemeral_inputs(node)):
                _check_rewrite_configs(each)

    def _ephemeral_inputs(self, node: Any) -> list[Any]:
        """Returns the ephemeral models that a node reads. They are compiled into it, so they have no hook of their own."""
        nodes = getattr(getattr(self, "_macro_resolver", None), "nodes", {})
        below = [nodes[name] for name in getattr(node, "depends_on_nodes", ()) if name in nodes]
        return [each for each in below if each.config.get("materialized") == "ephemeral"]


def _check_rewrite_configs(node: Any) -> None:
    try:
        asked = rewrite_configs.requested_rewrites(
            {name: node.config.get(name) for name in rewrite_configs.NAMES}
        )
    except QueryError as problem:
        raise QueryError(f"Model {node.name}: {problem}") from problem
    materialized = node.config.get("materialized")
    for name in asked:
        if getattr(node, "language", "sql") != "sql":
            raise QueryError(
                f"Model {node.name}: config '{name}' is for SQL, and this is a Python model; leave it out."
            )
        if materialized not in ("table", "incremental", *model_configs.MATERIALIZATIONS):
            raise QueryError(
                f"Model {node.name}: config '{name}' works with materialized='table', 'incremental' and streaming models, "
                f"found '{materialized}'. Put the SELECT into {{% call {name}() %}} … {{% endcall %}} instead."
            )
