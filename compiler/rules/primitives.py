"""Functions of the core besides those of ``runtime.functions`` that SQL has too."""

from collections.abc import Mapping
from typing import Final

from kpg.compiler.rules.core import Domain

PRIMITIVES: Final[Mapping[str, str]] = {
    "$unsigned": "BIGINT -> BIGINT: the number; an error below 0",
    "$wrap_number": "BIGINT -> BIGINT: the low 32 bits, as a signed number",
    "$wrap_unsigned": "BIGINT -> BIGINT: the low 32 bits, as an unsigned number",
    "$wrap_int8": "BIGINT -> BIGINT: the low 8 bits, as a signed number",
    "$wrap_int16": "BIGINT -> BIGINT: the low 16 bits, as a signed number",
    "$wrap_uint8": "BIGINT -> BIGINT: the low 8 bits, as an unsigned number",
    "$wrap_uint16": "BIGINT -> BIGINT: the low 16 bits, as an unsigned number",
    "$wrap_product": "BIGINT, BIGINT -> BIGINT: the low 32 bits of the product of two numbers below 2**32",
    "$power": "BIGINT, BIGINT -> BIGINT: power, 0 for a negative exponent; an error beyond 64 bits",
    "$wrap_power": "BIGINT, BIGINT -> BIGINT: the low 32 bits of the power, as an unsigned number",
    "$band": "BIGINT, BIGINT -> BIGINT: bitwise and",
    "$bor": "BIGINT, BIGINT -> BIGINT: bitwise or",
    "$bxor": "BIGINT, BIGINT -> BIGINT: bitwise exclusive or",
    "$bnot": "BIGINT -> BIGINT: every bit flipped",
    "$bshl": "BIGINT, BIGINT -> BIGINT: shifted left by the second modulo 64, what leaves the word is lost",
    "$bshr": "BIGINT, BIGINT -> BIGINT: shifted right by the second modulo 64, filled with the sign",
    "$bshru": "BIGINT, BIGINT -> BIGINT: shifted right by the second modulo 64, filled with 0",
    "$land": "BIGINT, BIGINT -> BIGINT: 1 if both are other than 0, else 0",
    "$lor": "BIGINT, BIGINT -> BIGINT: 1 if one is other than 0, else 0",
    "$lxor": "BIGINT, BIGINT -> BIGINT: 1 if exactly one is other than 0, else 0",
    "$lnot": "BIGINT -> BIGINT: 1 for 0, else 0",
    "$ord": "TEXT -> BIGINT: the code of the text in the dictionary",
    "$substr": "TEXT, BIGINT, BIGINT -> TEXT: so many characters from a position, which counts from 0",
    "$full_match": "TEXT pattern, TEXT -> BOOLEAN: ECMAScript's, of the whole text; NULL: no pattern",
    "$quotient": "DOUBLE, DOUBLE -> DOUBLE: quotient, of 0 too: an infinity or NaN",
    "$single": "DOUBLE -> DOUBLE: the nearest float of 32 bits",
    "$six_places": "DOUBLE -> TEXT: with six decimal places",
    "$plain_float": "DOUBLE -> TEXT: the shortest digits, without an exponent; inf, NaN",
    "$plain_single": "DOUBLE -> TEXT: the shortest digits among floats of 32 bits, likewise",
    "$whole_number": "TEXT -> BIGINT: decimal, 0x or 0b, with a sign; an error for what is none",
    "$float_bits": "DOUBLE -> BIGINT: the number of the same 64 bits",
    "$float_bits32": "DOUBLE -> BIGINT: the number of the bits that it has as a float of 32",
    "$bits_float": "BIGINT -> DOUBLE: what $float_bits was given",
    "$bits_float32": "BIGINT -> DOUBLE: the float that the low 32 bits are",
    "$number_or_zero": "TEXT -> BIGINT: decimal of 32 bits, with a sign; 0 for what is none",
    "$quote": 'TEXT -> TEXT: a symbol as a field: "a" with \\ before \\ and ", \\n \\t \\r for those',
    "$unquote": "TEXT -> TEXT: what $quote was given",
    "$show": "BIGINT or DOUBLE -> TEXT: a number as a field; floats so that they read back the same",
    "$record": "TEXT fields... -> TEXT: [a, b]",
    "$branch": "TEXT name, TEXT fields... -> TEXT: $name(a, b), or $name if there are no fields",
    "$branch_of": "TEXT -> TEXT: the name of an ADT value's branch; of a record '', of nil 'nil'",
    "$field": "TEXT, BIGINT literal -> TEXT: a record's or branch's field, by position from 0, as it stands",
    "$number": "TEXT -> BIGINT: what $show was given",
    "$float": "TEXT -> DOUBLE: what $show was given",
}
"""What the runtime has to provide besides the registered functions, with NULL for a NULL argument.

An error where the result is out of range, ``$bshl`` excepted. ``$field`` is NULL where there is no such
field: rules test ``$branch_of``, but perhaps after they read the field.
"""
WRAPS: Final[Mapping[Domain, str]] = {
    Domain.NUMBER: "$wrap_number",
    Domain.UNSIGNED: "$wrap_unsigned",
}
"""What makes 32-bit numbers of results."""
