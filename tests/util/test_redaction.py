"""No password, token or key is in a text that is shown, whatever form it stands in."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.util import redaction
from dbt.adapters.spark_streaming.util.redaction import register_secrets, without_secrets

# Each with the secret ‹in such brackets›, and what is around it that has to stay.
FORMS = [
    "jdbc:postgresql://‹me:hunter2›@db:5432/shop",
    "jdbc:postgresql://‹user:p@ss›@host/db",
    "jdbc:mysql://‹me:s/e?c#r@et›@db:3306/shop",
    "jdbc:postgresql://db:5432/shop?user=me&password=‹hunter2›&ssl=true",
    "jdbc:postgresql://db/shop?password=‹a;b@c›&ssl=true",
    "jdbc:postgresql://db/shop?ssl=true&pwd=‹hunter2›",
    "jdbc:oracle:thin:‹scott/tiger›@db:1521:orcl",
    "jdbc:oracle:thin:‹scott/ti@ger›@//db:1521/orcl",
    "jdbc:sqlserver://db:1433;databaseName=shop;user=me;password=‹a&b,c›;encrypt=true",
    "jdbc:sqlserver://db;password=‹{a;b}}c}›;encrypt=true",
    "jdbc:derby:memory:shop;user=me;password=‹hunter2›",
    "jdbc:h2:mem:shop;USER=sa;PASSWORD=‹hunter2›",
    "jdbc:db2://db:50000/shop:user=me;password=‹hunter2›;",
    "jdbc:mysql://address=(host=db)(port=3306)(user=me)(password=‹p@s(s)w›)/shop",
    "jdbc:mysql://(host=db,port=3306,user=me,password=‹p@ss,w›)/shop",
    "jdbc:oracle:thin:@(description=(address=(host=db))(security=(wallet_password=‹hunter2›)))",
    "jdbc:teradata://db/DATABASE=shop,USER=me,PASSWORD=‹hunter2›",
    "jdbc:snowflake://a.example/?db=shop&private_key_file_pwd=‹hunter2›&warehouse=w",
    "https://‹token123›@catalog.example/v1",
    "thrift://‹me:hunter2›@metastore:9083",
    "s3a://‹AKIA123:se+cr/et›@bucket/warehouse",
    "mongodb+srv://‹me:hunter2›@db.example/shop",
    "sc://spark:15002/;token=‹hunter2›;user_id=me",
    "https://a.blob.core.windows.net/c?sv=2024&sig=‹ab%2Fc›&se=2030",
    "https://s3.example/o?X-Amz-Signature=‹hunter2›&X-Amz-Security-Token=‹hunter2›",
    "Map(url -> jdbc:derby:shop, password -> ‹hunter2›, user -> me)",
    "options ('url' 'jdbc:derby:shop', 'password' ‹'hunter2'›)",
    """{"user": "me", "password": ‹"hun\\"ter2"›, "n": 1}""",
    "{'s3.secret-access-key': ‹'hunter2'›, 's3.region': 'eu'}",
    "{'s3.access-key-id': ‹'AKIAHUNTER2'›, 'client.region': 'eu'}",
    "(spark.hadoop.fs.s3a.secret.key,‹hunter2›)",
    "(spark.hadoop.fs.s3a.access.key,‹AKIAHUNTER2›)",
    "spark.sql.catalog.lake.token=‹hunter2› is set",
    "fs.azure.account.key.a.dfs.core.windows.net=‹hunter2==›",
    'PlainLoginModule required username="me" password=‹"hunter2"›;',
    "Authorization: Bearer ‹eyJhbGciOi.J9-x_y=›",
    "password: ‹hunter2›",
    "Connection to jdbc:postgresql://‹a:b›@one/x failed, jdbc:postgresql://‹c:d›@two/x too",
]
PLAIN = [
    "jdbc:postgresql://db:5432/shop?ssl=true",
    "jdbc:sqlite:/tmp/.spark/catalog.db?busy_timeout=60000&journal_mode=WAL",
    "abfss://container@account.dfs.core.windows.net/warehouse",
    "jdbc:oracle:thin:@//db:1521/orcl",
    "oauth2-server-uri=https://login.example/token, credentials-provider=x.Y, password.file=/run/secrets/db",
    "Model my_model: 'password' of 'lookup' must be text, not 3.",
    "the token 'from' at or near ',' (line 3)",
    "file:/data/events/part-0.parquet can't be read; nobody@example.com was told",
]


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests declare sources with passwords."""
    monkeypatch.setattr(redaction, "_known", set())


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_hidden_and_the_rest_stays(form: str) -> None:
    shown = "".join(piece.partition("›")[0] + piece.partition("›")[2] for piece in form.split("‹"))
    hidden = "".join("***" + piece.partition("›")[2] if "›" in piece else piece for piece in form.split("‹"))
    for around in ("{}", "java.sql.SQLException: no connection to {} (it is down)", "'{}'"):
        if around == "'{}'" and "'" in form:
            continue
        assert without_secrets(around.format(shown)) == around.format(hidden)
    assert without_secrets(hidden) == hidden


@pytest.mark.parametrize("text", PLAIN)
def test_what_is_no_secret_stays(text: str) -> None:
    assert without_secrets(text) == text


def test_declared_secrets_are_known_by_their_values() -> None:
    register_secrets(
        {
            "url": "jdbc:postgresql://me:open%20sesame@db/x?password=tree frog",
            "user": "me",
            "s3.secret-access-key": "swordfish/1",
            "catalog_options": {"credential": "client:marmalade", "uri": "https://catalog.example"},
            "pin.password": "abc",
        }
    )
    told = "open sesame, open%20sesame, open+sesame, swordfish/1, swordfish%2F1, marmalade, tree frog"
    assert without_secrets(told) == ", ".join(["***"] * 7)
    # Letters that are in any text aren't taken out of it, only where they stand for a password.
    assert without_secrets("abcdef me https://catalog.example") == "abcdef me https://catalog.example"
    assert without_secrets("pin.password=abc") == "pin.password=***"
