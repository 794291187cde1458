"""``Ego``: for each reader an aggregate over rows of the writers that it is paired with."""

import enum

from kpg.runtime.records import dataclass
from kpg.runtime.types import Type

Ref = int
"""Position of a node in the list that holds it."""


class EgoFamily(enum.Enum):
    """What is kept of a partial aggregate."""

    SUMS = "counts and sums of words"
    LEAST = "the least word"
    GREATEST = "the greatest word"
    COUNTS = "each word, and how often it is there"
    STATES = "the state of an aggregate's algorithm, in Python"


@dataclass(frozen=True, slots=True)
class EgoCall:
    """An aggregate over columns of a write, from 0 on; ``counts`` if it is how many there are."""

    function: str
    arguments: tuple[int, ...]
    argument_types: tuple[Type, ...]
    type: Type
    counts: bool = False


@dataclass(frozen=True, slots=True)
class Ego:
    """Rows (reader, calls...) for each reader with a row of one of its writers.

    ``pairs`` are rows (reader, writer), each once; ``writes`` rows (writer, columns...), those of the
    window. O(change x what is pushed) for each change; where nobody hears the rows, what is pulled is
    computed when it is read.
    """

    pairs: Ref
    writes: Ref
    family: EgoFamily
    calls: tuple[EgoCall, ...]
    construction: str
    """A way to build an overlay (``ego/building.py``)."""
    mode: str
    """What is pushed: ``auto`` what costs less so, ``push`` all, ``pull`` only writers."""
    few: int = 0
    """Of counts: how many of the most frequent; 0 for all."""
    continuous: Ref | None = None
    """Rows (reader), each once, of those that are pushed whatever that costs."""

    @property
    def sources(self) -> tuple[Ref, ...]:
        """What it reads."""
        rest = () if self.continuous is None else (self.continuous,)
        return (self.pairs, self.writes, *rest)
