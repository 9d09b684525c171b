"""`QueryOperator`: the base class of operators that run one query over their inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from ...sql.dialect import sql
from ..author_text import lifted
from ..lineage import Lineage, text_lineage
from ..operator import Operator


@dataclass(frozen=True, kw_only=True)
class QueryOperator(Operator):
    """An operator whose relation follows from its query and from its inputs."""

    query: exp.Select
    """The query over its inputs, with the hidden columns that the operator's SQL has. It isn't changed any more."""

    @cached_property
    def sql(self) -> str:
        """The text of the query."""
        return sql(self.query)

    def lineage(self, below: Sequence[Lineage]) -> Lineage:
        """Returns the lineage of its text."""
        return text_lineage(type(self).__name__, self.sql, below)

    @property
    def expressions(self) -> Mapping[str, str]:
        """Returns the expressions that a query above displays."""
        return lifted(self.as_written(self.sql))
