"""Which number each node has: those that are visited often have the first ones.

What is kept of a node stands in arrays at its number. By Zipf's law most visits are to few nodes; where these
stand side by side they share lines and pages of memory, which then stay in the processor's caches.
"""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.ego.deciding import frequencies
from kpg.runtime.ego.overlay import Overlay

Words = NDArray[np.int64]


def by_traffic(overlay: Overlay) -> Words | None:
    """The nodes in a better order, those first that are visited oftenest; None if too little was observed.

    Nodes that are visited about as often, up to twice, stay as they are to each other: they may have been
    built side by side.
    """
    observed = int(overlay.arrivals.sum() + overlay.asked.sum())
    if observed < overlay.count:
        return None
    often = frequencies(overlay, overlay.order())
    visits = (often.push + often.pull)[: overlay.count]
    order = np.arange(overlay.room)
    order[: overlay.count] = np.argsort(-np.floor(np.log2(visits + 1.0)), kind="stable")
    return order
