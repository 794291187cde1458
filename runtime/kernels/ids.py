"""Which node a word is.

In general a table with open addressing, a word and a node at each place, -1 where none is; where words are
numbers near each other, a list of nodes by word.
"""

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
    node = np.int64(-1)
    for i in range(words.shape[0]):
        if i == 0 or words[i] != words[i - 1]:
            node = table[place_of(table, words[i]), 1]
        nodes[i] = node
        if node < 0:
            missing += 1
        elif diffs[i] > 0:
            counts[node] += 1
    return missing


@kernel("int64(int32[::1], int64, int64[::1], int64[::1])")
def find_listed(listed, first, words, nodes):
    """As :func:`find`, in a list that begins with the node of the word ``first``."""
    missing = 0
    for i in range(words.shape[0]):
        at = words[i] - first
        nodes[i] = listed[at] if first <= words[i] and 0 <= at < listed.shape[0] else -1
        missing += nodes[i] < 0
    return missing


@kernel("int64(int32[::1], int64, int64[::1], int64[::1], int64[::1], int64[::1])")
def observe_listed(listed, first, words, diffs, nodes, counts):
    """As :func:`observe`, in a list that begins with the node of the word ``first``."""
    missing = 0
    for i in range(words.shape[0]):
        at = words[i] - first
        node = np.int64(listed[at]) if first <= words[i] and 0 <= at < listed.shape[0] else -1
        nodes[i] = node
        if node < 0:
            missing += 1
        elif diffs[i] > 0:
            counts[node] += 1
    return missing
