"""Undo of catalog changes and settings, for rollback and for rollback to a savepoint.

The executor undoes rows. ``Journal`` undoes definitions; a dropped object stays until its transaction ends.
``Settled`` undoes settings, which belong to one session, so no other session waits for them.
"""

from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Protocol

from kpg.compiler.catalog.entries import Catalog
from kpg.runtime.records import dataclass

Uses = dict[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Mark:
    """A state to return to; without a catalog that of when the transaction began to define things."""

    entries: int
    catalog: Catalog | None
    uses: Uses
    path: tuple[str, ...]


class Journal:
    """What the open transaction has defined and dropped.

    Outside of :meth:`writing`, what is noted is final at once: that is how programs define things, which take
    back themselves what they have begun.
    """

    def __init__(self, catalog: Catalog, uses: Uses) -> None:
        self._catalog = catalog
        self._uses = uses
        self._entries: list[tuple[Callable[[], object], Callable[[], object]]] = []
        self._start: Mark | None = None
        self._writing = False

    @property
    def writing_now(self) -> bool:
        """Whether what is noted can be undone."""
        return self._writing

    def __bool__(self) -> bool:
        """Whether there is anything to undo or to finish."""
        return self._start is not None

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Note what the block does."""
        if self._start is None:
            self._start = self._whole()
        before, self._writing = self._writing, True
        try:
            yield
        finally:
            self._writing = before

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Go on with a block of :meth:`writing` after a commit of its own: what is noted later is undone."""
        yield
        if self._writing and self._start is None:
            self._start = self._whole()

    def note(
        self, undo: Callable[[], object] = lambda: None, done: Callable[[], object] = lambda: None
    ) -> None:
        """``undo`` takes back what was done; ``done`` gives up what would be needed for it."""
        if self._writing:
            self._entries.append((undo, done))
        else:
            done()

    def mark(self) -> Mark:
        """The present state, for :meth:`undo`."""
        if self._start is None:
            # Nothing is defined but after the mark that ``writing`` makes first.
            return Mark(0, None, {}, self._catalog.search_path)
        return self._whole()

    def _whole(self) -> Mark:
        return Mark(len(self._entries), self._catalog.copy(), dict(self._uses), self._catalog.search_path)

    def undo(self, mark: Mark | None = None) -> None:
        """Return to a mark, without one to the start of the transaction."""
        target = mark or self._start
        if target is None:
            return
        while len(self._entries) > target.entries:
            undo, _ = self._entries.pop()
            undo()
        whole = target if target.catalog is not None else self._start
        if whole is not None and whole.catalog is not None:
            self._catalog.become(whole.catalog)
            self._uses.clear()
            self._uses.update(whole.uses)
        self._catalog.search_path = target.path
        if mark is None or (target.catalog is None and not self._writing):
            self._start = None  # nothing is defined any more

    def finish(self) -> None:
        """The transaction has been committed."""
        entries, self._entries, self._start = self._entries, [], None
        for _, done in entries:
            done()


class Settled:
    """How to take back each change of a setting, and how many savepoints there were then."""

    def __init__(self) -> None:
        self._changes: list[tuple[int, Callable[[], object]]] = []
        self._local: list[Callable[[], object]] = []

    def note(self, depth: int, undo: Callable[[], object]) -> None:
        """Something was set; ``undo`` takes it back."""
        self._changes.append((depth, undo))

    def forget(self, depth: int) -> None:
        """Take back what was set since there were so many savepoints, the last first."""
        while self._changes and self._changes[-1][0] >= depth:
            self._changes.pop()[1]()

    def release(self, place: int) -> None:
        """What was set after a savepoint, of that number, is as if it had been before."""
        self._changes = [(min(depth, place), undo) for depth, undo in self._changes]

    def until_end(self, undo: Callable[[], object]) -> None:
        """Have something be taken back when the transaction ends, whichever way."""
        self._local.append(undo)

    def end_local(self) -> None:
        """Take back what was set until now, the last first."""
        while self._local:
            self._local.pop()()

    def stay(self) -> None:
        """The transaction has been committed."""
        self._changes.clear()


def putting_back(settings: MutableMapping[str, str], name: str) -> Callable[[], object]:
    """What has a setting be as it is now."""
    before = settings.get(name)
    return lambda: settings.pop(name, None) if before is None else settings.update({name: before})


class Deferring(Protocol):
    """Knows which constraints are checked late for now, and which at once, whatever their definitions say."""

    deferred: set[str]
    immediate: set[str]


def deferral(references: Deferring) -> Callable[[], object]:
    """What has constraints be checked late, or not, as they are now."""
    deferred, immediate = set(references.deferred), set(references.immediate)

    def put_back() -> None:
        references.deferred, references.immediate = deferred, immediate

    return put_back
