"""What a statement reads, relation by relation and column by column, as far as that may be refused."""

from collections.abc import Iterable
from dataclasses import field

from kpg.compiler.catalog import Catalog, Entry
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column


@dataclass(frozen=True, slots=True)
class Read:
    """A relation, and its columns by their names. ``scanned``: it is read even if no column is."""

    entry: Entry
    scanned: bool
    used: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Reads:
    """The relations that a statement names, if what is read has to be known."""

    relations: list[Read] = field(default_factory=list)
    _columns: dict[int, tuple[Read, str]] = field(default_factory=dict)
    locked: list[Read] = field(default_factory=list)
    within: "list[tuple[Catalog, Reads]]" = field(default_factory=list)
    """What bodies of functions read with the rights of their owners."""

    def enter(
        self, entry: Entry, columns: Iterable[Column], *, scanned: bool = True, locked: bool = False
    ) -> None:
        """A relation is named, whose columns have these ids; FOR UPDATE: its rows are to be ``locked``."""
        read = Read(entry, scanned)
        self.relations.append(read)
        if locked:
            self.locked.append(read)
        for name, column in zip(entry.schema.names, columns, strict=False):
            self._columns[column.index] = (read, name)

    def also(self, columns: Iterable[Column], others: Iterable[Column]) -> None:
        """Other ids for the same columns."""
        for one, other in zip(columns, others, strict=False):
            if one.index in self._columns:
                self._columns[other.index] = self._columns[one.index]

    def use(self, column: Column) -> None:
        """A column is named."""
        known = self._columns.get(column.index)
        if known is not None:
            known[0].used.add(known[1])
