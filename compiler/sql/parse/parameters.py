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
from kpg.compiler.sql.parse.syntax import transform_tree
from kpg.compiler.sql.parse.tokenizer import tokenize
from kpg.runtime.errors import InterfaceError, encoding_error
from kpg.runtime.interrupts import checkpoint
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal
from kpg.runtime.types import BIGINT, INTEGER, SMALLINT, Type

Parameters = Sequence[Any] | Mapping[str, Any]
Part = TypeVar("Part")


_TOKEN: Final = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | (?P<mark>\?)""", re.VERBOSE | re.DOTALL
)


class TypedInteger(int):
    """Integer with an explicit type: a literal of its size can have another type."""

    type: Type

    @classmethod
    def of(cls, value: int, type_: Type) -> "TypedInteger":
        """Return the integer; ValueError if it is out of the type's range."""
        if not -(2 ** (BITS[type_] - 1)) < value < 2 ** (BITS[type_] - 1):
            raise ValueError(value)
        integer = cls(value)
        integer.type = type_
        return integer


BITS: Final = {SMALLINT: 16, INTEGER: 32, BIGINT: 64}
"""Width of the integer types in bits."""


def check_text(text: str) -> str:
    """Return the text; DataError if it has a zero byte."""
    if "\0" in text:
        raise encoding_error()
    return text


def may_have_placeholders(text: str) -> bool:
    """Return whether a text can have placeholders."""
    return "?" in text or "$" in text or ":" in text


def number_placeholders(text: str) -> str:
    """Replace each ``?`` outside quotes and comments by ``$1``, ``$2``, ..."""
    numbers = count(1)
    return _TOKEN.sub(lambda token: f"${next(numbers)}" if token["mark"] else token[0], text)


def map_trees(part: Part, change: Callable[[exp.Expr], exp.Expr]) -> Part:
    """Return a statement, or a part of one, with every syntax tree changed.

    The same object is returned if no tree changes.
    """
    result: Any = part
    if isinstance(part, exp.Expr):
        result = change(part)
    elif isinstance(part, tuple):
        items = tuple(map_trees(item, change) for item in part)
        result = part if all(new is old for new, old in zip(items, part, strict=True)) else items
    elif dataclasses.is_dataclass(part) and not isinstance(part, type):
        values = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
        new = {name: map_trees(value, change) for name, value in values.items()}
        if any(new[name] is not values[name] for name in values):
            result = dataclasses.replace(part, **new)
    return result


class Binder:
    """Supplier of the values for one script's placeholders; it records which are used."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._used: set[int | str] = set()

    def bind(self, part: Part) -> Part:
        """Return a statement, or a part of one, with literals in place of placeholders."""
        return map_trees(part, self._bind_tree)

    def _bind_tree(self, tree: exp.Expr) -> exp.Expr:
        found = tree.find(exp.Placeholder, exp.Parameter) is not None
        return transform_tree(tree, self._replace) if found else tree

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
            literal = to_literal(self._value_by_name(node.name))
        elif isinstance(node, exp.Placeholder):
            raise InterfaceError("placeholder ? has no parameter", hint="give the values in a list")
        elif isinstance(node, exp.Parameter) and node.name.isdigit():
            literal = to_literal(self._value_at(int(node.name) - 1))
        else:
            return node
        return literal

    def _value_by_name(self, name: str) -> Any:
        if not isinstance(self._parameters, Mapping):
            raise InterfaceError(f"placeholder :{name} needs parameters by name", hint="give a dict")
        if name not in self._parameters:
            raise InterfaceError(f"no parameter for placeholder :{name}")
        self._used.add(name)
        return self._parameters[name]

    def _value_at(self, index: int) -> Any:
        if isinstance(self._parameters, Mapping):
            raise InterfaceError("placeholders by position need parameters in a list", hint="or write :name")
        if not 0 <= index < len(self._parameters):
            raise InterfaceError(
                f"no parameter for placeholder {index + 1}: {len(self._parameters)} were given",
                hint="give a list with a value for each placeholder",
            )
        self._used.add(index)
        return self._parameters[index]


def text_literal(text: str | None, type_name: str | None) -> exp.Expr:
    """Return the literal of a value sent as text, None for NULL.

    Without a type, the context determines it.
    """
    literal: exp.Expr = exp.Null() if text is None else exp.Literal.string(text)
    if type_name is None:
        return literal
    return exp.Cast(this=literal, to=_type_node(type_name).copy())


@cache
def _type_node(name: str) -> exp.DataType:
    cast = sqlglot.parse_one(f"CAST(NULL AS {name})", dialect=Dialect)
    assert isinstance(cast.args["to"], exp.DataType)
    return cast.args["to"]


def trees_of(part: object) -> Iterator[exp.Expr]:
    """Yield the syntax trees in a statement, or in a part of one."""
    if isinstance(part, exp.Expr):
        yield part
    elif isinstance(part, tuple):
        for item in part:
            yield from trees_of(item)
    elif dataclasses.is_dataclass(part) and not isinstance(part, type):
        for field in dataclasses.fields(part):
            yield from trees_of(getattr(part, field.name))


def blank_placeholders(text: str, numbers: Collection[int]) -> str:
    """Replace the placeholders of those numbers by blanks, each with an adjacent comma.

    Offsets stay valid.
    """
    retained: list[Token] = []
    blank: list[Token] = []
    after_blank = False
    for token in tokenize(text):
        kind = token.token_type
        is_place = kind is TokenType.NUMBER and retained and retained[-1].token_type is TokenType.PARAMETER
        if is_place and int(token.text) in numbers:
            blank += [retained.pop(), token]
            after_blank = True
            continue
        if after_blank and kind is TokenType.COMMA:
            blank.append(token)
        else:
            if after_blank and retained and retained[-1].token_type is TokenType.COMMA:
                blank.append(retained.pop())
            retained.append(token)
        after_blank = False
    letters = list(text)
    for token in blank:
        letters[token.start : token.end + 1] = " " * (token.end + 1 - token.start)
    return "".join(letters)


def max_placeholder(part: object) -> int:
    """Return the greatest number of the placeholders ``$1``, ``$2``, ...; 0 without any."""
    numbers = (node.name for tree in trees_of(part) for node in tree.find_all(exp.Parameter))
    return max((int(number) for number in numbers if number.isdigit()), default=0)


def placeholder_rows(query: exp.Expr) -> list[list[int | None]]:
    """Return, for each row of VALUES, the numbers of its placeholders, None for other expressions."""
    if not isinstance(query, exp.Values):
        return []
    return [
        [_placeholder_number(item) for item in getattr(row, "expressions", None) or [row]]
        for row in query.expressions
    ]


def _placeholder_number(node: exp.Expr) -> int | None:
    return int(node.name) if isinstance(node, exp.Parameter) and node.name.isdigit() else None


def is_values(query: exp.Expr) -> bool:
    """Return whether a query is VALUES."""
    return isinstance(query, exp.Values)


def to_literal(value: Any) -> exp.Expr:
    """Return the SQL literal of a Python value; InterfaceError for a type without literals."""
    match value:
        case None:
            return exp.Null()
        case exp.Expr():
            return value.copy()
        case bool():
            return exp.Boolean(this=value)
        case TypedInteger():
            return _cast(_number_literal(str(abs(value)), value < 0), str(value.type))
        case int():
            return _number_literal(str(abs(value)), value < 0)
        case Decimal() if value.is_finite():
            return _number_literal(f"{value.copy_abs():f}", value.is_signed())
        case float() if math.isfinite(value):
            return _cast(exp.Literal.string(repr(value)), "DOUBLE")
        case float():
            return _cast(
                exp.Literal.string({math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")), "DOUBLE"
            )
        case str():
            return exp.Literal.string(check_text(value))
        case datetime.datetime() if value.tzinfo is None:
            return _cast(exp.Literal.string(value.isoformat(sep=" ")), "TIMESTAMP")
        case datetime.date() if not isinstance(value, datetime.datetime):
            return _cast(exp.Literal.string(value.isoformat()), "DATE")
        case _:
            found = _text_and_type(value)
            if found is None:
                raise InterfaceError(
                    f"a {type(value).__name__} cannot be a parameter: {value!r}",
                    hint="give None, a bool, number, str, bytes, UUID, date or time, a list or a dict",
                )
            return text_literal(*found)


def _text_and_type(value: Any) -> tuple[str, str | None] | None:
    """Return a value's text and type; a type of None means that the context determines it.

    None for a value without a text form.
    """
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
            return _array_text(value), None
        case dict():
            import json  # lazy: values that are dicts

            return json.dumps(value), None
        case _ if type(value).__name__ == "UUID":
            return str(value), "UUID"
        case _:
            return None


def _array_text(items: list[Any]) -> str:
    """Return an array's text form."""
    return "{" + ",".join(map(_element_text, items)) + "}"


def _element_text(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case list():
            return _array_text(value)
        case bool() | int() | float() | Decimal():
            return str(value).lower() if isinstance(value, bool) else str(value)
        case str():
            text: str | None = value
        case datetime.date() | datetime.time():
            text = str(value)
        case _:
            rich = _text_and_type(value)
            text = None if rich is None else rich[0]
    if text is None:
        raise InterfaceError(f"a {type(value).__name__} cannot be in an array: {value!r}")
    quoted = check_text(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}"'


def _number_literal(digits: str, negative: bool) -> exp.Expr:
    literal = exp.Literal.number(digits)
    return exp.Neg(this=literal) if negative else literal


def _cast(literal: exp.Expr, name: str) -> exp.Expr:
    return exp.Cast(this=literal, to=exp.DataType.build(name))


PARSE_STEP: Final = "text"
CONVERT_STEP: Final = "converted"
ROUND_STEP: Final = "rounded"
NEGATE_STEP: Final = "negated"
RETYPE_STEP: Final = "named"
Step = tuple[str, Type]
"""Operation of the binder on a constant, and the type of its result."""


class NotConstantError(Exception):
    """Raised where a plan would depend on the value of a slot, or a text needs the parser."""


class Marker(str):
    """Placeholder of a constant in a syntax tree: a text that occurs in no script, with the slot's number."""

    __slots__ = ("number", "type")
    number: int
    type: Type

    @classmethod
    def of(cls, number: int, type_: Type) -> "Marker":
        """Return the marker of a slot whose literals have a type."""
        marker = cls(f"\ue000{number}\ue001")
        marker.number, marker.type = number, type_
        return marker


@dataclass(frozen=True, slots=True)
class Slot:
    """Unknown constant: its number, and the binder's steps on it.

    Any use of its value raises NotConstantError.
    """

    number: int
    steps: tuple[Step, ...] = ()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Slot) and self.number == other.number and self.steps == other.steps:
            return True
        raise NotConstantError

    def __hash__(self) -> int:
        return hash((self.number, self.steps))

    def __bool__(self) -> bool:
        raise NotConstantError

    def __str__(self) -> str:
        raise NotConstantError

    def __format__(self, spec: str) -> str:
        raise NotConstantError


def slot_of(literal: Literal) -> Slot | None:
    """Return the slot that is a literal's value; None for a known value."""
    value: object = literal.value
    return value if isinstance(value, Slot) else None


def slot_literal(marker: Marker) -> Literal:
    """Return the literal of a marker's slot."""
    return Literal(cast(Any, Slot(marker.number)), marker.type)


def add_step(slot: Slot, operation: str, type_: Type) -> Literal:
    """Return the literal of a slot after one more step."""
    return Literal(cast(Any, Slot(slot.number, (*slot.steps, (operation, type_)))), type_)


def slots_in(part: object) -> frozenset[Slot]:
    """Return the slots in a plan, or in a part of one."""
    found: set[Slot] = set()
    stack = [part]
    while stack:
        node = stack.pop()
        if isinstance(node, Slot):
            found.add(node)
        elif isinstance(node, tuple):
            stack.extend(node)
        elif not isinstance(node, Type):
            stack.extend(getattr(node, name) for name in _field_names(type(node)))
    return frozenset(found)


def _field_names(cls: type) -> tuple[str, ...]:
    return tuple(one.name for one in fields(cls)) if hasattr(cls, "__dataclass_fields__") else ()


class PlanTemplate:
    """Plan, or part of one, with slots; instances share the parts without slots."""

    def __init__(self, part: object) -> None:
        self._part = part
        self._slotted_fields: dict[int, tuple[str, ...]] = {}
        self._index(part)

    def _index(self, part: object) -> bool:
        """Record the parts with slots and their fields; return whether the part has any."""
        if isinstance(part, Slot):
            return True
        if isinstance(part, tuple):
            found = [self._index(item) for item in part]
            if any(found):
                self._slotted_fields[id(part)] = ()
            return any(found)
        if isinstance(part, Type):
            return False
        names = tuple(name for name in _field_names(type(part)) if self._index(getattr(part, name)))
        if names:
            self._slotted_fields[id(part)] = names
        return bool(names)

    def instantiate(self, values: Mapping[Slot, Literal]) -> Any:
        """Return the plan with the values of slots.

        NotConstantError if a value's type differs from the plan's.
        """
        return self._instantiate(self._part, values)

    def _instantiate(self, part: Any, values: Mapping[Slot, Literal]) -> Any:
        if isinstance(part, Slot):
            return values[part].value
        names = self._slotted_fields.get(id(part))
        if names is None:
            return part
        if isinstance(part, tuple):
            return tuple(self._instantiate(item, values) for item in part)
        if isinstance(part, Literal):
            slot = slot_of(part)
            assert slot is not None
            if values[slot].type != part.type:
                raise NotConstantError
            return Literal(values[slot].value, part.type)
        cls = type(part)
        values_by_field = {
            name: self._instantiate(getattr(part, name), values) if name in names else getattr(part, name)
            for name in _field_names(cls)
        }
        return cls(**values_by_field)
