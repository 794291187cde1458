"""TID: where a row is in its table, as Postgres tells it: a block and a place in the block.

A value is a word: the block times 65,536, and the place. Blocks of tables have ``BLOCK`` rows, whose
places begin with 1, so that places order as rowids do.
"""

import re
from typing import Final

BLOCK: Final = 128
"""So many rows are said to be in a block."""
SPAN: Final = 1 << 16
"""Places of a block that a word can tell."""
MOST: Final = (1 << 48) - 1
FORM: Final = re.compile(r"(?a)[^(,)]*\(\s*(\d{1,10}),\s*(\d{1,5})\)")
"""As Postgres reads it: what is around the parentheses does not count, and DuckDB sends quotes there."""


def parse(text: str) -> int:
    """The word of a text such as ``(0,1)``; ValueError if it is none."""
    found = FORM.match(text)
    if found is None:
        raise ValueError("no place of a row")
    block, place = int(found[1]), int(found[2])
    if block >= 1 << 32 or place >= SPAN:
        raise ValueError("no place of a row")
    return block * SPAN + place


def show(word: int) -> str:
    """As Postgres writes it."""
    return f"({word // SPAN},{word % SPAN})"
