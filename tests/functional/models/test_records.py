"""Values that a source's records have and its columns can't: counted by source and column, in the stream as in batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt, run_dbt_and_capture

from dbt.adapters.spark_streaming.cli.commands import main
from tests.functional.models.commands import Commands

JSON = """
{"id": 1, "ts": "2025-06-01 10:00:00", "cents": 50, "meta": {"a": 1}}
{"id": 2, "ts": "2025-06-01 10:01:00", "cents": 10.5, "meta": {"a": 1}}
{"id": 3, "ts": "2025-06-01 10:02:00", "cents": "a lot", "meta": {"a": "x"}}
not json
{"id": 5, "ts": "soon", "cents": 7}
[{"id": 6, "cents": 6}, {"id": 7, "cents": "x"}]

{"id": 8, "ts": null, "cents": null}
"""
CSV = "id,shop,cents\n1,a,50\n2,b,10.5\n3,c\n4,d,4,5\n5,,\n"
XML = "<all><row><id>1</id><cents>5</cents></row><row><id>2</id><cents>x</cents></row></all>"
COLUMNS = "id bigint, ts timestamp, cents bigint, meta struct<a: int>"
OF_CSV = "id bigint, shop string, cents bigint"
OF_JSON = {"cents": 3, "ts": 1, "meta": 1, "(whole record)": 1}


def source(name: str, folder: Path, format: str, schema: str, more: str = "", options: str = "") -> str:
    return f"""
      - name: {name}
        config:
          meta:
            stream:
              format: {format}
              options: {{path: "{folder}"{options}}}
              schema: "{schema}"{
        more
        and f'''
              {more}'''
    }
"""


BEHIND = """
{"id": 1, "v": 1}{"id": 2, "v": 10}{"id": 3, "v": 100}
{"id": 4, "v": 1000} oops
{"id": 5, "v": 1},
{"id": 6, "v": 1}}
{"id": 7, "v": 1}]}
[{"id": 8, "v": 1}, {"id": 9, "v": 2}] x
[{"id": 10, "v": 1}, {"id": 11, "v": 2}]
{"id": 12, "v": 1, "m": {"a": 1}} {
{"id": 13, "v": 1, "m": {"a": "} {", "b": [{"c": {"d": 1}}]}}
"""
WHOLE = "(whole record)"


class TestWhatStandsBehindARecord:
    """Spark's parser stops where the first value of a text ends."""

    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("behind")
        for name, texts in {
            "lines": [BEHIND],
            "whole": [
                '{"id": 1}\n{"id": 2}\n',
                '{\n"id": 3\n}\n{"id": 4}',
                '[{"id": 5}]\n[{"id": 6}]',
                '\ufeff[{"id": 7},\n{"id": 8}]\n',
            ],
        }.items():
            (folder / name / "day=2025-01-02").mkdir(parents=True)
            for number, text in enumerate(texts):
                (folder / name / "day=2025-01-02" / f"{number}.json").write_text(text)
        return folder

    @pytest.fixture(scope="class")
    def models(self, folder: Path) -> dict[str, str]:
        lines, whole, columns = folder / "lines", folder / "whole", "id bigint, v bigint, day string"
        declared = [
            source("warned", lines, "json", columns),
            source("failed", lines, "json", columns, "on_error: fail"),
            source("dropped", lines, "json", columns, "on_error: drop"),
            source("kept", lines, "json", columns, "on_error: keep_raw"),
            source("whole", whole, "json", columns, "", ", multiLine: true"),
            source("whole_failed", whole, "json", columns, "on_error: fail", ", multiLine: true"),
            source("seen", lines, "json", columns),
            source("joined", whole, "json", "id bigint", "on_error: drop", ", multiLine: true"),
        ]
        stream = (
            "{{ config(materialized='streaming_table') }} select * from {{ stream(source('raw', 'NAME')) }}"
        )
        table = "{{ config(materialized='table') }} select * from {{ source('raw', 'NAME') }}"
        names = ("warned", "failed", "dropped", "kept", "whole", "whole_failed")
        models = {f"{name}_s.sql": stream.replace("NAME", name) for name in names}
        models |= {f"{name}_t.sql": table.replace("NAME", name) for name in names}
        models["joined_s.sql"] = (
            stream.replace("NAME", "dropped") + " left join {{ source('raw', 'joined') }} using (id)"
        )
        models["seen_v.sql"] = "select * from {{ source('raw', 'seen') }}"
        models["seen_t.sql"] = "{{ config(materialized='table') }} select * from {{ ref('seen_v') }}"
        return {**models, "sources.yml": "sources:\n  - name: raw\n    tables:" + "".join(declared)}

    def test_it_counts(self, project: Any) -> None:
        ran, printed = run_dbt_and_capture(["run"], expect_pass=False)
        results = {result.node.name: result for result in ran}

        def rows(name: str, columns: str) -> list[tuple[Any, ...]]:
            return sorted(
                map(
                    tuple, project.run_sql(f"select {columns} from {project.test_schema}.{name}", fetch="all")
                )
            )

        for name, count in {"warned": 7, "dropped": 7, "kept": 7, "whole": 3}.items():
            found = results[f"{name}_s"].adapter_response["unreadable"]
            assert found == {f"raw.{name}": {"rows": count, "columns": {WHOLE: count}}}
            assert rows(f"{name}_s", "string(struct(*))") == rows(f"{name}_t", "string(struct(*))")
            said = f"unreadable values in {count} rows of raw.{name} ({WHOLE} {count}); "
            assert printed.count(f"Node {name}_t: {said}") == 1, printed
        assert (
            f"Node seen_t: unreadable values in 7 rows of raw.seen ({WHOLE} 7); each such value is NULL."
            in printed
        )
        assert (
            f"Node joined_s: unreadable values in 3 rows of raw.joined ({WHOLE} 3); these rows are left out."
            in printed
        )
        assert "Node seen_v" not in printed and "Node warned_s" not in printed
        assert "can't be counted" not in printed
        assert rows("warned_s", "coalesce(id, 0), day") == [(0, "2025-01-02")] * 7 + [
            (number, "2025-01-02") for number in (10, 11, 13)
        ]
        assert rows("dropped_s", "id") == [(10,), (11,), (13,)]
        assert ('{"id": 4, "v": 1000} oops',) in rows("kept_s", "coalesce(_raw_record, '')")
        assert rows("whole_s", "coalesce(id, 0)") == [(0,), (0,), (0,), (7,), (8,)]
        for name in ("failed", "whole_failed"):
            for kind in ("s", "t"):
                assert f"Source raw.{name}: the record '" in results[f"{name}_{kind}"].message


MISREAD_JSON = """
{"id": 1, "t": "10:15:00", "d": "2024-05-06", "x": 1.5, "f": 1, "s": 2.50, "m": 7.25}
{"id":2,"t":"2024-05-06 10:15:00","d":"2024-05-06T25:99","x":1e999,"f":1e39,"s":{"a": 1.10,  "b": 2},"m":"12,50"}
{"id": 3, "t": "2024-05-06T10:15:00Z", "d": "2024-05-06 00:00:00", "x": "Infinity", "f": -INF, "s": "10:15", "m": "1,234.50"}
{"id":4,"t":1700000000000,"d":"20000","x":1,"f":1,"n":[{"t":"T10:15","d":"365"},{"d":"2024-05-06"}],"m":"0,125"}
{"id":5,"t":1700000000,"d":"2024-5-6","s":0.1234567890123456789,"n":[{"t":"2024-05-06","d":"2024-05-06"}],"m":"12,34,567.5"}
"""
MISREAD_CSV = """
1,10:15:00,2024-05-06,1.5,1,x,7.25
2,2024-05-06 10:15:00,2024-05-06T25:99,1e999,1e39,x,"12,50"
3,2024-05-06T10:15:00Z,2024-05-06 00:00:00,Infinity,-Inf,"10:15","1,234.50"
4,T10:15,20000,1,1,"a,b","0,125"
5,2024-05-06,2024-5-6,,,,"12,34,567.5"
6,soon,2024-05-06,much,1,x, 1
7,2024-05-06,2024-5-6,  ,1, x,5
"""
OF_MISREAD = "id bigint, t timestamp, d date, x double, f float, s string, m decimal(9,2)"


MISREAD_XML = """<all>
<row no="1"><id>1</id><n>10.5</n><t>10:15:00</t><d>2024-05-06</d><x>1.5</x><b>true</b><m>7.25</m></row>
<row no="2"><id>2</id><n>a lot</n><t>2024-05-06 10:15:00</t><d>2024-05-06T25:99</d><x>1e999</x><b>yes</b><m>12,50</m></row>
<row no="3"><id>3</id><n>+3</n><t>2024-05-06T10:15:00Z</t><d>2024-5-6</d><x></x><b>0</b><m>1,000.5</m></row>
<row no="x"><id>4</id><n/><t>T10:15</t><d>20000</d><x>1</x><m>12345678901</m></row>
<row><id>5</id></row>
</all>"""
OF_XML = "id bigint, _no int, n bigint, t timestamp, d date, x double, b boolean, m decimal(9,2)"


class TestMisreadValues:
    """Values that Spark's parsers accept with another meaning than the text has."""

    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("misread")
        for name, text in {"json": MISREAD_JSON, "csv": MISREAD_CSV, "xml": MISREAD_XML}.items():
            (folder / name).mkdir()
            (folder / name / f"part.{name}").write_text(text.lstrip())
        return folder

    @pytest.fixture(scope="class")
    def models(self, folder: Path) -> dict[str, str]:
        columns = f"{OF_MISREAD}, n array<struct<t: timestamp, d: date>>"
        declared = [
            source("as_json", folder / "json", "json", columns),
            source("json_failed", folder / "json", "json", columns, "on_error: fail"),
            source("json_kept", folder / "json", "json", columns, "on_error: keep_raw"),
            source("as_csv", folder / "csv", "csv", OF_MISREAD),
            source("csv_dropped", folder / "csv", "csv", OF_MISREAD, "on_error: drop"),
            source("csv_kept", folder / "csv", "csv", OF_MISREAD, "on_error: keep_raw"),
            source("xml_kept", folder / "xml", "xml", OF_XML, "on_error: keep_raw", ", rowTag: row"),
        ]
        models = {}
        for name in ("as_json", "json_failed", "json_kept", "as_csv", "csv_dropped", "csv_kept", "xml_kept"):
            models[f"{name}_s.sql"] = (
                "{{ config(materialized='streaming_table') }} "
                f"select * from {{{{ stream(source('raw', '{name}')) }}}}"
            )
            models[f"{name}_t.sql"] = (
                f"{{{{ config(materialized='table') }}}} select * from {{{{ source('raw', '{name}') }}}}"
            )
        return {**models, "sources.yml": "sources:\n  - name: raw\n    tables:" + "".join(declared)}

    def test_they_are_unreadable(self, project: Any) -> None:
        results = {result.node.name: result for result in run_dbt(["run"], expect_pass=False)}

        def rows(name: str, columns: str) -> list[tuple[Any, ...]]:
            found = project.run_sql(f"select {columns} from {project.test_schema}.{name}", fetch="all")
            return sorted(map(tuple, found), key=str)

        for name, count, columns in (
            ("as_json", 3, {"t": 2, "d": 2, "x": 1, "f": 1, "m": 2, "n": 1}),
            ("json_kept", 3, {"t": 2, "d": 2, "x": 1, "f": 1, "m": 2, "n": 1}),
            ("as_csv", 5, {"t": 3, "d": 2, "x": 3, "f": 1, "m": 3}),
            ("csv_dropped", 5, {"t": 3, "d": 2, "x": 3, "f": 1, "m": 3}),
            ("csv_kept", 5, {"t": 3, "d": 2, "x": 3, "f": 1, "m": 3}),
            ("xml_kept", 3, {"_no": 1, "n": 2, "t": 2, "d": 2, "x": 1, "b": 1, "m": 2}),
        ):
            found = results[f"{name}_s"].adapter_response["unreadable"]
            assert found == {f"raw.{name}": {"rows": count, "columns": columns}}, name
            assert rows(f"{name}_s", "to_json(struct(*))") == rows(f"{name}_t", "to_json(struct(*))")
        assert rows("as_json_s", "id, s") == [
            (1, "2.50"),
            (2, '{"a": 1.10,  "b": 2}'),
            (3, "10:15"),
            (4, None),
            (5, "0.1234567890123456789"),
        ]
        assert rows("as_json_s", "id, to_json(n)") == [
            (1, None),
            (2, None),
            (3, None),
            (4, '[{},{"d":"2024-05-06"}]'),
            (5, '[{"t":"2024-05-06T00:00:00.000Z","d":"2024-05-06"}]'),
        ]
        for name in ("as_json_s", "as_csv_s"):
            # Commas set thousands apart, or the Indian hundreds of thousands.
            decimals = [(1, 7.25), (2, None), (3, 1234.5), (4, None), (5, 1234567.5)]
            assert rows(name, "id, double(m)")[:5] == decimals
            assert [row for row in rows(name, "id, d is null, x, f") if row[0] == 3] == [
                (3, False, float("inf"), float("-inf"))
            ]
        assert [row[0] for row in rows("csv_dropped_s", "id")] == [3, 5]
        kept = dict(rows("csv_kept_s", "id, _raw_record"))
        assert kept[4] == '4,T10:15,20000,1,1,"a,b","0,125"' and kept[7] == "7,2024-05-06,2024-5-6,  ,1, x,5"
        assert kept[3] is None and dict(rows("json_kept_s", "id, _raw_record"))[3] is None
        # Behind a value that it can't read, Spark's reader of XML reads nothing of a record.
        assert rows("xml_kept_s", "id, _no, n, string(t), string(d), x, b, double(m)") == [
            (1, 1, None, None, "2024-05-06", 1.5, True, 7.25),
            (2, 2, None, "2024-05-06 10:15:00", None, None, None, None),
            (3, 3, 3, "2024-05-06 10:15:00", "2024-05-06", None, False, 1000.5),
            (4, None, None, None, None, 1.0, None, None),
            (5, None, None, None, None, None, None, None),
        ]
        kept = dict(rows("xml_kept_s", "id, _raw_record"))
        assert "<n>a lot</n>" in kept[2] and "<id>1</id>" not in kept[2] and kept[3] is kept[5] is None
        for kind in ("s", "t"):
            message = results[f"json_failed_{kind}"].message
            assert (
                "Source raw.json_failed: the value '10:15:00' of its column t can't be read as TIMESTAMP"
                in message
            )


DAMAGED = b'1,caf\xe9,1\n2,"a ""b"" c",2\n3,"a",3\n4,"say \\"hi\\"",4\n'


class TestDamagedTexts:
    """Texts of CSV that Spark reads with other letters than the file has: of another encoding, or with doubled quotes."""

    @pytest.fixture(scope="class")
    def models(self, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
        folder = tmp_path_factory.mktemp("damaged")
        (folder / "part.csv").write_bytes(DAMAGED)
        columns = "id int, s string, n int"
        declared = [
            source("warned", folder, "csv", columns),
            source("failed", folder, "csv", columns, "on_error: fail"),
            source(
                "rightly", folder, "csv", columns, "on_error: fail", ", encoding: ISO-8859-1, escape: '\"'"
            ),
        ]
        select = "select * from {{ stream(source('raw', 'NAME')) }}"
        models = {
            f"{name}.sql": "{{ config(materialized='streaming_table') }} " + select.replace("NAME", name)
            for name in ("warned", "failed", "rightly")
        }
        models["in_batch.sql"] = "{{ config(materialized='table') }} " + select.replace("NAME", "warned")
        return {**models, "sources.yml": "sources:\n  - name: raw\n    tables:" + "".join(declared)}

    def test_they_are_counted(self, project: Any) -> None:
        ran, printed = run_dbt_and_capture(["run"], expect_pass=False)
        results = {result.node.name: result for result in ran}

        def texts(name: str) -> list[str]:
            found = project.run_sql(f"select s from {project.test_schema}.{name} order by id", fetch="all")
            return [text for (text,) in found]

        assert results["warned"].adapter_response["unreadable"] == {
            "raw.warned": {"rows": 2, "columns": {WHOLE: 2}}
        }
        assert f"Node in_batch: unreadable values in 2 rows of raw.warned ({WHOLE} 2)" in printed
        assert texts("warned") == texts("in_batch") == ["caf\ufffd", '"a ""b"" c"', "a", 'say "hi"']
        assert (
            "can't be read as CSV with its columns, or quotes in it are doubled, and the source's options lack escape: "
            "'\"', or its bytes aren't of the source's encoding (file "
        ) in results["failed"].message
        assert texts("rightly")[:3] == ["caf\u00e9", 'a "b" c', "a"]


OPEN_QUOTES = {
    "last": 'id,shop,note\n1,a,"two\n""lines"""\n2,b,"never closed\n3,c,d\n4,e,f\n',
    "inner": 'id,shop,note\n5,"g,h\n6,"i",j\n7,"k\n8,"l",\n9,m,"n, o\r\np"\n',
    "good": 'id,shop,note\n10,"q\n",\n,,\n,"r ""s""\n\t",\n"11","t",\n',
}


class TestOpenQuotes:
    """A quote that is never closed, where values may have line breaks: it makes one value of the lines behind it."""

    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("quotes")
        for name, text in OPEN_QUOTES.items():
            (folder / "day=2025-01-02").mkdir(exist_ok=True)
            (folder / "day=2025-01-02" / f"{name}.csv").write_bytes(text.encode())
        return folder

    @pytest.fixture(scope="class")
    def models(self, folder: Path) -> dict[str, str]:
        options = """, header: true, multiLine: true, escape: '"'"""
        columns, texts = "id bigint, shop string, note string", "id string, shop string, note string"
        declared = [
            source("warned", folder, "csv", columns, "", options),
            source("failed", folder, "csv", columns, "on_error: fail", options),
            source("dropped", folder, "csv", texts, "on_error: drop", options),
            source("kept", folder, "csv", columns, "on_error: keep_raw", options),
        ]
        stream = (
            "{{ config(materialized='streaming_table') }} select * from {{ stream(source('raw', 'NAME')) }}"
        )
        names = ("warned", "failed", "dropped", "kept")
        models = {f"{name}_s.sql": stream.replace("NAME", name) for name in names}
        models["some_s.sql"] = stream.replace("NAME", "warned").replace("*", "shop")
        table = "{{ config(materialized='table') }} select * from {{ source('raw', 'NAME') }}"
        models |= {f"{name}_t.sql": table.replace("NAME", name) for name in names}
        models["counts_t.sql"] = "select count(*) as n from {{ source('raw', 'kept') }}"
        return {**models, "sources.yml": "sources:\n  - name: raw\n    tables:" + "".join(declared)}

    def test_they_are_counted(self, project: Any) -> None:
        results = {result.node.name: result for result in run_dbt(["run"], expect_pass=False)}

        def rows(name: str, columns: str) -> list[tuple[Any, ...]]:
            found = project.run_sql(f"select {columns} from {project.test_schema}.{name}", fetch="all")
            return sorted(map(tuple, found), key=str)

        for name, source in {
            "warned": "warned",
            "some": "warned",
            "dropped": "dropped",
            "kept": "kept",
        }.items():
            found = results[f"{name}_s"].adapter_response["unreadable"]
            assert found == {f"raw.{source}": {"rows": 3, "columns": {WHOLE: 3}}}, name
            if name != "some":
                assert rows(f"{name}_s", "string(struct(*))") == rows(f"{name}_t", "string(struct(*))")
        good = [
            ("1", "a", 'two\n"lines"'),
            ("10", "q\n", None),
            ("11", "t", None),
            ("9", "m", "n, o\r\np"),
            (None, 'r "s"\n\t', None),
            (None, None, None),
        ]
        assert rows("dropped_s", "id, shop, note") == good
        assert rows("kept_s", "string(id), shop, note, string(day)") == sorted(
            [
                *((*row, "2025-01-02") for row in good),
                ("2", "b", "never closed\n3,c,d\n4,e,f", "2025-01-02"),
                ("5", '"g,h\n6,"i"', "j", "2025-01-02"),
                ("7", '"k\n8,"l"', None, "2025-01-02"),
            ],
            key=str,
        )
        assert dict(rows("kept_s", "id, _raw_record"))[2] == '2,b,"never closed\n3,c,d\n4,e,f'
        assert rows("counts_t", "n") == [(9,)]
        for kind in ("s", "t"):
            message = results[f"failed_{kind}"].message
            assert (
                "can't be read as CSV with its columns, or a quote in it is never closed, or its bytes aren't of"
                in message
            )


class TestUnreadable:
    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("unreadable")
        for name, text in {"json": JSON, "csv": CSV, "xml": XML}.items():
            (folder / name).mkdir()
            (folder / name / f"part.{name}").write_text(text)
        return folder

    @pytest.fixture(scope="class")
    def models(self, folder: Path) -> dict[str, str]:
        as_json, header = folder / "json", ", header: true"
        declared = [
            source("warned", as_json, "json", COLUMNS),
            source("failed", as_json, "json", COLUMNS, "on_error: fail"),
            source(
                "failfast",
                folder / "csv",
                "csv",
                "id bigint, shop string, cents bigint",
                "",
                f"{header}, mode: FAILFAST",
            ),
            source("dropped", as_json, "json", COLUMNS, "on_error: drop"),
            source("kept", as_json, "json", COLUMNS, "on_error: keep_raw"),
            source("own", as_json, "json", f"{COLUMNS}, bad string", "", ", columnNameOfCorruptRecord: bad"),
            source("csv", folder / "csv", "csv", OF_CSV, "", header),
            source(
                "texts",
                folder / "csv",
                "csv",
                "id string, shop string, cents string",
                "on_error: keep_raw",
                header,
            ),
            source("xml", folder / "xml", "xml", "id bigint, cents bigint", "", ", rowTag: row"),
        ]
        stream = (
            "{{ config(materialized='streaming_table') }} select * from {{ stream(source('raw', 'NAME')) }}"
        )
        table = "{{ config(materialized='table') }} select * from {{ source('raw', 'NAME') }}"
        names = ("warned", "failed", "failfast", "dropped", "kept", "own", "csv", "texts", "xml")
        models = {f"{name}_s.sql": stream.replace("NAME", name) for name in names}
        models |= {f"{name}_t.sql": table.replace("NAME", name) for name in names}
        models["counts.sql"] = (
            "{{ config(materialized='streaming_table') }} "
            "select count(*) as n, count(bad) as bad from {{ stream(source('raw', 'own')) }}"
        )
        models["counts_t.sql"] = "select count(*) as n, count(bad) as bad from {{ source('raw', 'own') }}"
        models["sums.sql"] = (
            "{{ config(materialized='streaming_table') }} "
            "select count(*) as n, sum(a.cents) as cents from {{ stream(source('raw', 'dropped')) }} as a"
        )
        models["some_columns.sql"] = (
            "{{ config(materialized='streaming_table') }} select id from {{ stream(source('raw', 'warned')) }}"
        )
        return {**models, "sources.yml": "sources:\n  - name: raw\n    tables:" + "".join(declared)}

    @pytest.fixture(scope="class")
    def results(self, project: Any) -> dict[str, Any]:
        results = run_dbt(["run"], expect_pass=False)
        return {result.node.name: result for result in results}

    def rows(self, project: Any, name: str, columns: str = "*") -> list[str]:
        found = project.run_sql(f"select {columns} from {project.test_schema}.{name}", fetch="all")
        return sorted(str(tuple(row)) for row in found)

    @pytest.mark.parametrize(
        ("name", "source", "rows", "columns"),
        [
            ("warned_s", "warned", 5, OF_JSON),
            ("dropped_s", "dropped", 5, OF_JSON),
            ("sums", "dropped", 5, OF_JSON),
            ("kept_s", "kept", 5, OF_JSON),
            ("own_s", "own", 5, OF_JSON),
            ("counts", "own", 5, OF_JSON),
            ("some_columns", "warned", 1, {"(whole record)": 1}),
            ("csv_s", "csv", 3, {"cents": 1, "(whole record)": 2}),
            ("texts_s", "texts", 2, {"(whole record)": 2}),
            ("xml_s", "xml", 1, {"cents": 1}),
        ],
    )
    def test_they_are_counted(
        self, results: dict[str, Any], name: str, source: str, rows: int, columns: dict[str, int]
    ) -> None:
        response = results[name].adapter_response
        assert response["unreadable"] == {f"raw.{source}": {"rows": rows, "columns": columns}}
        assert response["unreadable_rows"] == rows
        listed = ", ".join(f"{column} {count}" for column, count in sorted(columns.items()))
        assert f"unreadable values in {rows} row" in results[name].message
        assert f"of raw.{source} ({listed})" in results[name].message

    @pytest.mark.parametrize("name", ["warned", "dropped", "kept", "own", "csv", "texts", "xml"])
    def test_batch_has_the_same_rows(self, project: Any, results: dict[str, Any], name: str) -> None:
        rows = self.rows(project, f"{name}_s")
        assert rows and rows == self.rows(project, f"{name}_t")

    def test_what_is_in_them(self, project: Any, results: dict[str, Any]) -> None:
        assert len(self.rows(project, "warned_s")) == 8
        assert self.rows(project, "sums") == ["(3, 56)"]
        assert self.rows(project, "dropped_s", "id") == ["(1,)", "(6,)", "(8,)"]
        assert "('not json',)" in self.rows(project, "kept_s", "_raw_record")
        assert self.rows(project, "kept_s", "count(_raw_record)") == ["(5,)"]
        assert self.rows(project, "texts_s", "_raw_record").count("(None,)") == 3
        # The author's own column is Spark's: a record that is an array is one that can't be read, whichever of its rows.
        assert self.rows(project, "counts") == self.rows(project, "counts_t") == ["(8, 6)"]

    def test_a_run_stops(self, results: dict[str, Any]) -> None:
        for name in ("failed_s", "failed_t"):
            message = results[name].message
            assert (
                "Source raw.failed: the value '10.5' of its column cents can't be read as BIGINT (file file:"
                in message
            )
            assert "part.json). Correct the record" in message and "USER_RAISED" not in message
            assert "\tat " not in message and "Traceback" not in message
        assert "Model failed_s: Source raw.failed" in results["failed_s"].message
        for name in ("failfast_s", "failfast_t"):
            assert "Source raw.failfast: the value '10.5' of its column cents" in results[name].message

    def test_status_says_it(self, project: Any, results: dict[str, Any]) -> None:
        def status(*arguments: str) -> str:
            command = [*Commands.options(project), "status", "--select", "warned_s", *arguments]
            return CliRunner().invoke(main, command, catch_exceptions=False).stdout

        (model,) = json.loads(status("--json"))
        total = model["progress"]["unreadable"]["total"]
        assert total == {"raw.warned": {"rows": 5, "columns": OF_JSON}}
        assert "warned_s: unreadable values in 5 rows of raw.warned ((whole record) 1, cents 3" in status()
