"""The function that Spark tasks run to read a view. It is pickled by value to the executors."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def fetch(
    places: list[tuple[str, int]], secret: bytes, schema: "pa.Schema", numbers: "Iterable[pa.RecordBatch]"
) -> "Iterator[pa.RecordBatch]":
    """The rows of the places with these numbers, by types that all of them can have."""
    from kpg.runtime.cluster.transfer import fetched  # lazy: for tasks

    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from fetched(places[number], secret).cast(schema).to_batches()
