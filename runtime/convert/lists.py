"""Words as lists of Python values, a column at a time: for results, changes and functions of users.

The values are those of ``values.to_python``, for a fraction of a call each where there are many.
"""

import decimal
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.convert.floats import word_floats
from kpg.runtime.convert.values import to_python
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.types import ERROR, NULL, Kind, Type
from kpg.runtime.values import codec_of
from kpg.runtime.values.words import DAY, EPOCH_DAY, WIDE

Words = NDArray[np.int64]
Row = tuple[Any, ...]

FEW: Final = 8
"""So many values are made one by one: numpy's calls take longer than that."""
WHOLE: Final = frozenset({Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.INTERVAL_MONTH, Kind.ROWID})
"""Types whose words are the values."""
LAST: Final = 3_652_059
"""The ordinal of 9999-12-31, Python's last day; its first, 0001-01-01, has 1."""


def to_rows(words: Words, types: Sequence[Type], dictionary: Dictionary) -> list[Row]:
    """The rows of ``words int64[width, n]`` as tuples of Python values; errors as :func:`to_list`."""
    if not types:
        return [()] * words.shape[1]
    return list(zip(*(to_list(words[i], t, dictionary) for i, t in enumerate(types)), strict=True))


def to_list(words: Words, type_: Type, dictionary: Dictionary) -> list[Any]:
    """The values of ``words int64[n]``, None for NULL; an INTERVAL MONTH is its number of months.

    Raises DataError for the ERROR word and for dates beyond Python's years.
    """
    if type_.is_text and not type_.is_padded:
        return dictionary.decode(words)
    if type_.is_interned:
        return _interned(words, type_, dictionary)
    if type_.kind in WHOLE and (not words.shape[0] or words.min() > ERROR):
        return words.tolist()
    if words.shape[0] <= FEW or (words == ERROR).any():
        return [to_python(word, type_, dictionary) for word in words.tolist()]
    null = words == NULL
    nulls: list[int] = np.flatnonzero(null).tolist()
    values = _values(np.where(null, 0, words) if nulls else words, type_, dictionary)
    for position in nulls:
        values[position] = None
    return values


def _interned(words: Words, type_: Type, dictionary: Dictionary) -> list[Any]:
    """Each distinct value is made once: those that may be changed, such as lists, are made for each row."""
    codec = codec_of(type_)
    known: dict[str | None, Any] = {None: None}
    values = []
    for text in dictionary.decode(words):
        if text not in known or type_.parts:
            known[text] = None if text is None else codec.to_python(codec.decode(text))
        values.append(known[text])
    return values


def _values(words: Words, type_: Type, dictionary: Dictionary) -> list[Any]:
    """As :func:`to_list` for words without NULL."""
    match type_.kind:
        case Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT | Kind.INTERVAL_MONTH | Kind.ROWID:
            return words.tolist()
        case Kind.BOOLEAN:
            return (words != 0).tolist()
        case Kind.DECIMAL:
            shift = -type_.scale
            return [decimal.Decimal(word).scaleb(shift, WIDE) for word in words.tolist()]
        case Kind.REAL | Kind.DOUBLE:
            return word_floats(words).tolist()
        case Kind.DATE:
            return _times(words, type_, dictionary, "datetime64[D]", 1)
        case Kind.TIMESTAMP:
            return _times(words, type_, dictionary, "datetime64[us]", DAY)
        case Kind.INTERVAL_DAY:
            return np.ascontiguousarray(words).view("timedelta64[us]").tolist()
        case _:
            return [to_python(word, type_, dictionary) for word in words.tolist()]


def _times(words: Words, type_: Type, dictionary: Dictionary, unit: str, day: int) -> list[Any]:
    """Dates or timestamps, ``day`` of which make a day; numpy does not know what Python cannot hold."""
    beyond = (words < (1 - EPOCH_DAY) * day) | (words >= (LAST + 1 - EPOCH_DAY) * day)
    if beyond.any():
        return [to_python(word, type_, dictionary) for word in words.tolist()]
    return np.ascontiguousarray(words).view(unit).tolist()
