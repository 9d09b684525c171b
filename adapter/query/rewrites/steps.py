"""WITH as a list of steps: named queries in front of a SELECT, each with a comment that says what it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from ..sql.dialect import DIALECT, with_clause


@dataclass(frozen=True)
class NamedQuery:
    """One named query."""

    name: str
    comment: str
    query: exp.Select


def with_steps(select: exp.Select, steps: Sequence[NamedQuery], comment: str) -> exp.Select:
    """A SELECT with steps in front of it, after those it has. Changes the tree it is given."""
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


def expression(text: str) -> exp.Expr:
    """The tree of one expression."""
    return exp.maybe_parse(text, dialect=DIALECT)


def column(name: str, table: str | None = None) -> exp.Column:
    """A column of a step, in quotes where its name needs them."""
    needed = not exp.SAFE_IDENTIFIER_RE.match(name) or name.upper() in DIALECT.tokenizer_class.KEYWORDS
    return exp.column(exp.to_identifier(name, quoted=needed), table=table)


def named(value: exp.Expr, name: str) -> exp.Expr:
    """A select item: the value under a name, which is left out where it has it."""
    if isinstance(value, exp.Column) and value.name == name:
        return value
    return exp.alias_(value, column(name).this)


def conjunction(tests: Sequence[exp.Expr]) -> exp.Expr:
    """Tests joined by AND."""
    joined: exp.Expr = exp.and_(*tests, copy=False, wrap=False)
    return joined
