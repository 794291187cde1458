"""Graph programs for one thread that keep all of a node in hash maps: what a dataflow is compared with.

Maps are open addressing over powers of two, at most half full, as a general program would have them that
cannot rely on nodes being numbered densely. Edges are sorted by source.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

Words = NDArray[np.int64]


@njit(cache=True)
def _slot(keys: Words, key: int) -> int:
    """Where a key is, or would be; empty slots hold -1."""
    mask = keys.shape[0] - 1
    slot = ((key * 0x1E3779B97F4A7C15) >> 20) & mask
    while keys[slot] != -1 and keys[slot] != key:
        slot = (slot + 1) & mask
    return slot


@njit(cache=True)
def _empty(most: int) -> Words:
    """A map for so many keys at the most."""
    size = 16
    while size < 2 * most:
        size *= 2
    return np.full(size, -1, np.int64)


@njit(cache=True)
def index(src: Words, nodes: int) -> tuple[Words, Words]:
    """The map from a source to its first edge, edges being sorted by source."""
    keys = _empty(nodes)
    values = np.zeros(keys.shape[0], np.int64)
    for edge in range(src.shape[0]):
        if edge == 0 or src[edge] != src[edge - 1]:
            slot = _slot(keys, src[edge])
            keys[slot] = src[edge]
            values[slot] = edge
    return keys, values


@njit(cache=True)
def distances(
    src: Words, dst: Words, keys: Words, firsts: Words, root: int, nodes: int
) -> tuple[Words, Words]:
    """The map from each node that is reached to its distance, by breadth-first search."""
    found = _empty(nodes)
    far = np.zeros(found.shape[0], np.int64)
    queue = np.empty(nodes, np.int64)
    found[_slot(found, root)] = root
    queue[0] = root
    head, tail = 0, 1
    while head < tail:
        node = queue[head]
        head += 1
        distance = far[_slot(found, node)] + 1
        at = _slot(keys, node)
        if keys[at] == -1:
            continue
        edge = firsts[at]
        while edge < src.shape[0] and src[edge] == node:
            slot = _slot(found, dst[edge])
            if found[slot] == -1:
                found[slot] = dst[edge]
                far[slot] = distance
                queue[tail] = dst[edge]
                tail += 1
            edge += 1
    return found, far


@njit(cache=True)
def reached(src: Words, dst: Words, keys: Words, firsts: Words, root: int, nodes: int) -> Words:
    """The set of nodes that are reached."""
    found = _empty(nodes)
    queue = np.empty(nodes, np.int64)
    found[_slot(found, root)] = root
    queue[0] = root
    head, tail = 0, 1
    while head < tail:
        node = queue[head]
        head += 1
        at = _slot(keys, node)
        if keys[at] == -1:
            continue
        edge = firsts[at]
        while edge < src.shape[0] and src[edge] == node:
            slot = _slot(found, dst[edge])
            if found[slot] == -1:
                found[slot] = dst[edge]
                queue[tail] = dst[edge]
                tail += 1
            edge += 1
    return found


@njit(cache=True)
def _root(keys: Words, parents: Words, node: int) -> int:
    """The representative of a node's set, which is made if it is new; paths are halved."""
    slot = _slot(keys, node)
    if keys[slot] == -1:
        keys[slot] = parents[slot] = node
        return node
    while parents[slot] != node:
        above = _slot(keys, parents[slot])
        parents[slot] = parents[above]
        node = parents[slot]
        slot = _slot(keys, node)
    return node


@njit(cache=True)
def components(src: Words, dst: Words, nodes: int) -> tuple[Words, Words]:
    """The map from each node to the least of its component, by union-find."""
    keys = _empty(nodes)
    parents = np.zeros(keys.shape[0], np.int64)
    for edge in range(src.shape[0]):
        a, b = _root(keys, parents, src[edge]), _root(keys, parents, dst[edge])
        if a < b:
            parents[_slot(keys, b)] = a
        elif b < a:
            parents[_slot(keys, a)] = b
    labels = np.empty(keys.shape[0], np.int64)
    for slot in range(keys.shape[0]):
        if keys[slot] != -1:
            labels[slot] = _root(keys, parents, keys[slot])
    return keys, labels
