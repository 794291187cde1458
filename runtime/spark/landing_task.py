"""What Spark's tasks run that load rows into workers. It is sent to the executors by value."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def send(
    places: list[tuple[str, int]], secret: bytes, batches: "Iterable[pa.RecordBatch]"
) -> "Iterator[pa.RecordBatch]":
    """Send rows to the workers that their last column tells; the number of the attempt, and how many."""
    import pyarrow as pa
    from pyspark import TaskContext

    from kpg.runtime.workers.shipping import ship

    task = TaskContext.get()
    assert task is not None
    rows = ship(places, secret, task.taskAttemptId(), batches)
    yield pa.RecordBatch.from_pydict({"attempt": [task.taskAttemptId()], "rows": [rows]})
