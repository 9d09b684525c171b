"""``dbt-stream verify``: compares a model's table with a batch run of its text over the same input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from ..project import stream_node
from ..query.batch import comparing, whole_query
from ..query.errors import QueryError
from ..sources.stream_source import with_declared_names
from ..stream.common.errors import StreamError
from ..stream.lifecycle import verifying
from ..stream.lifecycle.verifying import SAMPLE, Verified, VerifyRequest
from ..stream.progress.watermark import to_text
from ..util.text import counted, verb_form
from .planned import Query, plan_next_run_with_query
from .project import DbtProject
from .terminal import terminal, text_table


def verify_model(project: DbtProject, name: str) -> dict[str, Any]:
    """Compares the table of a model with a batch run, and returns the result as a JSON object."""
    (session, model, program), query = plan_next_run_with_query(project, name)
    with stream_node.errors_with_model_name(query.node):
        comparing.check_same_in_batch(query.sql, query.plan, query.known)
    request = _verify_request(query, program.upsert is None)
    found = verifying.verify(session, model, program, request)
    result = _verified_as_json(name, found)
    if request.static:
        result["notes"].append(
            f"Read as they are now, and not as they were in each micro-batch: {', '.join(request.static)}."
        )
    return result


def _verify_request(query: Query, is_append: bool) -> VerifyRequest:
    settings = stream_node.stream_settings(query.node)

    def text_over_views(views: Mapping[str, str]) -> str:
        try:
            return comparing.replace_tables_by_views(
                whole_query.batch_text(query.sql, query.ask, query.known), views
            )
        except QueryError as problem:
            raise StreamError(f"Model {query.node['name']}: {problem}") from problem

    return VerifyRequest(
        text_over_views,
        comparing.columns_of_final_rows(query.plan),
        settings.emission,
        has_windows=comparing.has_windows(query.plan),
        is_append=is_append,
        state_ttl=settings.state_ttl is not None,
        static=list(
            map(with_declared_names, [*query.plan.static, *(table.relation for table in query.plan.lookups)])
        ),
    )


def _verified_as_json(name: str, found: Verified) -> dict[str, Any]:
    difference = found.difference
    return {
        "model": name,
        "equal": found.is_equal,
        "rows": {
            "table": difference.ours,
            "batch": difference.theirs,
            "in_both": difference.equal,
            "only_in_table": found.only_in_table,
            "only_in_batch": found.only_in_batch,
        },
        "only_in_table": list(difference.only_ours),
        "only_in_batch": list(difference.only_theirs),
        "windows_until": to_text(found.until),
        "may_come_yet": found.not_due,
        "notes": list(found.notes),
        "hints": list(found.hints),
    }


def print_verified(found: Mapping[str, Any]) -> None:
    """Prints the result of `verify_model`, with a sample of the rows that differ, on the terminal."""
    console = terminal()
    for line in verdict_lines(found):
        console.print(line, markup=False, highlight=False)
    for key, title in (("only_in_table", "Only in the table"), ("only_in_batch", "Only in batch")):
        if found[key]:
            console.print(_rows_table(f"{title} ({_row_count_text(found['rows'][key])})", found[key]))
    for hint in found["hints"]:
        console.print(f"- {hint}", markup=False, highlight=False)


def verdict_lines(found: Mapping[str, Any]) -> list[str]:
    """Returns the verdict and the notes as sentences."""
    rows = found["rows"]
    if found["equal"] and not rows["only_in_batch"]:
        verdict = (
            f"{found['model']}: its table has the {counted(rows['table'], 'row')} that a batch run gives."
        )
    elif found["equal"]:
        verdict = (
            f"{found['model']}: a batch run gives the {counted(rows['table'], 'row')} of its table too, and "
            f"{rows['only_in_batch']:,} that may come yet."
        )
    else:
        verdict = (
            f"{found['model']}: its table is not what a batch run gives. "
            f"{counted(rows['in_both'], 'row')} {verb_form(rows['in_both'], 'is', 'are')} in both, "
            f"{rows['only_in_table']:,} only in the table, {rows['only_in_batch']:,} only in batch."
        )
    return [verdict, *found["notes"]]


def _row_count_text(count: int) -> str:
    return counted(count, "row") if count <= SAMPLE else f"{SAMPLE} of {counted(count, 'row')}"


def _rows_table(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    texts = (["NULL" if value is None else str(value) for value in row.values()] for row in rows)
    return text_table(rows[0], texts, title)
