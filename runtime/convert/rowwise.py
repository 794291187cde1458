"""Rows of Python values as words, one row after the other: for changes of a few rows at a time."""

from collections.abc import Sequence
from typing import Any, Final

from kpg.runtime.convert.values import Encoder, Unfit, encoder_of
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.types import NULL, ColumnDef

MOST_CODES: Final = 1 << 12
"""Texts of a column whose codes are remembered: some hundred kilobytes."""


class RowEncoder:
    """Encoders of columns, found once, and the codes of the latest texts.

    A few rows take a fraction of the time of ``values.encode_rows``, which, however, says what is wrong.
    """

    __slots__ = ("_encoders", "_required")

    def __init__(self, columns: Sequence[ColumnDef], dictionary: Dictionary) -> None:
        self._encoders = [
            _remembering(encoder_of(column.type), dictionary)
            if column.type.is_text
            else encoder_of(column.type)
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


def _remembering(check: Encoder, dictionary: Dictionary) -> Encoder:
    """From a text to its code, for a column whose texts ``check`` accepts."""
    codes: dict[Any, int] = {}

    def encode(text: Any) -> int:
        code = codes.get(text) if isinstance(text, str) else None
        if code is None:
            check(text)
            code = dictionary.code(text)
            if len(codes) >= MOST_CODES:
                codes.clear()
            codes[text] = code
        return code

    return encode
