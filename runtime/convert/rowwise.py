"""Rows of Python values as words, one row after the other: for changes of a few rows at a time."""

from collections.abc import Sequence
from typing import Any, Final

from kpg.runtime.convert.values import Taker, taker_of
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.types import NULL, ColumnDef
from kpg.runtime.values import Unfit

MOST_CODES: Final = 1 << 12
"""Texts of a column whose codes are remembered: some hundred kilobytes."""


class RowEncoder:
    """Encoders of columns, found once, and the codes of the latest texts.

    A few rows take a fraction of the time of ``values.encode_rows``, which, however, says what is wrong.
    """

    __slots__ = ("_encoders", "_required")

    def __init__(self, columns: Sequence[ColumnDef], dictionary: Dictionary) -> None:
        self._encoders = [
            _remembering(taker_of(column.type), dictionary)
            if column.type.is_interned
            else taker_of(column.type)
            for column in columns
        ]
        self._required = [place for place, column in enumerate(columns) if not column.nullable]

    def words(self, row: Sequence[Any]) -> list[int]:
        """The words of a row; Unfit or Mistyped if a value, or their number, is wrong."""
        encoders = self._encoders
        if len(row) != len(encoders):
            raise Unfit
        words = [
            NULL if value is None else encode(value) for encode, value in zip(encoders, row, strict=True)
        ]
        for place in self._required:
            if words[place] == NULL:
                raise Unfit
        return words


def _remembering(spell: Taker, dictionary: Dictionary) -> Taker:
    """From a value to its code, for a column of interned values; the codes of texts are remembered."""
    codes: dict[str, int] = {}

    def encode(value: Any) -> int:
        is_text = isinstance(value, str)
        code = codes.get(value) if is_text else None
        if code is None:
            code = dictionary.code(spell(value))
            if is_text:
                if len(codes) >= MOST_CODES:
                    codes.clear()
                codes[value] = code
        return code

    return encode
