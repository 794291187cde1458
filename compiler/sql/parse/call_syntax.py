r"""Calls with special syntax, read as plain calls: ``SUBSTRING(a FROM 2)`` and SQL/JSON constructors.

The dialect's parser extends ``JsonCalls``, which extends ``Calls``. They also read ``IS NFC NORMALIZED`` and
``@ x`` as calls, and map functions of other systems to Postgres' expressions. :func:`escaped` and
:func:`unicode` decode ``E'a\n'`` and ``U&'\0061'``.
"""

import re
from collections.abc import Callable
from typing import Any, ClassVar, Final

from sqlglot import exp
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokenizer_core import Token, TokenType

from kpg.runtime.errors import no_text
from kpg.runtime.unsupported_features import OPERATORS

FORMS: Final = ("NFC", "NFD", "NFKC", "NFKD")
"""The normalization forms of Unicode."""
TRIMS: Final = {"BOTH": "btrim", "LEADING": "ltrim", "TRAILING": "rtrim"}

WRITTEN: Final = "written"
"""The name of a call, among what is known of a node, where the text has another than the function."""
UNNAMED: Final = "?column?"
"""The name of columns that are no calls."""
WHOLE_QUOTIENT: Final = "whole_quotient"
"""The function that calls of Postgres' ``div`` mean: the registry has ``/`` by that name."""


OPERATOR: Final = TokenType.DCOLONDOLLAR
"""The token of operators that sqlglot does not know; its text says which."""

INFIX: Final = {"<<=": "contained_or_equal", ">>=": "contains_or_equals"}
"""The functions of those that stand between two operands."""
SIGNS: Final = frozenset((*INFIX, *OPERATORS))
"""Those that the tokenizer has to learn; the binder refuses those that no type has."""


def plain(name: str, *args: exp.Expr | None) -> exp.Anonymous:
    """A call by a name."""
    return exp.Anonymous(this=name, expressions=[arg for arg in args if arg is not None])


def renamed(name: str, made: exp.Expr) -> exp.Expr:
    """A call that was written by another name, which its column has."""
    made.meta[WRITTEN] = name
    return made


class Calls(PostgresParser):
    """The parser's methods that read such calls, after the parenthesis."""

    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., exp.Expr | None]]] = {
        **PostgresParser.FUNCTION_PARSERS,
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
        # Operators that are not of arithmetic bind less than those that are, also before their operand.
        TokenType.RLIKE: lambda self: self.expression(exp.BitwiseNot(this=self._parse_term())),
        TokenType.PIPE_SLASH: lambda self: self.expression(exp.Sqrt(this=self._parse_term())),
        TokenType.DPIPE_SLASH: lambda self: self.expression(exp.Cbrt(this=self._parse_term())),
    }

    def read_substr(self) -> exp.Expr:
        """A text, a place and a length, quoted or not: it takes no pattern."""
        first, *places = self._parse_csv(self._parse_assignment)
        whole = exp.DataType.build("INT")
        places = [exp.Cast(this=arg, to=whole.copy()) if arg.is_string else arg for arg in places]
        return renamed("substr", plain("substring", first, *places))

    def read_substring(self) -> exp.Expr:
        """A text, and a place, a length or a pattern."""
        args = self._parse_csv(self._parse_bitwise)
        start = length = None
        if self._match_text_seq("SIMILAR"):
            pattern = self._parse_bitwise()
            self._match_text_seq("ESCAPE")
            return plain("similar_substring", args[0], pattern, self._parse_bitwise())
        while self._curr is not None:
            if start is None and self._match(TokenType.FROM):
                start = self._parse_bitwise()
            elif length is None and self._match(TokenType.FOR):
                length = self._parse_bitwise()
            else:
                break
        if length is not None and start is None:
            start = exp.Literal.number(1)
        return plain("substring", *args, start, length)

    def read_overlay(self) -> exp.Expr:
        """A text, what is put in its place, and where."""
        args: list[exp.Expr | None] = [*self._parse_csv(self._parse_bitwise)]
        for word in ("PLACING", "FROM", "FOR"):
            if self._match_text_seq(word):
                args.append(self._parse_bitwise())
        return plain("overlay", *args)

    def read_trim(self) -> exp.Expr:
        """What is removed at which end of a text; either may be left out."""
        name = "btrim"
        if self._match_texts(TRIMS):
            name = TRIMS[self._prev.text.upper()]
        if self._match(TokenType.FROM):
            return plain(name, *self._parse_csv(self._parse_bitwise))
        args = self._parse_csv(self._parse_bitwise)
        if self._match(TokenType.FROM):
            return plain(name, *self._parse_csv(self._parse_bitwise), *args)
        return plain(name, *args)

    def read_normalize(self) -> exp.Expr:
        """A text, and a form that is a word."""
        text = self._parse_bitwise()
        return plain("normalize", text, self._form() if self._match(TokenType.COMMA) else None)

    def _form(self) -> exp.Expr | None:
        if self._match_texts(FORMS):
            return exp.Literal.string(self._prev.text.upper())
        return self._parse_bitwise()

    def read_escapes(self, token: Token) -> exp.Expr:
        """``E'...'`` or ``U&'...'``, which the text has as it was written."""

        written = self.sql[token.start : token.end + 1]
        try:
            if token.token_type is TokenType.BYTE_STRING:
                value = escaped(written)
            else:
                sign = self._parse_string() if self._match_text_seq("UESCAPE") else None
                value = unicode(written, sign.name if sign is not None else "\\")
        except ValueError as error:
            self.raise_error(f"Invalid constant ({error})", token)
            raise
        return self.expression(exp.Literal.string(value), token)

    def read_prefix(self) -> exp.Expr:
        """An operator before its operand, which binds looser than ``+``."""
        sign = self._prev.text
        if sign in INFIX:
            self.raise_error(f"{sign} takes two operands", self._prev)
        return plain(sign, self._parse_term())

    def _parse_lateral(self) -> exp.Lateral | None:
        """``LATERAL ROWS FROM (...)`` is what it is without the word: calls name the items before anyway."""
        lateral = self._curr is not None and self._curr.token_type is TokenType.LATERAL
        if lateral and self._next is not None and self._next.text.upper() == "ROWS":
            self._advance()
            return self._parse_table()  # type: ignore[return-value]
        return super()._parse_lateral()

    def _parse_bitwise(self) -> exp.Expr | None:
        """And operators that sqlglot does not know."""
        this = super()._parse_bitwise()
        while self._curr is not None and self._curr.token_type is OPERATOR:
            self._advance()
            sign = self._prev.text
            this = renamed(UNNAMED, plain(INFIX.get(sign, sign), this, self._parse_term()))
        return this

    def read_at_sign(self) -> exp.Expr | None:
        """``@ x``, the absolute value; another sign begins a parameter."""
        if self._prev.text == "@":
            return plain("abs", self._parse_term())
        self._retreat(self._index - 1)
        return self._parse_type()

    def _parse_is(self, this: exp.Expr | None) -> exp.Expr | None:
        """``IS [NOT] [form] NORMALIZED``, and whatever else sqlglot reads."""
        start = self._index
        negated = bool(self._match(TokenType.NOT))
        form = exp.Literal.string(self._prev.text.upper()) if self._match_texts(FORMS) else None
        if self._match_text_seq("NORMALIZED"):
            found = plain("is_normalized", this, form)
            return exp.Not(this=found) if negated else found
        self._retreat(start)
        return super()._parse_is(this)


NAMED: Final = (exp.Kwarg, exp.PropertyEQ)
"""``name => value``, and ``name := value``."""

PATHS: Final = ("target", "path", "vars", "silent")
PARAMETERS: Final[dict[str, tuple[str, ...]]] = {
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
"""The names of arguments, where calls may use them."""
DEFAULTS: Final[dict[str, exp.Expr]] = {
    "create_if_missing": exp.Boolean(this=True),
    "vars": exp.Literal.string("{}"),
    "silent": exp.Boolean(this=False),
}
"""The values of those that are not given; 0 for all others."""


def in_their_places(name: str, operands: list[exp.Expr]) -> list[exp.Expr] | None:
    """Arguments some of which are named, in the order of the parameters; None if a name is not known."""
    named = {part.this.name.lower(): part.expression for part in operands if isinstance(part, NAMED)}
    if not named:
        return operands
    known = PARAMETERS.get(name, ())
    plain = [part for part in operands if not isinstance(part, NAMED)]
    rest = known[len(plain) :]
    if not named.keys() <= set(rest):
        return None
    last = max(rest.index(one) for one in named)
    return [*plain, *(named[one] if one in named else _default(one) for one in rest[: last + 1])]


def _default(name: str) -> exp.Expr:
    known = DEFAULTS.get(name)
    return exp.Literal.number(0) if known is None else known.copy()


Reading = Callable[[list[exp.Expr]], exp.Expr]
RENAMED: Final = {
    "LIST_APPEND": "array_append",
    "LIST_CONCAT": "array_cat",
    "LIST_CAT": "array_cat",
    "LIST_POSITION": "array_position",
    "LIST_INDEXOF": "array_position",
    "STRING_SPLIT": "string_to_array",
    "STR_SPLIT": "string_to_array",
}
"""Those that Postgres has under other names, with the same arguments."""


def _renamed(name: str) -> Reading:
    return lambda args: exp.Anonymous(this=name, expressions=args)


def _contains(args: list[exp.Expr]) -> exp.Expr:
    if len(args) != len(("list", "element")):
        return exp.Anonymous(this="list_contains", expressions=args)
    return exp.Paren(this=exp.EQ(this=args[1], expression=exp.Any(this=args[0])))


def _count_if(args: list[exp.Expr]) -> exp.Expr:
    if len(args) != 1:
        return exp.Anonymous(this="count_if", expressions=args)
    return exp.Filter(this=exp.Count(this=exp.Star(), big_int=True), expression=exp.Where(this=args[0]))


FOREIGN_CALLS: Final[dict[str, Reading]] = {
    **{name: _renamed(known) for name, known in RENAMED.items()},
    "LIST_VALUE": lambda args: exp.Array(expressions=args),
    "LIST_PREPEND": lambda args: exp.Anonymous(this="array_prepend", expressions=args),
    "LIST_CONTAINS": _contains,
    "LIST_HAS": _contains,
    "COUNT_IF": _count_if,
    "COUNTIF": _count_if,
    "UUID_GENERATE_V4": lambda args: exp.Uuid(),
    "JSONB_EXISTS": _renamed("jsonb_exists"),
    "JSONB_CONTAINS": _renamed("jsonb_contains"),
}


class JsonCalls(Calls):
    """The constructors, of which NULL ON NULL and ABSENT ON NULL are different functions."""

    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., exp.Expr | None]]] = {
        **Calls.FUNCTION_PARSERS,
        "JSON_OBJECT": lambda self: self.read_json_object(),
        "JSON_ARRAY": lambda self: self.read_json_array(),
        "JSON_OBJECTAGG": lambda self: self.read_json_object_agg(),
        "JSON_ARRAYAGG": lambda self: self.read_json_array_agg(),
    }

    def read_json_object(self) -> exp.Expr:
        """Names and values, ``a: b`` or ``a VALUE b``; also the function of arrays by the same name."""
        operands: list[exp.Expr | None] = []
        if not self._ends_constructor():
            first = self._parse_bitwise()
            if not self._match(TokenType.COLON) and not self._match_text_seq("VALUE"):
                rest = self._parse_csv(self._parse_bitwise) if self._match(TokenType.COMMA) else []
                return plain("json_object", first, *rest)
            operands += [first, self._json_value()]
            while self._match(TokenType.COMMA):
                operands += self._json_member()
        strict = self._absent_on_null(usually=False)
        unique = self._unique_keys()
        flags = " ".join(word for word, said in (("strict", strict), ("unique", unique)) if said)
        if flags:
            operands = [exp.Literal.string(flags), *operands]
        made = plain("json_object_of" if flags else "json_build_object", *operands)
        return self._returning(renamed("json_object", made))

    def read_json_array(self) -> exp.Expr:
        """Values, or a query of one column."""
        if self._match(TokenType.SELECT, advance=False) or self._match(TokenType.WITH, advance=False):
            return self._array_of_query()
        operands: list[exp.Expr | None] = []
        if not self._ends_constructor():
            operands.append(self._json_value())
            while self._match(TokenType.COMMA):
                operands.append(self._json_value())
        strict = self._absent_on_null(usually=True)
        if strict:
            operands = [exp.Literal.string("strict"), *operands]
        made = plain("json_array_of" if strict else "json_build_array", *operands)
        return self._returning(renamed("json_array", made))

    def read_json_object_agg(self) -> exp.Expr:
        """A name and a value of each row."""
        operands = self._json_member()
        name = "_strict" if self._absent_on_null(usually=False) else ""
        name = ("_unique" if self._unique_keys() else "") + name
        return renamed("json_objectagg", plain(f"{self._json_type()}_object_agg{name}", *operands))

    def read_json_array_agg(self) -> exp.Expr:
        """A value of each row, in the order that ORDER BY says."""
        operand = self._parse_order(self._json_value())
        name = "_strict" if self._absent_on_null(usually=True) else ""
        return renamed("json_arrayagg", plain(f"{self._json_type()}_agg{name}", operand))

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
        """A value; FORMAT JSON says that a text is JSON already."""
        value = self._parse_assignment()
        if self._match_text_seq("FORMAT", "JSON"):
            return exp.Cast(this=value, to=exp.DataType.build("JSON"))
        return value

    def _absent_on_null(self, *, usually: bool) -> bool:
        if self._match_text_seq("ABSENT", "ON", "NULL"):
            return True
        return not self._match_text_seq("NULL", "ON", "NULL") and usually

    def _unique_keys(self) -> bool:
        if self._match_text_seq("WITHOUT", "UNIQUE"):
            self._match_text_seq("KEYS")
            return False
        found = bool(self._match_text_seq("WITH", "UNIQUE"))
        if found:
            self._match_text_seq("KEYS")
        return found

    def _returning(self, made: exp.Expr) -> exp.Expr:
        if not self._match_text_seq("RETURNING"):
            return made
        type_ = self._parse_types()
        self._match_text_seq("FORMAT", "JSON")
        return exp.Cast(this=made, to=type_)

    def _json_type(self) -> str:
        """The type that an aggregate returns, which is JSON or JSONB."""
        if not self._match_text_seq("RETURNING"):
            return "json"
        type_ = self._parse_types()
        name = "" if type_ is None else type_.sql("postgres").lower()
        if name not in ("json", "jsonb"):
            self.raise_error("RETURNING JSON or JSONB is what an aggregate can")
        return name

    def _array_of_query(self) -> exp.Expr:
        query = self._parse_select()
        column = exp.column("value", "elements")
        names = exp.TableAlias(this=exp.to_identifier("elements"), columns=[exp.to_identifier("value")])
        type_ = self._json_type()
        made = exp.select(plain(f"{type_}_agg_strict", column)).from_(exp.Subquery(this=query, alias=names))
        return exp.Subquery(this=made)


CONTROLS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
ESCAPE: Final = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))|''", re.DOTALL
)


def escaped(written: str) -> str:
    """What ``E'...'`` stands for; ValueError if its bytes are no UTF-8, DataError if one is zero."""
    parts: list[bytes] = []
    inside, end = written[2:-1], 0
    for found in ESCAPE.finditer(inside):
        parts += [inside[end : found.start()].encode(), _meant(found)]
        end = found.end()
    return _without_zero(b"".join((*parts, inside[end:].encode())).decode())


def _without_zero(text: str) -> str:
    if "\0" in text:
        raise no_text()
    return text


def _meant(found: re.Match[str]) -> bytes:
    octal, byte, short, long, letter = found.groups()
    if octal or byte:
        return bytes([int(octal, 8) & 255 if octal else int(byte, 16)])
    if short or long:
        return chr(int(short or long, 16)).encode()
    if letter is None:
        return b"'"
    if letter in "uU":
        raise ValueError("invalid Unicode escape")
    return CONTROLS.get(letter, letter).encode()


def unicode(written: str, escape: str = "\\") -> str:
    """What ``U&'...'`` stands for; ValueError for an escape that stands for nothing."""
    sign = re.escape(escape)
    pattern = re.compile(rf"{sign}(?:({sign})|([0-9a-fA-F]{{4}})|\+([0-9a-fA-F]{{6}}))?|''")

    def one(found: re.Match[str]) -> str:
        if found[0] == "''":
            return "'"
        if found[1]:
            return escape
        digits = found[2] or found[3]
        if digits is None:
            raise ValueError("invalid Unicode escape")
        return chr(int(digits, 16))

    return _without_zero(pattern.sub(one, written[3:-1]))
