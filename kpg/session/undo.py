"""Undo of catalog changes and settings, for rollback and for rollback to a savepoint.

The executor undoes rows. ``Journal`` undoes definitions: it restores the catalog's snapshot, and reverts what
they changed elsewhere, such as installed views. A dropped object stays until its transaction ends.
``SettingChanges`` undoes settings, which belong to one session, so no other session waits for them.
"""

from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Protocol

from kpg.compiler.catalog.entries import Catalog, CatalogSnapshot
from kpg.runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class JournalMark:
    """A state of the journal to return to; ``catalog`` is None before the transaction's first definition."""

    entries: int
    catalog: CatalogSnapshot | None
    path: tuple[str, ...]


class Journal:
    """Undo entries of the definitions of the open transaction.

    Outside of :meth:`writing`, definitions are final at once: programs undo their own failed
    definitions.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._entries: list[tuple[Callable[[], object], Callable[[], object]]] = []
        self._first_mark: JournalMark | None = None
        self._writing = False

    @property
    def is_writing(self) -> bool:
        """Whether definitions can be undone."""
        return self._writing

    def __bool__(self) -> bool:
        """Whether there is anything to undo or to finish."""
        return self._first_mark is not None

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Record the definitions of the block."""
        if self._first_mark is None:
            self._first_mark = self._make_mark()
        before, self._writing = self._writing, True
        try:
            yield
        finally:
            self._writing = before

    @contextmanager
    def restart_after_commit(self) -> Iterator[None]:
        """Continue :meth:`writing` after a commit within the block: later definitions can be undone."""
        yield
        if self._writing and self._first_mark is None:
            self._first_mark = self._make_mark()

    def add(
        self, undo: Callable[[], object] = lambda: None, finish: Callable[[], object] = lambda: None
    ) -> None:
        """Record a definition.

        Args:
            undo: Reverts it.
            finish: Releases what ``undo`` needs, when the transaction commits.
        """
        if self._writing:
            self._entries.append((undo, finish))
        else:
            finish()

    def mark(self) -> JournalMark:
        """Return the present state, for :meth:`undo`."""
        if self._first_mark is None:
            # There are no definitions yet: ``writing`` makes the first mark.
            return JournalMark(0, None, self._catalog.search_path)
        return self._make_mark()

    def _make_mark(self) -> JournalMark:
        return JournalMark(len(self._entries), self._catalog.snapshot(), self._catalog.search_path)

    def undo(self, mark: JournalMark | None = None) -> None:
        """Return to a mark, by default to the start of the transaction."""
        target = mark or self._first_mark
        if target is None:
            return
        while len(self._entries) > target.entries:
            undo, _ = self._entries.pop()
            undo()
        catalog_mark = target if target.catalog is not None else self._first_mark
        if catalog_mark is not None and catalog_mark.catalog is not None:
            self._catalog.restore(catalog_mark.catalog)
        self._catalog.search_path = target.path
        if mark is None or (target.catalog is None and not self._writing):
            self._first_mark = None  # all definitions are undone

    def finish(self) -> None:
        """Commit the definitions."""
        entries, self._entries, self._first_mark = self._entries, [], None
        for _, done in entries:
            done()


class SettingChanges:
    """Undo entries of setting changes, each with the number of savepoints at that time."""

    def __init__(self) -> None:
        self._changes: list[tuple[int, Callable[[], object]]] = []
        self._local: list[Callable[[], object]] = []

    def add(self, depth: int, undo: Callable[[], object]) -> None:
        """Record a change that ``undo`` reverts."""
        self._changes.append((depth, undo))

    def rollback_to(self, depth: int) -> None:
        """Revert the changes of savepoint ``depth`` and deeper, newest first."""
        while self._changes and self._changes[-1][0] >= depth:
            self._changes.pop()[1]()

    def release(self, target_depth: int) -> None:
        """Merge the changes of a savepoint into the enclosing one (RELEASE)."""
        self._changes = [(min(depth, target_depth), undo) for depth, undo in self._changes]

    def add_local(self, undo: Callable[[], object]) -> None:
        """Revert a change when the transaction ends in any way (SET LOCAL)."""
        self._local.append(undo)

    def end_local(self) -> None:
        """Revert the local changes, newest first."""
        while self._local:
            self._local.pop()()

    def commit(self) -> None:
        """Make the changes final."""
        self._changes.clear()


def make_restorer(settings: MutableMapping[str, str], name: str) -> Callable[[], object]:
    """Return a function that restores the present value of a setting."""
    before = settings.get(name)
    return lambda: settings.pop(name, None) if before is None else settings.update({name: before})


class DeferrableConstraints(Protocol):
    """The constraints whose check SET CONSTRAINTS has deferred or made immediate."""

    deferred_keys: set[str]
    immediate_keys: set[str]


def make_deferral_restorer(references: DeferrableConstraints) -> Callable[[], object]:
    """Return a function that restores which constraints are deferred."""
    deferred, immediate = set(references.deferred_keys), set(references.immediate_keys)

    def put_back() -> None:
        references.deferred_keys, references.immediate_keys = deferred, immediate

    return put_back
