"""BIT(n) and BIT VARYING. A value is its text, of ``0`` and ``1``: shorter before longer, else in order."""

from typing import Final

from kpg.runtime.types import Kind, Type
from kpg.runtime.values.codec import Codec, spelled

HEX: Final = {f"{digit:x}": f"{digit:04b}" for digit in range(16)}


def codec(type_: Type) -> Codec:
    """The codec of bit strings, of a length or of any."""
    return spelled(lambda text: fitted(read(text), type_), str, str, str, "a text of 0 and 1")


def read(text: str) -> str:
    """The bits of ``101``, ``b101`` or ``x1f``; ValueError for anything else."""
    start = text[:1].lower()
    body = text[1:] if start in ("b", "x") else text
    if start == "x":
        return "".join(map(_four, body.lower()))
    if body.strip("01"):
        raise ValueError(f'"{body.strip("01")[0]}" is not a valid binary digit')
    return body


def _four(digit: str) -> str:
    if digit not in HEX:
        raise ValueError(f'"{digit}" is not a valid hexadecimal digit')
    return HEX[digit]


def fitted(value: str, type_: Type) -> str:
    """The bits as a cast to a type has them: cut, and of BIT(n) filled up with zeros."""
    if not type_.precision:
        return value
    cut = value[: type_.precision]
    return cut.ljust(type_.precision, "0") if type_.kind is Kind.BIT else cut


def number(value: str, width: int) -> int:
    """The integer of so many bits, of which the first is the sign; ArithmeticError if there are more."""
    if len(value) > width:
        raise OverflowError("integer out of range")
    found = int(value or "0", 2)
    return found - (1 << width) if len(value) == width and value[0] == "1" else found


def of_number(value: int, length: int) -> str:
    """The last bits of an integer, its sign before them if there are more than it has."""
    return f"{value & ((1 << length) - 1):0{length}b}"
