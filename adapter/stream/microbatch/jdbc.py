"""Queries a table of a JDBC database for the rows of some keys. Values are bound, never written into SQL.

Spark's own reader would query the columns before each request, on a separate connection, and can't bind values: data
of a stream would become part of a statement.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import is_instance_of  # type: ignore[import-untyped]
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from ...util.quoting import quote as quoted
from ..common.session import jvm

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

_INVALID_VALUE = ("22P02", "22021", "22007", "22008")
"""SQLSTATEs: invalid text representation, character not in the encoding, invalid datetime, datetime out of range."""
_NUMBER_TYPES = ("tinyint", "smallint", "int", "bigint", "decimal", "float", "double")


def lookup_query(table: str, columns: Sequence[str], key: Sequence[str], keys: int) -> str:
    """Returns the statement that selects the rows of `keys` keys. `columns` and `key` are quoted names.

    >>> lookup_query("customers", ['"id"', '"name"'], ['"id"'], 3)
    'select "id", "name" from customers where "id" in (?, ?, ?)'
    >>> lookup_query("prices", ["code", "day", "price"], ["code", "day"], 2)
    'select code, day, price from prices where (code = ? and day = ?) or (code = ? and day = ?)'
    """
    if len(key) == 1:
        condition = f"{key[0]} in ({', '.join('?' * keys)})"
    else:
        # Derby, SQL Server and others don't support (a, b) in ((?, ?)).
        condition = " or ".join([f"({' and '.join(f'{name} = ?' for name in key)})"] * keys)
    return f"select {', '.join(columns)} from {table} where {condition}"


def key_kind(type_: DataType) -> str | None:
    """Returns the kind of values that are compared with a column of this type; None if it can't be a key.

    >>> from pyspark.sql import types
    >>> [key_kind(each) for each in (types.LongType(), types.DecimalType(10, 2), types.CharType(3), types.BinaryType())]
    ['number', 'number', 'string', None]
    """
    name = re.split(r"[(<]", type_.simpleString())[0]
    if name in _NUMBER_TYPES:
        return "number"
    if name in ("string", "char", "varchar"):
        return "string"
    return name if name in ("date", "timestamp", "timestamp_ntz", "boolean") else None


class JdbcTable:
    """A table of a database.

    Args:
        options: Spark's JDBC options.
        wanted: the needed columns, in lower case; None for all.

    Raises:
        Py4JJavaError: reading its columns fails.
    """

    def __init__(self, spark: SparkSession, options: Mapping[str, str], wanted: Sequence[str] | None) -> None:
        self._java = jvm(spark)
        self._binding = _Binding(self._java)
        # Spark reads columns of type uuid or enum as text, and PostgreSQL compares neither with text.
        defaults = {"stringtype": "unspecified"} if options["url"].startswith("jdbc:postgresql:") else {}
        self._text = options["dbtable"]
        given = self._java.java.util.HashMap()
        for name, value in {**defaults, **options}.items():
            given.put(name, value)
        made = self._java.org.apache.spark.api.python.PythonUtils.toScalaMap(given)
        self._options = self._java.org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions(made)
        self._dialect = self._java.org.apache.spark.sql.jdbc.JdbcDialects.get(options["url"])
        frame = spark.read.format("jdbc").options(**{**defaults, **options}).load()
        self.names = frame.columns
        """All columns of the table."""
        if wanted is not None:
            frame = frame.select(*[quoted(name) for name in frame.columns if name.lower() in set(wanted)])
        self.schema: StructType = frame.schema
        """The needed columns."""
        self._schema = frame._jdf.schema()

    def to_dataframe(self, spark: SparkSession, found: Any) -> DataFrame:
        """Converts a Java list with rows of `query_keys` to a DataFrame."""
        from pyspark.sql import DataFrame

        session: Any = spark
        return DataFrame(session._jsparkSession.createDataFrame(found, self._schema), spark)

    def empty_rows(self) -> Any:
        """Returns an empty Java list for rows."""
        return self._java.java.util.ArrayList()

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """Opens a connection to the database as Spark does, with its drivers and authentication."""
        made = self._dialect.createConnectionFactory(self._options).apply(-1)
        with closing(made):
            init = self._options.sessionInitStatement()
            if init.isDefined():
                with closing(made.createStatement()) as statement:
                    statement.execute(init.get())
            yield made

    def query_keys(
        self, connection: Any, key: Sequence[str], keys: Sequence[tuple[Any, ...]], more: str = ""
    ) -> Any:
        """Queries the rows of some keys, whose values have the form of `bound_value_sql`. Returns a Java collection. `more`:
        SQL to add to the condition."""
        quote: Callable[[str], str] = self._dialect.quoteIdentifier
        fields = {field.name.lower(): field for field in self.schema.fields}
        key_fields = [fields[name] for name in key]
        columns, named = ([quote(each.name) for each in some] for some in (self.schema.fields, key_fields))
        text = lookup_query(self._text, columns, named, len(keys))
        with closing(connection.prepareStatement(text + more)) as statement:
            statement.setQueryTimeout(self._options.queryTimeout())
            statement.setFetchSize(self._options.fetchSize())
            self._binding.bind(statement, [key_kind(field.dataType) for field in key_fields], keys)
            with closing(statement.executeQuery()) as answer:
                utils = self._java.org.apache.spark.sql.execution.datasources.jdbc.JdbcUtils
                rows = utils.resultSetToRows(answer, self._schema, self._dialect)
                return self._java.scala.jdk.javaapi.CollectionConverters.asJavaCollection(rows.toList())

    def is_key_refused(
        self, connection: Any, key: Sequence[str], values: tuple[Any, ...], problem: Py4JJavaError
    ) -> bool:
        """Returns whether a request failed because the database rejects a key value, such as text that is no UUID."""
        if not is_invalid_value(problem):
            return False
        try:
            # Selects no row, so that the error can't come from an expression of a view.
            self.query_keys(connection, key, [values], " and 1 = 0")
        except Py4JJavaError as again:
            return is_invalid_value(again)
        return False


def is_invalid_value(problem: Py4JJavaError) -> bool:
    """Returns whether a database error says that text in a statement is invalid for its type or encoding."""
    from pyspark import SparkContext

    found = problem.java_exception
    while found is not None:
        if is_instance_of(SparkContext._gateway, found, "java.sql.SQLException"):
            return str(found.getSQLState()) in _INVALID_VALUE
        found = found.getCause()
    return False


class _Binding:
    """Binds values to a statement inside the JVM: one Py4J call per value would take longer than the request."""

    def __init__(self, java: Any) -> None:
        self._java = java
        self._timestamp = java.java.sql.Timestamp
        self._converters: Mapping[str, Callable[[Any], Any]] = {
            "timestamp": self._java_timestamp,
            "timestamp_ntz": self._timestamp.valueOf,
            "date": java.java.sql.Date.valueOf,
        }
        lang = java.java.lang
        self._bi_consumer = lang.Class.forName("java.util.function.BiConsumer")
        place_and_value = lang.invoke.MethodType.fromMethodDescriptorString("(ILjava/lang/Object;)V", None)
        self._set_object = lang.invoke.MethodHandles.publicLookup().findVirtual(
            lang.Class.forName("java.sql.PreparedStatement"), "setObject", place_and_value
        )

    def bind(self, statement: Any, kinds: Sequence[str | None], keys: Sequence[tuple[Any, ...]]) -> None:
        """Binds the values of the keys, in order, to the statement's placeholders."""
        values = dict(enumerate((value for key in keys for value in key), 1))
        placed = self._java.net.razorvine.pickle.Unpickler().loads(pickle.dumps(values, protocol=4))
        for place, value in values.items():
            # Pickle has no equivalent of these types.
            made = self._converters.get(kinds[(place - 1) % len(kinds)] or "")
            if made is not None:
                placed.put(place, made(value))
        invoke = self._java.java.lang.invoke
        bound = self._set_object.bindTo(statement)
        placed.forEach(invoke.MethodHandleProxies.asInterfaceInstance(self._bi_consumer, bound))

    def _java_timestamp(self, micros: int) -> Any:
        instant = self._timestamp(micros // 1000)
        instant.setNanos(micros % 1_000_000 * 1000)
        return instant


def bound_value_sql(column: str, type_: DataType) -> str:
    """Returns SQL that casts a value to a column's type, in the form in which it is bound. It returns NULL for a value that
    no value of the column can equal.

    >>> from pyspark.sql import types
    >>> bound_value_sql("key_1", types.IntegerType()), bound_value_sql("key_1", types.TimestampType())
    ('try_cast(key_1 as int)', 'unix_micros(try_cast(key_1 as timestamp))')
    """
    value = f"try_cast({column} as {type_.simpleString()})"
    shapes = {
        "timestamp": "unix_micros({})",
        # Years outside 1 to 9999 exist in no database.
        "timestamp_ntz": "cast(if(year({0}) between 1 and 9999, {0}, null) as string)",
        "date": "cast(if(year({0}) between 1 and 9999, {0}, null) as string)",
    }
    return shapes.get(key_kind(type_) or "", "{}").format(value)
