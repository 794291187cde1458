"""Overlays of partial aggregates: writes that flow down to what is pushed, reads that gather from it.

A node's edges are a stretch of ``items``: ``start[node]`` and ``size[node]``. An item is a node and a sign,
``2 * node + 1`` if what it brings is taken away. ``pushed[node]`` is 1 where the partial aggregate is kept;
whatever feeds such a node is kept, too. Of the nodes that a node feeds the first ``live[node]`` are kept.
"""

import numpy as np

from kpg.runtime.kernels import device, inlined, kernel

EMPTY = 2**63 - 1  # the word of an extreme of nothing: after all others
ROOM = 1 << 10  # of a stack, at first
PARTIAL = 2  # a node that is neither a writer nor a reader: readers feed nothing
NULL = -(2**63)


@device
def larger(stack):
    grown = np.empty(2 * stack.shape[0], np.int64)
    grown[: stack.shape[0]] = stack
    return grown


@inlined
def add_row(sums, i, words, k, negative):
    """Add row k of ``words`` to row i of sums, or take it away; 1 if one overflows."""
    overflow = 0
    for c in range(sums.shape[1]):
        before = sums[i, c]
        change = -words[k, c] if negative else words[k, c]
        after = before + change
        sums[i, c] = after
        if ((before ^ after) & (change ^ after)) < 0:
            overflow = 1
    return overflow


@kernel("void(int64[::1], int64[::1], int64[::1], int64[::1], int32[::1])")
def bucket(keys, values, start, filled, items):
    """Put each value among those of its key: ``start`` says where these begin, ``filled`` is zeros."""
    for i in range(keys.shape[0]):
        key = keys[i]
        items[start[key] + filled[key]] = values[i]
        filled[key] += 1


@kernel("void(int64[::1], int64[::1], int32[::1], int64, int64[::1], int64[::1], int32[::1])")
def transpose(start, size, items, first, start_of, filled, sources):
    """The edges the other way: of each source, whom it feeds. ``first`` is the first node that has inputs."""
    for node in range(first, start.shape[0]):
        for at in range(start[node], start[node] + size[node]):
            source = items[at] >> 1
            sources[start_of[source] + filled[source]] = 2 * node + (items[at] & 1)
            filled[source] += 1


@kernel("void(int64[::1], int64[::1], int64[::1], int64[::1], int32[::1], int64[::1], int32[::1])")
def renumber(order, number, start, size, items, starts, renamed):
    """The edges of nodes in another order, one node's after the other's: ``number`` is each node's place."""
    count = 0
    for i in range(order.shape[0]):
        node = order[i]
        starts[i] = count
        for at in range(start[node], start[node] + size[node]):
            renamed[count] = 2 * number[items[at] >> 1] + (items[at] & 1)
            count += 1


@kernel("int64(int64[::1], int64[::1], int32[::1], int64[::1], int64[::1])")
def arrange(start, size, items, waiting, order):
    """Nodes in an order in which each comes after what feeds it: ``waiting`` is how many inputs each has.

    Edges are those to the nodes that a node feeds. Returns how many there are: fewer than all in a circle.
    """
    count = 0
    for node in range(start.shape[0]):
        if waiting[node] == 0:
            order[count] = node
            count += 1
    done = 0
    while done < count:
        node = order[done]
        done += 1
        for at in range(start[node], start[node] + size[node]):
            target = items[at] >> 1
            waiting[target] -= 1
            if waiting[target] == 0:
                order[count] = target
                count += 1
    return count


@kernel(
    "int64(int64[::1], int64[:, ::1], int64[::1], int64[::1], uint8[::1], int32[::1], int64[::1],"
    " int64[:, ::1])"
)
def gather_sums(nodes, rows, diffs, columns, summed, place, found, deltas):
    """What rows of writers change their sums by, each writer once; how many writers change.

    The first of a writer's numbers is how many rows; each other one how many words of a column there are, or
    if it is ``summed`` their sum. ``place`` is -1 for all nodes, before and after.
    """
    count = 0
    at = -1
    for i in range(nodes.shape[0]):
        if i == 0 or nodes[i] != nodes[i - 1]:
            at = place[nodes[i]]
        if at < 0:
            at = count
            place[nodes[i]] = count
            found[count] = nodes[i]
            for c in range(deltas.shape[1]):
                deltas[count, c] = 0
            count += 1
        deltas[at, 0] += diffs[i]
        for c in range(columns.shape[0]):
            word = rows[columns[c], i]
            if word != NULL:
                deltas[at, c + 1] += word * diffs[i] if summed[c] else diffs[i]
    kept = 0
    for k in range(count):
        place[found[k]] = -1
        changed = False
        for c in range(deltas.shape[1]):
            changed = changed or deltas[k, c] != 0
        if changed:
            found[kept] = found[k]
            for c in range(deltas.shape[1]):
                deltas[kept, c] = deltas[k, c]
            kept += 1
    return kept


@kernel("void(int64[::1], int64[::1], int64[::1], int32[::1], uint8[::1], int64[::1])")
def settle(nodes, start, size, items, pushed, live):
    """Of what nodes feed, have what is kept stand first."""
    for i in range(nodes.shape[0]):
        node = nodes[i]
        first = start[node]
        for at in range(first, start[node] + size[node]):
            if pushed[items[at] >> 1]:
                items[first], items[at] = items[at], items[first]
                first += 1
        live[node] = first - start[node]


@device
def neighbours(front, count, total, start, sizes, items):
    """What the first ``count`` nodes of a front are linked to, ``total`` in all, with what came with it."""
    found = np.empty((2, total), np.int64)
    written = 0
    for k in range(count):
        node = front[0, k] >> 1
        sign = front[0, k] & 1
        first = start[node]
        for at in range(first, first + sizes[node]):
            found[0, written] = items[at] ^ sign
            found[1, written] = front[1, k]
            written += 1
    return found


@kernel("int64(int64[::1], int64[:, ::1], int64[::1], int64[::1], int32[::1], uint8[::1], int64[:, ::1])")
def push_sums(nodes, deltas, start, live, items, kinds, state):
    """Add what writers' sums change by to them and to all that is pushed below; whether one overflows.

    A level at a time, first whom it reaches and then their sums, so that memory is asked for many at once.
    """
    overflow, total, count = 0, 0, 0
    front = np.empty((2, nodes.shape[0]), np.int64)
    for i in range(nodes.shape[0]):
        overflow |= add_row(state, nodes[i], deltas, i, 0)
        if live[nodes[i]] > 0:
            front[0, count] = 2 * nodes[i]
            front[1, count] = i
            total += live[nodes[i]]
            count += 1
    while count > 0:
        found, written = neighbours(front, count, total, start, live, items), total
        count, total = 0, 0
        for k in range(written):
            target = found[0, k] >> 1
            overflow |= add_row(state, target, deltas, found[1, k], found[0, k] & 1)
            if kinds[target] == PARTIAL and live[target] > 0:
                found[0, count] = found[0, k]
                found[1, count] = found[1, k]
                total += live[target]
                count += 1
        front = found
    return overflow


@kernel("int64(int64[::1], int64[::1], int64[::1], int32[::1], uint8[::1], int64[:, ::1], int64[:, ::1])")
def pull_sums(nodes, start, size, items, pushed, state, out):
    """The sums of nodes: kept ones as they are, others of what feeds them; whether one overflows.

    A level at a time, as writes go down.
    """
    overflow, total, count = 0, 0, 0
    front = np.empty((2, nodes.shape[0]), np.int64)
    for i in range(nodes.shape[0]):
        node = nodes[i]
        for c in range(out.shape[1]):
            out[i, c] = 0
        if pushed[node]:
            overflow |= add_row(out, i, state, node, 0)
        else:
            front[0, count] = 2 * node
            front[1, count] = i
            total += size[node]
            count += 1
    while count > 0:
        found, written = neighbours(front, count, total, start, size, items), total
        count, total = 0, 0
        for k in range(written):
            source = found[0, k] >> 1
            if pushed[source]:
                overflow |= add_row(out, found[1, k], state, source, found[0, k] & 1)
            else:
                found[0, count] = found[0, k]
                found[1, count] = found[1, k]
                total += size[source]
                count += 1
        front = found
    return overflow


@kernel("void(int64[::1], int64[::1], int64[::1], int32[::1], uint8[::1], int64[:, ::1])")
def fill_sums(order, start, size, items, pushed, state):
    """The sums of all kept nodes in ``order`` but writers, of what feeds them."""
    for i in range(order.shape[0]):
        node = order[i]
        if pushed[node] == 0 or size[node] == 0:
            continue
        for c in range(state.shape[1]):
            state[node, c] = 0
        for at in range(start[node], start[node] + size[node]):
            source = items[at] >> 1
            for c in range(state.shape[1]):
                state[node, c] += -state[source, c] if items[at] & 1 else state[source, c]


@device
def least(node, start, size, items, best):
    found = EMPTY
    for at in range(start[node], start[node] + size[node]):
        if best[items[at] >> 1] < found:
            found = best[items[at] >> 1]
    return found


@kernel(
    "void(int64[::1], int64[::1], int64[::1], int64[::1], int32[::1], int64[::1], int64[::1], int32[::1],"
    " int64[::1])"
)
def push_least(nodes, words, start, live, items, in_start, in_size, in_items, best):
    """Have writers' least words be these, and those of all that is pushed below what they are then.

    A node hears that an input was one word, and looks what it is now: so it does not matter in which order
    it hears of them, nor how often.
    """
    stack = np.empty((2, ROOM), np.int64)
    for i in range(nodes.shape[0]):
        if best[nodes[i]] == words[i]:
            continue
        stack[0, 0] = nodes[i]
        stack[1, 0] = best[nodes[i]]
        best[nodes[i]] = words[i]
        top = 1
        while top > 0:
            top -= 1
            node = stack[0, top]
            old = stack[1, top]
            for at in range(start[node], start[node] + live[node]):
                target = items[at] >> 1
                before = best[target]
                if best[node] < before:
                    best[target] = best[node]
                elif old == before and best[node] > before:
                    best[target] = least(target, in_start, in_size, in_items, best)
                if best[target] != before and live[target] > 0:
                    if top == stack.shape[1]:
                        grown = np.empty((2, 2 * top), np.int64)
                        grown[:, :top] = stack
                        stack = grown
                    stack[0, top] = target
                    stack[1, top] = before
                    top += 1


@kernel("void(int64[::1], int64[::1], int64[::1], int32[::1], uint8[::1], int64[::1], int64[::1])")
def pull_least(nodes, start, size, items, pushed, best, out):
    """The least words of nodes."""
    stack = np.empty(ROOM, np.int64)
    for i in range(nodes.shape[0]):
        if pushed[nodes[i]]:
            out[i] = best[nodes[i]]
            continue
        found = EMPTY
        stack[0] = nodes[i]
        top = 1
        while top > 0:
            top -= 1
            node = stack[top]
            while top + size[node] > stack.shape[0]:
                stack = larger(stack)
            for at in range(start[node], start[node] + size[node]):
                source = items[at] >> 1
                if pushed[source]:
                    found = min(found, best[source])
                else:
                    stack[top] = source
                    top += 1
        out[i] = found


@kernel("void(int64[::1], int64[::1], int64[::1], int32[::1], uint8[::1], int64[::1])")
def fill_least(order, start, size, items, pushed, best):
    """The least words of all kept nodes but writers."""
    for i in range(order.shape[0]):
        node = order[i]
        if pushed[node] and size[node] > 0:
            best[node] = least(node, start, size, items, best)


@kernel(
    "int64(int64[::1], int64[::1], int64[::1], int64[::1], int32[::1], uint8[::1], int64[::1], int64[::1])"
)
def reach(nodes, next_one, start, live, items, kinds, found, origin):
    """The kept nodes that writers reach, as items, these themselves too, one for each path.

    Of writers that follow one another and are the same only the first is looked at. ``origin`` says of which
    each entry is; begun is at ``next_one[0]``, which is the next to begin at afterwards. What one writer
    reaches is there whole, so some may have no room. Returns how many entries there are.
    """
    count = 0
    for i in range(next_one[0], nodes.shape[0]):
        if i > 0 and nodes[i] == nodes[i - 1]:
            continue
        begun, seen, full = count, count, count == found.shape[0]
        if not full:
            found[count] = 2 * nodes[i]
            origin[count] = i
            count += 1
        while seen < count and not full:
            item = found[seen]
            node = item >> 1
            seen += 1
            if seen > begun + 1 and kinds[node] != PARTIAL:
                continue
            full = count + live[node] > found.shape[0]
            if not full:
                for at in range(start[node], start[node] + live[node]):
                    found[count] = items[at] ^ (item & 1)
                    origin[count] = i
                    count += 1
        if full:
            next_one[0] = i
            return begun
    next_one[0] = nodes.shape[0]
    return count


@kernel("int64(int64[::1], int64[::1], int64[::1], int32[::1], int64[::1], int64[::1])")
def sources(nodes, start, size, items, found, ends):
    """The writers that nodes lead back to, as items, one for each path; how many, room or not.

    ``ends`` is where each node's end.
    """
    stack = np.empty(ROOM, np.int64)
    count = 0
    for i in range(nodes.shape[0]):
        stack[0] = 2 * nodes[i]
        top = 1
        while top > 0:
            top -= 1
            item = stack[top]
            node = item >> 1
            if size[node] == 0:
                if node != nodes[i]:
                    if count < found.shape[0]:
                        found[count] = item
                    count += 1
                continue
            while top + size[node] > stack.shape[0]:
                stack = larger(stack)
            for at in range(start[node], start[node] + size[node]):
                stack[top] = items[at] ^ (item & 1)
                top += 1
        ends[i] = count
    return count


@kernel("void(int64[::1], int64[::1], int64[::1], int32[::1], int64[::1])")
def deepen(order, start, size, items, level):
    """One more than the greatest level of what feeds a node."""
    for i in range(order.shape[0]):
        node = order[i]
        for at in range(start[node], start[node] + size[node]):
            level[node] = max(level[node], level[items[at] >> 1] + 1)


@kernel("void(int64[::1], int64[::1], int32[::1], int64[::1])")
def count_sources(start, size, items, counts):
    """How often each node stands in lists."""
    for node in range(start.shape[0]):
        for at in range(start[node], start[node] + size[node]):
            counts[items[at] >> 1] += 1
