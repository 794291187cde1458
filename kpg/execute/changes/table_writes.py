"""Table changes by Python data: matches rows or keys in any form with the rows of a table.

The functions work on words. The caller commits or rolls back.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.convert.python_values import OmittedColumns, show_word
from kpg.runtime.errors import DataError, IntegrityError, InterfaceError
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.types import ERROR, NULL, ColumnDef, Kind, Schema
from kpg.runtime.values.arrays import fit_elements
from kpg.runtime.values.codec import codec_of
from kpg.runtime.values.words import UnrepresentableValue
from kpg.session.base_table import Table
from kpg.session.engine import Engine

if TYPE_CHECKING:
    from kpg.execute.changes import defaults
    from kpg.runtime.convert import arrow
else:
    defaults = LazyModule("kpg.execute.changes.defaults")
    arrow = LazyModule("kpg.runtime.convert.arrow")

Words = NDArray[np.int64]
Evaluate = Callable[[Words], tuple[Words, Words | None]]
"""Maps, filters and projects rows; also returns the positions of those that passed, None for all."""


def insert(engine: Engine, table: Table, data: Any) -> int:
    """Insert rows and return their number."""
    words = encode_rows(engine, table, data)
    table.insert(words)
    return int(words.shape[1])


def delete(table: Table, data: Any) -> int:
    """Delete rows, given in full or by primary key, and return the number deleted."""
    key = table.schema.primary_key
    words = table.encode_keys(data) if type(data) is list else None
    if words is None:
        data = _materialize(data)
        if key and _has_only(data, [table.schema.columns[i].name for i in key], len(table.schema.columns)):
            words = _encode(data, Schema(tuple(table.schema.columns[i] for i in key)), table)
    if words is not None:
        rowids = table.find(words)
    else:
        rowids = table.match(_encode_full_rows(table, data))
    rowids = distinct(rowids[rowids >= 0])
    table.delete(rowids)
    return int(rowids.shape[0])


def upsert(engine: Engine, table: Table, data: Any) -> int:
    """Insert rows, replacing those with the same primary key, and return the number given.

    The last of several rows with the same key counts.
    """
    key = table.schema.primary_key
    if not key:
        raise InterfaceError(f"table {table.name} has no primary key", hint="upsert needs one; use insert")
    words = encode_rows(engine, table, data)
    count = int(words.shape[1])
    words = _last_of_each(words, key)
    old = table.find(np.ascontiguousarray(words[list(key)]))
    if table.guard is not None:
        table.update(old[old >= 0], np.ascontiguousarray(words[:, old >= 0]))
        table.insert(np.ascontiguousarray(words[:, old < 0]))
        return count
    replaced = old[old >= 0]
    table.delete(replaced)
    table.insert(words)
    table.tally.replace(replaced.shape[0])
    return count


def _last_of_each(words: Words, key: tuple[int, ...]) -> Words:
    """Return rows without those whose key occurs again later."""
    if words.shape[1] < 2:
        return words
    keys = words[list(key)]
    order = np.lexsort(keys)  # stable: rows with one key keep their order
    ordered = keys[:, order]
    last = np.ones(order.shape[0], np.bool_)
    np.any(ordered[:, 1:] != ordered[:, :-1], axis=0, out=last[:-1])
    return words if last.all() else np.ascontiguousarray(words[:, np.sort(order[last])])


def without_existing(table: Table, words: Words, keys: Sequence[tuple[int, ...]]) -> Words:
    """Return the rows whose keys neither exist nor occur in an earlier row."""
    words = np.ascontiguousarray(words)
    is_new = np.ones(words.shape[1], np.bool_)
    for columns in keys:
        is_new &= table.find_unique(columns, words[list(columns)]) < 0
    candidates = np.flatnonzero(is_new)
    if len(keys) == 1:
        found = words[list(keys[0])][:, candidates]
        _, first = np.unique(found, axis=1, return_index=True)
        with_null = np.flatnonzero((found == NULL).any(axis=0))
        return np.ascontiguousarray(words[:, candidates[np.union1d(first, with_null)]])
    seen_keys: list[set[tuple[int, ...]]] = [set() for _ in keys]
    positions = []
    for place in candidates.tolist() if keys else []:
        row = [tuple(words[list(columns), place].tolist()) for columns in keys]
        if any(key in known and NULL not in key for key, known in zip(row, seen_keys, strict=True)):
            continue
        for key, known in zip(row, seen_keys, strict=True):
            known.add(key)
        positions.append(place)
    return np.ascontiguousarray(words[:, positions] if keys else words)


def resolve_updates(
    table: Table, words: Words, key: tuple[int, ...], update: Evaluate, old: Words | None = None
) -> tuple[Words, tuple[Words, Words]]:
    """Split rows by whether their ``key`` exists: rows to insert, and rowids with their replacements.

    Args:
        update: Maps pairs of an existing row and the row to insert to the replacement.
        old: Rowids of the existing rows, -1 for others, if the key is not made of columns.

    Raises:
        IntegrityError: If a row would be updated twice.
    """
    if old is None:
        old = table.find_unique(key, np.ascontiguousarray(words[list(key)]))
    existing = np.flatnonzero(old >= 0)
    rowids = old[existing]
    _, first = np.unique(rowids, return_index=True)
    if first.size < rowids.size:
        duplicate = int(existing[np.setdiff1d(np.arange(rowids.size), first)[0]])
        raise IntegrityError(
            f"ON CONFLICT would update row {_format_row(table, key, words[list(key)], duplicate)} "
            f"of table {table.name} twice",
            hint="give each key once",
        )
    pairs = np.concatenate((table.fetch(rowids), words[:, existing]))
    new, kept = update(np.ascontiguousarray(pairs))
    new = np.ascontiguousarray(check_values(new, table))
    updated = np.ascontiguousarray(rowids if kept is None else rowids[kept])
    return np.ascontiguousarray(words[:, old < 0]), (updated, new)


def distinct(words: Words) -> Words:
    """Return the distinct words of ``int64[n]``, sorted.

    ``np.unique`` first imports numpy's masked arrays, which takes longer than a statement.
    """
    ordered = np.sort(words)
    first = np.ones(ordered.shape[0], np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def check_values(words: Words, table: Table) -> Words:
    """Return computed rows after checking that their values fit the columns; DataError otherwise.

    Trailing blanks beyond the limit are removed.
    """
    failed = bool((words == ERROR).any())
    for index, column in enumerate(table.schema.columns):
        values = words[index]
        if failed and (values == ERROR).any():
            raise DataError(f"the value for column {column.name} of table {table.name} failed to compute")
        if column.type.has_length_limit:
            cut = _truncate_texts(values, column, table)
            if cut:
                words = words.copy()
                for word, shorter in cut.items():
                    words[index, values == word] = shorter
    return words


def _truncate_texts(values: Words, column: ColumnDef, table: Table) -> dict[int, int]:
    """Return the texts with excess trailing blanks, and their truncation; DataError if one is too long."""
    limit = column.type.precision
    cut: dict[int, int] = {}
    codes = distinct(values)
    for word, text in zip(codes.tolist(), table.dictionary.decode(codes), strict=True):
        if text is None:
            continue
        if column.type.kind is Kind.ARRAY:
            codec = codec_of(column.type)
            try:
                fitting = codec.encode(fit_elements(codec.decode(text), column.type.parts[0]))
            except UnrepresentableValue:
                shown = codec.show(codec.decode(text))
                raise _too_long(shown, column, table) from None
            if fitting != text:
                cut[word] = table.dictionary.code(fitting)
            continue
        if column.type.kind is Kind.CHAR and text.endswith(" "):
            cut[word] = table.dictionary.code(text.rstrip(" "))
        if len(text) <= limit:
            continue
        if len(text.rstrip(" ")) > limit:
            raise _too_long(text, column, table)
        shorter = text.rstrip(" ") if column.type.kind is Kind.CHAR else text[:limit]
        cut[word] = table.dictionary.code(shorter)
    return cut


def encode_rows(engine: Engine, table: Table, data: Any) -> Words:
    """Return the words of rows to insert, in any form. Omitted columns get their DEFAULTs, as in INSERT."""
    words = table.encode_rows(data) if type(data) is list else None
    if words is not None:
        return words

    omitted = omissible_columns(engine, table)
    return fill_omitted(
        engine, table, arrow.encode_any(_materialize(data), table.schema, table.dictionary, omitted), omitted
    )


def omissible_columns(engine: Engine, table: Table) -> OmittedColumns:
    """Return the columns that rows may omit: nullable, generated, or with a DEFAULT."""
    constraints = engine.catalog.table(table.name).constraints
    rules = [(constraints.rule(place), column) for place, column in enumerate(table.schema.columns)]
    return OmittedColumns(
        frozenset(
            place
            for place, (rule, column) in enumerate(rules)
            if rule.default or rule.generated or (column.nullable and place not in table.schema.primary_key)
        )
    )


def fill_omitted(engine: Engine, table: Table, words: Words, omissions: OmittedColumns) -> Words:
    """Return rows with DEFAULTs in place of omitted values."""
    if not omissions.occurred or not words.shape[1]:
        return words

    entry = engine.catalog.table(table.name)
    return defaults.with_defaults(engine.executor, engine.sequences, entry, engine.catalog, words)


def _too_long(text: str, column: ColumnDef, table: Table) -> DataError:
    error = DataError(
        f"value '{text}' is too long for column {column.name} {column.type} of table {table.name}"
    )
    error.sqlstate = "22001"
    return error


def _encode_full_rows(table: Table, data: Any) -> Words:
    words = table.encode_rows(data) if type(data) is list else None
    return _encode(_materialize(data), table.schema, table) if words is None else words


def _encode(data: Any, schema: Schema, table: Table) -> Words:
    return arrow.encode_any(data, schema, table.dictionary)


def _materialize(data: Any) -> Any:
    """Return data that can be inspected before it is read: streams and iterators are read here."""
    import pyarrow

    if isinstance(data, pyarrow.RecordBatchReader):
        return data.read_all()
    if isinstance(data, Iterator):
        return list(data)
    if hasattr(data, "__arrow_c_stream__") and not hasattr(data, "columns"):
        return pyarrow.RecordBatchReader.from_stream(data).read_all()
    return data


def _has_only(data: Any, names: list[str], width: int) -> bool:
    """Whether the data has exactly the named columns; rows without names are compared by length."""
    import pyarrow

    first = data[0] if isinstance(data, Sequence) and not isinstance(data, str | bytes) and data else None
    data_names: Any
    if isinstance(data, pyarrow.Table | pyarrow.RecordBatch):
        data_names = data.schema.names
    elif isinstance(data, Mapping):
        data_names = data
    elif isinstance(first, Mapping):
        data_names = first
    elif first is not None:
        return isinstance(first, tuple | list) and len(first) == len(names) != width
    else:
        data_names = getattr(data, "columns", ())
    return sorted(str(name).lower() for name in data_names) == sorted(name.lower() for name in names)


def _format_row(table: Table, positions: tuple[int, ...], words: Words, row: int) -> str:
    columns = [table.schema.columns[i] for i in positions]
    values = [
        f"{column.name} = {show_word(int(words[i, row]), column.type, table.dictionary)}"
        for i, column in enumerate(columns)
    ]
    return f"({', '.join(values)})"
