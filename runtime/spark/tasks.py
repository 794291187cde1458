"""The function that executors run to load parquet files: read row groups by pyarrow, write Arrow streams.

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
"""Few enough that a batch's memory is used again for the next: fresh memory costs more than the copy."""
LONG_DIGITS: Final = 18
"""Of decimals in 64 bits."""
INT96_UNIT: Final = "us"
"""What the timestamps of old writers are read in, as Spark does."""
FAILED: Final = "kpg cannot read"
"""How the message of a file that cannot be read begins; the rest of the line is the driver's to show."""
SORTED: Final = b"kpg.sorted"
"""What the metadata of a stream's schema has if its rows are not in the order of their file."""


class Split(TypedDict):
    """Row groups of a file that one task hands over, into a file of its own."""

    target: str
    path: str
    groups: list[int]
    row: int
    """Rows of the file before the first of these."""
    columns: list[str]
    key: list[str]
    """The columns that rows are handed over in the order of; none if they stay as they are."""
    encoded: list[str]
    """Columns of text that stay dictionary encoded, as the file has them."""


def get_ready(_: object) -> None:
    """What makes the first split take no longer than others: this module is imported by now."""
    pa.set_cpu_count(1)


def hand_over(splits: Iterator[Split]) -> Iterator[str]:
    """Write each split's rows to its target, which appears when it is complete; the targets."""
    pa.set_cpu_count(1)  # a task has one core
    for split in splits:
        partial = f"{split['target']}.{uuid.uuid4().hex}"
        try:
            _write(split, partial)
        except (OSError, pa.ArrowException) as error:
            raise RuntimeError(f"{FAILED} {split['path']}: {error}") from error
        os.replace(partial, split["target"])
        yield split["target"]


def _write(split: Split, path: str) -> None:
    batches = rows(split)
    first = next(batches)
    with pa.ipc.new_stream(path, first.schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)


def rows(split: Split) -> Iterator[pa.RecordBatch]:
    """The rows of a split, some at a time; the schema says if they had to be sorted by their key."""
    options = {"read_dictionary": split["encoded"], "coerce_int96_timestamp_unit": INT96_UNIT}
    with pq.ParquetFile(split["path"], memory_map=True, **options) as file:
        yield from _batches(file, split)


def _batches(file: pq.ParquetFile, split: Split) -> Iterator[pa.RecordBatch]:
    groups, columns, key = split["groups"], split["columns"], split["key"]
    read = file.iter_batches(BATCH_ROWS, row_groups=groups, columns=columns, use_threads=False)
    batches: Iterator[pa.RecordBatch] = (plain(batch) for batch in read)
    about: dict[bytes, bytes] = {}
    if key and not ascending(file.read_row_groups(groups, columns=key, use_threads=False)):
        batches, about = by_key(pa.Table.from_batches(batches), key), {SORTED: b"yes"}
    for batch in batches:
        yield batch.replace_schema_metadata(about)


def by_key(table: pa.Table, key: list[str]) -> Iterator[pa.RecordBatch]:
    """The rows in the order of key columns."""
    order = pc.sort_indices(table, [(name, "ascending") for name in key])
    return iter(table.take(order).to_batches(BATCH_ROWS))


def ascending(keys: pa.Table) -> bool:
    """Whether rows ascend, compared column by column; equal ones may follow each other."""
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


def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with text and decimals in their smallest forms, which are those that are read soonest."""
    arrays = [_plain(array) for array in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _plain(array: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        return pa.DictionaryArray.from_arrays(array.indices, _plain(array.dictionary))
    if pa.types.is_string_view(array.type) or pa.types.is_large_string(array.type):
        return array.cast(pa.string())
    if pa.types.is_decimal128(array.type) and array.type.precision <= LONG_DIGITS:
        return array.cast(pa.decimal64(array.type.precision, array.type.scale))
    return array
