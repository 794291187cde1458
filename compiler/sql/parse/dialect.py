"""The SQL dialect: sqlglot's Postgres with kpg's extensions.

``WITH MUTUALLY RECURSIVE [([RETURN AT | ERROR AT] RECURSION LIMIT n)] name (column type, ...) AS
(query)`` becomes a recursive ``With`` whose ``mutual`` is a :class:`MutualRecursion`. Its queries'
columns are definitions.

A call of a registered function is ``exp.Anonymous`` with the name and arguments as written, even if
sqlglot knows the name. So an entry in ``runtime/functions`` suffices to add a function.
"""

from collections.abc import Callable, Collection
from typing import Any, ClassVar, Final

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.tokenizer_core import TokenType

from kpg.compiler.sql.parse.call_syntax import (
    FOREIGN_CALLS,
    OPERATOR,
    OPERATOR_SIGNS,
    WHOLE_QUOTIENT,
    CallParser,
    call_node,
)
from kpg.compiler.sql.parse.syntax import strip_database
from kpg.runtime.errors import Span
from kpg.runtime.functions import aggregate_names, function_names, window_functions
from kpg.runtime.functions.table_functions import row_function_names
from kpg.runtime.interrupts import checkpoint

INTERVAL_FIELDS: Final = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
"""Fields that can follow an INTERVAL."""
CONSTANTS: Final = frozenset((TokenType.NUMBER, TokenType.STRING))
CONSTANT_ENDS: Final = frozenset((TokenType.COMMA, TokenType.R_PAREN))
JOIN_PARTS: Final = ("method", "side", "kind")


SPECIAL_SYNTAX: Final = (
    "and",
    "cast",
    "concat",
    "div",
    "in",
    "like",
    "or",
    "position",
)
"""Functions whose calls have keywords between the arguments, or another meaning in SQL."""


def _call_builder(name: str) -> Callable[[list[exp.Expr]], exp.Anonymous]:
    return lambda args: exp.Anonymous(this=name, expressions=args)


def _takes_one_argument(kind: type[exp.Expr]) -> bool:
    return kind.arg_types.keys() <= {"this", "expressions", "big_int"}


def _call_builders() -> dict[str, Callable[[list[exp.Expr]], exp.Anonymous]]:
    """Return the functions that build the node of a call, by upper-case name.

    An aggregate with a parser or class of sqlglot keeps it, unless the class has a second argument:
    DISTINCT would take several arguments as one.
    """
    classes = exp.FUNCTION_BY_NAME.items()
    aggregates = {name: kind for name, kind in classes if issubclass(kind, exp.AggFunc)}
    own = {
        name for name, kind in aggregates.items() if _takes_one_argument(kind) and name in kind.sql_names()
    }
    own |= CallParser.FUNCTION_PARSERS.keys() - {"JSON_AGG"}
    names = set(function_names().difference(SPECIAL_SYNTAX))
    names |= {name for name in aggregate_names() if name.upper() not in own}
    names |= row_function_names()
    names |= {function.name for function in window_functions()}
    return {name.upper(): _call_builder(name) for name in names}


CALL_BUILDERS: Final = _call_builders()
SPECIAL_CALLS: Final = ("JSON_OBJECT", "NORMALIZE", "OVERLAY", "SUBSTRING", "TRIM")
"""Functions whose calls keep sqlglot's parsers."""


OTHER_STRINGS: Final = (TokenType.HEREDOC_STRING, TokenType.NATIONAL_STRING, TokenType.RAW_STRING)
"""Other string constants: ``$$it's$$``, ``N'text'``."""


class MutualRecursion(exp.Expression):
    """MUTUALLY RECURSIVE clause.

    ``limit`` is the maximum number of rounds; with ``returns`` the loop ends there without an error.
    """

    arg_types: ClassVar[dict[str, bool]] = {"limit": False, "returns": False}


class Traversal(exp.Expression):
    """SEARCH or CYCLE: the columns as ``expressions``, and the names of the added columns."""

    arg_types: ClassVar[dict[str, bool]] = {
        "expressions": True,
        "into": True,
        "depth": False,
        "to": False,
        "default": False,
        "using": False,
    }


class Dialect(Postgres):
    """Postgres' dialect; unknown statements are errors, not opaque commands."""

    INDEX_OFFSET = 0  # keep subscripts as written

    class Tokenizer(Postgres.Tokenizer):
        COMMANDS: ClassVar[set[TokenType]] = set()
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            # LANGUAGE sql SECURITY DEFINER are four words here.
            **{word: kind for word, kind in Postgres.Tokenizer.KEYWORDS.items() if word != "SQL SECURITY"},
            **dict.fromkeys(OPERATOR_SIGNS, OPERATOR),
        }

    class Parser(CallParser):
        FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {
            **CallParser.FUNCTIONS,
            **CALL_BUILDERS,
            "DIV": lambda args: call_node(WHOLE_QUOTIENT, *args),
            **FOREIGN_CALLS,
        }
        FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., exp.Expr | None]]] = {
            name: parser
            for name, parser in CallParser.FUNCTION_PARSERS.items()
            if name not in CALL_BUILDERS or name in SPECIAL_CALLS
        }

        # An arrow in an argument is a JSON operator, not a lambda.
        LAMBDAS: ClassVar[dict[TokenType, Callable[..., exp.Expr]]] = {
            TokenType.FARROW: CallParser.LAMBDAS[TokenType.FARROW]
        }
        PRIMARY_PARSERS: ClassVar[dict[TokenType, Callable[..., exp.Expr | None]]] = {
            **CallParser.PRIMARY_PARSERS,
            **dict.fromkeys(OTHER_STRINGS, CallParser.PRIMARY_PARSERS[TokenType.STRING]),
        }
        STRING_PARSERS: ClassVar[dict[TokenType, Callable[..., exp.Expr | None]]] = {
            **CallParser.STRING_PARSERS,
            **dict.fromkeys(OTHER_STRINGS, CallParser.STRING_PARSERS[TokenType.STRING]),
        }

        def _parse_id_var(
            self, any_token: bool = True, tokens: Collection[TokenType] | None = None
        ) -> exp.Expr | None:
            """Parse a name; in a window, GROUPS before a bound is the frame's unit and no name."""
            if tokens is self.WINDOW_ALIAS_TOKENS and self._curr and self._curr.text.upper() == "GROUPS":
                following = self._next.token_type if self._next else None
                if following not in (TokenType.R_PAREN, TokenType.PARTITION_BY, TokenType.ORDER_BY):
                    return None
            return super()._parse_id_var(any_token, tokens)

        JSON_OPERATORS: ClassVar[dict[TokenType, Callable[..., exp.Expr]]] = {
            **CallParser.JSON_OPERATORS,
            TokenType.ARROW: lambda self, this, key: exp.JSONExtract(this=this, expression=key),
            TokenType.DARROW: lambda self, this, key: exp.JSONExtractScalar(this=this, expression=key),
        }

        def _parse_type(
            self, parse_interval: bool = True, fallback_to_identifier: bool = False
        ) -> exp.Expr | None:
            """Parse ``type 'text'`` first: sqlglot would cast the result of ``'text'::other``."""
            start = self._index
            token = self._curr.token_type if self._curr is not None else None
            if token in self.TYPE_TOKENS and token is not TokenType.INTERVAL:
                type_ = self._parse_types(check_func=True, allow_identifiers=False)
                if isinstance(type_, exp.DataType) and self._match(TokenType.STRING, advance=False):
                    text = self._parse_primary()
                    if type_.this is exp.DType.BIT and not type_.expressions and text is not None:
                        return exp.BitString(this=text.name)
                    return self._parse_column_ops(exp.Cast(this=text, to=type_))
                self._retreat(start)
            elif token is TokenType.VAR and self._next and self._next.token_type is TokenType.STRING:
                name = self._parse_id_var()
                type_ = exp.DataType(this=exp.DType.USERDEFINED, kind=name)
                return self._parse_column_ops(exp.Cast(this=self._parse_primary(), to=type_))
            return super()._parse_type(parse_interval, fallback_to_identifier)

        def _parse_types(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
            """Parse ``oid[]`` and BIT VARYING, which sqlglot does not."""
            found = (
                self._parse_bit_varying()
                or self._parse_interval_type()
                or super()._parse_types(*args, **kwargs)
            )
            bits = isinstance(found, exp.DataType) and found.args.get("varying")
            while (bits or isinstance(found, exp.ObjectIdentifier)) and self._match_pair(
                TokenType.L_BRACKET, TokenType.R_BRACKET
            ):
                found = exp.DataType(this=exp.DType.ARRAY, expressions=[found], nested=True)
            return found

        def _parse_interval_type(self) -> exp.Expr | None:
            """Parse ``INTERVAL DAY TO SECOND (3)`` as a type."""
            is_interval = self._curr is not None and self._curr.token_type is TokenType.INTERVAL
            if not is_interval or self._next is None or self._next.text.upper() not in INTERVAL_FIELDS:
                return None
            self._advance()
            unit = self._parse_interval_fields()
            digits = self._parse_second_digits()
            parts = [] if digits is None else [exp.DataTypeParam(this=digits)]
            return exp.DataType(this=exp.DType.INTERVAL, expressions=parts, kind=unit)

        def _parse_type_size(self) -> exp.DataTypeParam | None:
            """Parse a negative scale, too: ``NUMERIC(5, -2)``."""
            if self._match(TokenType.DASH):
                number = self._parse_number()
                if number is not None:
                    return exp.DataTypeParam(this=exp.Literal(this=f"-{number.name}", is_string=False))
            return super()._parse_type_size()

        def _parse_bit_varying(self) -> exp.Expr | None:
            """Parse ``BIT VARYING`` with an optional length."""
            bit = self._curr is not None and self._curr.token_type is TokenType.BIT
            if not bit or self._next is None or self._next.text.upper() != "VARYING":
                return None
            self._advance(2)
            sized = self._match(TokenType.L_PAREN, advance=False)
            sizes = self._parse_wrapped_csv(self._parse_type_size) if sized else []
            name = exp.to_identifier("varbit")
            return exp.DataType(this=exp.DType.USERDEFINED, kind=name, expressions=sizes, varying=True)

        def _parse_interval(
            self, require_interval: bool = True, parse_function_unit: bool = True
        ) -> exp.Add | exp.Interval | None:
            """Keep the whole text of an INTERVAL; sqlglot would keep the first number."""
            start = self._index
            if self._match(TokenType.INTERVAL):
                digits = self._parse_second_digits()
                if self._match(TokenType.STRING, advance=False):
                    text, unit = self._parse_primary(), self._parse_interval_fields()
                    interval = self.expression(exp.Interval(this=text, unit=unit))
                    digits = digits or self._parse_second_digits()
                    if digits is None:
                        return interval
                    target_type = exp.DataType(
                        this=exp.DType.INTERVAL, expressions=[exp.DataTypeParam(this=digits)]
                    )
                    return exp.Cast(this=interval, to=target_type)  # type: ignore[return-value]
            self._retreat(start)
            return super()._parse_interval(require_interval, parse_function_unit)

        def _parse_interval_fields(self) -> exp.Expr | None:
            """Parse ``DAY`` or ``DAY TO SECOND`` after an INTERVAL."""
            if self._curr is None or self._curr.text.upper() not in INTERVAL_FIELDS:
                return None
            first = self._parse_var(any_token=True, upper=True)
            if not self._match_text_seq("TO"):
                return first
            return exp.IntervalSpan(this=first, expression=self._parse_var(any_token=True, upper=True))

        def _parse_second_digits(self) -> exp.Expr | None:
            """Parse ``(2)``, the fractional digits of seconds."""
            if not self._match(TokenType.L_PAREN):
                return None
            number = self._parse_number()
            self._match_r_paren()
            return number

        def _warn_unsupported(self) -> None:
            """Do nothing: commands that sqlglot does not parse are refused later."""

        def _parse_unary(self) -> exp.Expr | None:
            """Check for an interrupt at every operand."""
            checkpoint()
            return super()._parse_unary()

        def _parse_select_query(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
            """Check for an interrupt at every query."""
            checkpoint()
            return super()._parse_select_query(*args, **kwargs)

        def _parse_expression(self) -> exp.Expr | None:
            """Parse a lone constant directly, as in long lists of VALUES."""
            token, following = self._curr, self._next
            is_constant = token is not None and token.token_type in CONSTANTS
            if is_constant and following is not None and following.token_type in CONSTANT_ENDS:
                self._advance()
                constant: exp.Expr | None = self.PRIMARY_PARSERS[token.token_type](self, token)
                return constant
            return super()._parse_expression()

        def _parse_join(
            self,
            skip_join_token: bool = False,
            parse_bracket: bool = False,
            alias_tokens: Collection[TokenType] | None = None,
        ) -> exp.Join | None:
            """Set the kind of a plain JOIN, which the syntax tree does not distinguish from a comma."""
            comma = self._curr is not None and self._curr.token_type is TokenType.COMMA
            join = super()._parse_join(skip_join_token, parse_bracket, alias_tokens)
            if join is not None and not comma and not any(join.args.get(part) for part in JOIN_PARTS):
                join.set("kind", "INNER")
            if join is not None and join.args.get("using") and self._match(TokenType.ALIAS):
                join.set("using_alias", self._parse_id_var(any_token=False))
            return join

        def _parse_table_parts(self, *args: Any, **kwargs: Any) -> exp.Table | exp.Dot | None:
            """Remove the name of the current database."""
            table = super()._parse_table_parts(*args, **kwargs)
            database = table.args.get("catalog") if isinstance(table, exp.Table) else None
            if isinstance(table, exp.Table) and database is not None:
                place = Span(self.sql, database.meta.get("start", 0), self._prev.end + 1)
                strip_database((database.name, table.db, table.name), place)
                table.set("catalog", None)
            return table

        def _parse_ordered(
            self, parse_method: Callable[[], exp.Expr | None] | None = None
        ) -> exp.Ordered | None:
            """Parse ``ORDER BY a USING >`` as DESC and ``USING <`` as ASC."""
            signs: list[TokenType] = []

            def key() -> exp.Expr | None:
                if self._match_text_seq("ALL"):
                    return exp.var("ALL")
                found: exp.Expr | None = parse_method() if parse_method else self._parse_disjunction()
                if found is not None and self._match(TokenType.USING):
                    if not self._match_set((TokenType.LT, TokenType.GT)):
                        self.raise_error("Required < or >")
                    signs.append(self._prev.token_type)
                return found

            ordered = super()._parse_ordered(key)
            if ordered is not None and signs == [TokenType.GT]:
                has_nulls_order = self._prev.text.upper() in ("FIRST", "LAST")
                ordered.set("desc", True)
                ordered.set("nulls_first", ordered.args.get("nulls_first") if has_nulls_order else True)
            return ordered

        def _parse_with(self, skip_with_token: bool = False) -> exp.With | None:
            """Parse MUTUALLY RECURSIVE, which sqlglot lacks, and leave the rest to sqlglot."""
            start = self._index
            is_with = skip_with_token or self._match(TokenType.WITH)
            if not is_with or not self._match_text_seq("MUTUALLY", "RECURSIVE"):
                self._retreat(start)
                return super()._parse_with(skip_with_token)
            mutual = self._parse_recursion_limit()
            clause = super()._parse_with(skip_with_token=True)
            if clause is not None:
                clause.set("recursive", True)
                clause.set("mutual", mutual)
            return clause

        def _parse_cte(self) -> exp.CTE | exp.FunctionSpecification | None:
            """Parse SEARCH and CYCLE; sqlglot has them only behind the last query and for one column."""
            common = super()._parse_cte()
            if isinstance(common, exp.CTE):
                if self._match_text_seq("SEARCH"):
                    depth = bool(self._match_text_seq("DEPTH"))
                    if not depth and not self._match_text_seq("BREADTH"):
                        self.raise_error("Required DEPTH or BREADTH")
                    self._match_text_seq("FIRST", "BY")
                    common.set("search", self._parse_traversal(depth=depth))
                if self._match_text_seq("CYCLE"):
                    cycle = self._parse_traversal()
                    if self._match_text_seq("TO"):
                        cycle.set("to", self._parse_primary())
                        self._match_text_seq("DEFAULT")
                        cycle.set("default", self._parse_primary())
                    if not self._match(TokenType.USING):
                        self.raise_error("Required USING")
                    cycle.set("using", self._parse_id_var())
                    common.set("cycle", cycle)
            return common

        def _parse_traversal(self, *, depth: bool = False) -> Traversal:
            by = self._parse_csv(self._parse_id_var)
            if not self._match(TokenType.SET):
                self.raise_error("Required SET")
            return Traversal(expressions=by, into=self._parse_id_var(), depth=depth)

        def _parse_recursion_limit(self) -> MutualRecursion:
            if not self._match(TokenType.L_PAREN):
                return MutualRecursion()
            returns = bool(self._match_text_seq("RETURN", "AT"))
            if not returns:
                self._match_text_seq("ERROR", "AT")
            limit = self._parse_number() if self._match_text_seq("RECURSION", "LIMIT") else None
            if limit is None:
                self.raise_error("Required RECURSION LIMIT and a number")
            self._match_r_paren()
            return MutualRecursion(limit=limit, returns=returns)
