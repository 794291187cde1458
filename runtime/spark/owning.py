"""Rows of parquet files as executors with kpg read them, and whose each is."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from kpg.runtime.convert.arrow import encode
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError
from kpg.runtime.handles import Berth
from kpg.runtime.sharing.owners import Owners
from kpg.runtime.spark.handing import Place, require_values
from kpg.runtime.spark.tasks import FAILED, Split, rows
from kpg.runtime.types import Schema

OWNER: Final = "kpg owner"


def owned(split: Split, schema: Schema, berth: Berth) -> Iterator[pa.RecordBatch]:
    """The rows of a split, in the order of their key, with the number of each one's worker at the end.

    RuntimeError that begins with ``FAILED`` if they cannot be read, or are not of the schema.
    """
    pa.set_cpu_count(1)  # a task has one core
    dictionary = Dictionary()
    owners = Owners(dictionary, len(berth.places), apart=True)
    column = schema.columns[berth.home]
    try:
        for batch in rows(split):
            require_values(batch, schema, Place(split["path"]))
            given = batch.column(split["columns"][berth.home])
            home = pa.RecordBatch.from_arrays([given], names=[column.name])
            words = encode(home, Schema((column,)), dictionary)[0]
            found = owners.of(words, interned=column.type.is_interned)
            yield batch.append_column(OWNER, pa.array(found.astype(np.int32)))
    except (OSError, pa.ArrowException, DataError) as error:
        raise RuntimeError(f"{FAILED} table {berth.table}: {split['path']}: {error}") from error
