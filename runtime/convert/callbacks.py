"""Words to the arguments of user functions and back, and the interface of user-defined operators.

Columns are numpy arrays: integers and scaled decimals (times ``10**scale``) as int64, BOOLEAN as bool, REAL
and DOUBLE as float64, DATE as ``datetime64[D]``, TIMESTAMP as ``datetime64[us]``, intervals as int64, text as
objects.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.convert import python_values
from kpg.runtime.convert.python_values import encode_rows, float_words, to_list, to_rows, word_floats
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, IntegrityError, InterfaceError
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import ERROR, NULL, ColumnDef, Kind, Schema, Type
from kpg.runtime.values import Mistyped, Unfit

Words = NDArray[np.int64]


Array = NDArray[Any]
OBJECTS = frozenset({Kind.ENUM, Kind.TID, Kind.TIME, Kind.TIMESTAMPTZ})
DATES = {Kind.DATE: "datetime64[D]", Kind.TIMESTAMP: "datetime64[us]"}


def from_rows(rows: Sequence[Any], schema: Schema, dictionary: Dictionary) -> Words:
    """The words of rows of Python values; a single column's value need not be in a tuple.

    Raises what ``encode_rows`` does, and IntegrityError for a None in a column that has none.
    """
    if len(schema.columns) == 1:
        rows = [row if isinstance(row, (tuple, list)) else (row,) for row in rows]
    for row in rows:
        if not isinstance(row, (tuple, list)):
            raise InterfaceError(
                f"a row must be a tuple ({', '.join(schema.names)}), not {row!r}",
                hint="give (a, b), or [a, b]",
            )
    return _without_nulls(encode_rows(rows, schema, dictionary), schema)


class RowEncoder:
    """As :func:`from_rows` for one row after the other."""

    def __init__(self, schema: Schema, dictionary: Dictionary) -> None:
        self._schema = schema
        self._dictionary = dictionary
        self._encoder = python_values.RowEncoder(schema.columns, dictionary)

    def words(self, row: Any) -> Sequence[int]:
        """The words of a row; errors as :func:`from_rows`."""
        if isinstance(row, tuple):
            try:
                return self._encoder.words(row)
            except (Unfit, Mistyped):
                pass  # to be said with row and column
        words: list[int] = from_rows([row], self._schema, self._dictionary)[:, 0].tolist()
        return words


def _without_nulls(words: Words, schema: Schema) -> Words:
    for i, column in enumerate(schema.columns):
        if not column.nullable and words.shape[1] and words[i].min() == NULL:
            raise IntegrityError(
                f"column {column.name} cannot be None",
                hint=f"declare it so that it can: {column.name}=... | None",
            )
    return words


def to_arrays(words: Words, schema: Schema, dictionary: Dictionary) -> tuple[Array, ...]:
    """One array a column; DataError for a NULL in a column whose array has no value for it."""
    return tuple(_to_array(words[i], column, dictionary) for i, column in enumerate(schema.columns))


def _to_array(words: Words, column: ColumnDef, dictionary: Dictionary) -> Array:
    type_ = column.type
    if type_.is_text:
        texts = np.empty(words.shape[0], object)
        texts[:] = to_list(words, type_, dictionary)
        return texts
    if type_.is_interned or type_.kind in OBJECTS:
        objects = np.empty(words.shape[0], object)
        for place, value in enumerate(to_list(words, type_, dictionary)):
            objects[place] = value
        return objects
    unit = DATES.get(type_.kind)
    if unit is not None:
        return _guarded(words.view(unit))  # the word NULL is NaT
    if words.shape[0] and words.min() == NULL:
        raise DataError(
            f"column {column.name} has a NULL, and an array of {type_} cannot",
            hint="filter them out, or use a function of rows",
        )
    if type_.is_float:
        return word_floats(words)
    return words != 0 if type_.kind is Kind.BOOLEAN else _guarded(words)


def _guarded(array: Array) -> Array:
    """The array, which the engine goes on to use, so that nobody can write to it."""
    view = array.view()
    view.flags.writeable = False
    return view


def from_arrays(arrays: Sequence[Any], schema: Schema, dictionary: Dictionary, rows: int | None) -> Words:
    """The words of arrays, one a column, all of length ``rows`` if that is given.

    Raises InterfaceError for a wrong number of arrays or length, DataError for values that do not fit.
    """
    names = ", ".join(schema.names)
    if len(arrays) != len(schema.columns):
        raise InterfaceError(f"{len(arrays)} arrays for the {len(schema.columns)} columns {names}")
    given = [np.asarray(array) for array in arrays]
    length = given[0].shape[0] if rows is None and given and given[0].ndim else rows or 0
    words = np.empty((len(given), length), np.int64)
    for i, (array, column) in enumerate(zip(given, schema.columns, strict=True)):
        if array.shape != (length,):
            raise InterfaceError(
                f"the array of column {column.name} has shape {array.shape}, expected ({length},)"
            )
        words[i] = _from_array(array, column, dictionary)
    return _without_nulls(words, schema)


def _from_array(array: Array, column: ColumnDef, dictionary: Dictionary) -> Words:
    """By the array's own kind where that is the type's, otherwise value by value."""
    kind, given = column.type.kind, array.dtype.kind
    if kind is Kind.BIGINT and given in "iu" and array.dtype != np.uint64:
        words = array.astype(np.int64)
        if words.shape[0] and words.min() <= ERROR:
            raise DataError(f"column {column.name}: {int(words.min())} does not fit {column.type}")
        return words
    if kind is Kind.BOOLEAN and given == "b":
        return array.astype(np.int64)
    if kind is Kind.DOUBLE and given == "f":
        return float_words(np.ascontiguousarray(array, np.float64))
    if kind in DATES and given == "M":
        return array.astype(DATES[kind]).view(np.int64)
    if kind is Kind.DECIMAL and given in "iu":
        return _scaled(array.astype(np.int64), column)
    return encode_rows([(value,) for value in array.tolist()], Schema((column,)), dictionary)[0]


def _scaled(words: Words, column: ColumnDef) -> Words:
    limit = 10**column.type.precision
    if words.shape[0] and not (-limit < int(words.min()) and int(words.max()) < limit):
        raise DataError(f"column {column.name}: a value does not fit {column.type}")
    return words


class Batch:
    """Rows with multiplicities that arrived together, at one time, on input ``port``."""

    def __init__(self, updates: Updates, port: int, schema: Schema, dictionary: Dictionary) -> None:
        self.port = port
        self._updates = updates
        self._schema = schema
        self._dictionary = dictionary

    def __len__(self) -> int:
        return len(self._updates)

    def __iter__(self) -> Iterator[tuple[tuple[Any, ...], int]]:
        """Pairs (row, multiplicity)."""
        rows = to_rows(self._updates.data, self._schema.types, self._dictionary)
        return iter(list(zip(rows, self._updates.diffs().tolist(), strict=True)))

    @property
    def columns(self) -> tuple[NDArray[Any], ...]:
        """One array a column."""
        return to_arrays(self._updates.data, self._schema, self._dictionary)

    @property
    def diffs(self) -> Words:
        """The multiplicities."""
        return self._updates.diffs()

    def words_as(self, types: tuple[Type, ...]) -> tuple[Words, Words] | None:
        """Rows and multiplicities as words, if they are of these types."""
        return (self._updates.data, self._updates.diffs()) if types == self._schema.types else None


class Context(Protocol):
    """What a user's operator may do."""

    def send(self, batch: Iterable[tuple[Any, int]], time: Any) -> None:
        """Send pairs (row, multiplicity)."""

    def notify_at(self, time: Any) -> None:
        """Ask for a notification."""


class UserOperator(Protocol):
    """What the user wrote."""

    context: Context | None

    def on_recv(self, batch: Batch, time: Any) -> object:
        """Messages have come."""

    def on_notify(self, time: Any) -> object:
        """No earlier messages can come."""

    def save(self) -> Any:
        """The state, to be given to ``restore``."""

    def restore(self, state: Any) -> object:
        """Go back to a saved state."""
