"""What the relations of a program hold as of the last commit, and the ranks of rows in recursion."""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.entries import TableEntry
from kpg.compiler.rules import core
from kpg.datalog.facts import distinct
from kpg.datalog.installing import Relations
from kpg.datalog.planning import plan_rows
from kpg.datalog.proof.bindings import Evaluator
from kpg.datalog.proof.rows import Places, Rows
from kpg.runtime.errors import NotSupportedError, ProgrammingError
from kpg.runtime.handles import RankLookup
from kpg.runtime.scalar import Call, Column
from kpg.runtime.types import NULL

Words = NDArray[np.int64]
Matches = Iterator[tuple[Words, Words]]
"""Pieces: positions among the values looked up, and for each a row ``int64[w, k]`` with them."""
ANY_RANK: Final = 2**62
"""No rank reaches it: a loop's rounds are counted one by one."""


class Stored:
    """Rows of a relation; all of rank 0 if it is not recursive. ``is_derived``: no table has them."""

    is_derived = True

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.rows)

    def ranks(self, rows: Words) -> Words:
        """The rank of each of the rows ``int64[w, n]``, -1 where it is not there."""
        found = np.full(rows.shape[1], -1, np.int64)
        for left, right in self.rows.matches(tuple(range(rows.shape[0])), rows):
            found[left] = 0 if self.rows.ranks is None else self.rows.ranks[right]
        return found

    def derived_ranks(self, rows: Words) -> Words:
        """As :meth:`ranks`, for rows too that a recursion with least or greatest values took back later."""
        return self.ranks(rows)

    def matches(self, places: Places, values: Words, below: int, *, superseded: bool) -> Matches:
        """The rows of ranks ``below`` that have ``values[k, m]`` at ``places``.

        ``superseded``: also those that a recursion with least or greatest values took back later.
        """
        for left, right in self.rows.matches(places, values):
            if self.rows.ranks is not None:
                kept = self.rows.ranks[right] < below
                left, right = left[kept], right[kept]
            if left.shape[0]:
                yield left, self.rows.data[:, right]


class Table(Stored):
    """The rows of a table, or of a view of somebody else's."""

    is_derived = False


class Recursive(Stored):
    """A relation whose recursion keeps in which round a row came."""

    def __init__(self, lookup: RankLookup) -> None:
        self._lookup = lookup
        self._copies: dict[bool, Rows] = {}

    @property
    def size(self) -> int:
        return len(self._lookup)

    def copy(self, superseded: bool) -> Rows:
        """The rows, for lookups by some of the columns."""
        if superseded not in self._copies:
            self._copies[superseded] = Rows(*self._lookup.every(gone=superseded))
        return self._copies[superseded]

    def ranks(self, rows: Words) -> Words:
        return self._lookup.of(rows)

    def derived_ranks(self, rows: Words) -> Words:
        return self._lookup.of(rows, gone=True)

    def matches(self, places: Places, values: Words, below: int, *, superseded: bool) -> Matches:
        if len(places) < self._lookup.width:
            yield from Stored(self.copy(superseded)).matches(places, values, below, superseded=superseded)
            return
        rows = np.empty_like(values)
        rows[list(places)] = values
        found = self.derived_ranks(rows) if superseded else self.ranks(rows)
        left = np.flatnonzero((found >= 0) & (found < below))
        if left.shape[0]:
            yield left, np.ascontiguousarray(rows[:, left])


class Extreme(Stored):
    """A relation of least or greatest values in recursion: all that were derived, and those that hold."""

    def __init__(self, derived: Rows, present: Words) -> None:
        super().__init__(derived)
        final = np.zeros(len(derived), np.bool_)
        for _, right in derived.matches(tuple(range(present.shape[0])), present):
            final[right] = True
        assert derived.ranks is not None
        chosen = np.flatnonzero(final)
        self.present = Stored(Rows(np.ascontiguousarray(derived.data[:, chosen]), derived.ranks[chosen]))

    def ranks(self, rows: Words) -> Words:
        """Of rows that hold."""
        return self.present.ranks(rows)

    def derived_ranks(self, rows: Words) -> Words:
        return Stored(self.rows).ranks(rows)

    def matches(self, places: Places, values: Words, below: int, *, superseded: bool) -> Matches:
        rows = Stored(self.rows) if superseded else self.present
        yield from rows.matches(places, values, below, superseded=superseded)


class Store:
    """The relations of one program. What it has read is good until the next commit."""

    def __init__(self, installed: Relations, evaluator: Evaluator) -> None:
        self._installed = installed
        self._engine = installed.engine
        self._evaluator = evaluator
        self._found: dict[str, Stored | None] = {}
        self.epoch = self._engine.executor.epoch

    @property
    def is_current(self) -> bool:
        """Whether nothing was committed meanwhile."""
        return self.epoch == self._engine.executor.epoch

    def relation(self, name: str) -> Stored | None:
        """What the relation holds; None if it is neither maintained nor recursive: its rules tell."""
        if name not in self._found:
            relation = self._installed.program.relations[name]
            is_derived = relation.kind is core.Kind.DERIVED
            self._found[name] = self._view(name) if is_derived else self._table(relation)
        return self._found[name]

    # Tables, and what the program does not declare

    def _table(self, relation: core.Relation) -> Stored:
        data = self._contents(relation.name)
        columns = [np.ascontiguousarray(column) for column in data]
        for place, column in enumerate(relation.columns):
            if column.stored != column.type.type:
                cast = Call("cast", (Column(0, column.stored),), column.type.type)
                columns[place] = self._evaluator.cast(columns[place], cast)
        rows = np.stack(columns[: max(1, len(relation.columns))])
        return Table(Rows(rows if relation.kind is core.Kind.INPUT else distinct(rows)))

    def _contents(self, name: str) -> Words:
        engine = self._engine
        entry = engine.catalog.get(name)
        if isinstance(entry, TableEntry):
            return engine.executor.scan(entry.name, committed=True)
        if entry.name in engine.views:
            return engine.views[entry.name].installed.rows()[0]
        if engine.executor.has_pending:
            raise NotSupportedError(
                f'view "{entry.name}" is not materialized, and cannot be read as it was committed',
                hint="ask after the transaction",
            )
        return engine.run(plan_rows(engine, entry.name))[0]

    # Derived relations

    def _view(self, name: str) -> Stored | None:
        if not self._installed.is_there(name):
            raise ProgrammingError(
                f'"{name}" was dropped or replaced', hint="install the program again with db.datalog()"
            )
        lowering = self._installed.lowering
        stratum = lowering.strata[lowering.places[name]]
        if not stratum.is_recursive and name not in self._installed.kept:
            return None
        if stratum.is_recursive:
            self._installed.keep(name)
        installed = self._engine.views[name].installed
        if not stratum.is_recursive:
            return Stored(Rows(installed.rows()[0]))
        lookup = installed.ranks()
        if lookup is not None:
            return Recursive(lookup)
        derived = installed.first_rounds()
        if derived is not None:
            return Extreme(Rows(*derived), installed.rows()[0])
        raise NotSupportedError(
            f"how rows of {name} came about in its recursion is not kept",
            hint="recursive relations with several aggregated columns, or with choices, have no proofs",
        )


def without_nulls(rows: Words, places: Places) -> NDArray[np.bool_]:
    """Which of the rows ``int64[w, n]`` have no NULL at the places."""
    fine = np.ones(rows.shape[1], np.bool_)
    for place in places:
        fine &= rows[place] != NULL
    return fine
