"""The job that hands row groups over, and what the tasks have written, read as it comes."""

import logging
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kpg.runtime.convert.arrow import NOWHERE, Origin
from kpg.runtime.errors import DataError, OperationalError
from kpg.runtime.records import dataclass
from kpg.runtime.spark import tasks
from kpg.runtime.spark.cast import label
from kpg.runtime.spark.source import first_line
from kpg.runtime.types import Schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS_BETWEEN_LOOKS: Final = 0.005
"""How long a finished split may go unnoticed; looking for its file takes some microseconds."""
SECONDS_TO_APPEAR: Final = 60
"""How long a folder on a network may take to show the driver what executors have written."""
MOST_PARTITIONS: Final = 4000
"""Of a job: with more, Spark's driver has more to do for each than the executors."""
log = logging.getLogger("kpg")
TOLD: Final = re.compile(f"{tasks.FAILED} (.*)")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of a table, and where they came from."""

    table: str
    rows: pa.Table
    origin: Origin = NOWHERE


@dataclass(frozen=True, slots=True)
class Place(Origin):
    """Rows of a file: ``numbered`` from ``row`` on, unless they were sorted; ``keys`` are their keys."""

    keys: pa.RecordBatch | None = None
    numbered: bool = True

    def place(self, position: int | None, column: str) -> str:
        parts = [self.name]
        if position is not None and self.numbered:
            parts.append(f"row {self.row + position + 1}")
        if position is not None and self.keys is not None:
            names = self.keys.schema.names
            parts += [f"key {name}={self.keys[name][position].as_py()}" for name in names]
        return ", ".join((*parts, f"column {column}"))


def start_readers(spark: "SparkSession") -> None:
    """Have every core's process for tasks start, and import what they need."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(tasks)
    context = spark.sparkContext
    context.setJobGroup("kpg-readers", "kpg starts its readers")
    cores = context.defaultParallelism
    context.parallelize(range(cores), cores).foreach(tasks.get_ready)


def can_read(spark: "SparkSession") -> bool:
    """Whether executors can run our tasks: they need the driver's Python, and pyarrow. Logs why not."""
    context = spark.sparkContext
    if context.master.startswith("local") and context.pythonExec == sys.executable:
        return True
    try:
        start_readers(spark)
    except Exception as error:
        why = first_line(error)
        log.warning("parquet files go through Spark SQL, as executors cannot read them by pyarrow: %s", why)
        return False
    return True


def run(spark: "SparkSession", splits: Sequence[tasks.Split], group: str) -> None:
    """Hand the splits over, the first ones first; a job of the group."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(tasks)
    context = spark.sparkContext
    context.setJobGroup(group, f"kpg load of {len(splits)} splits of parquet files")
    partitions = min(len(splits), MOST_PARTITIONS)
    try:
        context.parallelize(list(splits), partitions).mapPartitions(tasks.hand_over).count()
    except Exception as error:
        told = TOLD.search(str(error))
        message = f"cannot read {told.group(1)}" if told else f"Spark failed: {first_line(error)}"
        raise OperationalError(message, hint="nothing was loaded") from error


def chunks(splits: Sequence[tasks.Split], job: "Future[None]", table: str, schema: Schema) -> Iterator[Chunk]:
    """The rows of the splits, in order, each as soon as it is there; it is deleted when it has been read.

    Raises DataError for a NULL that may not be, and what the job raises.
    """
    for split in splits:
        target = Path(split["target"])
        _await(target, job, table)
        with pa.memory_map(str(target)) as source, pa.ipc.open_stream(source) as reader:
            yield from _read(reader, split, table, schema)
        target.unlink()


def _await(target: Path, job: "Future[None]", table: str) -> None:
    """Return once the target is there, or raise what the job raises."""
    while not job.done():
        if target.exists():
            return
        wait([job], SECONDS_BETWEEN_LOOKS)
    job.result()
    end = time.monotonic() + SECONDS_TO_APPEAR
    while target.name not in os.listdir(target.parent):
        if time.monotonic() > end:
            hint = "do driver and executors share the folder?"
            raise OperationalError(f"{label(table)}{target} is not there", hint=hint)
        time.sleep(1)


def _read(
    reader: pa.RecordBatchStreamReader, split: tasks.Split, table: str, schema: Schema
) -> Iterator[Chunk]:
    numbered = not (reader.schema.metadata or {}).get(tasks.SORTED)
    key = [split["columns"][i] for i in schema.primary_key]
    row = split["row"]
    for batch in reader:
        keys = batch.select(key) if key else None
        place = Place(f"table {table}, {split['path']}" if table else split["path"], row, keys, numbered)
        require_values(batch, schema, place)
        yield Chunk(table, pa.Table.from_batches([batch]), place)
        row += batch.num_rows


def require_values(batch: pa.RecordBatch, schema: Schema, place: Place) -> None:
    """DataError if there is a NULL where none may be; the columns are in the schema's order."""
    for i, (column, array) in enumerate(zip(schema.columns, batch.columns, strict=True)):
        if array.null_count and (not column.nullable or i in schema.primary_key):
            position = array.is_null().index(True).as_py()
            raise DataError(
                f"{place.place(position, column.name)}: NULL in a NOT NULL column",
                hint="nothing was loaded; correct the value in the source",
            )
