"""What an open transaction has set, to be taken back with it, or with what came after a savepoint.

Settings are a session's own, unlike definitions: nobody has to wait for the end of who has changed some.
"""

from collections.abc import Callable, MutableMapping
from typing import Protocol


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
