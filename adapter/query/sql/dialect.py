"""Parses and prints Spark SQL: the only module that knows sqlglot's Spark dialect and its gaps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator
from functools import cache, lru_cache, partial

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from ..errors import QueryError
from .nodes import children, copied, every, selects_around, shape
from .semicolons import without_semicolons
from .spark_functions import AGGREGATES, GENERATORS, SCALARS, TABLES, WINDOWS


def _aggregate_parser(name: str) -> Callable[[list[exp.Expr]], exp.Expr]:
    return lambda args: exp.AnonymousAggFunc(this=name, expressions=args)


# sqlglot gives these a default separator; Spark's default is the empty text.
_CHANGED = ("listagg", "string_agg")
# sqlglot prints these without a part that has a meaning (an argument, a conversion, the parentheses), as another
# function (whose last digit, or whose value for NULL or for a TIMESTAMP differs), or as an operator without parentheses;
# with another pattern or path; or with a conversion.
_AS_WRITTEN = set(
    """to_char to_varchar parse_json current_catalog localtimestamp levenshtein log10 log2 array_size unix_date like ilike
    rlike regexp_like collate date_format get_json_object sequence date_sub""".split()
)
# Calls in Spark's grammar that aren't in its function registry.
_SYNTAX = {"case", "try_cast", "timestampadd", "timestampdiff", "struct"}
# Their second argument, which is TRUE or FALSE, is printed as IGNORE NULLS.
_OF_NULLS = {"any_value", "first", "first_value", "last", "last_value"}
# Clauses that may follow a query in brackets.
_BEHIND = ("order", "limit", "offset", "fetch", "sort", "cluster", "distribute")
_OF_BITS = {TokenType.PIPE: 0, TokenType.CARET: 1, TokenType.AMP: 2}
"""Operator on bits → its precedence; the loosest has the least."""
_MANY = 4096
"""Maximum number of texts in the cache."""
_NOTHING = "A value or a name is missing before or behind this"
# Functions that sqlglot's own classes parse. Any other is kept as written, though another dialect may have a function
# of that name.
_READ = {*AGGREGATES, *GENERATORS, *SCALARS, *TABLES, *WINDOWS, *_SYNTAX} - _AS_WRITTEN


def _has_no_pattern(args: list[exp.Expr]) -> bool:
    return len(args) < 2


_UNDERSTOOD: dict[str, Callable[[list[exp.Expr]], bool]] = {
    "named_struct": lambda args: all(name.is_string for name in args[::2]),
    "date_trunc": lambda args: len(args) == 2 and args[0].is_string,
    "trunc": lambda args: len(args) == 2 and args[1].is_string,
    **dict.fromkeys(
        ("to_date", "to_timestamp", "unix_timestamp", "to_unix_timestamp", "from_unixtime"), _has_no_pattern
    ),
}
"""Function → predicate that says whether sqlglot prints a call with these arguments unchanged. Other functions depend on the
number of arguments alone."""


def _parser_keeping_arguments(
    name: str, reads: Callable[..., exp.Expr]
) -> Callable[[list[exp.Expr]], exp.Expr]:
    """Returns a parser for calls of a function. It keeps a call as written if sqlglot wouldn't print all of its arguments;
    Spark then reports what is wrong with it."""

    @cache
    def keeps(number: int) -> bool:
        """Whether sqlglot prints this number of arguments, and an aggregate as an aggregate."""
        given = [f"argument_{place}" for place in range(number)]
        try:
            printed = _build_call([exp.column(each) for each in given], reads).sql(DIALECT).lower()
        except (SqlglotError, LookupError):
            return False
        is_same = name not in AGGREGATES or printed.partition("(")[0] in AGGREGATES
        return is_same and all(each in printed for each in given[: 1 if name in _OF_NULLS else None])

    def parse_call(args: list[exp.Expr]) -> exp.Expr:
        if (name not in _UNDERSTOOD or _UNDERSTOOD[name](args)) and keeps(len(args)):
            return _build_call(args, reads)
        return (
            _aggregate_parser(name)(args)
            if name in AGGREGATES
            else exp.Anonymous(this=name, expressions=args)
        )

    return parse_call


def _build_call(args: list[exp.Expr], reads: Callable[..., exp.Expr]) -> exp.Expr:
    try:
        return reads(args)
    except TypeError:
        return reads(args, dialect=DIALECT)


class _TwoArgumentAggregate:
    """Parses an aggregate of two arguments, which may be DISTINCT: as sqlglot's class; with another number of them, the call
    is kept as written."""

    def __init__(self, name: str, kind: Callable[[exp.Expr, exp.Expr], exp.Expr]) -> None:
        self._name, self._kind = name, kind

    def from_arg_list(self, args: list[exp.Expr]) -> exp.Expr:
        return self._kind(*args) if len(args) == 2 else _aggregate_parser(self._name)(args)


class _Dialect(Spark):
    """sqlglot's Spark SQL with additions."""

    class Tokenizer(Spark.Tokenizer):
        """Reads a doubled quote inside a text as one, as Spark does since 4.0."""

        STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012

    class Parser(Spark.Parser):  # type: ignore[misc, valid-type]
        """Parses `/*+ SESSION(…) */` as a call, like other hints, and each aggregate function of Spark as an `AggFunc`."""

        # Spark's `||` has the precedence of `+`.
        TERM = {**Spark.Parser.TERM, TokenType.DPIPE: partial(exp.DPipe, safe=True)}  # noqa: RUF012
        FUNC_TOKENS = Spark.Parser.FUNC_TOKENS | {TokenType.SESSION}
        NO_PAREN_FUNCTION_PARSERS = {  # noqa: RUF012
            name: made for name, made in Spark.Parser.NO_PAREN_FUNCTION_PARSERS.items() if name != "ANY"
        }
        FUNCTION_PARSERS = {
            name: made
            for name, made in Spark.Parser.FUNCTION_PARSERS.items()
            if name.lower() not in _CHANGED
            and (name.lower() in _READ or name not in sqlglot.Parser.FUNCTION_PARSERS)
        } | {
            "PERCENTILE": lambda self: self._parse_distinct_arg_function(
                _TwoArgumentAggregate(
                    "percentile", lambda value, quantile: exp.Quantile(this=value, quantile=quantile)
                )
            ),
            "MAX_BY": lambda self: self._parse_distinct_arg_function(
                _TwoArgumentAggregate("max_by", lambda value, by: exp.ArgMax(this=value, expression=by))
            ),
            "MIN_BY": lambda self: self._parse_distinct_arg_function(
                _TwoArgumentAggregate("min_by", lambda value, by: exp.ArgMin(this=value, expression=by))
            ),
        }
        FUNCTIONS = {  # noqa: RUF012
            **{name.upper(): _aggregate_parser(name) for name in AGGREGATES},
            **{
                name: _parser_keeping_arguments(name.lower(), made)
                for name, made in Spark.Parser.FUNCTIONS.items()
                if name.lower() in _READ
            },
            **{name.upper(): _aggregate_parser(name) for name in _CHANGED},
        }

        def _parse_interval(
            self, require_interval: bool = True, parse_function_unit: bool = True
        ) -> exp.Expr | None:
            """Parses an interval. One of several parts becomes a sum in brackets."""
            made = super()._parse_interval(require_interval, parse_function_unit)
            is_sum = require_interval and isinstance(made, exp.Add)
            return self.expression(exp.Paren(this=made)) if is_sum else made

        def _parse_bitwise(self, loosest: int = 0) -> exp.Expr | None:
            """Parses operators on bits by Spark's precedence, where sqlglot takes them from left to right.

            Args:
                loosest: the precedence of the loosest operator that is parsed.
            """
            left = self._parse_shifts()
            while (precedence := _OF_BITS.get(self._curr.token_type, -1)) >= loosest:
                operator = self.BITWISE[self._curr.token_type]
                self._advance()
                right = self._parse_bitwise(precedence + 1)
                left = self.expression(operator(this=left, expression=right))
            return left

        def _parse_types(
            self,
            check_func: bool = False,
            schema: bool = False,
            allow_identifiers: bool = True,
            with_collation: bool = False,
        ) -> exp.Expr | None:
            """Parses a type. CHAR and VARCHAR are texts of any length, except in schemas."""
            # Hive's parser compares each type with CHAR and VARCHAR, and parses these names each time.
            made = sqlglot.Parser._parse_types(self, check_func, schema, allow_identifiers, with_collation)
            for node in every(made, exp.DataType) if made and not schema else ():
                if node.this in (exp.DataType.Type.CHAR, exp.DataType.Type.VARCHAR):
                    node.set("this", exp.DataType.Type.TEXT)
                    node.set("expressions", None)
            return made

        def _parse_shifts(self) -> exp.Expr | None:
            """Parses shifts, ``>>>`` among them, which sqlglot lacks."""
            left = self._parse_term()
            while True:
                if self._match_pair(TokenType.LT, TokenType.LT):
                    name = "shiftleft"
                elif self._match_pair(TokenType.GT, TokenType.GT):
                    name = "shiftrightunsigned" if self._match(TokenType.GT) else "shiftright"
                else:
                    return left
                right = self._parse_term()
                if left is None or right is None:
                    self.raise_error(_NOTHING)
                left = self.expression(exp.func(name, left, right, dialect=DIALECT))

        def _parse_group(self, skip_group_by_token: bool = False) -> exp.Group | None:
            """Parses GROUP BY. Its first key may be WINDOW(…) or a column of that name."""
            if not skip_group_by_token and not self._match(TokenType.GROUP_BY):
                return None
            if self._curr and self._curr.token_type == TokenType.WINDOW:
                self._curr.token_type = TokenType.VAR
            return super()._parse_group(skip_group_by_token=True)

        def _parse_cube_or_rollup(self, with_prefix: bool = False) -> exp.Cube | exp.Rollup | None:
            """Parses CUBE or ROLLUP of any expressions, including conditions."""
            if with_prefix or not self._match_set((TokenType.CUBE, TokenType.ROLLUP)):
                return super()._parse_cube_or_rollup(with_prefix)
            kind = exp.Cube if self._prev.token_type == TokenType.CUBE else exp.Rollup
            return self.expression(kind(expressions=self._parse_wrapped_csv(self._parse_disjunction)))

        def _parse_grouping_set(self) -> exp.Expr | None:
            return self._parse_grouping_sets() or self._parse_cube_or_rollup() or self._parse_disjunction()

        def _parse_value(self, values: bool = True) -> exp.Tuple | None:
            if self._match(TokenType.L_PAREN, advance=False):
                return super()._parse_value(values)
            # Without parentheses, the alias after the last value belongs to the whole VALUES.
            value = self._parse_disjunction()
            return value and self.expression(exp.Tuple(expressions=[value]))

    class Generator(Spark.Generator):  # type: ignore[misc, valid-type]
        """Prints PERCENTILE_CONT unchanged (sqlglot's Spark makes it approximate), FILTER in one line, and quotes
        names that would be read as keywords."""

        RESERVED_KEYWORDS = {  # noqa: RUF012
            word.lower()
            for word, kind in Spark.Tokenizer.KEYWORDS.items()
            if word.isalpha() and kind not in Spark.Parser.ALIAS_TOKENS | Spark.Parser.ID_VAR_TOKENS
        }

        # Spark allows WITH in every query.
        EXPRESSIONS_WITHOUT_NESTED_CTES: set[type[exp.Expr]] = set()  # noqa: RUF012

        TYPE_MAPPING = {**Spark.Generator.TYPE_MAPPING, exp.DataType.Type.TIME: "TIME"}  # noqa: RUF012

        # sqlglot's transforms of SELECT serve other dialects, and each walks all subqueries.
        TRANSFORMS = {  # noqa: RUF012
            kind: made
            for kind, made in Spark.Generator.TRANSFORMS.items()
            if kind not in (exp.WithinGroup, exp.Select)
        }

        def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
            """Prints a cast. A TIME is printed as a literal, because Spark has TIME literals before it has casts to
            TIME."""
            value = expression.this
            kind = expression.to.this
            if kind == exp.DataType.Type.TIME and value.is_string and not safe_prefix:
                return f"TIME{self.sql(value)}"
            if not expression.to.expressions and kind != exp.DataType.Type.JSON:
                # Spark's generator checks each cast for JSON, and parses that type's name each time.
                return str(sqlglot.Generator.cast_sql(self, expression, safe_prefix))
            return str(super().cast_sql(expression, safe_prefix))

        def filter_sql(self, expression: exp.Filter) -> str:
            """Prints an aggregate with its FILTER, which comes before IGNORE NULLS."""
            call, words = expression.this, ""
            if isinstance(call, exp.IgnoreNulls | exp.RespectNulls):
                call, words = (
                    call.this,
                    " IGNORE NULLS" if isinstance(call, exp.IgnoreNulls) else " RESPECT NULLS",
                )
            return f"{self.sql(call)} FILTER(WHERE {self.sql(expression.expression, 'this')}){words}"

        def anonymousaggfunc_sql(self, expression: exp.AnonymousAggFunc) -> str:
            """Prints an aggregate by its name; a qualified name as written."""
            qualified = "." in expression.name or "`" in expression.name
            return self.func(expression.name, *expression.expressions, normalize=not qualified)


DIALECT = _Dialect()
"""One instance for all texts; sqlglot would create one for each of the hundreds that a plan needs."""


@cache
def _check_build() -> None:
    """Raises unless sqlglot can be extended.

    Raises:
        QueryError: it is the compiled build.
    """
    try:
        DIALECT.Parser()
    except TypeError as problem:
        raise QueryError(
            "sqlglot is installed in its compiled build, which can't be extended by what it lacks of Spark's SQL. Uninstall "
            "the package 'sqlglotc' (some tools ask for it, as sqlglot[c])."
        ) from problem


@lru_cache(8)
def tokens(text: str) -> list[Token]:
    """Returns the tokens of a text. The list is kept and must not be changed.

    Raises:
        SqlglotError: a quote or a comment has no end.
    """
    return DIALECT.tokenize(text)


def parse(sql: str, what: str = "A streaming model") -> exp.Query:
    """Parses one SELECT (or a set operation).

    Args:
        what: names the statement in the message.
    """
    return copied(_parse_once(sql, what))


@lru_cache(64)
def _parse_once(sql: str, what: str) -> exp.Query:
    """Returns the tree of a text. It is cached and must not be changed; planning parses a model's text many times."""
    _check_build()
    try:
        text = without_semicolons(sql)
        trees = [tree for tree in DIALECT.parser().parse(tokens(text), text) if tree is not None]
    except SqlglotError as error:
        details = getattr(error, "errors", None) or [{}]
        where, near = details[0].get("line"), details[0].get("highlight")
        place = f" at line {where}, near '{near}'" if where and near else ""
        raise QueryError(
            f"The query doesn't parse{place}: {_parse_problem(str(details[0].get('description') or error))}"
        ) from error
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        found = (
            "nothing" if not trees else f"{len(trees)} statements" if len(trees) > 1 else trees[0].key.upper()
        )
        raise QueryError(f"{what} is one SELECT; found {found}.")
    tree = trees[0]
    for query in list(every(tree, exp.Subquery)):
        _move_clauses_around(query)
    while isinstance(tree, exp.Subquery) and not tree.alias:
        tree = tree.this
    for node in every(tree, exp.Expr):
        node._meta = None  # positions of names in the text, which every copy of the tree would copy
        if isinstance(node, exp.Order) and node.this is not None:
            raise QueryError(
                f"'{node.sql(DIALECT)}' orders the values of a call, which Spark's SQL can't; collect them with what they "
                "are ordered by, as in array_sort(collect_list(struct(ts, v)))."
            )
    return tree


def parse_select(text: str) -> exp.Select:
    """Parses a SELECT that the planner wrote as text."""
    tree = parse(text)
    assert isinstance(tree, exp.Select)
    return tree


def _parse_problem(problem: str) -> str:
    """Returns sqlglot's description of what doesn't parse, without names of its classes."""
    if problem.startswith("Required keyword:"):
        return _NOTHING
    return problem.partition(" but got <Token")[0]


def _move_clauses_around(query: exp.Subquery) -> None:
    """Moves clauses that follow a query in brackets, as in `(…) order by a limit 3`, to a SELECT around it."""
    behind = {name: value for name in _BEHIND if (value := query.args.get(name))}
    if behind:
        around = exp.select("*").from_(
            exp.Subquery(this=query.this, alias=exp.TableAlias(this=exp.to_identifier("bracketed")))
        )
        for name, value in behind.items():
            query.set(name, None)
            around.set(name, value)
        query.set("this", around)


def sql(tree: exp.Expr, pretty: bool = False) -> str:
    """Prints a tree as Spark SQL. Clauses that Spark lacks are printed as written.

    >>> sql(parse("select k from t qualify row_number() over (order by v) = 1"))
    'SELECT k FROM t QUALIFY ROW_NUMBER() OVER (ORDER BY v) = 1'
    """
    return copied(tree).sql(dialect=DIALECT, copy=False, pretty=pretty)


def from_clause(select: exp.Select) -> exp.From | None:
    """Returns the FROM of a SELECT. (Its key differs between versions of sqlglot.)"""
    return select.args.get("from_") or select.args.get("from")


def select_over_same_relations(select: exp.Select) -> exp.Select:
    """Returns a SELECT without items over the same relations."""
    read = exp.Select()
    for clause in ("from_", "from", "joins", "laterals"):
        if value := select.args.get(clause):
            read.set(clause, [copied(each) for each in value] if isinstance(value, list) else copied(value))
    return read


def with_clause(query: exp.Query) -> exp.With | None:
    return query.args.get("with_") or query.args.get("with")


def remove_with(query: exp.Query) -> None:
    query.set("with_" if "with_" in query.args else "with", None)


def function_name(node: exp.Expr) -> str:
    """Returns Spark's name of a called function, in lower case."""
    if isinstance(node, exp.WithinGroup):
        return function_name(node.this)
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
        return str(node.name.strip().lower())
    return _cached_text(
        _call_shape(node), lambda: canonical(_call_with_plain_columns(node)).partition("(")[0].strip().lower()
    )


def _call_shape(node: exp.Expr) -> Hashable:
    """Returns a hashable value that is equal for calls which differ in computed arguments only."""

    def part(value: object) -> Hashable:
        if isinstance(value, list):
            return tuple(map(part, value))
        if not isinstance(value, exp.Expr):
            return value
        return exp.Column if _is_computed(value) else _call_shape(value)

    return type(node), *((name, part(value)) for name, value in node.args.items())


def _call_with_plain_columns(node: exp.Expr) -> exp.Expr:
    """Returns a call with plain columns instead of computed arguments. The call's name doesn't depend on them, and
    printing nested calls at each level takes quadratic time."""

    def part(value: object) -> object:
        if isinstance(value, list):
            return [*map(part, value)]
        if not isinstance(value, exp.Expr):
            return value
        return exp.column("x") if _is_computed(value) else _call_with_plain_columns(value)

    return type(node)(**{name: part(value) for name, value in node.args.items()})


def _is_computed(value: exp.Expr) -> bool:
    # MAP() is made of two arrays.
    is_call = isinstance(value, _COMPUTED) and not isinstance(value, exp.Array)
    return is_call and bool(children(value))


_COMPUTED = (exp.Func, exp.Binary, exp.Unary, exp.Query, exp.Column, exp.Case, exp.Bracket, exp.Predicate)


def arguments(node: exp.Expr) -> list[exp.Expr]:
    """Returns the arguments of a call in order."""
    found: list[exp.Expr] = []
    for value in node.args.values():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, exp.Distinct):
                found.extend(item.expressions)
            elif isinstance(item, exp.Expr):
                found.append(item)
    return found


def is_distinct(call: exp.Expr) -> bool:
    """Whether an aggregate is over DISTINCT values."""
    first = call.expressions[:1] if isinstance(call, exp.AnonymousAggFunc) else [call.this]
    return any(isinstance(each, exp.Distinct) for each in first)


def walk_same_query(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yields a node and its descendants, without subqueries."""
    todo = [node]
    while todo:
        node = todo.pop()
        yield node
        todo += [child for child in reversed(children(node)) if not isinstance(child, exp.Query)]


def outermost_queries(node: exp.Expr) -> Iterator[exp.Query]:
    """Yields the queries under a node, or the node itself, that are in no other one, without brackets and in the order of
    the text.

    >>> condition = parse("select 1 where a in (select b from t where exists (select 1)) or (select c)").args["where"]
    >>> [sql(each) for each in outermost_queries(condition)]
    ['SELECT b FROM t WHERE EXISTS(SELECT 1)', 'SELECT c']
    """
    todo = [node]
    while todo:
        node = todo.pop()
        if isinstance(node, exp.Query) and not isinstance(node, exp.Subquery):
            yield node
        else:
            todo += reversed(children(node))


def relation_names(select: exp.Select) -> set[str]:
    """Names of the relations that a SELECT reads, in lower case."""
    source = from_clause(select)
    nodes = [source, *(select.args.get("joins") or ()), *(select.args.get("laterals") or ())]
    return {node.this.alias_or_name.lower() if node.this else "" for node in nodes if node} | {
        lateral.alias.lower() for lateral in select.args.get("laterals") or ()
    }


def relation_names_around(query: exp.Query) -> set[str]:
    """Names of the relations that enclosing SELECTs read."""
    return {name for select in selects_around(query) for name in relation_names(select)}


def correlated_columns(query: exp.Query) -> list[exp.Column]:
    """Columns of enclosing queries' relations that a query reads (correlated columns), where qualified."""
    around = {id(select) for select in selects_around(query)}
    return [each for each in every(query, exp.Column) if id(reading_select(each)) in around]


def qualifier_of(column: exp.Column) -> str:
    """Returns a column's qualifier in lower case (which may be a struct column). Empty if there is none."""
    first, *others = column.parts
    return str(first.name).lower() if others else ""


def reading_select(column: exp.Column) -> exp.Select | None:
    """Returns the innermost SELECT around a column that reads the relation which qualifies it. None if there is none, or if
    the column isn't qualified."""
    name = qualifier_of(column)
    if not name:
        return None
    return next((each for each in selects_around(column) if name in relation_names(each)), None)


def is_read_within(query: exp.Query, column: exp.Column) -> bool:
    """Whether the relation that qualifies a column is read within a query, in the column's SELECT or one around it."""
    name = qualifier_of(column)
    node: exp.Expr | None = column
    while node is not None and node is not query.parent:
        if isinstance(node, exp.Select) and name and name in relation_names(node):
            return True
        node = node.parent
    return False


def unambiguous_names(select: exp.Select, *more: str) -> set[str]:
    """Returns names of columns whose qualifier has no effect in a SELECT's clauses: each is written with at most one
    qualifier, so the unqualified name is unambiguous.

    Args:
        more: clauses besides those over the SELECT's result, such as "where".

    A struct field looks like a qualified column, so its name isn't included. A USING column is the first relation's,
    unless an outer join keeps rows that the first relation lacks.
    """
    known = relation_names(select)
    written: dict[str, set[str]] = {}
    for clause in ("expressions", "group", "having", "qualify", "order", "windows", *more):
        value = select.args.get(clause) or ()
        for part in value if isinstance(value, list | tuple) else [value]:
            for node in walk_same_query(part):
                if isinstance(node, exp.Column):
                    written.setdefault(node.name.lower(), set()).add(node.table.lower())
    joins = select.args.get("joins") or ()
    using = {each.name.lower() for join in joins for each in join.args.get("using") or ()}
    if any(join.method == "NATURAL" for join in joins):
        using |= written.keys()
    source = from_clause(select)
    is_first = source is not None and not any(join.side in ("RIGHT", "FULL") for join in joins)
    first = {source.this.alias_or_name.lower()} if source is not None and is_first else set()
    found = set()
    for name, tables in written.items():
        qualifiers = tables - {""}
        if len(qualifiers) <= 1 and qualifiers <= (first if name in using else known):
            found.add(name)
    return found


def canonical(node: exp.Expr, unqualified: Collection[str] = ()) -> str:
    """Returns text for comparing two expressions: without comments, needless quotes, case of names, or the qualifiers
    of the columns in `unambiguous_names`.

    >>> canonical(parse("select `A`, `a - b`").expressions[0]), canonical(parse("select `a - b`").expressions[0])
    ('a', '`a - b`')
    """
    return _cached_text(
        (shape(node, exact=True), frozenset(unqualified)), lambda: _canonical(copied(node), unqualified)
    )


_TEXTS: dict[Hashable, str] = {}
"""Cache of canonical texts and of functions' names. Planning requests the same ones again and again, and printing takes ten
times as long as a lookup."""


def _cached_text(key: Hashable, make: Callable[[], str]) -> str:
    """Returns the text that the cache has for a key, or makes and caches it."""
    text = _TEXTS.get(key)
    if text is None:
        text = make()
        # dbt plans models in several threads, and any of them may clear the cache.
        if len(_TEXTS) >= _MANY:
            _TEXTS.clear()
        _TEXTS[key] = text
    return text


def _canonical(node: exp.Expr, unqualified: Collection[str]) -> str:
    """Returns the canonical text of a tree that may be changed."""
    for each in every(node, exp.Expr):
        each.comments = None
        if isinstance(each, exp.Identifier):
            name = each.args["this"] = each.this.lower()
            # A name with special characters would be read as an expression.
            each.args["quoted"] = not name.isidentifier() and not name.isalnum()
        elif unqualified and isinstance(each, exp.Column) and each.name.lower() in unqualified:
            each.set("table", None)
    return node.sql(dialect=DIALECT, copy=False)
