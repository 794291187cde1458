r"""Calls with special syntax, parsed as plain calls: ``SUBSTRING(a FROM 2)`` and SQL/JSON constructors.

The dialect's parser extends ``CallParser``. It also parses ``IS NFC NORMALIZED`` and ``@ x`` as calls,
and maps functions of other systems to Postgres' expressions.
:func:`decode_escape_string` and :func:`decode_unicode_string` decode ``E'a\n'`` and ``U&'\0061'``.
"""

import re
from collections.abc import Callable
from typing import Any, ClassVar, Final

from sqlglot import exp
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokenizer_core import Token, TokenType

from kpg.runtime.errors import encoding_error
from kpg.runtime.unsupported_features import OPERATORS

FORMS: Final = ("NFC", "NFD", "NFKC", "NFKD")
"""The normalization forms of Unicode."""
TRIMS: Final = {"BOTH": "btrim", "LEADING": "ltrim", "TRAILING": "rtrim"}

SOURCE_NAME: Final = "written"
"""Key in a call's ``meta`` for its name in the text, if that differs from the function's."""
UNNAMED_COLUMN: Final = "?column?"
"""Default name of a column that is neither a call nor a column."""
WHOLE_QUOTIENT: Final = "whole_quotient"
"""Function of Postgres' ``div``; the registry has ``/`` under the name ``div``."""


OPERATOR: Final = TokenType.DCOLONDOLLAR
"""Token type of the operators that sqlglot lacks; the token's text tells which."""

INFIX_FUNCTIONS: Final = {"<<=": "contained_or_equal", ">>=": "contains_or_equals"}
"""Functions of the binary operators among them."""
OPERATOR_SIGNS: Final = frozenset((*INFIX_FUNCTIONS, *OPERATORS))
"""Operators that the tokenizer must know; the binder refuses those that no type has."""


def call_node(name: str, *args: exp.Expr | None) -> exp.Anonymous:
    """Return a call of a function by name."""
    return exp.Anonymous(this=name, expressions=[arg for arg in args if arg is not None])


def with_source_name(name: str, call: exp.Expr) -> exp.Expr:
    """Set the name that the column of a call gets; return the call."""
    call.meta[SOURCE_NAME] = name
    return call


class CallParser(PostgresParser):
    """Parser methods for calls with special syntax; they start after the parenthesis."""

    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., exp.Expr | None]]] = {
        **PostgresParser.FUNCTION_PARSERS,
        "JSON_OBJECT": lambda self: self.read_json_object(),
        "JSON_ARRAY": lambda self: self.read_json_array(),
        "JSON_OBJECTAGG": lambda self: self.read_json_object_agg(),
        "JSON_ARRAYAGG": lambda self: self.read_json_array_agg(),
        "NORMALIZE": lambda self: self.read_normalize(),
        "OVERLAY": lambda self: self.read_overlay(),
        "SUBSTR": lambda self: self.read_substr(),
        "SUBSTRING": lambda self: self.read_substring(),
        "TRIM": lambda self: self.read_trim(),
    }
    PRIMARY_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        **PostgresParser.PRIMARY_PARSERS,
        TokenType.BYTE_STRING: lambda self, token: self.read_escapes(token),
        TokenType.UNICODE_STRING: lambda self, token: self.read_escapes(token),
    }
    UNARY_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        **PostgresParser.UNARY_PARSERS,
        TokenType.PARAMETER: lambda self: self.read_at_sign(),
        OPERATOR: lambda self: self.read_prefix(),
        # Non-arithmetic operators bind less tightly than arithmetic ones, also as prefix operators.
        TokenType.RLIKE: lambda self: self.expression(exp.BitwiseNot(this=self._parse_term())),
        TokenType.PIPE_SLASH: lambda self: self.expression(exp.Sqrt(this=self._parse_term())),
        TokenType.DPIPE_SLASH: lambda self: self.expression(exp.Cbrt(this=self._parse_term())),
    }

    def read_substr(self) -> exp.Expr:
        """Parse SUBSTR: a text, a position and a length, quoted or not; it takes no pattern."""
        first, *places = self._parse_csv(self._parse_assignment)
        integer = exp.DataType.build("INT")
        places = [exp.Cast(this=arg, to=integer.copy()) if arg.is_string else arg for arg in places]
        return with_source_name("substr", call_node("substring", first, *places))

    def read_substring(self) -> exp.Expr:
        """Parse SUBSTRING: a text, and a position, a length or a pattern."""
        args = self._parse_csv(self._parse_bitwise)
        start = length = None
        if self._match_text_seq("SIMILAR"):
            pattern = self._parse_bitwise()
            self._match_text_seq("ESCAPE")
            return call_node("similar_substring", args[0], pattern, self._parse_bitwise())
        while self._curr is not None:
            if start is None and self._match(TokenType.FROM):
                start = self._parse_bitwise()
            elif length is None and self._match(TokenType.FOR):
                length = self._parse_bitwise()
            else:
                break
        if length is not None and start is None:
            start = exp.Literal.number(1)
        return call_node("substring", *args, start, length)

    def read_overlay(self) -> exp.Expr:
        """Parse OVERLAY: a text, its replacement, and the position."""
        args: list[exp.Expr | None] = [*self._parse_csv(self._parse_bitwise)]
        for word in ("PLACING", "FROM", "FOR"):
            if self._match_text_seq(word):
                args.append(self._parse_bitwise())
        return call_node("overlay", *args)

    def read_trim(self) -> exp.Expr:
        """Parse TRIM: the ends of the text and the characters to remove, both optional."""
        name = "btrim"
        if self._match_texts(TRIMS):
            name = TRIMS[self._prev.text.upper()]
        if self._match(TokenType.FROM):
            return call_node(name, *self._parse_csv(self._parse_bitwise))
        args = self._parse_csv(self._parse_bitwise)
        if self._match(TokenType.FROM):
            return call_node(name, *self._parse_csv(self._parse_bitwise), *args)
        return call_node(name, *args)

    def read_normalize(self) -> exp.Expr:
        """Parse NORMALIZE: a text, and a normalization form as a keyword."""
        text = self._parse_bitwise()
        return call_node("normalize", text, self._form() if self._match(TokenType.COMMA) else None)

    def _form(self) -> exp.Expr | None:
        if self._match_texts(FORMS):
            return exp.Literal.string(self._prev.text.upper())
        return self._parse_bitwise()

    def read_escapes(self, token: Token) -> exp.Expr:
        """Parse ``E'...'`` or ``U&'...'``, decoded from the source text."""

        source = self.sql[token.start : token.end + 1]
        try:
            if token.token_type is TokenType.BYTE_STRING:
                value = decode_escape_string(source)
            else:
                sign = self._parse_string() if self._match_text_seq("UESCAPE") else None
                value = decode_unicode_string(source, sign.name if sign is not None else "\\")
        except ValueError as error:
            self.raise_error(f"Invalid constant ({error})", token)
            raise
        return self.expression(exp.Literal.string(value), token)

    def read_prefix(self) -> exp.Expr:
        """Parse a prefix operator, which binds less tightly than ``+``."""
        sign = self._prev.text
        if sign in INFIX_FUNCTIONS:
            self.raise_error(f"{sign} takes two operands", self._prev)
        return call_node(sign, self._parse_term())

    def _parse_lateral(self) -> exp.Lateral | None:
        """Parse ``LATERAL ROWS FROM (...)`` without LATERAL: such calls are lateral anyway."""
        lateral = self._curr is not None and self._curr.token_type is TokenType.LATERAL
        if lateral and self._next is not None and self._next.text.upper() == "ROWS":
            self._advance()
            return self._parse_table()  # type: ignore[return-value]
        return super()._parse_lateral()

    def _parse_bitwise(self) -> exp.Expr | None:
        """Parse operators that sqlglot lacks, too."""
        this = super()._parse_bitwise()
        while self._curr is not None and self._curr.token_type is OPERATOR:
            self._advance()
            sign = self._prev.text
            this = with_source_name(
                UNNAMED_COLUMN, call_node(INFIX_FUNCTIONS.get(sign, sign), this, self._parse_term())
            )
        return this

    def read_at_sign(self) -> exp.Expr | None:
        """Parse ``@ x``, the absolute value; any other sign begins a parameter."""
        if self._prev.text == "@":
            return call_node("abs", self._parse_term())
        self._retreat(self._index - 1)
        return self._parse_type()

    def _parse_is(self, this: exp.Expr | None) -> exp.Expr | None:
        """Parse ``IS [NOT] [form] NORMALIZED``, too."""
        start = self._index
        negated = bool(self._match(TokenType.NOT))
        form = exp.Literal.string(self._prev.text.upper()) if self._match_texts(FORMS) else None
        if self._match_text_seq("NORMALIZED"):
            found = call_node("is_normalized", this, form)
            return exp.Not(this=found) if negated else found
        self._retreat(start)
        return super()._parse_is(this)

    # SQL/JSON constructors; NULL ON NULL and ABSENT ON NULL are different functions

    def read_json_object(self) -> exp.Expr:
        """Parse names and values, ``a: b`` or ``a VALUE b``, or the arguments of the function on arrays."""
        operands: list[exp.Expr | None] = []
        if not self._ends_constructor():
            first = self._parse_bitwise()
            if not self._match(TokenType.COLON) and not self._match_text_seq("VALUE"):
                rest = self._parse_csv(self._parse_bitwise) if self._match(TokenType.COMMA) else []
                return call_node("json_object", first, *rest)
            operands += [first, self._json_value()]
            while self._match(TokenType.COMMA):
                operands += self._json_member()
        strict = self._absent_on_null(default=False)
        unique = self._unique_keys()
        flags = " ".join(word for word, is_set in (("strict", strict), ("unique", unique)) if is_set)
        if flags:
            operands = [exp.Literal.string(flags), *operands]
        call = call_node("json_object_of" if flags else "json_build_object", *operands)
        return self._cast_to_returning(with_source_name("json_object", call))

    def read_json_array(self) -> exp.Expr:
        """Parse values, or a query of one column."""
        if self._match(TokenType.SELECT, advance=False) or self._match(TokenType.WITH, advance=False):
            return self._array_of_query()
        operands: list[exp.Expr | None] = []
        if not self._ends_constructor():
            operands.append(self._json_value())
            while self._match(TokenType.COMMA):
                operands.append(self._json_value())
        strict = self._absent_on_null(default=True)
        if strict:
            operands = [exp.Literal.string("strict"), *operands]
        call = call_node("json_array_of" if strict else "json_build_array", *operands)
        return self._cast_to_returning(with_source_name("json_array", call))

    def read_json_object_agg(self) -> exp.Expr:
        """Parse the name and the value of a row's member."""
        operands = self._json_member()
        name = "_strict" if self._absent_on_null(default=False) else ""
        name = ("_unique" if self._unique_keys() else "") + name
        return with_source_name(
            "json_objectagg", call_node(f"{self._json_type()}_object_agg{name}", *operands)
        )

    def read_json_array_agg(self) -> exp.Expr:
        """Parse a row's value, with an optional ORDER BY."""
        operand = self._parse_order(self._json_value())
        name = "_strict" if self._absent_on_null(default=True) else ""
        return with_source_name("json_arrayagg", call_node(f"{self._json_type()}_agg{name}", operand))

    def _ends_constructor(self) -> bool:
        words = ("RETURNING", "NULL", "ABSENT", "WITH", "WITHOUT")
        if self._match(TokenType.R_PAREN, advance=False):
            return True
        follows = self._next is not None and self._next.text.upper() in ("ON", "UNIQUE")
        word = self._curr.text.upper() if self._curr is not None else ""
        return word == "RETURNING" or (word in words and follows)

    def _json_member(self) -> list[exp.Expr | None]:
        name = self._parse_bitwise()
        if not self._match(TokenType.COLON) and not self._match_text_seq("VALUE"):
            self.raise_error("Expecting VALUE")
        return [name, self._json_value()]

    def _json_value(self) -> exp.Expr | None:
        """Return a value; with FORMAT JSON its text is cast to JSON."""
        value = self._parse_assignment()
        if self._match_text_seq("FORMAT", "JSON"):
            return exp.Cast(this=value, to=exp.DataType.build("JSON"))
        return value

    def _absent_on_null(self, *, default: bool) -> bool:
        if self._match_text_seq("ABSENT", "ON", "NULL"):
            return True
        return not self._match_text_seq("NULL", "ON", "NULL") and default

    def _unique_keys(self) -> bool:
        if self._match_text_seq("WITHOUT", "UNIQUE"):
            self._match_text_seq("KEYS")
            return False
        found = bool(self._match_text_seq("WITH", "UNIQUE"))
        if found:
            self._match_text_seq("KEYS")
        return found

    def _cast_to_returning(self, call: exp.Expr) -> exp.Expr:
        if not self._match_text_seq("RETURNING"):
            return call
        type_ = self._parse_types()
        self._match_text_seq("FORMAT", "JSON")
        return exp.Cast(this=call, to=type_)

    def _json_type(self) -> str:
        """Return the type that RETURNING names for an aggregate, json or jsonb."""
        if not self._match_text_seq("RETURNING"):
            return "json"
        type_ = self._parse_types()
        name = "" if type_ is None else type_.sql("postgres").lower()
        if name not in ("json", "jsonb"):
            self.raise_error("RETURNING of an aggregate takes JSON or JSONB")
        return name

    def _array_of_query(self) -> exp.Expr:
        query = self._parse_select()
        column = exp.column("value", "elements")
        names = exp.TableAlias(this=exp.to_identifier("elements"), columns=[exp.to_identifier("value")])
        type_ = self._json_type()
        select = exp.select(call_node(f"{type_}_agg_strict", column)).from_(
            exp.Subquery(this=query, alias=names)
        )
        return exp.Subquery(this=select)


NAMED_ARGUMENTS: Final = (exp.Kwarg, exp.PropertyEQ)
"""``name => value``, and ``name := value``."""

PATHS: Final = ("target", "path", "vars", "silent")
PARAMETER_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "make_date": ("year", "month", "day"),
    "make_interval": ("years", "months", "weeks", "days", "hours", "mins", "secs"),
    "make_time": ("hour", "min", "sec"),
    "make_timestamp": ("year", "month", "mday", "hour", "min", "sec"),
    "make_timestamptz": ("year", "month", "mday", "hour", "min", "sec", "timezone"),
    "jsonb_set": ("jsonb_in", "path", "replacement", "create_if_missing"),
    "jsonb_set_lax": ("jsonb_in", "path", "replacement", "create_if_missing", "null_value_treatment"),
    "jsonb_insert": ("jsonb_in", "path", "replacement", "insert_after"),
    "parse_ident": ("str", "strict"),
    "random_normal": ("mean", "stddev"),
    "json_populate_record": ("base", "from_json", "use_json_as_text"),
    "json_populate_recordset": ("base", "from_json", "use_json_as_text"),
    **dict.fromkeys(("jsonb_path_exists", "jsonb_path_match", "jsonb_path_query"), PATHS),
    **dict.fromkeys(("jsonb_path_query_array", "jsonb_path_query_first"), PATHS),
}
"""Names of the parameters of functions that take arguments by name."""
PARAMETER_DEFAULTS: Final[dict[str, exp.Expr]] = {
    "create_if_missing": exp.Boolean(this=True),
    "vars": exp.Literal.string("{}"),
    "silent": exp.Boolean(this=False),
}
"""Defaults of parameters; 0 for all others."""


def order_arguments(name: str, operands: list[exp.Expr]) -> list[exp.Expr] | None:
    """Return arguments in the order of the parameters; None for an unknown name."""
    by_name = {
        part.this.name.lower(): part.expression for part in operands if isinstance(part, NAMED_ARGUMENTS)
    }
    if not by_name:
        return operands
    parameters = PARAMETER_NAMES.get(name, ())
    plain = [part for part in operands if not isinstance(part, NAMED_ARGUMENTS)]
    rest = parameters[len(plain) :]
    if not by_name.keys() <= set(rest):
        return None
    last = max(rest.index(parameter) for parameter in by_name)
    return [
        *plain,
        *(
            by_name[parameter] if parameter in by_name else _default(parameter)
            for parameter in rest[: last + 1]
        ),
    ]


def _default(name: str) -> exp.Expr:
    default = PARAMETER_DEFAULTS.get(name)
    return exp.Literal.number(0) if default is None else default.copy()


CallBuilder = Callable[[list[exp.Expr]], exp.Expr]
FUNCTION_ALIASES: Final = {
    "LIST_APPEND": "array_append",
    "LIST_CONCAT": "array_cat",
    "LIST_CAT": "array_cat",
    "LIST_POSITION": "array_position",
    "LIST_INDEXOF": "array_position",
    "STRING_SPLIT": "string_to_array",
    "STR_SPLIT": "string_to_array",
}
"""Functions that Postgres has under other names, with the same arguments."""


def _alias_builder(name: str) -> CallBuilder:
    return lambda args: exp.Anonymous(this=name, expressions=args)


def _contains(args: list[exp.Expr]) -> exp.Expr:
    if len(args) != len(("list", "element")):
        return exp.Anonymous(this="list_contains", expressions=args)
    return exp.Paren(this=exp.EQ(this=args[1], expression=exp.Any(this=args[0])))


def _count_if(args: list[exp.Expr]) -> exp.Expr:
    if len(args) != 1:
        return exp.Anonymous(this="count_if", expressions=args)
    return exp.Filter(this=exp.Count(this=exp.Star(), big_int=True), expression=exp.Where(this=args[0]))


FOREIGN_CALLS: Final[dict[str, CallBuilder]] = {
    **{name: _alias_builder(known) for name, known in FUNCTION_ALIASES.items()},
    "LIST_VALUE": lambda args: exp.Array(expressions=args),
    "LIST_PREPEND": lambda args: exp.Anonymous(this="array_prepend", expressions=args),
    "LIST_CONTAINS": _contains,
    "LIST_HAS": _contains,
    "COUNT_IF": _count_if,
    "COUNTIF": _count_if,
    "UUID_GENERATE_V4": lambda args: exp.Uuid(),
    "JSONB_EXISTS": _alias_builder("jsonb_exists"),
    "JSONB_CONTAINS": _alias_builder("jsonb_contains"),
}


CONTROLS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
ESCAPE: Final = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))|''", re.DOTALL
)


def decode_escape_string(source: str) -> str:
    """Decode ``E'...'``; ValueError if its bytes are not UTF-8, DataError for a zero byte."""
    parts: list[bytes] = []
    inside, end = source[2:-1], 0
    for found in ESCAPE.finditer(inside):
        parts += [inside[end : found.start()].encode(), _decode_escape(found)]
        end = found.end()
    return _check_no_zero(b"".join((*parts, inside[end:].encode())).decode())


def _check_no_zero(text: str) -> str:
    if "\0" in text:
        raise encoding_error()
    return text


def _decode_escape(escape: re.Match[str]) -> bytes:
    octal, byte, short, long, letter = escape.groups()
    if octal or byte:
        return bytes([int(octal, 8) & 255 if octal else int(byte, 16)])
    if short or long:
        return chr(int(short or long, 16)).encode()
    if letter is None:
        return b"'"
    if letter in "uU":
        raise ValueError("invalid Unicode escape")
    return CONTROLS.get(letter, letter).encode()


def decode_unicode_string(source: str, escape: str = "\\") -> str:
    """Decode ``U&'...'``; ValueError for an invalid escape."""
    sign = re.escape(escape)
    pattern = re.compile(rf"{sign}(?:({sign})|([0-9a-fA-F]{{4}})|\+([0-9a-fA-F]{{6}}))?|''")

    def decode(found: re.Match[str]) -> str:
        if found[0] == "''":
            return "'"
        if found[1]:
            return escape
        digits = found[2] or found[3]
        if digits is None:
            raise ValueError("invalid Unicode escape")
        return chr(int(digits, 16))

    return _check_no_zero(pattern.sub(decode, source[3:-1]))
