"""Symbolic rows: a Python function, called once with column expressions, becomes a compiled program.

The module also parses the column names and types that users write.

>>> from kpg.collections.expression import literal
>>> (literal(2) * 3 + 1).type.kind.value
'BIGINT'
"""

import datetime
import decimal
import re
import types as python
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn

from kpg.compiler.catalog.entries import did_you_mean
from kpg.runtime.errors import DataError, InterfaceError, ProgrammingError
from kpg.runtime.functions import castable, common_type, lookup, resolve
from kpg.runtime.scalar import Call, If, Literal, Scalar
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL_DAY,
    REAL,
    SMALLINT,
    TEXT,
    TIMESTAMP,
    UNKNOWN,
    ColumnDef,
    Kind,
    Schema,
    Type,
)
from kpg.runtime.types import decimal as decimal_type
from kpg.runtime.values import Unfit, encoder_of

ColumnType = Any
"""A Python type (int, str, float, bool, Decimal, date, datetime, timedelta), ``int | None`` where a value
may be None, a ``kpg.types.Type``, or a SQL name such as "DECIMAL(10, 2)"."""
Names = str | Sequence[str]

PYTHON: Final[Mapping[Any, Type]] = {
    int: BIGINT,
    str: TEXT,
    float: DOUBLE,
    bool: BOOLEAN,
    decimal.Decimal: decimal_type(18, 3),
    datetime.date: DATE,
    datetime.datetime: TIMESTAMP,
    datetime.timedelta: INTERVAL_DAY,
}
SQL: Final = {
    "BOOLEAN": BOOLEAN,
    "SMALLINT": SMALLINT,
    "INT": INTEGER,
    "INTEGER": INTEGER,
    "BIGINT": BIGINT,
    "REAL": REAL,
    "DOUBLE": DOUBLE,
    "DOUBLE PRECISION": DOUBLE,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "TEXT": TEXT,
    "VARCHAR": TEXT,
}
SIZED: Final = re.compile(r"(DECIMAL|NUMERIC|CHAR|VARCHAR) *\( *(\d+) *(?:, *(\d+) *)?\)")


def column_of(name: str, given: ColumnType) -> ColumnDef:
    """A column of the type that the user wrote; ProgrammingError if that is none."""
    if isinstance(given, python.UnionType) or str(typing.get_origin(given)) == "typing.Union":
        parts = [part for part in typing.get_args(given) if part is not type(None)]
        if len(parts) == 1:
            return ColumnDef(name, type_of(name, parts[0]))
    return ColumnDef(name, type_of(name, given), nullable=False)


def type_of(name: str, given: ColumnType) -> Type:
    """The type that the user wrote for a column."""
    found: Type | None = None
    if isinstance(given, Type):
        found = given
    elif isinstance(given, str):
        found = _named(given.strip().upper())
    elif isinstance(given, type):
        found = PYTHON.get(given)
    if found is None:
        raise ProgrammingError(
            f"column {name} has no type {given!r}",
            hint='use int, str, float, bool, Decimal, date, datetime, a kpg type, or "DECIMAL(10, 2)"',
        )
    return found


def _named(text: str) -> Type | None:
    sized = SIZED.fullmatch(text)
    if sized is None:
        return SQL.get(text)
    word, size, scale = sized.groups()
    if word in ("CHAR", "VARCHAR"):
        return None if scale else Type(Kind[word], int(size))
    return decimal_type(int(size), int(scale or 0))


def schema_of(columns: Mapping[str, ColumnType]) -> Schema:
    """The columns that the user named with their types."""
    if not columns:
        raise InterfaceError(
            "a collection needs columns", hint="name them with their types: src=int, dst=int"
        )
    return Schema(tuple(column_of(name, given) for name, given in columns.items()))


def comparable(left: Type, right: Type) -> bool:
    """Whether equal values of both types are equal words."""
    if left.kind is Kind.DECIMAL or right.kind is Kind.DECIMAL:
        return left.kind is right.kind and left.scale == right.scale
    same = (
        left.is_integer and right.is_integer,
        left.is_float and right.is_float,
        left.is_text and right.is_text,
    )
    return left.kind is right.kind or any(same)


def listed(names: Names) -> tuple[str, ...]:
    """One name, or several."""
    return (names,) if isinstance(names, str) else tuple(names)


def place_of(name: str, names: Sequence[str]) -> int:
    """The position of a column; ProgrammingError with a suggestion if there is none."""
    if name not in names:
        hint = did_you_mean(name, names) or f"the columns are {', '.join(names)}"
        raise ProgrammingError(f'there is no column "{name}"', hint=hint)
    return list(names).index(name)


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    """The names; ProgrammingError if two are equal."""
    found = tuple(names)
    for place, name in enumerate(found):
        if name in found[:place]:
            raise ProgrammingError(
                f'two columns are called "{name}"', hint="rename one, or say what the result is"
            )
    return found


class Expression:
    """A value of each row. ``+ - * / %`` and comparisons are SQL's; ``& | ~`` are AND, OR, NOT.

    An operator with None gives None, except for ``is_null`` and ``is_not_null``; ``==`` with None does too.
    """

    __slots__ = ("scalar",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, scalar: Scalar) -> None:
        self.scalar = scalar

    @property
    def type(self) -> Type:
        """The SQL type."""
        return self.scalar.type

    def __repr__(self) -> str:
        return f"<expression of {self.type}>"

    def __bool__(self) -> NoReturn:
        raise InterfaceError(
            "an expression stands for a value of every row and is neither true nor false",
            hint="use & | ~ for and, or, not, and case(condition, then, otherwise) for if",
        )

    def __iter__(self) -> NoReturn:
        raise InterfaceError("an expression cannot be taken apart")

    def __add__(self, other: Any) -> "Expression":
        return function("add", self, other)

    def __radd__(self, other: Any) -> "Expression":
        return function("add", other, self)

    def __sub__(self, other: Any) -> "Expression":
        return function("sub", self, other)

    def __rsub__(self, other: Any) -> "Expression":
        return function("sub", other, self)

    def __mul__(self, other: Any) -> "Expression":
        return function("mul", self, other)

    def __rmul__(self, other: Any) -> "Expression":
        return function("mul", other, self)

    def __truediv__(self, other: Any) -> "Expression":
        return function("div", self, other)

    def __rtruediv__(self, other: Any) -> "Expression":
        return function("div", other, self)

    def __mod__(self, other: Any) -> "Expression":
        return function("mod", self, other)

    def __rmod__(self, other: Any) -> "Expression":
        return function("mod", other, self)

    def __neg__(self) -> "Expression":
        return function("neg", self)

    def __abs__(self) -> "Expression":
        return function("abs", self)

    def __eq__(self, other: Any) -> "Expression":  # type: ignore[override]
        return function("eq", self, other)

    def __ne__(self, other: Any) -> "Expression":  # type: ignore[override]
        return function("ne", self, other)

    def __lt__(self, other: Any) -> "Expression":
        return function("lt", self, other)

    def __le__(self, other: Any) -> "Expression":
        return function("le", self, other)

    def __gt__(self, other: Any) -> "Expression":
        return function("gt", self, other)

    def __ge__(self, other: Any) -> "Expression":
        return function("ge", self, other)

    def __and__(self, other: Any) -> "Expression":
        return function("and", self, other)

    def __rand__(self, other: Any) -> "Expression":
        return function("and", other, self)

    def __or__(self, other: Any) -> "Expression":
        return function("or", self, other)

    def __ror__(self, other: Any) -> "Expression":
        return function("or", other, self)

    def __invert__(self) -> "Expression":
        return function("not", self)

    def is_null(self) -> "Expression":
        """Whether the value is None."""
        return function("is_null", self)

    def is_not_null(self) -> "Expression":
        """Whether the value is not None."""
        return function("is_not_null", self)

    def is_in(self, values: Sequence[Any]) -> "Expression":
        """Whether the value is one of ``values``."""
        if not values:
            return literal(False)
        return function("in", self, *values)

    def cast(self, type_: ColumnType) -> "Expression":
        """The value in another type; an error in rows whose value does not fit."""
        target = type_of("the cast", type_)
        if not castable(self.type, target):
            raise ProgrammingError(f"cannot cast {self.type} to {target}")
        return Expression(coerced(self.scalar, target))


class SymbolicRow:
    """One row, symbolically: columns are attributes, and items by name or position."""

    def __init__(self, names: Sequence[str], values: Sequence[Scalar]) -> None:
        self._names = tuple(names)
        self._values = tuple(values)

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, key: str | int) -> Expression:
        place = key if isinstance(key, int) else place_of(key, self._names)
        return Expression(self._values[place])

    def __iter__(self) -> Any:
        return (Expression(value) for value in self._values)

    def __len__(self) -> int:
        return len(self._values)

    def name_of(self, expression: Expression) -> str | None:
        """The column that an expression is."""
        for name, value in zip(self._names, self._values, strict=True):
            if value is expression.scalar or value == expression.scalar:
                return name
        return None


def literal(value: Any) -> Expression:
    """A constant; None is NULL, of the type that it meets."""
    return value if isinstance(value, Expression) else Expression(_constant(value))


def _constant(value: Any) -> Literal:
    match value:
        case None:
            return Literal(None, UNKNOWN)
        case bool():
            return Literal(int(value), BOOLEAN)
        case int():
            return _encoded(value, BIGINT)
        case float():
            return _encoded(value, DOUBLE)
        case str():
            return Literal(value, TEXT)
        case decimal.Decimal():
            exponent = value.as_tuple().exponent
            type_ = decimal_type(18, max(0, -exponent) if isinstance(exponent, int) else 0)
        case datetime.datetime():
            type_ = TIMESTAMP
        case datetime.date():
            type_ = DATE
        case datetime.timedelta():
            type_ = INTERVAL_DAY
        case _ if hasattr(value, "item"):
            return _constant(value.item())
        case _:
            raise InterfaceError(
                f"{value!r} is no value of a column", hint="use columns, constants and operators"
            )
    return _encoded(value, type_)


def _encoded(value: Any, type_: Type) -> Literal:
    try:
        return Literal(encoder_of(type_)(value), type_)
    except Unfit:
        raise DataError(f"{value!r} does not fit {type_}") from None


def function(name: str, *args: Any) -> Expression:
    """The SQL function or operator of that name; ProgrammingError if it does not take such arguments."""
    scalars = [literal(arg).scalar for arg in args]
    meaning = resolve(lookup(name).name, tuple(scalar.type for scalar in scalars))
    brought = [coerced(scalar, type_) for scalar, type_ in zip(scalars, meaning.arg_types, strict=True)]
    return Expression(Call(meaning.function.name, tuple(brought), meaning.result_type))


def case(condition: Expression, then: Any, otherwise: Any) -> Expression:
    """``then`` in rows where the condition is true, elsewhere ``otherwise``."""
    chosen, other = literal(then).scalar, literal(otherwise).scalar
    type_ = common_type((chosen.type, other.type))
    if type_ is None:
        raise ProgrammingError(f"case gives {chosen.type} or {other.type}", hint="cast one of them")
    truth = as_condition(condition).scalar
    return Expression(If(truth, coerced(chosen, type_), coerced(other, type_), type_))


def coerced(scalar: Scalar, type_: Type) -> Scalar:
    """The scalar cast to a type, if it has another."""
    if scalar.type == type_:
        return scalar
    if scalar.type == UNKNOWN:
        return Literal(None, type_)
    return Call("cast", (scalar,), type_)


def as_condition(value: Any) -> Expression:
    """The value as a BOOLEAN; ProgrammingError if it is none."""
    expression = literal(value)
    if expression.type == UNKNOWN:
        return Expression(Literal(None, BOOLEAN))
    if expression.type != BOOLEAN:
        raise ProgrammingError(
            f"a condition is a BOOLEAN, not {expression.type}", hint="compare it with something"
        )
    return expression


def as_columns(result: Any, *rows: SymbolicRow) -> tuple[tuple[str, ...], tuple[Scalar, ...]]:
    """What a function of symbolic rows gave, as names and scalars.

    A mapping names its columns; in a sequence, and for one expression, columns keep their names and other
    expressions are called ``column1`` by their place.
    """
    if isinstance(result, SymbolicRow):
        return result._names, result._values
    if isinstance(result, Mapping):
        values = [literal(value) for value in result.values()]
        return distinct(str(name) for name in result), _settled(values)
    given = list(result) if isinstance(result, (tuple, list)) else [result]
    values = [literal(value) for value in given]
    names = [_name(value, place, rows) for place, value in enumerate(values)]
    return distinct(names), _settled(values)


def _name(value: Expression, place: int, rows: Sequence[SymbolicRow]) -> str:
    names = (row.name_of(value) for row in rows)
    return next((name for name in names if name is not None), f"column{place + 1}")


def _settled(values: Sequence[Expression]) -> tuple[Scalar, ...]:
    """None of no type is text."""
    return tuple(coerced(value.scalar, TEXT) if value.type == UNKNOWN else value.scalar for value in values)


RowFunction = Callable[..., Any]
"""From symbolic rows to a mapping, a sequence, or one expression."""
