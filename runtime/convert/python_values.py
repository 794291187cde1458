"""Python values to words and back, for few rows: literals, parameters, results, and values in errors.

Whole columns go through ``runtime.convert.arrow``, which makes the same checks. :func:`to_python` converts
one value; :func:`to_list` and :func:`to_rows` convert columns with the same results, several times faster.
:func:`float_words` and :func:`word_floats` are vectorised conversions of doubles.
"""

import decimal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, InterfaceError, ProgrammingError
from kpg.runtime.interrupts import pieces
from kpg.runtime.records import dataclass
from kpg.runtime.types import ERROR, NULL, ColumnDef, Kind, Schema, Type
from kpg.runtime.values import Mistyped, Unfit, codec_of, encoder_of, speller_of
from kpg.runtime.values.codec import word_functions
from kpg.runtime.values.words import DAY, EPOCH_DAY, WIDE, python_of

Words = NDArray[np.int64]


FLIP: Final = np.int64(0x7FFFFFFFFFFFFFFF)
"""XOR of a negative double's bits with it has words order as the values do."""
NAN_WORD: Final = 0x7FF8000000000000
"""The one word of every NaN, above that of infinity."""


def float_words(values: NDArray[np.float64]) -> Words:
    """The order-preserving words of doubles."""
    bits = (values + 0.0).view(np.int64)
    words = np.where(bits < 0, bits ^ FLIP, bits)
    words[np.isnan(values)] = NAN_WORD
    return words


def word_floats(words: Words) -> NDArray[np.float64]:
    """The doubles of words: inverse of :func:`float_words`."""
    return np.where(words < 0, words ^ FLIP, words).view(np.float64)


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
        taken: list[Any] = [
            nothing if value is None else take(value) for piece in pieces(values) for value in piece
        ]
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


Written = TypeVar("Written")


def written(
    words: NDArray[np.int64], type_: Type, dictionary: Dictionary, write: Callable[[Any], Written]
) -> list[Written | None]:
    """What ``write`` makes of each value, as codecs take it; None for NULL."""
    listed = words.tolist()
    known: dict[int, Written | None] = dict.fromkeys(listed)
    known.pop(NULL, None)
    if type_.is_interned:
        decode = codec_of(type_).decode
        codes = list(known)
        for code, string in zip(codes, dictionary.decode(np.array(codes, np.int64)), strict=True):
            assert string is not None
            known[code] = write(decode(string))
    else:
        _, from_word = word_functions(type_)
        for word in known:
            known[word] = write(from_word(word))
    known[NULL] = None
    return [known[word] for word in listed]
