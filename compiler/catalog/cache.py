"""Catalog query cache: rows of system relations, and results of queries over them alone.

Tools read the system catalogs repeatedly, and rebuilding the rows costs far more than checking that
nothing changed. An entry is valid while the catalog has the snapshot that it had when the entry was
stored, and while the session state that it read is equal. The cache holds at most ``MAX_ENTRIES``
entries and evicts the least recently used.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Any, Final

from kpg.compiler.catalog.constraints import Deparser, VerbatimDeparser
from kpg.runtime.records import dataclass

Catalog = Any
"""The catalog's type. The catalog imports this module, so it cannot be named here."""

MAX_ENTRIES: Final = 256
SessionRows = dict[str, tuple[tuple[int | str | None, ...], ...]]
"""Session rows that an entry read, by kind."""


class CatalogCache:
    """Values by key, all for one state of the catalog."""

    __slots__ = ("_seen", "_values")

    def __init__(self) -> None:
        self._seen: tuple[object, ...] = ()
        self._values: OrderedDict[Hashable, tuple[Any, SessionRows]] = OrderedDict()

    def get(self, catalog: Catalog, key: Hashable) -> Any:
        """Return the value of a key; None if there is none or it may be stale."""
        if self._seen != catalog.snapshot():
            self._values.clear()
            return None
        found = self._values.get(key)
        if found is None:
            return None
        value, told = found
        if any(tuple(catalog.system_reads.session_rows(kind)) != rows for kind, rows in told.items()):
            del self._values[key]
            return None
        self._values.move_to_end(key)
        return value

    def put(self, catalog: Catalog, key: Hashable, value: Any, session_rows: SessionRows) -> None:
        """Store a value that was computed from the current catalog and from ``session_rows``."""
        snapshot = catalog.snapshot()
        if self._seen != snapshot:
            self._values.clear()
            self._seen = snapshot
        self._values[key] = value, session_rows
        if len(self._values) > MAX_ENTRIES:
            self._values.popitem(last=False)

    def clear(self) -> None:
        """Remove all values."""
        self._values.clear()


def session_context(catalog: Catalog) -> Hashable:
    """Return the session state that system relations depend on: user, search path and output style."""
    asker = catalog.asker
    # An empty search path also finds names in public, but they are displayed with the schema.
    path = catalog.path, catalog.settings.get("search_path")
    return asker.user, asker.login, asker.shown, catalog.temporary_schema, path, catalog.style


@contextmanager
def record_session_rows(catalog: Catalog) -> Iterator[SessionRows]:
    """Record the session rows that are read within the context."""
    consulted, told = catalog.system_reads, SessionRows()
    plain: Callable[[str], Any] = consulted.session_rows

    def session(kind: str) -> Any:
        rows = tuple(plain(kind))
        told[kind] = rows
        return rows

    consulted.session_rows = session
    try:
        yield told
    finally:
        consulted.session_rows = plain


@dataclass(slots=True)
class SystemReads:
    """Counts the reads of information that can change at any time, such as the time or the catalog.

    A plan is reusable only if binding it leaves ``count`` unchanged.
    """

    count: int = 0
    """Number of reads."""
    deparser: Deparser = field(default_factory=VerbatimDeparser)
    """Writes stored expressions and queries as Postgres does."""
    cacheable_count: int = 0
    """Number of reads that depend only on the catalog and on session rows."""
    cache: CatalogCache = field(default_factory=CatalogCache)
    """The catalog query cache."""
    session_rows: Callable[[str], Iterable[tuple[int | str | None, ...]]] = lambda _kind: ()
    """Return the session's rows of a kind, such as ``settings`` or ``locks``."""
