"""WITH as a list of steps: CTEs in front of a SELECT, each with a comment that describes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from ..sql.dialect import DIALECT, with_clause


@dataclass(frozen=True)
class NamedQuery:
    """One CTE."""

    name: str
    comment: str
    query: exp.Select


def add_ctes(select: exp.Select, steps: Sequence[NamedQuery], comment: str) -> exp.Select:
    """Adds a CTE for each step to a SELECT, after its own CTEs. Changes the tree."""
    listed = []
    for number, step in enumerate(steps, 1):
        step.query.comments = [f" {number}. {step.comment} "]
        alias = exp.TableAlias(this=exp.to_identifier(step.name))
        listed.append(exp.CTE(this=step.query, alias=alias))
    clause = with_clause(select) or exp.With(expressions=[])
    clause.set("expressions", [*clause.expressions, *listed])
    select.set("with_", clause)
    select.comments = [f" {len(steps) + 1}. {comment} "]
    return select


def parse_expression(text: str) -> exp.Expr:
    """Returns the tree of one expression."""
    return exp.maybe_parse(text, dialect=DIALECT)


def column(name: str, table: str | None = None) -> exp.Column:
    """Returns a column of a step, quoted if its name needs that."""
    needed = not exp.SAFE_IDENTIFIER_RE.match(name) or name.upper() in DIALECT.tokenizer_class.KEYWORDS
    return exp.column(exp.to_identifier(name, quoted=needed), table=table)


def named_item(value: exp.Expr, name: str) -> exp.Expr:
    """Returns a select item; a column that already has the name gets no alias."""
    if isinstance(value, exp.Column) and value.name == name:
        return value
    return exp.alias_(value, column(name).this)


def conjunction(tests: Sequence[exp.Expr]) -> exp.Expr:
    """Returns tests joined by AND."""
    joined: exp.Expr = exp.and_(*tests, copy=False, wrap=False)
    return joined
