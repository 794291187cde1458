"""Functions that Spark tasks run to send rows to workers. The module is pickled by value to the executors."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

    from kpg.runtime.handles import LoadTarget
    from kpg.runtime.spark.tasks import Split
    from kpg.runtime.types import Schema

MAX_SPLITS = 1 << 12
"""Maximum number of splits that one attempt of a task sends; the task numbers them."""


class SplitTarget(NamedTuple):
    """Row groups of a file, and the load that receives their rows."""

    split: "Split"
    schema: "Schema"
    target: "LoadTarget"


def send_rows(
    addresses: list[tuple[str, int]], secret: bytes, batches: "Iterable[pa.RecordBatch]"
) -> "Iterator[pa.RecordBatch]":
    """Send rows to the workers numbered in their last column; yield the attempt and the row count."""
    import pyarrow as pa  # lazy: tasks load what they use
    from pyspark import TaskContext  # lazy: an optional dependency

    from kpg.runtime.cluster.transfer import send_batches  # lazy: for tasks

    task = TaskContext.get()
    assert task is not None
    attempt = task.taskAttemptId() * MAX_SPLITS
    rows = send_batches(addresses, secret, attempt, batches)
    yield pa.RecordBatch.from_pydict({"attempt": [attempt], "rows": [rows]})


def send_splits(splits: Iterable[SplitTarget]) -> Iterator[tuple[str, int]]:
    """Read row groups by pyarrow and send them to their owners; yield each load with the attempt."""
    from pyspark import TaskContext  # lazy: an optional dependency

    from kpg.runtime.cluster.transfer import send_batches  # lazy: for tasks
    from kpg.runtime.spark.load_jobs import read_with_owners  # lazy: for tasks

    task = TaskContext.get()
    assert task is not None
    for number, (split, schema, target) in enumerate(splits):
        attempt = task.taskAttemptId() * MAX_SPLITS + number
        send_batches(target.addresses, target.secret, attempt, read_with_owners(split, schema, target))
        yield target.load, attempt
