"""Words to the arguments of user functions and back, and the interface of user-defined operators.

Columns are numpy arrays:

* integers, decimals (times ``10**scale``) and intervals are int64;
* BOOLEAN is bool, REAL and DOUBLE are float64;
* DATE is ``datetime64[D]``, TIMESTAMP is ``datetime64[us]``;
* text is an array of objects.
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
from kpg.runtime.values import UnrepresentableValue, WrongPythonType

Words = NDArray[np.int64]


Array = NDArray[Any]
OBJECT_KINDS = frozenset({Kind.ENUM, Kind.EXTENSION, Kind.TID, Kind.TIME, Kind.TIMESTAMPTZ})
DATETIME_DTYPES = {Kind.DATE: "datetime64[D]", Kind.TIMESTAMP: "datetime64[us]"}


def from_rows(rows: Sequence[Any], schema: Schema, dictionary: Dictionary) -> Words:
    """Convert rows of Python values to words. The value of a single column need not be in a tuple.

    It raises as ``encode_rows``, and IntegrityError for None in a column that is not nullable.
    """
    if len(schema.columns) == 1:
        rows = [row if isinstance(row, (tuple, list)) else (row,) for row in rows]
    for row in rows:
        if not isinstance(row, (tuple, list)):
            raise InterfaceError(
                f"a row must be a tuple ({', '.join(schema.names)}), not {row!r}",
                hint="give (a, b), or [a, b]",
            )
    return _check_not_null(encode_rows(rows, schema, dictionary), schema)


class RowEncoder:
    """An encoder of single rows, with the checks of :func:`from_rows`."""

    def __init__(self, schema: Schema, dictionary: Dictionary) -> None:
        self._schema = schema
        self._dictionary = dictionary
        self._encoder = python_values.RowEncoder(schema.columns, dictionary)

    def words(self, row: Any) -> Sequence[int]:
        """Return the words of a row. It raises as :func:`from_rows`."""
        if isinstance(row, tuple):
            try:
                return self._encoder.words(row)
            except (UnrepresentableValue, WrongPythonType):
                pass  # from_rows raises with row and column
        words: list[int] = from_rows([row], self._schema, self._dictionary)[:, 0].tolist()
        return words


def _check_not_null(words: Words, schema: Schema) -> Words:
    for i, column in enumerate(schema.columns):
        if not column.nullable and words.shape[1] and words[i].min() == NULL:
            raise IntegrityError(
                f"column {column.name} cannot be None",
                hint=f"declare it nullable: {column.name}=... | None",
                sqlstate="23502",
            )
    return words


def to_arrays(words: Words, schema: Schema, dictionary: Dictionary) -> tuple[Array, ...]:
    """Convert words to one array per column.

    Raises:
        DataError: A column has a NULL, and its array type cannot represent it.
    """
    return tuple(_to_array(words[i], column, dictionary) for i, column in enumerate(schema.columns))


def _to_array(words: Words, column: ColumnDef, dictionary: Dictionary) -> Array:
    type_ = column.type
    if type_.is_text:
        texts = np.empty(words.shape[0], object)
        texts[:] = to_list(words, type_, dictionary)
        return texts
    if type_.is_interned or type_.kind in OBJECT_KINDS:
        objects = np.empty(words.shape[0], object)
        for place, value in enumerate(to_list(words, type_, dictionary)):
            objects[place] = value
        return objects
    unit = DATETIME_DTYPES.get(type_.kind)
    if unit is not None:
        return _read_only(words.view(unit))  # the word NULL is NaT
    if words.shape[0] and words.min() == NULL:
        raise DataError(
            f"column {column.name} has a NULL, which an array of {type_} cannot hold",
            hint="filter them out, or use a function of rows",
        )
    if type_.is_float:
        return word_floats(words)
    return words != 0 if type_.kind is Kind.BOOLEAN else _read_only(words)


def _read_only(array: Array) -> Array:
    """Return a read-only view, since the engine continues to use the array."""
    view = array.view()
    view.flags.writeable = False
    return view


def from_arrays(arrays: Sequence[Any], schema: Schema, dictionary: Dictionary, rows: int | None) -> Words:
    """Convert arrays, one per column, to words. All have length ``rows`` unless that is None.

    Raises:
        InterfaceError: The number of arrays or a length is wrong.
        DataError: A value does not fit.
    """
    names = ", ".join(schema.names)
    if len(arrays) != len(schema.columns):
        raise InterfaceError(f"{len(arrays)} arrays for the {len(schema.columns)} columns {names}")
    columns = [np.asarray(array) for array in arrays]
    length = columns[0].shape[0] if rows is None and columns and columns[0].ndim else rows or 0
    words = np.empty((len(columns), length), np.int64)
    for i, (array, column) in enumerate(zip(columns, schema.columns, strict=True)):
        if array.shape != (length,):
            raise InterfaceError(
                f"the array of column {column.name} has shape {array.shape}, expected ({length},)"
            )
        words[i] = _from_array(array, column, dictionary)
    return _check_not_null(words, schema)


def _from_array(array: Array, column: ColumnDef, dictionary: Dictionary) -> Words:
    """Convert by dtype where it matches the type, otherwise one value at a time."""
    kind, dtype_kind = column.type.kind, array.dtype.kind
    if kind is Kind.BIGINT and dtype_kind in "iu" and array.dtype != np.uint64:
        words = array.astype(np.int64)
        if words.shape[0] and words.min() <= ERROR:
            raise DataError(f"column {column.name}: {int(words.min())} does not fit {column.type}")
        return words
    if kind is Kind.BOOLEAN and dtype_kind == "b":
        return array.astype(np.int64)
    if kind is Kind.DOUBLE and dtype_kind == "f":
        return float_words(np.ascontiguousarray(array, np.float64))
    if kind in DATETIME_DTYPES and dtype_kind == "M":
        return array.astype(DATETIME_DTYPES[kind]).view(np.int64)
    if kind is Kind.DECIMAL and dtype_kind in "iu":
        return _check_decimals(array.astype(np.int64), column)
    return encode_rows([(value,) for value in array.tolist()], Schema((column,)), dictionary)[0]


def _check_decimals(words: Words, column: ColumnDef) -> Words:
    limit = 10**column.type.precision
    if words.shape[0] and not (-limit < int(words.min()) and int(words.max()) < limit):
        raise DataError(f"column {column.name}: a value does not fit {column.type}")
    return words


class Batch:
    """Rows with multiplicities that arrive together, at one time, on input ``port``."""

    def __init__(self, updates: Updates, port: int, schema: Schema, dictionary: Dictionary) -> None:
        self.port = port
        self._updates = updates
        self._schema = schema
        self._dictionary = dictionary

    def __len__(self) -> int:
        return len(self._updates)

    def __iter__(self) -> Iterator[tuple[tuple[Any, ...], int]]:
        """Iterate over pairs (row, multiplicity)."""
        rows = to_rows(self._updates.data, self._schema.types, self._dictionary)
        return iter(list(zip(rows, self._updates.diffs().tolist(), strict=True)))

    @property
    def columns(self) -> tuple[NDArray[Any], ...]:
        """One array per column."""
        return to_arrays(self._updates.data, self._schema, self._dictionary)

    @property
    def diffs(self) -> Words:
        """Multiplicities of the rows."""
        return self._updates.diffs()

    def words_as(self, types: tuple[Type, ...]) -> tuple[Words, Words] | None:
        """Return rows and multiplicities as words, or None if the types differ."""
        return (self._updates.data, self._updates.diffs()) if types == self._schema.types else None


class Context(Protocol):
    """Interface that the engine provides to a user-defined operator."""

    def send(self, batch: Iterable[tuple[Any, int]], time: Any) -> None:
        """Send pairs (row, multiplicity)."""

    def notify_at(self, time: Any) -> None:
        """Request a notification at a time."""


class UserOperator(Protocol):
    """Interface of a user-defined operator."""

    context: Context | None

    def on_recv(self, batch: Batch, time: Any) -> object:
        """Handle a batch of rows."""

    def on_notify(self, time: Any) -> object:
        """Handle a notification: no earlier rows can arrive."""

    def save(self) -> Any:
        """Return the state for :meth:`restore`."""

    def restore(self, state: Any) -> object:
        """Restore a saved state."""
