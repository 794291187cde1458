"""Which pushed nodes writers reach."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.ego.overlay import Overlay
from kpg.runtime.kernels import overlays

Words = NDArray[np.int64]


def reached(overlay: Overlay, writers: Words, *, every: bool = False) -> Iterator[tuple[Words, Words, Words]]:
    """The pushed nodes that writers reach, these too, in parts; with ``every`` those that are pulled as well.

    Of each path the node, the place of its writer among ``writers``, and the sign.
    """
    edges = overlay.outputs
    live = edges.size if every else overlay.live
    room, first = 1 << 14, 0
    while first < writers.shape[0]:
        found, origin, sign = (np.empty(room, np.int64) for _ in range(3))
        count = overlays.reach(writers, first, edges.start, live, edges.items, found, origin, sign)
        if count:
            yield found[:count], origin[:count], sign[:count]
            first = int(origin[count - 1]) + 1
        else:
            room *= 4
