"""Python values to words and back, a few at a time: rows typed into a program, values shown in an error.

Whole columns go through ``runtime.convert.arrow``; both make the same checks.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, InterfaceError, ProgrammingError
from kpg.runtime.records import dataclass
from kpg.runtime.types import ERROR, NULL, ColumnDef, Kind, Schema, Type
from kpg.runtime.values import Mistyped, Unfit, codec_of, encoder_of, speller_of
from kpg.runtime.values.words import python_of

Words = NDArray[np.int64]
Taker = Callable[[Any], Any]
"""From a Python value to its word, or to the string whose code that is."""

FEW_STRINGS: Final = 4
"""So many strings are interned one by one, for less than it takes to make an Arrow array of them."""
MOST_RECENT: Final = 256
"""Schemas whose encoders are remembered: more than most programs have tables; all are forgotten at once."""
_recent: dict[int, tuple[Schema, list[tuple[Taker, bool]]]] = {}
"""Encoders by identity of the schema, which is kept: to hash a schema takes longer than to encode a row."""


@dataclass(slots=True)
class Omitted:
    """Values that rows do not give. The word of each is ERROR until a DEFAULT takes its place.

    ``allowed`` are the positions of the columns that may be omitted. ``found`` tells whether one was.
    """

    allowed: frozenset[int]
    found: bool = False


def show(word: int, type_: Type, dictionary: Dictionary) -> str:
    """A word as its value reads in a message: text quoted, NULL for NULL."""
    value = to_python(word, type_, dictionary)
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"'{value}'" if isinstance(value, str) else str(value)


def to_python(word: int, type_: Type, dictionary: Dictionary) -> Any:
    """The Python value of a word; an INTERVAL MONTH is its number of months.

    Raises DataError for the ERROR word and for dates beyond Python's years.
    """
    if word == NULL:
        return None
    if word == ERROR:
        raise DataError("the value is the result of a failed operation")
    if type_.kind is Kind.VARCHAR:
        return dictionary.get(word)
    if type_.is_interned:
        codec = codec_of(type_)
        return codec.to_python(codec.decode(dictionary.get(word)))
    return python_of(word, type_)


def taker_of(type_: Type) -> Taker:
    """The function from a Python value (not None) to its word, or to the string whose code that is."""
    return speller_of(type_) if type_.is_interned else encoder_of(type_)


def encode_rows(rows: Sequence[Sequence[Any]], schema: Schema, dictionary: Dictionary) -> Words:
    """Rows of Python values as words ``int64[ncols, n]``; None is NULL.

    Raises InterfaceError for a row of the wrong length, ProgrammingError for a value of a wrong type,
    DataError for one that does not fit; each names the row (from 1) and the column.
    """
    width = len(schema.columns)
    for number, row in enumerate(rows):
        if len(row) != width:
            raise InterfaceError(
                f"row {number + 1} has {len(row)} values, expected {width}: {', '.join(schema.names)}"
            )
    words = np.empty((width, len(rows)), np.int64)
    if rows:
        encoders = _encoders(schema)
        for i, values in enumerate(zip(*rows, strict=True)):
            words[i] = _encode(values, schema.columns[i], *encoders[i], dictionary)
    return words


def _encoders(schema: Schema) -> list[tuple[Taker, bool]]:
    """For each column its encoder and whether it is text."""
    known = _recent.get(id(schema))
    if known is not None and known[0] is schema:
        return known[1]
    if len(_recent) >= MOST_RECENT:
        _recent.clear()
    encoders = [(taker_of(type_), type_.is_interned) for type_ in schema.types]
    _recent[id(schema)] = schema, encoders
    return encoders


def encode_records(
    records: Sequence[Mapping[str, Any]],
    schema: Schema,
    dictionary: Dictionary,
    omitted: Omitted | None = None,
) -> Words:
    """Rows given as dicts from column name (in any case) to value, as words ``int64[ncols, n]``.

    Each dict may omit columns of its own. Raises ProgrammingError for a missing or unknown name, else as
    :func:`encode_rows`.
    """
    names = [name.lower() for name in schema.names]
    allowed = {names[place] for place in omitted.allowed} if omitted is not None else set[str]()
    holes: list[tuple[int, int]] = []
    rows = []
    for number, record in enumerate(records):
        folded = {str(name).lower(): value for name, value in record.items()}
        unknown = [name for name in record if str(name).lower() not in names]
        absent = [place for place, name in enumerate(names) if name not in folded]
        missing = [schema.names[place] for place in absent if names[place] not in allowed]
        if unknown or missing:
            what = f"has unknown column {unknown[0]}" if unknown else f"lacks column {missing[0]}"
            raise ProgrammingError(
                f"row {number + 1} {what}", hint=f"the columns are {', '.join(schema.names)}"
            )
        holes += [(place, number) for place in absent]
        rows.append([folded.get(name) for name in names])
    words = encode_rows(rows, schema, dictionary)
    if omitted is not None and holes:
        omitted.found = True
        words[tuple(zip(*holes, strict=True))] = ERROR
    return words


def encode_values(values: Sequence[Any], column: ColumnDef, dictionary: Dictionary) -> Words | list[int]:
    """The words of one column's Python values; errors as :func:`encode_rows`."""
    return _encode(values, column, taker_of(column.type), column.type.is_interned, dictionary)


def _encode(
    values: Sequence[Any], column: ColumnDef, take: Taker, is_interned: bool, dictionary: Dictionary
) -> Words | list[int]:
    nothing: Any = None if is_interned else NULL
    try:
        taken: list[Any] = [nothing if value is None else take(value) for value in values]
    except (Unfit, Mistyped):
        raise _value_error(values, column) from None
    if not is_interned:
        return taken
    if len(values) <= FEW_STRINGS:
        return [NULL if string is None else dictionary.code(string) for string in taken]
    return dictionary.intern(taken)


def _value_error(values: Sequence[Any], column: ColumnDef) -> DataError | ProgrammingError:
    take = taker_of(column.type)
    for number, value in enumerate(values):
        place = f"row {number + 1}, column {column.name}"
        try:
            if value is not None:
                take(value)
        except Unfit:
            return DataError(f"{place}: value {value!r} does not fit {column.type}")
        except Mistyped:
            return ProgrammingError(
                f"{place}: value {value!r} is a {type(value).__name__}, expected {column.type}",
                hint=f"give {codec_of(column.type).expected}",
            )
    raise AssertionError("no value was refused")
