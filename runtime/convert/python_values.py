"""Python values to words and back, for few rows: literals, parameters, results, and values in errors.

Whole columns go through ``runtime.convert.arrow``, with the same checks. :func:`to_python` converts one
value. :func:`to_list` and :func:`to_rows` convert columns with the same results, several times faster.
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
from kpg.runtime.values import UnrepresentableValue, WrongPythonType, codec_of, encoder_of, string_encoder_of
from kpg.runtime.values.codec import word_functions
from kpg.runtime.values.words import DAY, EPOCH_DAY, WIDE_CONTEXT, word_to_python

Words = NDArray[np.int64]


SIGN_FLIP: Final = np.int64(0x7FFFFFFFFFFFFFFF)
"""Mask that, XORed with a negative double's bits, gives words in the order of the values."""
NAN_WORD: Final = 0x7FF8000000000000
"""The only word of NaN. It is above the word of infinity."""


def float_words(values: NDArray[np.float64]) -> Words:
    """Convert doubles to order-preserving words."""
    bits = (values + 0.0).view(np.int64)
    words = np.where(bits < 0, bits ^ SIGN_FLIP, bits)
    words[np.isnan(values)] = NAN_WORD
    return words


def word_floats(words: Words) -> NDArray[np.float64]:
    """Convert words to doubles. This is the inverse of :func:`float_words`."""
    return np.where(words < 0, words ^ SIGN_FLIP, words).view(np.float64)


ValueEncoder = Callable[[Any], Any]
"""Function from a Python value to its word, or to the encoded string of an interned value."""

SMALL_STRING_COUNT: Final = 4
"""Number of strings up to which interning them singly is faster than an Arrow array."""
MAX_CACHED_SCHEMAS: Final = 256
"""Maximum number of schemas with cached encoders: more than most programs have tables."""
_encoder_cache: dict[int, tuple[Schema, list[tuple[ValueEncoder, bool]]]] = {}
"""Encoders by identity of the schema, which stays alive: hashing it takes longer than encoding a row."""


@dataclass(slots=True)
class OmittedColumns:
    """Columns whose values rows may omit. An omitted value is ERROR until a DEFAULT replaces it.

    ``allowed`` has the positions of these columns.
    """

    allowed: frozenset[int]
    occurred: bool = False
    """Whether a row omitted a value."""


def show_word(word: int, type_: Type, dictionary: Dictionary) -> str:
    """Format a word's value for a message: text quoted, NULL for NULL."""
    value = to_python(word, type_, dictionary)
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"'{value}'" if isinstance(value, str) else str(value)


def show_plain(word: int, type_: Type, dictionary: Dictionary) -> str:
    """Format a word's value for the DETAIL of a message, as Postgres does: text unquoted, null for NULL."""
    text = show_word(word, type_, dictionary)
    if word == NULL:
        return "null"
    return text[1:-1] if text.startswith("'") else text


def to_python(word: int, type_: Type, dictionary: Dictionary) -> Any:
    """Convert a word to its Python value. An INTERVAL MONTH is its number of months.

    Raises:
        DataError: The word is ERROR, or Python cannot hold the value.
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
    return word_to_python(word, type_)


def value_encoder_of(type_: Type) -> ValueEncoder:
    """Return the function from a non-None Python value to its word, or to its encoded string if interned."""
    return string_encoder_of(type_) if type_.is_interned else encoder_of(type_)


def encode_rows(rows: Sequence[Sequence[Any]], schema: Schema, dictionary: Dictionary) -> Words:
    """Convert rows of Python values to words ``int64[ncols, n]``. None is NULL.

    Messages name the row (from 1) and the column.

    Raises:
        InterfaceError: A row has a wrong length.
        ProgrammingError: A value has a wrong type.
        DataError: A value does not fit its type.
    """
    width = len(schema.columns)
    for number, row in enumerate(rows):
        if len(row) != width:
            raise InterfaceError(
                f"row {number + 1} has {len(row)} values, expected {width}: {', '.join(schema.names)}"
            )
    words = np.empty((width, len(rows)), np.int64)
    if rows:
        encoders = _column_encoders(schema)
        for i, values in enumerate(zip(*rows, strict=True)):
            words[i] = _encode(values, schema.columns[i], *encoders[i], dictionary)
    return words


def _column_encoders(schema: Schema) -> list[tuple[ValueEncoder, bool]]:
    """Return each column's encoder and whether it is interned."""
    cached = _encoder_cache.get(id(schema))
    if cached is not None and cached[0] is schema:
        return cached[1]
    if len(_encoder_cache) >= MAX_CACHED_SCHEMAS:
        _encoder_cache.clear()
    encoders = [(value_encoder_of(type_), type_.is_interned) for type_ in schema.types]
    _encoder_cache[id(schema)] = schema, encoders
    return encoders


def encode_records(
    records: Sequence[Mapping[str, Any]],
    schema: Schema,
    dictionary: Dictionary,
    omitted: OmittedColumns | None = None,
) -> Words:
    """Convert rows as dicts from column name (in any case) to value into words ``int64[ncols, n]``.

    Each dict may omit columns of its own. It raises as :func:`encode_rows`, and ProgrammingError for a
    missing or unknown name.
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
        omitted.occurred = True
        words[tuple(zip(*holes, strict=True))] = ERROR
    return words


def encode_values(values: Sequence[Any], column: ColumnDef, dictionary: Dictionary) -> Words | list[int]:
    """Convert the Python values of one column to words. It raises as :func:`encode_rows`."""
    return _encode(values, column, value_encoder_of(column.type), column.type.is_interned, dictionary)


def _encode(
    values: Sequence[Any], column: ColumnDef, encode: ValueEncoder, is_interned: bool, dictionary: Dictionary
) -> Words | list[int]:
    null: Any = None if is_interned else NULL
    try:
        encoded: list[Any] = [
            null if value is None else encode(value) for piece in pieces(values) for value in piece
        ]
    except (UnrepresentableValue, WrongPythonType):
        raise _value_error(values, column) from None
    if not is_interned:
        return encoded
    if len(values) <= SMALL_STRING_COUNT:
        return [NULL if string is None else dictionary.code(string) for string in encoded]
    return dictionary.intern(encoded)


def _value_error(values: Sequence[Any], column: ColumnDef) -> DataError | ProgrammingError:
    encode = value_encoder_of(column.type)
    for number, value in enumerate(values):
        place = f"row {number + 1}, column {column.name}"
        try:
            if value is not None:
                encode(value)
        except UnrepresentableValue:
            error = DataError(f"{place}: value {value!r} does not fit {column.type}")
            if isinstance(value, str):
                from kpg.runtime.values.input_errors import input_error  # lazy: the start does without it

                error.sqlstate = input_error(value, column.type).sqlstate
            return error
        except WrongPythonType:
            return ProgrammingError(
                f"{place}: value {value!r} is a {type(value).__name__}, expected {column.type}",
                hint=f"give {codec_of(column.type).input_hint}",
            )
    raise AssertionError("no value was refused")


Row = tuple[Any, ...]

SMALL_VALUE_COUNT: Final = 8
"""Number of values up to which converting them singly is faster than numpy."""
IDENTITY_KINDS: Final = frozenset({Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.INTERVAL_MONTH, Kind.ROWID})
"""Kinds whose words are the values."""
LAST_ORDINAL: Final = 3_652_059
"""Ordinal of 9999-12-31, Python's last day. Its first, 0001-01-01, is 1."""


def to_rows(words: Words, types: Sequence[Type], dictionary: Dictionary) -> list[Row]:
    """Convert ``words int64[width, n]`` to tuples of Python values. It raises as :func:`to_list`."""
    if not types:
        return [()] * words.shape[1]
    return list(zip(*(to_list(words[i], t, dictionary) for i, t in enumerate(types)), strict=True))


def to_list(words: Words, type_: Type, dictionary: Dictionary) -> list[Any]:
    """Convert ``words int64[n]`` to Python values, None for NULL. An INTERVAL MONTH is its number of months.

    Raises:
        DataError: A word is ERROR, or Python cannot hold a value.
    """
    if type_.is_text and not type_.is_padded:
        return dictionary.decode(words)
    if type_.is_interned:
        return _decode_interned(words, type_, dictionary)
    if type_.kind in IDENTITY_KINDS and (not words.shape[0] or words.min() > ERROR):
        return words.tolist()
    if words.shape[0] <= SMALL_VALUE_COUNT or (words == ERROR).any():
        return [to_python(word, type_, dictionary) for word in words.tolist()]
    null = words == NULL
    nulls: list[int] = np.flatnonzero(null).tolist()
    values = _values_without_nulls(np.where(null, 0, words) if nulls else words, type_, dictionary)
    for position in nulls:
        values[position] = None
    return values


def _decode_interned(words: Words, type_: Type, dictionary: Dictionary) -> list[Any]:
    """Decode each distinct value once. Mutable values, such as lists, are decoded for each row."""
    codec = codec_of(type_)
    decoded: dict[str | None, Any] = {None: None}
    values = []
    for text in dictionary.decode(words):
        if text not in decoded or type_.parts:
            decoded[text] = None if text is None else codec.to_python(codec.decode(text))
        values.append(decoded[text])
    return values


def _values_without_nulls(words: Words, type_: Type, dictionary: Dictionary) -> list[Any]:
    """Like :func:`to_list`, for words without NULL."""
    match type_.kind:
        case Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT | Kind.INTERVAL_MONTH | Kind.ROWID:
            return words.tolist()
        case Kind.BOOLEAN:
            return (words != 0).tolist()
        case Kind.DECIMAL:
            shift = -type_.scale
            return [decimal.Decimal(word).scaleb(shift, WIDE_CONTEXT) for word in words.tolist()]
        case Kind.REAL | Kind.DOUBLE:
            return word_floats(words).tolist()
        case Kind.DATE:
            return _dates_or_timestamps(words, type_, dictionary, "datetime64[D]", 1)
        case Kind.TIMESTAMP:
            return _dates_or_timestamps(words, type_, dictionary, "datetime64[us]", DAY)
        case Kind.INTERVAL_DAY:
            return np.ascontiguousarray(words).view("timedelta64[us]").tolist()
        case _:
            return [to_python(word, type_, dictionary) for word in words.tolist()]


def _dates_or_timestamps(words: Words, type_: Type, dictionary: Dictionary, unit: str, day: int) -> list[Any]:
    """Convert dates or timestamps with ``day`` units per day. numpy cannot detect dates beyond Python's."""
    is_out_of_range = (words < (1 - EPOCH_DAY) * day) | (words >= (LAST_ORDINAL + 1 - EPOCH_DAY) * day)
    if is_out_of_range.any():
        return [to_python(word, type_, dictionary) for word in words.tolist()]
    return np.ascontiguousarray(words).view(unit).tolist()


MAX_CACHED_CODES: Final = 1 << 12
"""Texts of a column whose codes are cached: some hundred kilobytes."""


class RowEncoder:
    """Encoders of the columns, and a cache of the codes of recent texts.

    For a few rows it takes a fraction of the time of :func:`encode_rows`, but its errors have no message.
    """

    __slots__ = ("_encoders", "_required")

    def __init__(self, columns: Sequence[ColumnDef], dictionary: Dictionary) -> None:
        self._encoders = [
            _caching_encoder(value_encoder_of(column.type), dictionary)
            if column.type.is_interned
            else value_encoder_of(column.type)
            for column in columns
        ]
        self._required = [place for place, column in enumerate(columns) if not column.nullable]

    def words(self, row: Sequence[Any]) -> list[int]:
        """Return the words of a row.

        Raises:
            UnrepresentableValue, WrongPythonType: A value or the number of values is wrong.
        """
        encoders = self._encoders
        if len(row) != len(encoders):
            raise UnrepresentableValue
        words = [
            NULL if value is None else encode(value) for encode, value in zip(encoders, row, strict=True)
        ]
        for place in self._required:
            if words[place] == NULL:
                raise UnrepresentableValue
        return words


def _caching_encoder(encode_string: ValueEncoder, dictionary: Dictionary) -> ValueEncoder:
    """Return a function from a value to its code, for an interned type. It caches the codes of texts."""
    codes: dict[str, int] = {}

    def encode(value: Any) -> int:
        is_text = isinstance(value, str)
        code = codes.get(value) if is_text else None
        if code is None:
            code = dictionary.code(encode_string(value))
            if is_text:
                if len(codes) >= MAX_CACHED_CODES:
                    codes.clear()
                codes[value] = code
        return code

    return encode


Written = TypeVar("Written")


def format_values(
    words: NDArray[np.int64], type_: Type, dictionary: Dictionary, write: Callable[[Any], Written]
) -> list[Written | None]:
    """Apply ``write`` to each distinct value, in the form of codecs. NULL gives None."""
    word_list = words.tolist()
    results: dict[int, Written | None] = dict.fromkeys(word_list)
    results.pop(NULL, None)
    if type_.is_interned:
        decode = codec_of(type_).decode
        codes = list(results)
        for code, string in zip(codes, dictionary.decode(np.array(codes, np.int64)), strict=True):
            assert string is not None
            results[code] = write(decode(string))
    else:
        _, from_word = word_functions(type_)
        for word in results:
            results[word] = write(from_word(word))
    results[NULL] = None
    return [results[word] for word in word_list]
