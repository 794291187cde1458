"""Which readers are continuous: somebody is told when their answers change, so they are kept up to date."""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.ego.overlay import Overlay
from kpg.runtime.records import dataclass

Words = NDArray[np.int64]
Test = Callable[[Words], Words]
"""Gives those of some readers, by their words, that pass."""
NONE: Final = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Followed:
    """The readers that somebody follows: all, or those of ``words`` (in order) and those that pass a test.

    ``name`` tells two such choices apart.
    """

    every: bool
    words: Words
    tests: tuple[Test, ...] = ()
    name: tuple[object, ...] = ()

    def picks(self, words: Words) -> NDArray[np.bool_]:
        """Which of some words are followed."""
        if self.every:
            return np.ones(words.shape[0], np.bool_)
        found = among(self.words, words)
        for test in self.tests:
            found |= np.isin(words, test(words))
        return found

    @property
    def nobody(self) -> bool:
        """Whether no reader is followed."""
        return not (self.every or self.words.shape[0] or self.tests)


NOBODY: Final = Followed(False, NONE)
EVERYBODY: Final = Followed(True, NONE)


def among(known: Words, words: Words) -> NDArray[np.bool_]:
    """Which words are among those that are in order."""
    if not known.shape[0]:
        return np.zeros(words.shape[0], np.bool_)
    places = np.minimum(np.searchsorted(known, words), known.shape[0] - 1)
    there: NDArray[np.bool_] = known[places] == words
    return there


def above(overlay: Overlay, nodes: Words) -> Words:
    """Nodes and all that feeds them, by way of others, too: what is pushed where these are."""
    seen = np.zeros(overlay.room, np.bool_)
    seen[nodes] = True
    edges, waiting = overlay.inputs, nodes
    while waiting.shape[0]:
        size, start = edges.size[waiting], edges.start[waiting]
        heads = np.cumsum(size) - size
        places = np.repeat(start - heads, size) + np.arange(int(size.sum()))
        found = np.unique(edges.items[places] >> 1).astype(np.int64)
        waiting = found[~seen[found]]
        seen[waiting] = True
    return np.flatnonzero(seen)
