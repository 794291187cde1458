"""The function that Spark tasks run to send rows to workers. It is pickled by value to the executors."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

    from kpg.runtime.handles import Berth
    from kpg.runtime.spark.tasks import Split
    from kpg.runtime.types import Schema

SPLITS_AT_MOST = 1 << 12
"""Of one attempt of a task, which numbers them."""


class Landed(NamedTuple):
    """Row groups of a file, and where their rows go."""

    split: "Split"
    schema: "Schema"
    berth: "Berth"


def send(
    places: list[tuple[str, int]], secret: bytes, batches: "Iterable[pa.RecordBatch]"
) -> "Iterator[pa.RecordBatch]":
    """Send rows to the workers that their last column tells; the number of the attempt, and how many."""
    import pyarrow as pa  # lazy: tasks load what they use
    from pyspark import TaskContext  # lazy: an optional dependency

    from kpg.runtime.cluster.transfer import ship  # lazy: for tasks

    task = TaskContext.get()
    assert task is not None
    attempt = task.taskAttemptId() * SPLITS_AT_MOST
    rows = ship(places, secret, attempt, batches)
    yield pa.RecordBatch.from_pydict({"attempt": [attempt], "rows": [rows]})


def send_splits(splits: Iterable[Landed]) -> Iterator[tuple[str, int]]:
    """Read row groups by pyarrow and send them to the workers that own them; each load, and the attempt."""
    from pyspark import TaskContext  # lazy: an optional dependency

    from kpg.runtime.cluster.transfer import ship  # lazy: for tasks
    from kpg.runtime.spark.load_jobs import owned  # lazy: for tasks

    task = TaskContext.get()
    assert task is not None
    for number, (split, schema, berth) in enumerate(splits):
        attempt = task.taskAttemptId() * SPLITS_AT_MOST + number
        ship(berth.places, berth.secret, attempt, owned(split, schema, berth))
        yield berth.load, attempt
