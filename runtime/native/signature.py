"""A kernel's signature, without numba: what its arguments are, and the slots they take in compiled code.

A slot is a word: an integer, a double's bits, or 0 and 1 for a boolean take one; an array takes its address
and then its shape.
"""

import re
from dataclasses import dataclass
from typing import Final

from kpg.runtime.errors import InternalError

SCALARS: Final = {"int64": "i", "uint64": "u", "float64": "f", "boolean": "b", "void": "v"}
"""numba's names to the letters that ``call.c`` knows."""

ELEMENTS: Final = {
    "int64": "i8",
    "uint64": "u8",
    "int32": "i4",
    "uint8": "u1",
    "uint16": "u2",
    "uint32": "u4",
    "float64": "f8",
    "boolean": "b1",
}
"""Element types to the kind and size that numpy gives them."""

_ARGUMENT: Final = re.compile(
    r"\s*(?:Array\((?P<whole>\w+), (?P<dimensions>[12]), 'C', True\)"
    r"|(?P<element>\w+)\[(?P<leading>:, )?::1\]|(?P<scalar>\w+))\s*(?:,|$)"
)


@dataclass(frozen=True, slots=True)
class Signature:
    """``codes`` has a letter for a scalar; an array is its element's kind and size and the number of its
    dimensions, then ``r`` if it is only read, else ``w``: ``i82w``. ``result`` is a letter."""

    codes: tuple[str, ...]
    result: str

    @property
    def text(self) -> str:
        """As ``call.c`` reads it: the result, then the arguments, apart by spaces."""
        return " ".join((self.result, *self.codes))


def parse(text: str) -> Signature:
    """The signature in numba's words: contiguous arrays of one or two dimensions, and scalars."""
    result, _, rest = text.partition("(")
    inside = rest.removesuffix(")").rstrip(", ")
    codes: list[str] = []
    at = 0
    while at < len(inside):
        found = _ARGUMENT.match(inside, at)
        if found is None:
            raise InternalError(f"kernel signature {text!r}: not understood at {inside[at:]!r}")
        codes.append(_code(found))
        at = found.end()
    if result not in SCALARS or "" in codes:
        raise InternalError(f"kernel signature {text!r}: a type that kernels cannot take")
    return Signature(tuple(codes), SCALARS[result])


def _code(found: re.Match[str]) -> str:
    """The code of one argument; empty for a type there is none for."""
    if found["whole"]:
        return f"{ELEMENTS[found['whole']]}{found['dimensions']}r" if found["whole"] in ELEMENTS else ""
    if found["element"]:
        dimensions = 2 if found["leading"] else 1
        return f"{ELEMENTS[found['element']]}{dimensions}w" if found["element"] in ELEMENTS else ""
    return SCALARS.get(found["scalar"], "").replace("v", "")
