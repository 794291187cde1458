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
from kpg.runtime.functions import common_type, is_castable, lookup, resolve
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
from kpg.runtime.values import UnrepresentableValue, encoder_of

ColumnType = Any
"""A Python type (int, str, float, bool, Decimal, date, datetime, timedelta), ``int | None`` where a value
may be None, a ``kpg.types.Type``, or a SQL name such as "DECIMAL(10, 2)"."""
Names = str | Sequence[str]

PYTHON_TYPES: Final[Mapping[Any, Type]] = {
    int: BIGINT,
    str: TEXT,
    float: DOUBLE,
    bool: BOOLEAN,
    decimal.Decimal: decimal_type(18, 3),
    datetime.date: DATE,
    datetime.datetime: TIMESTAMP,
    datetime.timedelta: INTERVAL_DAY,
}
"""SQL types by Python type."""
SQL_TYPES: Final = {
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
"""SQL types by name."""
SIZED_TYPE: Final = re.compile(r"(DECIMAL|NUMERIC|CHAR|VARCHAR) *\( *(\d+) *(?:, *(\d+) *)?\)")
"""A SQL type with length, or with precision and scale."""


def column_of(name: str, declared: ColumnType) -> ColumnDef:
    """Return a column of the type that the user declared.

    Raises ProgrammingError if it is not a type.
    """
    if isinstance(declared, python.UnionType) or str(typing.get_origin(declared)) == "typing.Union":
        parts = [part for part in typing.get_args(declared) if part is not type(None)]
        if len(parts) == 1:
            return ColumnDef(name, type_of(name, parts[0]))
    return ColumnDef(name, type_of(name, declared), nullable=False)


def type_of(name: str, declared: ColumnType) -> Type:
    """Return the type that the user declared for a column.

    Raises ProgrammingError if it is not a type.
    """
    type_: Type | None = None
    if isinstance(declared, Type):
        type_ = declared
    elif isinstance(declared, str):
        type_ = _parse_type_name(declared.strip().upper())
    elif isinstance(declared, type):
        type_ = PYTHON_TYPES.get(declared)
    if type_ is None:
        raise ProgrammingError(
            f"column {name} has no type {declared!r}",
            hint='use int, str, float, bool, Decimal, date, datetime, a kpg type, or "DECIMAL(10, 2)"',
        )
    return type_


def _parse_type_name(text: str) -> Type | None:
    match_ = SIZED_TYPE.fullmatch(text)
    if match_ is None:
        return SQL_TYPES.get(text)
    type_name, size, scale = match_.groups()
    if type_name in ("CHAR", "VARCHAR"):
        return None if scale else Type(Kind[type_name], int(size))
    return decimal_type(int(size), int(scale or 0))


def schema_of(columns: Mapping[str, ColumnType]) -> Schema:
    """Return the columns that the user declared."""
    if not columns:
        raise InterfaceError(
            "a collection needs columns", hint="name them with their types: src=int, dst=int"
        )
    return Schema(tuple(column_of(name, type_) for name, type_ in columns.items()))


def are_comparable(left: Type, right: Type) -> bool:
    """Return whether equal values of both types are equal words."""
    if left.kind is Kind.DECIMAL or right.kind is Kind.DECIMAL:
        return left.kind is right.kind and left.scale == right.scale
    same = (
        left.is_integer and right.is_integer,
        left.is_float and right.is_float,
        left.is_text and right.is_text,
    )
    return left.kind is right.kind or any(same)


def as_tuple(names: Names) -> tuple[str, ...]:
    """Return one or several names as a tuple."""
    return (names,) if isinstance(names, str) else tuple(names)


def position_of(name: str, names: Sequence[str]) -> int:
    """Return the position of a column. Raises ProgrammingError with a suggestion if there is none."""
    if name not in names:
        hint = did_you_mean(name, names) or f"the columns are {', '.join(names)}"
        raise ProgrammingError(f'there is no column "{name}"', hint=hint)
    return list(names).index(name)


def check_distinct(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names as a tuple. Raises ProgrammingError if two are equal."""
    result = tuple(names)
    for position, name in enumerate(result):
        if name in result[:position]:
            raise ProgrammingError(f'two columns are called "{name}"', hint="rename one of them")
    return result


class Expression:
    """A value of each row. ``+ - * / %`` and comparisons are SQL's; ``& | ~`` are AND, OR, NOT.

    The result of an operator on None is None, also with ``==``. Exceptions are ``is_null`` and
    ``is_not_null``.
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
        """Return whether the value is None."""
        return function("is_null", self)

    def is_not_null(self) -> "Expression":
        """Return whether the value is not None."""
        return function("is_not_null", self)

    def is_in(self, values: Sequence[Any]) -> "Expression":
        """Return whether the value is one of ``values``."""
        if not values:
            return literal(False)
        return function("in", self, *values)

    def cast(self, type_: ColumnType) -> "Expression":
        """Cast the value to another type. A value that does not fit is an error."""
        target = type_of("the cast", type_)
        if not is_castable(self.type, target):
            raise ProgrammingError(f"cannot cast {self.type} to {target}")
        return Expression(coerce(self.scalar, target))


class SymbolicRow:
    """A row of expressions. Columns are attributes, and items by name or position."""

    def __init__(self, names: Sequence[str], values: Sequence[Scalar]) -> None:
        self._names = tuple(names)
        self._values = tuple(values)

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, key: str | int) -> Expression:
        position = key if isinstance(key, int) else position_of(key, self._names)
        return Expression(self._values[position])

    def __iter__(self) -> Any:
        return (Expression(value) for value in self._values)

    def __len__(self) -> int:
        return len(self._values)

    def name_of(self, expression: Expression) -> str | None:
        """Return the name of the column that an expression is, or None."""
        for name, value in zip(self._names, self._values, strict=True):
            if value is expression.scalar or value == expression.scalar:
                return name
        return None


def literal(value: Any) -> Expression:
    """Return a constant. None is NULL; its type follows from the context."""
    return value if isinstance(value, Expression) else Expression(_constant(value))


def _constant(value: Any) -> Literal:
    match value:
        case None:
            return Literal(None, UNKNOWN)
        case bool():
            return Literal(int(value), BOOLEAN)
        case int():
            return _encode_literal(value, BIGINT)
        case float():
            return _encode_literal(value, DOUBLE)
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
    return _encode_literal(value, type_)


def _encode_literal(value: Any, type_: Type) -> Literal:
    try:
        return Literal(encoder_of(type_)(value), type_)
    except UnrepresentableValue:
        raise DataError(f"{value!r} does not fit {type_}") from None


def function(name: str, *args: Any) -> Expression:
    """Call the SQL function or operator of this name.

    Raises ProgrammingError if it does not accept such arguments.
    """
    scalars = [literal(arg).scalar for arg in args]
    resolved = resolve(lookup(name).name, tuple(scalar.type for scalar in scalars))
    arguments = [coerce(scalar, type_) for scalar, type_ in zip(scalars, resolved.arg_types, strict=True)]
    return Expression(Call(resolved.function.name, tuple(arguments), resolved.result_type))


def case(condition: Expression, then: Any, otherwise: Any) -> Expression:
    """Return ``then`` in rows where the condition is true, and ``otherwise`` elsewhere."""
    first, second = literal(then).scalar, literal(otherwise).scalar
    type_ = common_type((first.type, second.type))
    if type_ is None:
        raise ProgrammingError(f"case gives {first.type} or {second.type}", hint="cast one of them")
    test = as_condition(condition).scalar
    return Expression(If(test, coerce(first, type_), coerce(second, type_), type_))


def coerce(scalar: Scalar, type_: Type) -> Scalar:
    """Return the scalar, cast to a type if it has another one."""
    if scalar.type == type_:
        return scalar
    if scalar.type == UNKNOWN:
        return Literal(None, type_)
    return Call("cast", (scalar,), type_)


def as_condition(value: Any) -> Expression:
    """Return the value as a BOOLEAN. Raises ProgrammingError if it is not one."""
    expression = literal(value)
    if expression.type == UNKNOWN:
        return Expression(Literal(None, BOOLEAN))
    if expression.type != BOOLEAN:
        raise ProgrammingError(f"a condition is a BOOLEAN, not {expression.type}", hint="add a comparison")
    return expression


def as_columns(result: Any, *rows: SymbolicRow) -> tuple[tuple[str, ...], tuple[Scalar, ...]]:
    """Return the result of a function of symbolic rows as names and scalars.

    A mapping names its columns. In a sequence or a single expression, columns keep their names. Other
    expressions are named by position, such as ``column1``.
    """
    if isinstance(result, SymbolicRow):
        return result._names, result._values
    if isinstance(result, Mapping):
        values = [literal(value) for value in result.values()]
        return check_distinct(str(name) for name in result), _type_nulls(values)
    items = list(result) if isinstance(result, (tuple, list)) else [result]
    values = [literal(value) for value in items]
    names = [_column_name(value, position, rows) for position, value in enumerate(values)]
    return check_distinct(names), _type_nulls(values)


def _column_name(value: Expression, position: int, rows: Sequence[SymbolicRow]) -> str:
    names = (row.name_of(value) for row in rows)
    return next((name for name in names if name is not None), f"column{position + 1}")


def _type_nulls(values: Sequence[Expression]) -> tuple[Scalar, ...]:
    """Return the scalars. An untyped None becomes text."""
    return tuple(coerce(value.scalar, TEXT) if value.type == UNKNOWN else value.scalar for value in values)


RowFunction = Callable[..., Any]
"""A function from symbolic rows to a mapping, a sequence, or one expression."""
