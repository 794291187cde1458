"""Changes of the catalog that can be undone: what is dropped stays until its transaction is over.

Rows are undone by the executor; here is the rest: which names mean what, and what else a definition has done.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
