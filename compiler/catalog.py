"""The names a query may use: tables with their schemas, views with their plans.

Names are case-insensitive. The catalog is what the compiler knows; the rows are the runtime's.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Protocol

from kpg.compiler.algebra.facts import unique_keys
from kpg.compiler.algebra.rel import Get, OrderBy, Rel
from kpg.runtime.errors import ProgrammingError, Span
from kpg.runtime.functions.named import Named
from kpg.runtime.records import dataclass
from kpg.runtime.types import ROWID, Schema

if TYPE_CHECKING:
    from kpg.runtime.functions.own import Own


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A base table."""

    name: str
    schema: Schema


@dataclass(frozen=True, slots=True)
class ViewEntry:
    """A view. ``rel`` is None when its plan is not known here (it can be read by name only).

    A materialized view is read by name; any other is expanded to ``rel`` where it is used. ``definition`` may
    be a function that gives the same plan whenever it is asked for one.
    """

    name: str
    schema: Schema
    definition: Rel | Callable[[], Rel] | None
    sql: str = ""
    materialized: bool = False
    order: tuple[OrderBy, ...] = ()
    keys: tuple[tuple[int, ...], ...] | None = None
    """Column sets that are unique; None if they are to be found in the plan."""

    @property
    def rel(self) -> Rel | None:
        """The view's plan."""
        return self.definition() if callable(self.definition) else self.definition


Entry = TableEntry | ViewEntry


@dataclass(slots=True)
class Catalog:
    """Tables and views by case-insensitive name, and the functions that users have made, in lower case."""

    _entries: dict[str, Entry] = field(default_factory=dict)
    functions: "dict[str, Named[Own]]" = field(default_factory=dict)
    _functions_made: int = 0

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._entries

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def find(self, name: str) -> Entry | None:
        """The entry of that name, if there is one."""
        return self._entries.get(name.lower())

    def get(self, name: str, span: Span | None = None) -> Entry:
        """The entry of that name; ProgrammingError with a suggestion if there is none."""
        entry = self.find(name)
        if entry is None:
            hint = did_you_mean(name, (known.name for known in self))
            raise ProgrammingError(f'relation "{name}" does not exist', span=span, hint=hint)
        return entry

    def table(self, name: str, span: Span | None = None) -> TableEntry:
        """The base table of that name; ProgrammingError if it does not exist or is a view."""
        entry = self.get(name, span)
        if isinstance(entry, ViewEntry):
            raise ProgrammingError(
                f'"{entry.name}" is a view', span=span, hint="change the tables that it reads"
            )
        return entry

    def add(self, entry: Entry, *, replace: bool = False) -> None:
        """Register an entry; ProgrammingError if the name is taken, unless a view replaces a view."""
        old = self.find(entry.name)
        both_views = isinstance(old, ViewEntry) and isinstance(entry, ViewEntry)
        if old is not None and not (replace and both_views):
            raise ProgrammingError(
                f'relation "{old.name}" already exists', hint="DROP it first, or choose another name"
            )
        self._entries[entry.name.lower()] = entry

    def remove(self, name: str) -> Entry:
        """Forget an entry and return it; ProgrammingError if there is none."""
        entry = self.get(name)
        del self._entries[entry.name.lower()]
        return entry

    def number_function(self) -> int:
        """A number that no function of this database has had."""
        self._functions_made += 1
        return self._functions_made

    def copy(self) -> "Catalog":
        """A catalog with the same entries that changes on its own (for rolling back)."""
        return Catalog(dict(self._entries), dict(self.functions), self._functions_made)


def get_of(entry: Entry) -> Get:
    """The algebra's access to a catalog relation; of a table, the rowid is the last column."""
    schema = entry.schema
    nullable = tuple(column.nullable for column in schema.columns)
    if isinstance(entry, ViewEntry):
        known = entry.keys
        if known is None:
            rel = entry.rel
            known = () if rel is None else tuple(tuple(sorted(key)) for key in unique_keys(rel))
        return Get(entry.name, schema.types, nullable, known, is_table=False)
    keys = ((schema.primary_key,) if schema.primary_key else ()) + ((len(schema.columns),),)
    return Get(entry.name, (*schema.types, ROWID), (*nullable, False), keys)


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A hint that names the closest of the known names, if any is close."""
    names = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(name.lower(), names, n=1, cutoff=0.6)
    return f'did you mean "{names[close[0]]}"?' if close else None


class Statistics(Protocol):
    """What the planner may know about the data."""

    def rows(self, table: str) -> int:
        """About how many rows the table has."""

    def arrangements(self, table: str) -> tuple[tuple[int, ...], ...]:
        """The key columns, in order, of the arrangements of the table that exist."""


@dataclass(frozen=True, slots=True)
class NoStatistics:
    """Nothing is known: every table is taken to have a thousand rows and no arrangement."""

    def rows(self, table: str) -> int:
        return 1000

    def arrangements(self, table: str) -> tuple[tuple[int, ...], ...]:
        return ()
