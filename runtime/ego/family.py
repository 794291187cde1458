"""What an engine asks of the partial aggregates of one kind."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.ego.overlay import Overlay

Words = NDArray[np.int64]


class Family(Protocol):
    """The partial aggregates of an overlay: of writers always, of others where they are pushed."""

    subtracts: bool
    """Whether what an input brings can be taken away: negative edges are right."""
    repeats: bool
    """Whether it does not matter how often an input brings something."""

    timed: bool
    """Whether writes may be tried out, and undone, to see how long they take."""

    def grow(self, room: int) -> None:
        """Have places for so many nodes."""

    def moved(self, writers: Words, room: int) -> None:
        """Forget all but writers: node i is now what ``writers[i]`` was."""

    def write(self, overlay: Overlay, nodes: Words, rows: Words, diffs: Words) -> None:
        """Rows ``int64[width, n]`` of writers come and go; and what is pushed below changes with them.

        What this raises, :meth:`rollback` undoes.
        """

    def sample(self, nodes: Words) -> tuple[Words, Words, Words]:
        """Nodes, rows and diffs of a write: distinct writers get what others of them have for what they had.

        Only asked where writes may be tried out.
        """

    def fill(self, overlay: Overlay, order: Words) -> None:
        """Compute the pushed nodes among ``order``, each after what feeds it, of their inputs."""

    def drop(self, nodes: Words) -> None:
        """Nodes are not pushed any more."""

    def read(self, overlay: Overlay, nodes: Words) -> tuple[NDArray[np.bool_], Words]:
        """Of each node, whether there is anything, and words ``int64[calls, n]``. DataError if it fails."""

    def listed(self, overlay: Overlay, nodes: Words) -> tuple[Words, Words] | None:
        """Where an answer is an array: how long each node's is, none if there is nothing, and the elements.

        These are words, one node's after the other's. None where answers are words themselves.
        """

    def commit(self) -> None:
        """The step is over."""

    def rollback(self) -> None:
        """Undo what has been written since the last commit."""

    @property
    def bytes(self) -> int:
        """What is kept."""
