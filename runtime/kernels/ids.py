"""Which node a word is: a table with open addressing, a word and a node at each place, -1 where none is."""

import numpy as np

from kpg.runtime.kernels import device, kernel


@device
def place_of(table, word):
    """Where a word is, or the free place for it."""
    h = np.uint64(word) * np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(32)
    last = table.shape[0] - 1
    at = np.int64(h) & last
    while table[at, 1] >= 0 and table[at, 0] != word:
        at = (at + 1) & last
    return at


@kernel("void(int64[:, ::1], int64[::1], int64[::1])")
def put(table, words, nodes):
    """Have words be nodes; the table has room for them."""
    for i in range(words.shape[0]):
        at = place_of(table, words[i])
        table[at, 0] = words[i]
        table[at, 1] = nodes[i]


@kernel("int64(int64[:, ::1], int64[::1], int64[::1])")
def find(table, words, nodes):
    """The node of each word, -1 where there is none; how many there are not."""
    missing = 0
    for i in range(words.shape[0]):
        nodes[i] = table[place_of(table, words[i]), 1]
        missing += nodes[i] < 0
    return missing


@kernel("int64(int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def observe(table, words, diffs, nodes, counts):
    """As :func:`find`, and count each node that is found for what comes to it, not for what goes."""
    missing = 0
    for i in range(words.shape[0]):
        node = table[place_of(table, words[i]), 1]
        nodes[i] = node
        if node < 0:
            missing += 1
        elif diffs[i] > 0:
            counts[node] += 1
    return missing
