"""Integers bit by bit: ``&``, ``|``, ``#``, ``~`` and shifts, as wide as the wider operand."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from kpg.runtime.functions.registry import Overload, Rule, Signature, Vector, Words, scalar
from kpg.runtime.functions.rules import common_type, is_unknown
from kpg.runtime.functions.vectors import combine
from kpg.runtime.scalar import Call
from kpg.runtime.types import ERROR, INTEGER, MIN_WORD, Kind, Type

BITS: Final = {Kind.SMALLINT: 16, Kind.INTEGER: 32, Kind.BIGINT: 64}

Operation = Callable[..., Words]


def _alike(types: tuple[Type, ...]) -> Signature | None:
    """Two integers, brought to the wider type."""
    common = common_type(types) if len(types) == 2 else None
    if common is None or not common.is_integer:
        return None
    return Signature((common, common), common)


def _single(types: tuple[Type, ...]) -> Signature | None:
    return Signature(types, types[0]) if len(types) == 1 and types[0].is_integer else None


def _shifted(types: tuple[Type, ...]) -> Signature | None:
    """An integer, which keeps its type, and a distance."""
    if len(types) != 2 or not types[0].is_integer or not (types[1].is_integer or is_unknown(types[1])):
        return None
    return Signature((types[0], INTEGER), types[0])


def _wrapped(type_: Type, words: Words) -> Words:
    """The lowest bits of a type's width as a signed number; the reserved words are errors."""
    size = BITS[type_.kind]
    if size < 64:
        half = 1 << (size - 1)
        return ((words + half) & ((1 << size) - 1)) - half
    return np.where(words < MIN_WORD, ERROR, words)


def _operation(function: Operation) -> Vector:
    def build(call: Call) -> Operation:
        def apply(*words: Words) -> Words:
            return combine(_wrapped(call.type, np.asarray(function(*words), np.int64)), *words)

        return apply

    return Vector(build)


def _shift(function: Callable[[Words, Any], Words]) -> Vector:
    def build(call: Call) -> Operation:
        most = max(BITS[call.type.kind], 32) - 1

        def apply(words: Words, distance: Words) -> Words:
            return combine(_wrapped(call.type, function(words, distance & most)), words, distance)

        return apply

    return Vector(build)


def _define(name: str, accepts: str, doc: str, example: tuple[str, str], rule: Rule, how: Vector) -> None:
    scalar(name, accepts, doc, dict([example]), Overload(rule, how))


_TWO = "two integers"
_define(
    "bitwise_and", _TWO, "The bits that both have.", ("91 & 15", "11"), _alike, _operation(np.bitwise_and)
)
_define("bitwise_or", _TWO, "The bits that either has.", ("32 | 3", "35"), _alike, _operation(np.bitwise_or))
_define("bitwise_xor", _TWO, "The bits that one has.", ("17 # 5", "20"), _alike, _operation(np.bitwise_xor))
_define("bitwise_not", "an integer", "All bits turned.", ("~1", "-2"), _single, _operation(np.bitwise_not))
_define(
    "shift_left",
    "an integer and a distance",
    "The bits so many places up, those that leave the type lost; the distance is taken by its lowest bits.",
    ("1 << 4", "16"),
    _shifted,
    _shift(lambda words, distance: words << distance),
)
_define(
    "shift_right",
    "an integer and a distance",
    "The bits so many places down, with the sign.",
    ("-8 >> 1", "-4"),
    _shifted,
    _shift(lambda words, distance: words >> distance),
)
