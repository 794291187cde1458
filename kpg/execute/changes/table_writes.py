"""Table changes by Python data: matches rows or keys in any form with the rows of a table.

The functions work on words. The caller commits or rolls back.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.convert.python_values import Omitted, show
from kpg.runtime.errors import DataError, IntegrityError, InterfaceError
from kpg.runtime.types import ERROR, NULL, ColumnDef, Kind, Schema
from kpg.runtime.values.arrays import within
from kpg.runtime.values.codec import codec_of
from kpg.runtime.values.words import Unfit
from kpg.session.base_table import Table
from kpg.session.engine import Engine

Words = NDArray[np.int64]
Evaluate = Callable[[Words], tuple[Words, Words | None]]
"""Rows mapped, filtered and projected, and the positions of those that passed, None if all did."""


def insert(engine: Engine, table: Table, data: Any) -> int:
    """Insert rows; how many."""
    words = new_rows(engine, table, data)
    table.insert(words)
    return int(words.shape[1])


def delete(table: Table, data: Any) -> int:
    """Delete rows, given whole or by primary key; how many were there."""
    key = table.schema.primary_key
    words = table.encoded_keys(data) if type(data) is list else None
    if words is None:
        data = _replayable(data)
        if key and _has_only(data, [table.schema.columns[i].name for i in key], len(table.schema.columns)):
            words = _encode(data, Schema(tuple(table.schema.columns[i] for i in key)), table)
    if words is not None:
        rowids = table.find(words)
    else:
        rowids = table.match(_rows(table, data))
    rowids = distinct(rowids[rowids >= 0])
    table.delete(rowids)
    return int(rowids.shape[0])


def upsert(engine: Engine, table: Table, data: Any) -> int:
    """Insert rows, in place of those with the same primary key; how many were given.

    Of rows with the same key the last counts.
    """
    key = table.schema.primary_key
    if not key:
        raise InterfaceError(f"table {table.name} has no primary key", hint="upsert needs one; use insert")
    words = new_rows(engine, table, data)
    count = int(words.shape[1])
    words = _last_of_each(words, key)
    old = table.find(np.ascontiguousarray(words[list(key)]))
    if table.guard is not None:
        table.update(old[old >= 0], np.ascontiguousarray(words[:, old >= 0]))
        table.insert(np.ascontiguousarray(words[:, old < 0]))
        return count
    gone = old[old >= 0]
    table.delete(gone)
    table.insert(words)
    table.tally.replace(gone.shape[0])
    return count


def _last_of_each(words: Words, key: tuple[int, ...]) -> Words:
    """Rows without those whose key comes again later."""
    if words.shape[1] < 2:
        return words
    keys = words[list(key)]
    order = np.lexsort(keys)  # stable: rows of one key stay in their order
    ordered = keys[:, order]
    last = np.ones(order.shape[0], np.bool_)
    np.any(ordered[:, 1:] != ordered[:, :-1], axis=0, out=last[:-1])
    return words if last.all() else np.ascontiguousarray(words[:, np.sort(order[last])])


def missing(table: Table, words: Words, keys: Sequence[tuple[int, ...]]) -> Words:
    """The rows whose keys are not there, and not among those before them."""
    words = np.ascontiguousarray(words)
    kept = np.ones(words.shape[1], np.bool_)
    for columns in keys:
        kept &= table.find_unique(columns, words[list(columns)]) < 0
    candidates = np.flatnonzero(kept)
    if len(keys) == 1:
        found = words[list(keys[0])][:, candidates]
        _, first = np.unique(found, axis=1, return_index=True)
        alone = np.flatnonzero((found == NULL).any(axis=0))
        return np.ascontiguousarray(words[:, candidates[np.union1d(first, alone)]])
    seen: list[set[tuple[int, ...]]] = [set() for _ in keys]
    chosen = []
    for place in candidates.tolist() if keys else []:
        row = [tuple(words[list(columns), place].tolist()) for columns in keys]
        if any(key in known and NULL not in key for key, known in zip(row, seen, strict=True)):
            continue
        for key, known in zip(row, seen, strict=True):
            known.add(key)
        chosen.append(place)
    return np.ascontiguousarray(words[:, chosen] if keys else words)


def merged(
    table: Table, words: Words, key: tuple[int, ...], update: Evaluate, old: Words | None = None
) -> tuple[Words, tuple[Words, Words]]:
    """The rows whose ``key`` is not there; and rowids of those that are, with what takes their place.

    ``update`` maps a row of the table next to the one to insert to that. IntegrityError if a row would be
    updated twice. ``old`` are the rowids of the rows that are there, -1 for others, if the key is no columns.
    """
    if old is None:
        old = table.find_unique(key, np.ascontiguousarray(words[list(key)]))
    there = np.flatnonzero(old >= 0)
    rowids = old[there]
    _, first = np.unique(rowids, return_index=True)
    if first.size < rowids.size:
        again = int(there[np.setdiff1d(np.arange(rowids.size), first)[0]])
        raise IntegrityError(
            f"ON CONFLICT would update row {_shown(table, key, words[list(key)], again)} "
            f"of table {table.name} twice",
            hint="give each key once",
        )
    pairs = np.concatenate((table.fetch(rowids), words[:, there]))
    new, kept = update(np.ascontiguousarray(pairs))
    new = np.ascontiguousarray(checked(new, table))
    updated = np.ascontiguousarray(rowids if kept is None else rowids[kept])
    return np.ascontiguousarray(words[:, old < 0]), (updated, new)


def distinct(words: Words) -> Words:
    """The distinct words of ``int64[n]``, in order.

    As ``np.unique``, which first imports numpy's masked arrays: that takes longer than a statement.
    """
    ordered = np.sort(words)
    first = np.ones(ordered.shape[0], np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def checked(words: Words, table: Table) -> Words:
    """New rows that expressions have computed, if their values fit the columns; DataError if not.

    Texts that are too long by blanks are cut.
    """
    failed = bool((words == ERROR).any())
    for index, column in enumerate(table.schema.columns):
        values = words[index]
        if failed and (values == ERROR).any():
            raise DataError(f"the value for column {column.name} of table {table.name} failed to compute")
        if column.type.limits_length:
            cut = _cut(values, column, table)
            if cut:
                words = words.copy()
                for word, shorter in cut.items():
                    words[index, values == word] = shorter
    return words


def _cut(values: Words, column: ColumnDef, table: Table) -> dict[int, int]:
    """The texts that are too long by blanks, and what they become; DataError if one is too long without."""
    limit = column.type.precision
    cut: dict[int, int] = {}
    codes = distinct(values)
    for word, text in zip(codes.tolist(), table.dictionary.decode(codes), strict=True):
        if text is None:
            continue
        if column.type.kind is Kind.ARRAY:
            codec = codec_of(column.type)
            try:
                fitting = codec.encode(within(codec.decode(text), column.type.parts[0]))
            except Unfit:
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


def new_rows(engine: Engine, table: Table, data: Any) -> Words:
    """The words of rows to insert, in any form. Columns that they omit get their DEFAULTs, as by INSERT."""
    words = table.encoded(data) if type(data) is list else None
    if words is not None:
        return words
    from kpg.runtime.convert.arrow import from_any  # lazy: the start does without it

    omitted = may_omit(engine, table)
    return completed(
        engine, table, from_any(_replayable(data), table.schema, table.dictionary, omitted), omitted
    )


def may_omit(engine: Engine, table: Table) -> Omitted:
    """The columns that rows may omit: those with a DEFAULT, generated ones, and those that take NULL."""
    constraints = engine.catalog.table(table.name).constraints
    rules = [(constraints.rule(place), column) for place, column in enumerate(table.schema.columns)]
    return Omitted(
        frozenset(
            place
            for place, (rule, column) in enumerate(rules)
            if rule.default or rule.generated or (column.nullable and place not in table.schema.primary_key)
        )
    )


def completed(engine: Engine, table: Table, words: Words, omitted: Omitted) -> Words:
    """Rows with DEFAULTs in the place of the values that they omit."""
    if not omitted.found or not words.shape[1]:
        return words
    from kpg.execute.changes.defaults import with_defaults  # lazy: the start does without it

    entry = engine.catalog.table(table.name)
    return with_defaults(engine.executor, engine.sequences, entry, engine.catalog, words)


def _too_long(text: str, column: ColumnDef, table: Table) -> DataError:
    error = DataError(
        f"value '{text}' is too long for column {column.name} {column.type} of table {table.name}"
    )
    error.sqlstate = "22001"
    return error


def _rows(table: Table, data: Any) -> Words:
    """The words of whole rows in any form."""
    words = table.encoded(data) if type(data) is list else None
    return _encode(_replayable(data), table.schema, table) if words is None else words


def _encode(data: Any, schema: Schema, table: Table) -> Words:
    from kpg.runtime.convert.arrow import from_any  # lazy: the start does without it

    return from_any(data, schema, table.dictionary)


def _replayable(data: Any) -> Any:
    """Data that can be looked at before it is read: streams and iterators are read here."""
    import pyarrow

    if isinstance(data, pyarrow.RecordBatchReader):
        return data.read_all()
    if isinstance(data, Iterator):
        return list(data)
    if hasattr(data, "__arrow_c_stream__") and not hasattr(data, "columns"):
        return pyarrow.RecordBatchReader.from_stream(data).read_all()
    return data


def _has_only(data: Any, names: list[str], width: int) -> bool:
    """Whether the data has the named columns and no others; rows without names go by their length."""
    import pyarrow

    first = data[0] if isinstance(data, Sequence) and not isinstance(data, str | bytes) and data else None
    given: Any
    if isinstance(data, pyarrow.Table | pyarrow.RecordBatch):
        given = data.schema.names
    elif isinstance(data, Mapping):
        given = data
    elif isinstance(first, Mapping):
        given = first
    elif first is not None:
        return isinstance(first, tuple | list) and len(first) == len(names) != width
    else:
        given = getattr(data, "columns", ())
    return sorted(str(name).lower() for name in given) == sorted(name.lower() for name in names)


def _shown(table: Table, positions: tuple[int, ...], words: Words, row: int) -> str:
    columns = [table.schema.columns[i] for i in positions]
    values = [
        f"{column.name} = {show(int(words[i, row]), column.type, table.dictionary)}"
        for i, column in enumerate(columns)
    ]
    return f"({', '.join(values)})"
