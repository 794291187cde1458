"""Constants with escapes: ``E'a\\n'`` and ``U&'\\0061'``."""

import re
from typing import Final

from kpg.runtime.errors import no_text

CONTROLS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
ESCAPE: Final = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))|''", re.DOTALL
)


def escaped(written: str) -> str:
    """What ``E'...'`` stands for; ValueError if its bytes are no UTF-8, DataError if one is zero."""
    parts: list[bytes] = []
    inside, end = written[2:-1], 0
    for found in ESCAPE.finditer(inside):
        parts += [inside[end : found.start()].encode(), _meant(found)]
        end = found.end()
    return _without_zero(b"".join((*parts, inside[end:].encode())).decode())


def _without_zero(text: str) -> str:
    if "\0" in text:
        raise no_text()
    return text


def _meant(found: re.Match[str]) -> bytes:
    octal, byte, short, long, letter = found.groups()
    if octal or byte:
        return bytes([int(octal, 8) & 255 if octal else int(byte, 16)])
    if short or long:
        return chr(int(short or long, 16)).encode()
    if letter is None:
        return b"'"
    if letter in "uU":
        raise ValueError("invalid Unicode escape")
    return CONTROLS.get(letter, letter).encode()


def unicode(written: str, escape: str = "\\") -> str:
    """What ``U&'...'`` stands for; ValueError for an escape that stands for nothing."""
    sign = re.escape(escape)
    pattern = re.compile(rf"{sign}(?:({sign})|([0-9a-fA-F]{{4}})|\+([0-9a-fA-F]{{6}}))?|''")

    def one(found: re.Match[str]) -> str:
        if found[0] == "''":
            return "'"
        if found[1]:
            return escape
        digits = found[2] or found[3]
        if digits is None:
            raise ValueError("invalid Unicode escape")
        return chr(int(digits, 16))

    return _without_zero(pattern.sub(one, written[3:-1]))
