"""What the text of a literal stands for, and the text of a value."""

import re

LONGEST = 100
"""Digits that are read as a number: many more than any type has, and few enough for Python, which takes
time in proportion to their square and refuses more than 4300.
"""
ESCAPES = {
    "\\": "\\",
    '"': '"',
    "'": "'",
    "?": "?",
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "0": "\0",
}


def integer(text: str) -> tuple[int, bool]:
    """The value, and whether the suffix says that it is unsigned. Of any size; one of more characters than
    ``LONGEST`` is some other that is too large for a number.
    """
    unsigned = text.endswith("u")
    digits = text[:-1] if unsigned else text
    if len(digits) > LONGEST:
        return 10**LONGEST, unsigned
    if digits.startswith("0x"):
        return int(digits[2:], 16), unsigned
    if digits.startswith("0b"):
        return int(digits[2:], 2), unsigned
    return int(digits), unsigned


def address(text: str) -> int | None:
    """An IPv4 address as the number of 32 bits, with a sign, that it is to Soufflé; None if it is none."""
    parts = [int(part) for part in text.split(".")]
    if max(parts) > 255:
        return None
    value = int.from_bytes(bytes(parts), "big")
    return value - 2**32 if value >= 2**31 else value


def unescape(text: str) -> tuple[str, int | None]:
    """The string between the quotes, and where the first unknown escape begins, which is kept as it is."""
    wrong: int | None = None

    def resolve(found: re.Match[str]) -> str:
        nonlocal wrong
        if found[1] not in ESCAPES:
            wrong = found.start() if wrong is None else wrong
        return ESCAPES.get(found[1], found[0])

    return re.sub(r"\\(.)", resolve, text), wrong
