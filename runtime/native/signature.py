"""Signatures of kernels, without numba: the types of arguments, and their slots in compiled code.

A slot is a word: an integer, the bits of a double, or 0 or 1 for a boolean. An array takes a slot for its
address and one for each dimension.
"""

import re
from dataclasses import dataclass
from typing import Final

from kpg.runtime.errors import InternalError

SCALARS: Final = {"int64": "i", "uint64": "u", "float64": "f", "boolean": "b", "void": "v"}
"""Letters of ``call.c`` by numba's names of scalars."""

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
"""numpy's kind and size by numba's names of element types."""

_ARGUMENT: Final = re.compile(
    r"\s*(?:Array\((?P<whole>\w+), (?P<dimensions>[12]), 'C', True\)"
    r"|(?P<element>\w+)\[(?P<leading>:, )?::1\]|(?P<scalar>\w+))\s*(?:,|$)"
)


@dataclass(frozen=True, slots=True)
class Signature:
    """Codes of the arguments and of the result.

    A scalar's code is a letter. An array's is the kind and size of its elements, its number of dimensions,
    and ``r``
    if it is read-only, else ``w``: ``i82w``.
    """

    codes: tuple[str, ...]
    result: str

    @property
    def text(self) -> str:
        """The form that ``call.c`` reads: codes of the result and the arguments, separated by spaces."""
        return " ".join((self.result, *self.codes))


def parse(text: str) -> Signature:
    """Parse a signature in numba's syntax: contiguous arrays of one or two dimensions, and scalars."""
    result, _, rest = text.partition("(")
    inside = rest.removesuffix(")").rstrip(", ")
    codes: list[str] = []
    at = 0
    while at < len(inside):
        match = _ARGUMENT.match(inside, at)
        if match is None:
            raise InternalError(f"kernel signature {text!r}: not understood at {inside[at:]!r}")
        codes.append(_code_of(match))
        at = match.end()
    if result not in SCALARS or "" in codes:
        raise InternalError(f"kernel signature {text!r}: a type that kernels cannot take")
    return Signature(tuple(codes), SCALARS[result])


def _code_of(match: re.Match[str]) -> str:
    """Return the code of one argument; empty for an unsupported type."""
    if match["whole"]:
        return f"{ELEMENTS[match['whole']]}{match['dimensions']}r" if match["whole"] in ELEMENTS else ""
    if match["element"]:
        dimensions = 2 if match["leading"] else 1
        return f"{ELEMENTS[match['element']]}{dimensions}w" if match["element"] in ELEMENTS else ""
    return SCALARS.get(match["scalar"], "").replace("v", "")
