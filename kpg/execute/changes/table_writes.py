"""Table changes by Python data: matches rows or keys in any form with the rows of a table.

The functions work on words. The caller commits or rolls back.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kpg.execute.changes.table_pipeline import Write, check_computed, distinct, load_changes, pipeline_of
from kpg.runtime.convert.python_values import OmittedColumns, show_word
from kpg.runtime.errors import IntegrityError, InterfaceError
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.types import NULL, Schema
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
    load_changes(engine, table, words).apply()
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
    pipeline = pipeline_of(engine, table)
    if pipeline.stages:
        words = pipeline.check_new_rows(Write(engine, table, None, "INSERT"), words)
    old = table.find(np.ascontiguousarray(words[list(key)]))
    if table.guard is not None:
        table.update(old[old >= 0], np.ascontiguousarray(words[:, old >= 0]), completed=True)
        table.insert(np.ascontiguousarray(words[:, old < 0]), checked=True)
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
    existing, absent = np.flatnonzero(old >= 0), np.flatnonzero(old < 0)
    check_distinct_keys(table, np.ascontiguousarray(words[list(key)][:, absent]))
    rowids = old[existing]
    pairs = np.concatenate((table.fetch(rowids), words[:, existing]))
    new, kept = update(np.ascontiguousarray(pairs))
    places = np.arange(rowids.size) if kept is None else kept
    last = {rowid: place for place, rowid in enumerate(rowids.tolist())} if rowids.size > 1 else {}
    for place, rowid in zip(places.tolist(), rowids[places].tolist(), strict=True) if last else ():
        # Rows whose WHERE fails do not change the existing row.
        if last[rowid] > place:
            raise _second_update(
                f"row {_format_row(table, key, words, int(existing[last[rowid]]))} of table {table.name}"
            )
    new = np.ascontiguousarray(new)
    check_computed(new, table)
    return np.ascontiguousarray(words[:, absent]), (np.ascontiguousarray(rowids[places]), new)


def check_distinct_keys(table: Table, keys: Words) -> None:
    """Raise IntegrityError if two of the new rows of an ON CONFLICT DO UPDATE have the same key."""
    if keys.shape[1] < 2 or not keys.shape[0]:
        return
    whole = keys[:, (keys != NULL).all(axis=0)]
    if np.unique(whole, axis=1).shape[1] < whole.shape[1]:
        raise _second_update(f"a new row of table {table.name}")


def _second_update(row: str) -> IntegrityError:
    return IntegrityError(
        f"ON CONFLICT would update {row} twice", hint="give each key once", sqlstate="21000"
    )


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
