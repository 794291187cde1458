"""How many rows are made into messages in one go: others are to have their turn, and memory its bound."""

from typing import Final

FIRST: Final = 32
MOST: Final = 2_000
BYTES: Final = 1 << 18
"""What a piece shall have, about."""


class Pace:
    """``rows`` is for the next piece: by the size of those of the last."""

    def __init__(self) -> None:
        self.rows = FIRST

    def took(self, rows: int, size: int) -> None:
        """Note the bytes that a piece of so many rows has."""
        if rows:
            self.rows = max(1, min(BYTES * rows // max(size, 1), self.rows * 4, MOST))
