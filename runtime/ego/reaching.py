"""Which pushed nodes writers reach."""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.ego.overlay import READER, Overlay
from kpg.runtime.kernels import overlays

Words = NDArray[np.int64]
ROOM: Final = 1 << 12
"""Entries of a part: so many are at hand when they are used."""


def reached(overlay: Overlay, writers: Words, *, every: bool = False) -> Iterator[tuple[Words, Words]]:
    """The pushed nodes that writers reach, these too, in parts; with ``every`` those that are pulled as well.

    Of each path the item and the place of its writer among ``writers``: the first of several in a row.
    """
    edges = overlay.outputs
    live = edges.size if every else overlay.live
    room, begun = ROOM, np.zeros(1, np.int64)
    while begun[0] < writers.shape[0]:
        found, origin = (np.empty(room, np.int64) for _ in range(2))
        count = overlays.reach(writers, begun, edges.start, live, edges.items, overlay.kinds, found, origin)
        if count:
            yield found[:count], origin[:count]
        room *= 1 if count else 4


def readers_below(overlay: Overlay, writers: Words) -> Words:
    """The readers that writers reach, once or oftener."""
    nodes = [np.empty(0, np.int64)]
    for items, _ in reached(overlay, writers, every=True):
        found = items >> 1
        nodes.append(np.unique(found[overlay.kinds[found] == READER]))
    return np.concatenate(nodes)
