"""A refresh: the rows that leave and the rows that enter each table in one transaction."""

from collections.abc import Mapping

import pyarrow as pa

from kpg.runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class TableChange:
    """What happens to one table: first ``deletes``, given by primary key, then ``inserts``, whole rows.

    A row that is updated is in both.
    """

    deletes: pa.Table
    inserts: pa.Table


@dataclass(frozen=True, slots=True)
class Batch:
    """One refresh, by table; ``number`` counts from 1."""

    number: int
    changes: Mapping[str, TableChange]

    @property
    def rows(self) -> int:
        """Rows deleted and inserted, in all tables."""
        return sum(change.deletes.num_rows + change.inserts.num_rows for change in self.changes.values())
