"""From a Flink SQL case to the text of a model.

The cases differ from our models in four places only: window functions, bare stream tables, views
and `grouping_id`. Each is one substitution on the whole text; nothing is parsed.
"""

from __future__ import annotations

import re

FUNCTION_CALL = re.compile(
    r"""TABLE\(
        (?P<function>TUMBLE|HOP|CUMULATE|SESSION)\(
            TABLE\s+(?P<table>\w+)
            (?:\s+PARTITION\s+BY\s+(?P<partition_by>\w+(?:\s*,\s*\w+)*))?
            \s*,\s*DESCRIPTOR\((?P<time>\w+)\)
            (?P<intervals>(?:\s*,\s*INTERVAL\s+'-?\d+'\s+\w+)+)
        \)\)""",
    re.VERBOSE,
)
INTERVAL = re.compile(r"INTERVAL\s+'(-?\d+)'\s+(\w+)")
VIEW = re.compile(r"CREATE\s+TEMPORARY\s+VIEW\s+(\w+)\s+AS\s+(.*)", re.DOTALL)
GROUPING_ID = re.compile(r"\bGROUPING_ID\([^)]*\)", re.IGNORECASE)

# How many intervals a function needs; one more is the offset.
INTERVALS = {"tumble": 1, "hop": 2, "cumulate": 2, "session": 1}


def model_text(case: str, tables: frozenset[str], source: str) -> str:
    """The SELECT of a model that asks what the Flink SQL of `case` asks.

    `tables` are the streams; they become `source(source, table)`.
    """
    statements = [text.strip() for text in _without_comments(case).split(";")]
    queries = [text for text in statements if text and not text.startswith("SET ")]
    views: dict[str, str] = {}
    for query in queries[:-1]:
        view = VIEW.fullmatch(query)
        if view is None:
            raise ValueError(f"Only views may stand before the query, found: {query}")
        views[view[1]] = _query(view[2], tables, source)
    body = _query(queries[-1], tables, source)
    if not views:
        return body
    ctes = ",\n".join(f"{name} AS (\n{text}\n)" for name, text in views.items())
    return f"WITH {ctes}\n{body}"


def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))


def _query(text: str, tables: frozenset[str], source: str) -> str:
    def relation(name: str) -> str:
        return f"source('{source}', '{name}')" if name in tables else f"'{name}'"

    def call(match: re.Match[str]) -> str:
        function = match["function"].lower()
        arguments = [relation(match["table"]), f"'{match['time']}'"]
        intervals = [f"'{n} {unit.lower()}'" for n, unit in INTERVAL.findall(match["intervals"])]
        arguments += intervals[: INTERVALS[function]]
        if intervals[INTERVALS[function] :]:
            arguments.append(f"offset={intervals[INTERVALS[function]]}")
        if match["partition_by"]:
            keys = ", ".join(f"'{key.strip()}'" for key in match["partition_by"].split(","))
            arguments.append(f"partition_by=[{keys}]")
        return f"{{{{ {function}({', '.join(arguments)}) }}}}"

    text = FUNCTION_CALL.sub(call, text)
    bare = re.compile(rf"\b(FROM|JOIN)\s+({'|'.join(sorted(tables))})\b")
    text = bare.sub(lambda match: f"{match[1]} {{{{ stream({relation(match[2])}) }}}}", text)
    # Spark takes grouping_id of all grouping columns or none; the window columns, which are in
    # every set, add zeros on the left.
    return GROUPING_ID.sub("GROUPING_ID()", text)
