"""Parameters: values for the placeholders ``?``, ``$1`` and ``:name``, and slots of cached plans.

A *slot* is the value of a ``Literal`` whose constant is unknown, so one plan serves many values. It records
the binder's operations on the constant, such as parsing a date, rounding or negation, and repeats them for
each value. Any other use raises, such as comparing, printing or testing for zero: the plan would depend on
the value.
"""

import dataclasses
import datetime
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from decimal import Decimal
from functools import cache
from itertools import count
from typing import Any, Final, TypeVar, cast

import sqlglot
from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from kpg.compiler.sql.parse.dialect import Dialect
from kpg.compiler.sql.parse.syntax import transformed
from kpg.compiler.sql.parse.tokenizer import tokenize
from kpg.runtime.errors import InterfaceError, no_text
from kpg.runtime.interrupts import checkpoint
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal
from kpg.runtime.types import BIGINT, INTEGER, SMALLINT, Type

Parameters = Sequence[Any] | Mapping[str, Any]
Part = TypeVar("Part")


_TOKEN: Final = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | (?P<mark>\?)""", re.VERBOSE | re.DOTALL
)


class Sized(int):
    """A number of a type that constants of its size are not of: small ones are INTEGER."""

    type: Type

    @classmethod
    def of(cls, value: int, type_: Type) -> "Sized":
        """The number; ValueError if its type has none such."""
        if not -(2 ** (BITS[type_] - 1)) < value < 2 ** (BITS[type_] - 1):
            raise ValueError(value)
        found = cls(value)
        found.type = type_
        return found


BITS: Final = {SMALLINT: 16, INTEGER: 32, BIGINT: 64}


def checked(text: str) -> str:
    """The text; DataError if it has a zero byte, as none can."""
    if "\0" in text:
        raise no_text()
    return text


def has_marks(text: str) -> bool:
    """Whether a text may have placeholders; most have none, and need not be searched."""
    return "?" in text or "$" in text or ":" in text


def numbered(text: str) -> str:
    """The text with ``$1``, ``$2``, ... in the place of each ``?`` that is not quoted or in a comment."""
    numbers = count(1)
    return _TOKEN.sub(lambda token: f"${next(numbers)}" if token["mark"] else token[0], text)


def rewritten(part: Part, change: Callable[[exp.Expr], exp.Expr]) -> Part:
    """A statement, or a part of one, with every syntax tree changed; itself if none is another."""
    result: Any = part
    if isinstance(part, exp.Expr):
        result = change(part)
    elif isinstance(part, tuple):
        items = tuple(rewritten(item, change) for item in part)
        result = part if all(new is old for new, old in zip(items, part, strict=True)) else items
    elif dataclasses.is_dataclass(part) and not isinstance(part, type):
        values = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
        new = {name: rewritten(value, change) for name, value in values.items()}
        if any(new[name] is not values[name] for name in values):
            result = dataclasses.replace(part, **new)
    return result


class Binder:
    """Hands out the values of one script's placeholders, and knows which were never asked for."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._used: set[int | str] = set()

    def bind(self, part: Part) -> Part:
        """A statement, or a part of one, with literals in the place of placeholders."""
        return rewritten(part, self._bound)

    def _bound(self, tree: exp.Expr) -> exp.Expr:
        found = tree.find(exp.Placeholder, exp.Parameter) is not None
        return transformed(tree, self._replace) if found else tree

    def finish(self) -> None:
        """Raise InterfaceError if a parameter has no placeholder."""
        if isinstance(self._parameters, Mapping):
            unused = [str(name) for name in self._parameters if name not in self._used]
            if unused:
                raise InterfaceError(f'no placeholder for parameter "{unused[0]}"')
        elif len(self._used) < len(self._parameters):
            count = len(self._parameters)
            raise InterfaceError(
                f"{count} parameters given, {len(self._used)} placeholders in the text",
                hint="placeholders are ? or $1, or :name with a dict",
            )

    def _replace(self, node: exp.Expr) -> exp.Expr:
        checkpoint()
        if isinstance(node, exp.Placeholder) and node.this:
            literal = to_literal(self._named(node.name))
        elif isinstance(node, exp.Placeholder):
            raise InterfaceError("placeholder ? has no parameter", hint="give the values in a list")
        elif isinstance(node, exp.Parameter) and node.name.isdigit():
            literal = to_literal(self._positional(int(node.name) - 1))
        else:
            return node
        return literal

    def _named(self, name: str) -> Any:
        if not isinstance(self._parameters, Mapping):
            raise InterfaceError(f"placeholder :{name} needs parameters by name", hint="give a dict")
        if name not in self._parameters:
            raise InterfaceError(f"no parameter for placeholder :{name}")
        self._used.add(name)
        return self._parameters[name]

    def _positional(self, index: int) -> Any:
        if isinstance(self._parameters, Mapping):
            raise InterfaceError("placeholders by position need parameters in a list", hint="or write :name")
        if not 0 <= index < len(self._parameters):
            raise InterfaceError(
                f"no parameter for placeholder {index + 1}: {len(self._parameters)} were given",
                hint="give a list with a value for each placeholder",
            )
        self._used.add(index)
        return self._parameters[index]


def written(text: str | None, type_name: str | None) -> exp.Expr:
    """The literal of a value that came as text, None for NULL; without a type its context tells which."""
    found: exp.Expr = exp.Null() if text is None else exp.Literal.string(text)
    if type_name is None:
        return found
    return exp.Cast(this=found, to=_type(type_name).copy())


@cache
def _type(name: str) -> exp.DataType:
    cast = sqlglot.parse_one(f"CAST(NULL AS {name})", dialect=Dialect)
    assert isinstance(cast.args["to"], exp.DataType)
    return cast.args["to"]


def trees_of(part: object) -> Iterator[exp.Expr]:
    """The syntax trees in a statement, or in a part of one."""
    if isinstance(part, exp.Expr):
        yield part
    elif isinstance(part, tuple):
        for item in part:
            yield from trees_of(item)
    elif dataclasses.is_dataclass(part) and not isinstance(part, type):
        for one in dataclasses.fields(part):
            yield from trees_of(getattr(part, one.name))


def without_arguments(text: str, numbers: Collection[int]) -> str:
    """Blank out the placeholders of those numbers, each with a comma beside it; all else keeps its place."""
    kept: list[Token] = []
    blank: list[Token] = []
    after_blank = False
    for token in tokenize(text):
        kind = token.token_type
        is_place = kind is TokenType.NUMBER and kept and kept[-1].token_type is TokenType.PARAMETER
        if is_place and int(token.text) in numbers:
            blank += [kept.pop(), token]
            after_blank = True
            continue
        if after_blank and kind is TokenType.COMMA:
            blank.append(token)
        else:
            if after_blank and kept and kept[-1].token_type is TokenType.COMMA:
                blank.append(kept.pop())
            kept.append(token)
        after_blank = False
    letters = list(text)
    for token in blank:
        letters[token.start : token.end + 1] = " " * (token.end + 1 - token.start)
    return "".join(letters)


def highest_place(part: object) -> int:
    """The greatest number of a placeholder ``$1``, ``$2``, ... in a statement, or a part of one; 0: none."""
    numbers = (node.name for tree in trees_of(part) for node in tree.find_all(exp.Parameter))
    return max((int(number) for number in numbers if number.isdigit()), default=0)


def rows_of_places(query: exp.Expr) -> list[list[int | None]]:
    """For each row of VALUES the numbers of its placeholders, None for another expression."""
    if not isinstance(query, exp.Values):
        return []
    return [
        [_place(item) for item in getattr(row, "expressions", None) or [row]] for row in query.expressions
    ]


def _place(node: exp.Expr) -> int | None:
    return int(node.name) if isinstance(node, exp.Parameter) and node.name.isdigit() else None


def is_values(query: exp.Expr) -> bool:
    """Whether a query is a list of rows, VALUES."""
    return isinstance(query, exp.Values)


def to_literal(value: Any) -> exp.Expr:
    """The SQL literal of a Python value."""
    match value:
        case None:
            return exp.Null()
        case exp.Expr():
            return value.copy()
        case bool():
            return exp.Boolean(this=value)
        case Sized():
            return _cast(_signed(str(abs(value)), value < 0), str(value.type))
        case int():
            return _signed(str(abs(value)), value < 0)
        case Decimal() if value.is_finite():
            return _signed(f"{value.copy_abs():f}", value.is_signed())
        case float() if math.isfinite(value):
            return _cast(exp.Literal.string(repr(value)), "DOUBLE")
        case float():
            return _cast(
                exp.Literal.string({math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")), "DOUBLE"
            )
        case str():
            return exp.Literal.string(checked(value))
        case datetime.datetime() if value.tzinfo is None:
            return _cast(exp.Literal.string(value.isoformat(sep=" ")), "TIMESTAMP")
        case datetime.date() if not isinstance(value, datetime.datetime):
            return _cast(exp.Literal.string(value.isoformat()), "DATE")
        case _:
            found = _rich(value)
            if found is None:
                raise InterfaceError(
                    f"a {type(value).__name__} cannot be a parameter: {value!r}",
                    hint="give None, a bool, number, str, bytes, UUID, date or time, a list or a dict",
                )
            return written(*found)


def _rich(value: Any) -> tuple[str, str | None] | None:
    """A value's text and type; without one its context tells which."""
    match value:
        case Decimal():
            return str(value), "NUMERIC"
        case bytes() | bytearray() | memoryview():
            return "\\x" + bytes(value).hex(), "BYTEA"
        case datetime.datetime():
            return value.isoformat(sep=" "), "TIMESTAMPTZ"
        case datetime.time() if value.tzinfo is None:
            return value.isoformat(), "TIME"
        case datetime.time() if value.utcoffset() is not None:
            return value.isoformat(), "TIMETZ"
        case datetime.timedelta():
            days, seconds, rest = value.days, value.seconds, value.microseconds
            return f"{days} days {seconds} seconds {rest} microseconds", "INTERVAL"
        case list():
            return _array(value), None
        case dict():
            import json  # lazy: values that are dicts

            return json.dumps(value), None
        case _ if type(value).__name__ == "UUID":
            return str(value), "UUID"
        case _:
            return None


def _array(items: list[Any]) -> str:
    """An array as text."""
    return "{" + ",".join(map(_item, items)) + "}"


def _item(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case list():
            return _array(value)
        case bool() | int() | float() | Decimal():
            return str(value).lower() if isinstance(value, bool) else str(value)
        case str():
            text: str | None = value
        case datetime.date() | datetime.time():
            text = str(value)
        case _:
            rich = _rich(value)
            text = None if rich is None else rich[0]
    if text is None:
        raise InterfaceError(f"a {type(value).__name__} cannot be in an array: {value!r}")
    quoted = checked(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}"'


def _signed(digits: str, negative: bool) -> exp.Expr:
    literal = exp.Literal.number(digits)
    return exp.Neg(this=literal) if negative else literal


def _cast(literal: exp.Expr, name: str) -> exp.Expr:
    return exp.Cast(this=literal, to=exp.DataType.build(name))


TEXT: Final = "text"
CONVERTED: Final = "converted"
ROUNDED: Final = "rounded"
NEGATED: Final = "negated"
NAMED: Final = "named"
Step = tuple[str, Type]
Do = Callable[[Literal, Type], object]


class Beyond(Exception):
    """A constant that takes more than what is done here with constants."""


class Marker(str):
    """What stands in a syntax tree for a constant: a text like no other, which knows its slot."""

    __slots__ = ("number", "type")
    number: int
    type: Type

    @classmethod
    def of(cls, number: int, type_: Type) -> "Marker":
        """The marker of a slot whose constants are written as ones of a type."""
        made = cls(f"\ue000{number}\ue001")
        made.number, made.type = number, type_
        return made


@dataclass(frozen=True, slots=True)
class Slot:
    """The constant of that number, after some steps."""

    number: int
    steps: tuple[Step, ...] = ()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Slot) and self.number == other.number and self.steps == other.steps:
            return True
        raise Beyond

    def __hash__(self) -> int:
        return hash((self.number, self.steps))

    def __bool__(self) -> bool:
        raise Beyond

    def __str__(self) -> str:
        raise Beyond

    def __format__(self, spec: str) -> str:
        raise Beyond


def slot_of(literal: Literal) -> Slot | None:
    """The slot that is a literal's value."""
    value: object = literal.value
    return value if isinstance(value, Slot) else None


def opened(marker: Marker) -> Literal:
    """The literal of a marker's slot."""
    return Literal(cast(Any, Slot(marker.number)), marker.type)


def then(slot: Slot, how: str, type_: Type) -> Literal:
    """The literal of a slot after one step more, of that type."""
    return Literal(cast(Any, Slot(slot.number, (*slot.steps, (how, type_)))), type_)


def slots_in(part: object) -> frozenset[Slot]:
    """The slots anywhere in a plan, or in a part of one."""
    found: set[Slot] = set()
    stack = [part]
    while stack:
        node = stack.pop()
        if isinstance(node, Slot):
            found.add(node)
        elif isinstance(node, tuple):
            stack.extend(node)
        elif not isinstance(node, Type):
            stack.extend(getattr(node, name) for name in _names(type(node)))
    return frozenset(found)


def _names(cls: type) -> tuple[str, ...]:
    return tuple(one.name for one in fields(cls)) if hasattr(cls, "__dataclass_fields__") else ()


class Filler:
    """Plans, or parts of them, with values in the place of slots; what has none is shared."""

    def __init__(self, part: object) -> None:
        self._part = part
        self._open: dict[int, tuple[str, ...]] = {}
        self._note(part)

    def _note(self, part: object) -> bool:
        """Remember what has slots, with the names of its fields that have."""
        if isinstance(part, Slot):
            return True
        if isinstance(part, tuple):
            found = [self._note(item) for item in part]
            if any(found):
                self._open[id(part)] = ()
            return any(found)
        if isinstance(part, Type):
            return False
        names = tuple(name for name in _names(type(part)) if self._note(getattr(part, name)))
        if names:
            self._open[id(part)] = names
        return bool(names)

    def filled(self, values: Mapping[Slot, Literal]) -> Any:
        """The whole with the values of slots; Beyond if one is of another type than the plan has it."""
        return self._filled(self._part, values)

    def _filled(self, part: Any, values: Mapping[Slot, Literal]) -> Any:
        if isinstance(part, Slot):
            return values[part].value
        names = self._open.get(id(part))
        if names is None:
            return part
        if isinstance(part, tuple):
            return tuple(self._filled(item, values) for item in part)
        if isinstance(part, Literal):
            slot = slot_of(part)
            assert slot is not None
            if values[slot].type != part.type:
                raise Beyond
            return Literal(values[slot].value, part.type)
        cls = type(part)
        given = {
            name: self._filled(getattr(part, name), values) if name in names else getattr(part, name)
            for name in _names(cls)
        }
        return cls(**given)
