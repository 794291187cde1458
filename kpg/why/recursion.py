"""In which round of its recursion a row came, so that it is explained by rows that came before."""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.handles import RankLookup
from kpg.runtime.records import dataclass
from kpg.why.asking import Words

NEVER: Final = 1 << 60
"""A round that no row comes in."""


@dataclass(frozen=True, slots=True)
class Below:
    """Rows of the recursive queries ``names`` that came before a round.

    All rows where there are no ``ranks``: then none is a reason of itself."""

    names: frozenset[str]
    round: int
    ranks: Mapping[str, RankLookup | None]

    def allows(self, name: str, rows: Words) -> NDArray[np.bool_]:
        """Which of the rows ``int64[w, n]`` came before."""
        lookup = self.ranks.get(name)
        if lookup is None:
            return np.ones(rows.shape[1], np.bool_)
        ranks = lookup.of(rows)
        return (ranks >= 0) & (ranks < self.round)


EVERY = Below(frozenset(), NEVER, {})
