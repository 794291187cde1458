"""What writers have got since the last commit, so that it can be taken back."""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.ego.overlay import Overlay
from kpg.runtime.records import dataclass

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Written:
    """Words that came to writers, or went, while an overlay was what it was."""

    overlay: Overlay
    nodes: Words
    words: Words
    diffs: Words


class Undoable:
    """The part of a family whose changes are undone by their opposites."""

    def __init__(self) -> None:
        self._written: list[Written] = []

    def _take(self, one: Written) -> None:
        """Change what is kept, and remember it."""
        self._written.append(one)
        self._change(one, one.diffs)

    def _change(self, one: Written, diffs: Words) -> None:
        """Have words come, or go, as often as ``diffs`` says."""
        raise NotImplementedError

    def commit(self) -> None:
        """The step is over."""
        self._written.clear()

    def rollback(self) -> None:
        """Undo what has been written since the last commit."""
        for one in reversed(self._written):
            self._change(one, -one.diffs)
        self._written.clear()
