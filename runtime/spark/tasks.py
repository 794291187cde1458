"""Functions that executors run to load parquet files: read row groups by pyarrow, write Arrow streams.

The module is pickled by value to the executors and imports only the standard library and pyarrow.
"""

import os
import uuid
from collections.abc import Iterator
from typing import Final, TypedDict

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

BATCH_ROWS: Final = 1 << 16
"""Rows of a batch: small enough that memory is reused, since fresh memory costs more than the copy."""
LONG_DIGITS: Final = 18
"""Maximum digits of a 64-bit decimal."""
INT96_UNIT: Final = "us"
"""Unit in which timestamps of old writers are read, as by Spark."""
FAILED: Final = "kpg cannot read"
"""Prefix of the message for a file that cannot be read; the rest of the line is shown by the driver."""
SORTED: Final = b"kpg.sorted"
"""Key of a stream's schema metadata if its rows are not in the order of their file."""


class Split(TypedDict):
    """Row groups of a file that one task writes to a file of its own."""

    target: str
    path: str
    groups: list[int]
    row: int
    """Number of rows of the file before these row groups."""
    columns: list[str]
    key: list[str]
    """Columns by which the rows are ordered; empty if they are not reordered."""
    encoded: list[str]
    """Text columns that stay dictionary encoded, as in the file."""


def warm_up(_: object) -> None:
    """Import this module, so that the first split takes no longer than others."""
    pa.set_cpu_count(1)


def write_splits(splits: Iterator[Split]) -> Iterator[str]:
    """Write each split's rows to its target, which appears when it is complete; yield the targets."""
    pa.set_cpu_count(1)  # a task has one core
    for split in splits:
        partial = f"{split['target']}.{uuid.uuid4().hex}"
        try:
            _write_split(split, partial)
        except (OSError, pa.ArrowException) as error:
            raise RuntimeError(f"{FAILED} {split['path']}: {error}") from error
        os.replace(partial, split["target"])
        yield split["target"]


def _write_split(split: Split, path: str) -> None:
    batches = read_rows(split)
    first = next(batches)
    with pa.ipc.new_stream(path, first.schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)


def read_rows(split: Split) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split in batches; the schema's metadata tells if they were sorted by key."""
    options = {"read_dictionary": split["encoded"], "coerce_int96_timestamp_unit": INT96_UNIT}
    with pq.ParquetFile(split["path"], memory_map=True, **options) as file:
        yield from _read_batches(file, split)


def _read_batches(file: pq.ParquetFile, split: Split) -> Iterator[pa.RecordBatch]:
    groups, columns, key = split["groups"], split["columns"], split["key"]
    read = file.iter_batches(BATCH_ROWS, row_groups=groups, columns=columns, use_threads=False)
    batches: Iterator[pa.RecordBatch] = (simplify_types(batch) for batch in read)
    metadata: dict[bytes, bytes] = {}
    if key and not is_ascending(file.read_row_groups(groups, columns=key, use_threads=False)):
        batches, metadata = sort_by_key(pa.Table.from_batches(batches), key), {SORTED: b"yes"}
    for batch in batches:
        yield batch.replace_schema_metadata(metadata)


def sort_by_key(table: pa.Table, key: list[str]) -> Iterator[pa.RecordBatch]:
    """Return the rows in the order of key columns."""
    order = pc.sort_indices(table, [(name, "ascending") for name in key])
    return iter(table.take(order).to_batches(BATCH_ROWS))


def is_ascending(keys: pa.Table) -> bool:
    """Return whether rows are in lexicographic order, including equal ones."""
    tie = None
    for column in keys.columns:
        before, after = column.slice(0, max(0, len(column) - 1)), column.slice(1)
        falls, same = pc.less(after, before), pc.equal(after, before)
        if tie is not None:
            falls, same = pc.and_(tie, falls), pc.and_(tie, same)
        if pc.any(falls).as_py():
            return False
        tie = same
    return True


def simplify_types(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with texts and decimals in the types that are read fastest."""
    arrays = [_simplify_type(array) for array in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _simplify_type(array: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        return pa.DictionaryArray.from_arrays(array.indices, _simplify_type(array.dictionary))
    if pa.types.is_string_view(array.type) or pa.types.is_large_string(array.type):
        return array.cast(pa.string())
    if pa.types.is_decimal128(array.type) and array.type.precision <= LONG_DIGITS:
        return array.cast(pa.decimal64(array.type.precision, array.type.scale))
    return array
