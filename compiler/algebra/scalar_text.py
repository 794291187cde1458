"""Scalars and types as text, and back.

``#3`` is input column 3. The type of a call is shown where it cannot be inferred.
"""

import re
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Final, assert_never

from kpg.runtime.errors import InternalError, ProgrammingError
from kpg.runtime.functions import resolve
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar
from kpg.runtime.types import (
    BOOLEAN,
    DATE,
    INTEGER,
    TEXT,
    Kind,
    Type,
    array,
    float_to_word,
    word_to_float,
)
from kpg.runtime.values import codec_of
from kpg.runtime.values.words import shown_date

Types = Sequence[Type]
EPOCH: Final = date(1970, 1, 1)
TOKEN: Final = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>-?(?:\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|inf\b|nan\b))"
    r"|(?P<name>[A-Za-z_$][\w$]*)|(?P<sign>::|[#(),\[\]=]))"
)


def scalar_text(scalar: Scalar, types: Types) -> str:
    """The scalar as text, over an input with columns of these types."""
    match scalar:
        case Column(index=index, type=type_):
            return f"#{index}" + ("" if index < len(types) and types[index] == type_ else f"::{type_}")
        case Literal(value=value, type=type_):
            return literal_text(value, type_)
        case If(condition=condition, then=then, otherwise=otherwise, type=type_):
            inner = ", ".join(scalar_text(part, types) for part in (condition, then, otherwise))
            return f"if({inner})" + ("" if then.type == type_ else f"::{type_}")
        case Fetch(table=table, column=column, rowid=rowid, type=type_):
            return f"fetch({table}, {column}, {scalar_text(rowid, types)})::{type_}"
        case Call(function=function, args=args, type=type_):
            inner = ", ".join(scalar_text(arg, types) for arg in args)
            return f"{function}({inner})" + ("" if inferred(function, args) == type_ else f"::{type_}")
        case _:
            assert_never(scalar)


def inferred(function: str, args: Sequence[Scalar]) -> Type | None:
    """The type of a call as the registry gives it; None if it does not know or wants other arguments."""
    try:
        meaning = resolve(function, tuple(arg.type for arg in args))
    except ProgrammingError:
        return None
    return meaning.result_type if meaning.arg_types == tuple(arg.type for arg in args) else None


def literal_text(value: int | str | None, type_: Type) -> str:
    """A constant with its type, unless that shows."""
    body = value_text(value, type_)
    if value is not None and type_ in (INTEGER, TEXT, BOOLEAN):
        return body
    return f"date {body}" if value is not None and type_ == DATE else f"{body}::{type_}"


def value_text(value: int | str | None, type_: Type) -> str:
    """A constant of a type that the context shows."""
    if value is None:
        return "null"
    if isinstance(value, str):
        codec = codec_of(type_) if type_.is_interned and not type_.is_text else None
        shown = value if codec is None else codec.show(codec.decode(value))
        return "'" + shown.replace("'", "''") + "'"
    match type_.kind:
        case Kind.BOOLEAN:
            return "true" if value else "false"
        case Kind.DECIMAL:
            return format(Decimal(value).scaleb(-type_.scale), "f")
        case Kind.REAL | Kind.DOUBLE:
            return repr(word_to_float(value))
        case Kind.DATE:
            return f"'{shown_date(value)}'"
        case _:
            return str(value)


class Reader:
    """Reads what this module and :mod:`kpg.compiler.algebra.text` write, token by token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0

    def _next(self) -> re.Match[str] | None:
        return TOKEN.match(self._text, self._place)

    def peek(self) -> str:
        """The next token; empty at the end."""
        found = self._next()
        return found[0].strip() if found else ""

    def take(self, expected: str | None = None) -> str:
        """The next token, consumed; InternalError if it is not the expected one."""
        found = self._next()
        token = found[0].strip() if found else ""
        if found is None or (expected is not None and token != expected):
            raise InternalError(f"expected {expected or 'more'} at {self._text[self._place :][:40]!r}")
        self._place = found.end()
        return token

    def accept(self, token: str) -> bool:
        """Consumes the token if it is next."""
        if self.peek() != token:
            return False
        self.take()
        return True

    def done(self) -> None:
        """Asserts that nothing is left."""
        if self._text[self._place :].strip():
            raise InternalError(f"unexpected {self._text[self._place :].strip()!r}")

    def integer(self) -> int:
        """An integer."""
        return int(self.take())

    def integers(self) -> tuple[int, ...]:
        """``[1, 2]``."""
        self.take("[")
        result: list[int] = []
        while not self.accept("]"):
            result.append(self.integer())
            self.accept(",")
        return tuple(result)

    def type(self) -> Type:
        """A type by its SQL name."""
        name = self.take()
        if name == "INTERVAL" and self.peek() in ("MONTH", "DAY"):
            name = f"INTERVAL {self.take()}"
        sizes = [0, 0]
        if self.accept("("):
            sizes[0] = self.integer()
            if self.accept(","):
                sizes[1] = self.integer()
            self.take(")")
        type_ = Type(Kind(name), sizes[0], sizes[1])
        while self.peek() == "[" and self._text[self._place :].lstrip().startswith("[]"):
            self.take("[")
            self.take("]")
            type_ = array(type_)
        return type_

    def types(self) -> tuple[Type, ...]:
        """``[INTEGER, DATE]``."""
        self.take("[")
        result: list[Type] = []
        while not self.accept("]"):
            result.append(self.type())
            self.accept(",")
        return tuple(result)

    def scalars(self, types: Types, end: str) -> tuple[Scalar, ...]:
        """Scalars up to the token ``end``, consumed."""
        result: list[Scalar] = []
        while not self.accept(end):
            result.append(self.scalar(types))
            self.accept(",")
        return tuple(result)

    def scalar(self, types: Types) -> Scalar:
        """One scalar over an input with columns of these types."""
        token = self.take()
        if token == "#":
            index = self.integer()
            return Column(index, self.type() if self.accept("::") else types[index])
        if token == "date":
            return Literal(self.value(self.take(), DATE), DATE)
        if not self.accept("("):
            return self._literal(token)
        if token == "fetch":
            return self._fetch(types)
        args = self.scalars(types, ")")
        explicit = self.type() if self.accept("::") else None
        if token == "if":
            return If(args[0], args[1], args[2], explicit or args[1].type)
        type_ = explicit or inferred(token, args)
        if type_ is None:
            raise InternalError(f"the type of {token} cannot be inferred")
        return Call(token, args, type_)

    def _fetch(self, types: Types) -> Fetch:
        table = self.take()
        self.take(",")
        column = self.integer()
        self.take(",")
        rowid = self.scalar(types)
        self.take(")")
        self.take("::")
        return Fetch(table, column, rowid, self.type())

    def _literal(self, token: str) -> Literal:
        natural = TEXT if token.startswith("'") else BOOLEAN if token in ("true", "false") else INTEGER
        type_ = self.type() if self.accept("::") else natural
        return Literal(self.value(token, type_), type_)

    def value(self, token: str, type_: Type) -> int | str | None:
        """The constant of a known type that a token means."""
        if token == "null":
            return None
        match type_.kind:
            case Kind.NULL:
                return token[1:-1].replace("''", "'")
            case _ if type_.is_interned:
                codec = codec_of(type_)
                return codec.encode(codec.parse(token[1:-1].replace("''", "'")))
            case Kind.BOOLEAN:
                return int(token == "true")
            case Kind.DECIMAL:
                return int(Decimal(token).scaleb(type_.scale))
            case Kind.REAL | Kind.DOUBLE:
                return float_to_word(float(token))
            case Kind.DATE:
                return (date.fromisoformat(token[1:-1]) - EPOCH).days
            case _:
                return int(token)
