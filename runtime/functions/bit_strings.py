"""Bit strings in functions and operators of other types."""

from collections.abc import Callable

from kpg.runtime.functions.registry import Memoized, Overload, extend
from kpg.runtime.functions.rules import among
from kpg.runtime.types import BIT_KINDS, INTEGER, VARBIT, Kind, Type

BIT = Type(Kind.BIT)


def _define(
    name: str, accepts: str, result: Type, args: tuple[Type, ...], code: Callable[..., object]
) -> None:
    extend(name, accepts, Overload(among(BIT_KINDS, result, *args), Memoized(lambda call: code)))


def _alike(sign: str, operation: Callable[[int, int], int]) -> Callable[[str, str], str]:
    def apply(left: str, right: str) -> str:
        if len(left) != len(right):
            raise ValueError(f"cannot {sign} bit strings of different sizes")
        if not left:
            return ""
        return f"{operation(int(left, 2), int(right, 2)):0{len(left)}b}"

    return apply


def shifted(value: str, distance: int) -> str:
    """Zeros come in where bits leave; to the left if the distance is positive."""
    width = len(value)
    if abs(distance) >= width:
        return "0" * width
    return value[distance:] + "0" * distance if distance >= 0 else "0" * -distance + value[:distance]


def cut(value: str, start: int, length: int | None = None) -> str:
    """A part, from a place that counts from 1."""
    if length is not None and length < 0:
        raise ValueError("negative substring length not allowed")
    stop = len(value) if length is None else max(start - 1 + length, 0)
    return value[max(start - 1, 0) : stop]


def laid_over(value: str, other: str, start: int, length: int | None = None) -> str:
    """The bits with others in the place of some."""
    if start < 1:
        raise ValueError("negative substring length not allowed")
    return value[: start - 1] + other + value[start - 1 + (len(other) if length is None else length) :]


def _at(value: str, place: int) -> int:
    if not 0 <= place < len(value):
        raise ValueError(f"bit index {place} out of valid range (0..{len(value) - 1})")
    return place


def bit_of(value: str, place: int) -> int:
    """The bit at a place, from 0 on."""
    return int(value[_at(value, place)])


def with_bit(value: str, place: int, bit: int) -> str:
    """The bits with another one at a place."""
    if bit not in (0, 1):
        raise ValueError("new bit must be 0 or 1")
    return value[: _at(value, place)] + str(bit) + value[place + 1 :]


_define("bitwise_and", "two bit strings", BIT, (VARBIT, VARBIT), _alike("AND", lambda x, y: x & y))
_define("bitwise_or", "two bit strings", BIT, (VARBIT, VARBIT), _alike("OR", lambda x, y: x | y))
_define("bitwise_xor", "two bit strings", BIT, (VARBIT, VARBIT), _alike("XOR", lambda x, y: x ^ y))
_define("bitwise_not", "a bit string", BIT, (VARBIT,), lambda value: value.translate({48: "1", 49: "0"}))
_define("shift_left", "a bit string and a distance", BIT, (VARBIT, INTEGER), shifted)
_define("shift_right", "a bit string and a distance", BIT, (VARBIT, INTEGER), lambda x, by: shifted(x, -by))
_define("concat", "two bit strings", VARBIT, (VARBIT, VARBIT), lambda x, y: x + y)
_define("length", "a bit string", INTEGER, (VARBIT,), len)
_define("bit_length", "a bit string", INTEGER, (VARBIT,), len)
_define("octet_length", "a bit string", INTEGER, (VARBIT,), lambda value: -(-len(value) // 8))
_define("position", "two bit strings", INTEGER, (VARBIT, VARBIT), lambda value, part: value.find(part) + 1)
_define("substring", "a bit string, a place and a length", BIT, (VARBIT, INTEGER), cut)
_define("substring", "a bit string, a place and a length", BIT, (VARBIT, INTEGER, INTEGER), cut)
_define("overlay", "two bit strings and a place", BIT, (VARBIT, VARBIT, INTEGER), laid_over)
_define("overlay", "two bit strings and a place", BIT, (VARBIT, VARBIT, INTEGER, INTEGER), laid_over)
_define("get_bit", "a bit string and a place", INTEGER, (VARBIT, INTEGER), bit_of)
_define("set_bit", "a bit string, a place and a bit", BIT, (VARBIT, INTEGER, INTEGER), with_bit)
_define("bit_count", "a bit string", Type(Kind.BIGINT), (VARBIT,), lambda value: value.count("1"))
