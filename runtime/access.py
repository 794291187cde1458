"""A worker's tables, indexes and operators as others may reach them: by name, in words and figures."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.data.table import Savepoint, Table
from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.dataflow.scope import Scope
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.executor import ArrangementInfo, OperatorInfo
from kpg.runtime.inputs import Inputs
from kpg.runtime.installed import Installed, operator_info
from kpg.runtime.mfp import CompiledMfp
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.loop import everything
from kpg.runtime.plan import Mfp

Words = NDArray[np.int64]
MOST_COMPILED = 256
"""Compiled expressions that are remembered: more than the rules of a program that is explained have."""


class Access:
    """The part of ``runtime.executor.Executor`` that changes or asks one table, or looks at what is there."""

    dictionary: Dictionary
    scope: Scope
    merge_effort: int
    tables: dict[str, Table]
    views: dict[str, Installed]
    inputs: Inputs
    _savepoints: dict[str, Savepoint]
    _compiled: dict[Mfp, CompiledMfp]

    def store(self, table: str) -> Table:
        """The row store of a table."""
        return self.tables[table]

    def insert(self, table: str, words: Words) -> Words:
        """Append rows; their rowids."""
        return self.tables[table].insert(words)

    def delete(self, table: str, rowids: Words) -> None:
        """Delete live rows."""
        self.tables[table].delete(rowids)

    def find(self, table: str, keys: Words) -> Words:
        """The rowid of the row with each primary key, or -1."""
        return self.tables[table].find(keys)

    def match(self, table: str, rows: Words) -> Words:
        """For each given row the rowid of one equal to it, or -1; equal ones get different rowids."""
        return self.tables[table].match(rows)

    def fetch(self, table: str, rowids: Words) -> Words:
        """The rows with these rowids."""
        return self.tables[table].read(rowids)

    def scan(self, table: str, columns: Sequence[int] | None = None, *, committed: bool = False) -> Words:
        """All rows, or of all rows some columns; ``committed``: without pending changes."""
        store = self.tables[table]
        rowids = store.live_at(self._savepoints[table]) if committed else store.live()
        return store.read(rowids, columns)

    def count(self, table: str) -> int:
        """The number of rows, pending changes included."""
        return self.tables[table].rows

    def evaluate(self, mfp: Mfp, rows: Words) -> tuple[Words, Words | None]:
        """Map, filter and project rows; also the positions of those that passed, None if all."""
        compiled = self._compiled.get(mfp)
        if compiled is None:
            if len(self._compiled) >= MOST_COMPILED:
                self._compiled.clear()
            compiled = self._compiled[mfp] = CompiledMfp(mfp, self)
        return compiled.run(rows)

    def forget_input(self, identity: str) -> None:
        """Nobody steps an input any more, nor what it has buffered."""
        self.inputs.forget(self.inputs.get(identity))

    def inputs_ended(self) -> bool:
        """Whether inputs may have come to an end since this was last asked."""
        self.inputs.retire()
        ended, self.inputs.ended = self.inputs.ended, False
        return ended

    def arrangements(self) -> list[ArrangementInfo]:
        """Every index there is, in order of making."""
        found = {op for op in self._all_operators() if isinstance(op, Arrange)}
        return [
            ArrangementInfo(
                op.place.description, op.rows, op.bytes, op.spine.batches, tuple(sorted(op.owners))
            )
            for op in sorted(found)
        ]

    def operators(self) -> list[OperatorInfo]:
        """Every operator there is, with its work so far: a profile."""
        found = set(self._all_operators())
        return [operator_info(operator) for operator in sorted(found)]

    def _all_operators(self) -> Iterator[Operator]:
        for view in self.views.values():
            yield from everything(view.operators)
