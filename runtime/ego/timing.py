"""What pushing and pulling cost on an overlay that is there, in the caches of the machine that it is on.

Costs by the number of inputs are timed on graphs without any order (``families.py``). On a graph of its own
a write's readers may lie side by side, or a read's writers anywhere: so some writes and reads are tried out,
with all pushed and with nothing, and costs are multiplied by how much longer that took than expected.
"""

import time
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.ego import deciding
from kpg.runtime.ego.deciding import Costs
from kpg.runtime.ego.family import Family
from kpg.runtime.ego.overlay import READER, WRITER, Overlay

Words = NDArray[np.int64]
BATCHES: Final = 12
SIZE: Final = 512
"""Writes, and reads, in each."""
MOST: Final = 8.0
"""Costs are multiplied by this at most, or divided."""
LARGEST: Final = 1 << 22
"""Edges: more are not pushed, all of them, to see what it costs."""


def fitted(overlay: Overlay, family: Family, width: int, costs: Costs) -> Costs:
    """Costs as they are on this overlay; its labels, and what is pushed, are lost."""
    if not family.timed or overlay.edges > LARGEST:
        return costs
    order = overlay.order()
    often = deciding.frequencies(overlay, order)
    random = np.random.default_rng(1)
    nodes = [
        _drawn(frequency * (overlay.kinds == kind), random)
        for frequency, kind in ((often.push, WRITER), (often.pull, READER))
    ]
    expected, took = [], []
    for pushed in (1, 0):
        overlay.pushed[:] = pushed
        overlay.pushed[overlay.kinds == WRITER] = 1
        overlay.settle(every=True)
        if pushed:
            family.fill(overlay, order)
        expected.append(deciding.expected(overlay, often, costs))
        took.append(_seconds(overlay, family, width, *nodes))
    family.drop(np.flatnonzero(overlay.kinds != WRITER))
    push = (took[0][0] - took[1][0]) / max(expected[0][0], 1e-9)
    pull = (took[1][1] - took[0][1]) / max(expected[1][1] - expected[0][1] + costs.answer, 1e-9)
    return costs.times(*(float(np.clip(one, 1 / MOST, MOST)) for one in (push, pull)))


def _drawn(frequency: NDArray[np.float64], random: np.random.Generator) -> Words:
    """Nodes, each as often as it should be."""
    chances = np.cumsum(frequency)
    return np.searchsorted(chances, chances[-1] * random.random((BATCHES, SIZE)), side="right")


def _seconds(
    overlay: Overlay, family: Family, width: int, writers: Words, readers: Words
) -> tuple[float, float]:
    """Microseconds that a write, and a read, takes: they come by turns, and the writes are undone."""
    took = np.zeros((2, BATCHES))
    for place in range(BATCHES):
        nodes = np.unique(writers[place])
        rows, ones = np.zeros((width, nodes.shape[0]), np.int64), np.ones(nodes.shape[0], np.int64)
        begun = time.perf_counter()
        family.write(overlay, nodes, rows, ones)
        written = time.perf_counter()
        family.read(overlay, readers[place])
        took[:, place] = (written - begun) / nodes.shape[0], (time.perf_counter() - written) / SIZE
        family.rollback()
    write, read = np.median(took, axis=1) * 1e6
    return float(write), float(read)
