"""How often an overlay's nodes are pushed and pulled; labels that need no cut; a greedy choice."""

import numpy as np

from kpg.runtime.kernels import device, kernel

UNDECIDED = 0
PUSH = 1
PULL = 2


@kernel("void(int64[::1], int64[::1], int64[::1], int32[::1], float64[::1])")
def add_up(order, start, size, items, frequency):
    """To each node's frequency those of the nodes that its edges name, which come before it in ``order``."""
    for i in range(order.shape[0]):
        node = order[i]
        for at in range(start[node], start[node] + size[node]):
            frequency[node] += frequency[items[at] >> 1]


@kernel("void(int64[::1], int64[::1], int32[::1], uint8[::1], float64[::1], float64[::1])")
def ask(start, size, items, pushed, pull, asked):
    """How often each node's pulled consumers are read."""
    for node in range(start.shape[0]):
        for at in range(start[node], start[node] + size[node]):
            if pushed[items[at] >> 1] == 0:
                asked[node] += pull[items[at] >> 1]


@device
def follow(label, weight, start, size, items, needed, decided, queue, tail):
    """Label nodes to which edges lead from ``needed`` labelled ones, where it pays; how many.

    The first ``tail`` of ``queue`` are those that have the label.
    """
    missing = needed.copy()
    begun = tail
    head = 0
    while head < tail:
        node = queue[head]
        head += 1
        for at in range(start[node], start[node] + size[node]):
            other = items[at] >> 1
            missing[other] -= 1
            pays = (weight[other] >= 0) == (label == PUSH)
            if missing[other] == 0 and decided[other] == UNDECIDED and pays:
                decided[other] = label
                queue[tail] = other
                tail += 1
    return tail - begun


@kernel(
    "int64(float64[::1], int64[::1], int64[::1], int32[::1], int64[::1], int64[::1], int32[::1], uint8[::1])"
)
def prune(weight, in_start, in_size, in_items, out_start, out_size, out_items, decided):
    """Decide what needs no cut: push where all inputs are, and it pays; pull where all consumers are.

    ``weight`` is what pulling costs less what pushing costs. Writers are decided before. Returns how many
    nodes are left.
    """
    nodes = weight.shape[0]
    queue = np.empty(nodes, np.int64)
    tail = 0
    for node in range(nodes):
        if decided[node] == PUSH:
            queue[tail] = node
            tail += 1
    left = nodes - tail
    for node in range(nodes):
        if decided[node] == UNDECIDED and in_size[node] == 0 and weight[node] >= 0:
            decided[node] = PUSH
            left -= 1
            queue[tail] = node
            tail += 1
    left -= follow(PUSH, weight, out_start, out_size, out_items, in_size, decided, queue, tail)
    tail = 0
    for node in range(nodes):
        if decided[node] == UNDECIDED and out_size[node] == 0 and weight[node] < 0:
            decided[node] = PULL
            left -= 1
            queue[tail] = node
            tail += 1
    left -= follow(PULL, weight, in_start, in_size, in_items, out_size, decided, queue, tail)
    return left


@kernel("void(int64[::1], float64[::1], int64[::1], int64[::1], int32[::1], uint8[::1])")
def greedy(order, weight, in_start, in_size, in_items, decided):
    """In order from the writers: push what pays and whose inputs can all be pushed, pull the rest.

    A node that only hinders others, and whose pull would be dearer for them together, is pushed with them:
    where what pushing it costs more is less than what the node above it saves.
    """
    for i in range(order.shape[0]):
        node = order[i]
        if decided[node] != UNDECIDED:
            continue
        lost, possible = 0.0, True
        for at in range(in_start[node], in_start[node] + in_size[node]):
            source = in_items[at] >> 1
            if decided[source] == PULL:
                possible = False
            elif decided[source] == UNDECIDED:
                lost += weight[source]
                for k in range(in_start[source], in_start[source] + in_size[source]):
                    if decided[in_items[k] >> 1] != PUSH:
                        possible = False
        if possible and weight[node] + lost >= 0:
            decided[node] = PUSH
            for at in range(in_start[node], in_start[node] + in_size[node]):
                decided[in_items[at] >> 1] = PUSH
        elif not possible:
            decided[node] = PULL
    for node in range(decided.shape[0]):
        if decided[node] == UNDECIDED:
            decided[node] = PULL


@kernel(
    "int64(int64[::1], int64[::1], int64[::1], int32[::1], int64[::1], int64[::1], int32[::1], uint8[::1],"
    " int64[::1])"
)
def frontier(nodes, in_start, in_size, in_items, out_start, out_size, out_items, pushed, flips):
    """Of some nodes those that may change sides: all that feeds them is kept, or nothing that they feed."""
    count = 0
    for i in range(nodes.shape[0]):
        node = nodes[i]
        fits = True
        if pushed[node] == 0:
            for at in range(in_start[node], in_start[node] + in_size[node]):
                fits = fits and pushed[in_items[at] >> 1] == 1
        else:
            for at in range(out_start[node], out_start[node] + out_size[node]):
                fits = fits and pushed[out_items[at] >> 1] == 0
        if fits:
            flips[count] = node
            count += 1
    return count


@kernel("int64(int64[::1], int64[::1], int32[::1], uint8[::1], int64[::1], int64[::1], int32[::1])")
def expand(start, size, items, dissolved, begins, sizes, out):
    """Each node's inputs, in the place of dissolved ones theirs; how many in all, room or not.

    A dissolved node has none. ``begins`` and ``sizes`` say where in ``out`` each node's are.
    """
    stack = np.empty(1 << 10, np.int64)
    count = 0
    for node in range(start.shape[0]):
        begins[node] = count
        if dissolved[node] == 0:
            for at in range(start[node], start[node] + size[node]):
                stack[0] = items[at]
                top = 1
                while top > 0:
                    top -= 1
                    item = stack[top]
                    source = item >> 1
                    if dissolved[source] == 0:
                        if count < out.shape[0]:
                            out[count] = item
                        count += 1
                        continue
                    if top + size[source] > stack.shape[0]:
                        grown = np.empty(2 * (top + size[source]), np.int64)
                        grown[: stack.shape[0]] = stack
                        stack = grown
                    for k in range(start[source], start[source] + size[source]):
                        stack[top] = items[k] ^ (item & 1)
                        top += 1
        sizes[node] = count - begins[node]
    return count


@device
def by_frequency(items, first, last, often):
    """Put items in order, those of nodes that are pushed seldom first."""
    gap = 1
    while gap < (last - first) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(first + gap, last):
            item = items[i]
            j = i
            while j >= first + gap and often[items[j - gap] >> 1] > often[item >> 1]:
                items[j] = items[j - gap]
                j -= gap
            items[j] = item
        gap //= 3


@kernel(
    "int64(int64[::1], float64[::1], float64[::1], float64[::1], float64, float64, int64[::1], int64[::1],"
    " int32[::1], uint8[::1], int64[::1])"
)
def divide(nodes, often, asked, costs, clearly, worth, start, size, items, pushed, counts):
    """How many of each pulled node's inputs a pushed node of their own pays for: these come first then.

    They are the first l of the kept inputs by ascending push frequency: the sum of these times H(l), and the
    pull frequency times L(k - l + 1), is to be less than the pull frequency times L(k), by the factor
    ``clearly``, and by ``worth``. ``costs`` are H at one input, what it grows by when these double, L of none
    and what it grows by for each. Returns how many nodes are divided; ``counts`` of others is 0.
    """
    divided = 0
    for i in range(nodes.shape[0]):
        node = nodes[i]
        first, last = start[node], start[node]
        for at in range(first, first + size[node]):
            if pushed[items[at] >> 1]:
                items[last], items[at] = items[at], items[last]
                last += 1
        by_frequency(items, first, last, often)
        kept, total, best, least = last - first, 0.0, 0, np.inf
        for count in range(1, kept):
            total += often[items[first + count - 1] >> 1]
            cost = total * (costs[0] + costs[1] * np.log2(count))
            cost += asked[node] * (costs[2] + costs[3] * (kept - count + 1))
            if cost < least:
                best, least = count, cost
        whole = asked[node] * (costs[2] + costs[3] * kept)
        every = asked[node] * (costs[2] + costs[3] * size[node])
        counts[i] = best if best > 1 and clearly * least < whole and every - least > worth else 0
        divided += counts[i] > 0
    return divided
