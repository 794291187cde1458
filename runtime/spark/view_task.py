"""The function that Spark tasks run to read a view. The module is pickled by value to the executors."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def fetch(
    addresses: list[tuple[str, int]], secret: bytes, schema: "pa.Schema", numbers: "Iterable[pa.RecordBatch]"
) -> "Iterator[pa.RecordBatch]":
    """Yield the rows at the addresses with these numbers, cast to a common schema."""
    from kpg.runtime.cluster.transfer import fetch_table  # lazy: for tasks

    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from fetch_table(addresses[number], secret).cast(schema).to_batches()
