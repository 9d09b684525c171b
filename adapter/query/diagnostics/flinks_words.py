"""Finds Flink's syntax and names what to write instead."""

from __future__ import annotations

import re

from sqlglot import exp

from ..errors import QueryError
from ..sql.nodes import every
from ..windows.windows import KINDS

_OF_A_TABLE = re.compile(rf"\b({'|'.join(KINDS)})\s*\(\s*(table\s|data\s*=>)", re.IGNORECASE)
_ENDS = ("", "_start", "_end", "_rowtime", "_proctime")
_CALLS = {f"{kind}{end}": kind for kind in KINDS for end in _ENDS}
_TEXT_OR_COMMENT = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*(?!\+).*?\*/""", re.DOTALL
)
_SETTING = re.compile(r"\bset\s+'?table\.exec|^\s*'?table\.exec", re.IGNORECASE | re.MULTILINE)
_HINT = re.compile(r"/\*\+[^*]*?\b(state_ttl|lookup|options)\s*\(", re.IGNORECASE)

_AS_OF = (
    "FOR SYSTEM_TIME AS OF is Flink's: write LEFT JOIN {{ as_of(source('raw', 'rates'), 'o.ordered_at') }} AS r ON … for "
    "the version of the row's time. A lookup join is a plain JOIN with a source that has a lookup."
)
_WORDS = (
    (
        r"\bmatch_recognize\b",
        "MATCH_RECOGNIZE isn't supported. A pattern of two rows is LAG() OVER (PARTITION BY … ORDER BY time) and a filter "
        "on it, or an interval join of the stream with itself.",
    ),
    # Spark's own time travel is to a constant.
    (r"\bfor\s+system_time\s+as\s+of\s+(?!'|timestamp\b|date\b)", _AS_OF),
    (
        r"^\s*(create\s+(temporary\s+)?(table|view)|insert\s+into)\b|\bwatermark\s+for\b",
        "A model is one SELECT. What CREATE TABLE says of a stream goes into sources.yml, and the model is the table that "
        "INSERT INTO fills: `dbt-stream translate FILE.sql` writes both from a script of Flink SQL.",
    ),
    (
        r"\bdescriptor\s*\(",
        "DESCRIPTOR() is Flink's: a windowing table function is a macro here, as in FROM {{ tumble(ref('orders'), "
        "'ordered_at', '10 minutes') }}.",
    ),
)
_SETTINGS = (
    "SET and table.exec.… are Flink's: write table.exec.state.ttl as config state_ttl='1 day', "
    "table.exec.source.idle-timeout as config idle_timeout='1 minute', and table.exec.mini-batch.… as the hint "
    "/*+ MINI_BATCH('5 seconds', 10000) */ after SELECT."
)
_FUNCTIONS = {
    "PROCTIME": (
        "PROCTIME() is Flink's. Results follow event time here, so that a replay gives the same rows: take the column with "
        "the time of the event. A lookup join needs none."
    ),
    "CURRENT_WATERMARK": (
        "CURRENT_WATERMARK() is Flink's. Windows drop and count late rows themselves, so leave it out. To keep rows only "
        "for some time behind the watermark, write WHERE ts > current_timestamp() - INTERVAL '1' HOUR."
    ),
}
_OF_HINTS = {
    "STATE_TTL": "config state_ttl='1 day', which holds for the whole model",
    "LOOKUP": "cache_ttl and retries under the source's lookup in sources.yml",
    "OPTIONS": "the options in sources.yml, under meta.stream",
}


def check_flinks_words(text: str, tree: exp.Expr | None) -> None:
    """Raises if a text uses Flink's syntax.

    Args:
        tree: the text's tree. None if it doesn't parse.
    """
    code = _TEXT_OR_COMMENT.sub("''", text)
    if (hint := _HINT.search(code)) is not None:
        name = hint[1].upper()
        raise QueryError(f"The hint {name} is Flink's, and isn't read here: write {_OF_HINTS[name]}.")
    if tree is None:
        if (found := _OF_A_TABLE.search(code)) is not None:
            raise _macro_error(found[1].lower())
        if _SETTING.search(text):
            raise QueryError(_SETTINGS)
        for pattern, sentence in _WORDS:
            if re.search(pattern, code, re.IGNORECASE):
                raise QueryError(sentence)
        return
    for table in every(tree, exp.Table):
        version = table.args.get("version")
        if version is not None and next(every(version, exp.Column, exp.Anonymous), None) is not None:
            raise QueryError(_AS_OF)
    for call in every(tree, exp.Anonymous):
        if call.find_ancestor(exp.Hint) is not None:
            continue
        if (advice := _FUNCTIONS.get(call.name.upper())) is not None:
            raise QueryError(advice)
        if (kind := _CALLS.get(call.name.lower())) is not None:
            raise _macro_error(kind)


def _macro_error(kind: str) -> QueryError:
    lengths = "'10 minutes'" if kind in ("tumble", "session") else "'10 minutes', '1 hour'"
    return QueryError(
        f"{kind}() is a macro here: write FROM {{{{ {kind}(relation, 'time_column', {lengths}) }}}}, with GROUP BY "
        "window_start, window_end where rows are grouped."
    )
