"""Calls with words between the arguments, read as plain ones: ``SUBSTRING(a FROM 2)``, ``TRIM(BOTH FROM a)``.

``Calls`` is a part of the dialect's parser; what is not a call in Postgres either (``IS NFC NORMALIZED``,
``@ x``) becomes one here too.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Final

from sqlglot import exp
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokenizer_core import Token, TokenType

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
        from kpg.compiler.sql.escapes import escaped, unicode

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
