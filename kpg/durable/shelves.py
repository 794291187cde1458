"""Definitions as checkpoints have them: on shelves of a few, each described by itself.

So a checkpoint describes those that have changed, with their neighbours, however many there are.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from kpg.durable.state import Key, State, changes
from kpg.runtime.checkpoint.captured_state import Later, Leaf
from kpg.runtime.storage.codec import Codec

ROOM: Final = 32
"""Definitions on a shelf."""
VERSION: Final = "version"


class Shelves:
    """The definitions of a state, each on a shelf that it stays on; new ones are put on the last."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._state: State = {}
        self._places: dict[Key, int] = {}
        self._shelves: dict[int, State] = {}
        self._versions: dict[int, int] = {}
        self._last = 0

    def put(self, number: int, some: State) -> None:
        """Have a shelf, the last one, be what it was when it was described."""
        self._state.update(some)
        self._places.update(dict.fromkeys(some, number))
        self._shelves[number] = dict(some)
        self._versions[number] = 0
        self._last = number

    @property
    def state(self) -> State:
        """All definitions."""
        return self._state

    def become(self, state: State) -> None:
        """Have the definitions of another state."""
        found = changes(self._state, state)
        for key in found.gone:
            number = self._places.pop(key)
            del self._shelves[number][key]
            self._changed(number)
        for key, value in found.now:
            number = self._places.get(key, self._last)
            if key not in self._places and len(self._shelves.get(number, ())) >= ROOM:
                number = self._last = self._last + 1
            self._places[key] = number
            self._shelves.setdefault(number, {})[key] = value
            self._changed(number)
        self._state = state

    def _changed(self, number: int) -> None:
        self._versions[number] = self._versions.get(number, 0) + 1

    def version(self, number: int) -> Mapping[str, int]:
        """What tells whether a shelf has changed."""
        return {VERSION: self._versions[number]}

    def leaves(self) -> dict[str, Leaf]:
        """All shelves that have anything."""
        return {
            str(number): Leaf(self.version(number), partial(Later, partial(self._codec.dumps, some)))
            for number, some in self._shelves.items()
            if some
        }
