"""Edges of the graph that come and go, in an overlay that is there: as few of its edges as can be change.

What comes is an edge from the writer to the reader. What goes is that edge if it is there, else a negative
one; where nothing can be taken away, what leads from the writer to the reader is taken apart.
"""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.ego.overlay import WRITER, Overlay


def add(overlay: Overlay, reader: int, writer: int, *, subtracts: bool) -> None:
    """The writer is one of the reader's neighbours from now on."""
    if not (subtracts and overlay.disconnect(reader, 2 * writer + 1)):
        overlay.connect(reader, 2 * writer)


def remove(overlay: Overlay, reader: int, writer: int, *, subtracts: bool) -> None:
    """The writer is not one of them any more."""
    if overlay.disconnect(reader, 2 * writer):
        if subtracts or not leads(overlay, writer, reader):
            return
    elif subtracts:
        overlay.connect(reader, 2 * writer + 1)
        return
    for item in overlay.inputs.of(reader).tolist():
        if leads(overlay, writer, item >> 1):
            overlay.disconnect(reader, item)
            for source in _without(overlay, item >> 1, writer):
                if 2 * source not in overlay.inputs.of(reader):
                    overlay.connect(reader, 2 * source)


def leads(overlay: Overlay, writer: int, node: int) -> bool:
    """Whether there is a path."""
    _, writers = overlay.writers_of(np.array([node]))
    return writer in writers if overlay.kinds[node] != WRITER else node == writer


def _without(overlay: Overlay, node: int, writer: int) -> list[int]:
    """What together gives all that a node does, but for a writer."""
    if overlay.kinds[node] == WRITER:
        return [node] if node != writer else []
    if not leads(overlay, writer, node):
        return [node]
    return [
        part for item in overlay.inputs.of(node).tolist() for part in _without(overlay, item >> 1, writer)
    ]


def may_be_pushed(overlay: Overlay, node: int) -> bool:
    """Whether all that feeds a node is pushed."""
    return bool(overlay.pushed[overlay.inputs.of(node) >> 1].all())


def all_pushed(overlay: Overlay, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those of some nodes with inputs all of whose inputs are pushed."""
    if not nodes.shape[0]:
        return nodes
    size, start = overlay.inputs.size[nodes], overlay.inputs.start[nodes]
    heads = np.cumsum(size) - size
    places = np.repeat(start - heads, size) + np.arange(int(size.sum()))
    flags = overlay.pushed[overlay.inputs.items[places] >> 1]
    return np.ascontiguousarray(nodes[np.minimum.reduceat(flags, heads) == 1])
