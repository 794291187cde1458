"""Columns of words as clients get them: each value as text or in Postgres' binary form, None for NULL."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.convert.python_values import written
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.types import NULL, Kind, Type
from kpg.runtime.values.codec import output_of
from kpg.runtime.values.styles import PLAIN, Style, depends, writer_of
from kpg.server import binary

Words = NDArray[np.int64]
Fields = list[bytes | None]
Writer = Callable[[Any], bytes]
"""From a value, as codecs take it, to what is sent."""


def fields_of(
    words: Words, type_: Type, format_: int, dictionary: Dictionary, style: Style = PLAIN
) -> Fields:
    """One column: format 0 is text, 1 binary."""
    if type_.kind is Kind.VARCHAR:
        return [None if text is None else text.encode() for text in dictionary.decode(words)]
    if type_.is_integer and format_ == 0:
        return [None if word == NULL else b"%d" % word for word in words.tolist()]
    write = binary.writer_of(type_) if format_ else text_writer(type_, style)
    return written(words, type_, dictionary, write)


def text_writer(type_: Type, style: Style = PLAIN) -> Writer:
    """From a value to its text, in a session's style."""
    output = output_of(type_) if style is PLAIN or not depends(type_) else writer_of(type_, style)
    return lambda value: output(value).encode()


def rows_of(
    words: Words,
    types: Sequence[Type],
    formats: Sequence[int],
    dictionary: Dictionary,
    style: Style = PLAIN,
) -> list[tuple[bytes | None, ...]]:
    """Rows of fields."""
    if not types:
        return [()] * words.shape[1]
    columns = [
        fields_of(column, type_, format_, dictionary, style)
        for column, type_, format_ in zip(words, types, formats, strict=True)
    ]
    return list(zip(*columns, strict=True))
