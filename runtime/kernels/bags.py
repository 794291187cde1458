"""Multisets of words, many in one pool: what holistic aggregates keep of a node.

A bag is a table with open addressing in the pool, whose rows are a word and how often it is there, or
``FREE``. ``heads[bag]`` says where the table begins, how many rows it has (none, or a power of two), how many
words, and what was once found of it: ``FREE`` when it has changed since. All of that stands together, for a
bag is mostly far from whatever was looked at before it. ``state`` says how many rows of the pool are taken;
its second word is of no meaning.
"""

import numpy as np

from kpg.runtime.kernels import device, kernel

FREE = -(2**63) + 1  # the word of a row without one; no value has it
TABLE_AT, TABLE_ROWS, HELD, FOUND = 0, 1, 2, 3  # of a head
LEAST = 2  # rows of a table
AHEAD = 32  # bags that are looked for together
NEXT = 8  # nodes that are approached together
KNOWN = -1  # the size of what has an answer
SAME = -2  # that of what is asked again: less the place where it was asked first
NUMBER, BY_WORD, BY_COUNT = 0, 1, 2  # what is asked of bags: how many words, which, in what order


@device
def home(word, rows):
    """Where a word is looked for first."""
    h = np.uint64(word) * np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(29)
    return np.int64(h & np.uint64(rows - 1))


@device
def place_of(word, first, rows, table):
    """Where a word is, or the free row for it; -1 if there is none."""
    at = home(word, rows)
    for _ in range(rows):
        held = table[first + at, 0]
        if held in (word, FREE):
            return first + at
        at = (at + 1) & (rows - 1)
    return -1


@device
def remove(first, rows, table, place):
    """Have a row be free, and what is behind it because of it come nearer to its home."""
    hole, at = place - first, place - first
    for _ in range(rows - 1):
        at = (at + 1) & (rows - 1)
        word = table[first + at, 0]
        if word == FREE:
            break
        if ((at - home(word, rows)) & (rows - 1)) >= ((at - hole) & (rows - 1)):
            table[first + hole, 0] = word
            table[first + hole, 1] = table[first + at, 1]
            hole = at
    table[first + hole, 0] = FREE


@device
def rebuild(bag, rows, heads, table, end):
    """Give a bag a table of so many rows at the pool's end."""
    for at in range(end, end + rows):
        table[at, 0] = FREE
    for at in range(heads[bag, TABLE_AT], heads[bag, TABLE_AT] + heads[bag, TABLE_ROWS]):
        if table[at, 0] != FREE:
            place = place_of(table[at, 0], end, rows, table)
            table[place, 0] = table[at, 0]
            table[place, 1] = table[at, 1]
    heads[bag, TABLE_AT] = end
    heads[bag, TABLE_ROWS] = rows


@device
def change(bag, word, diff, heads, table, state):
    """Have a word be in a bag so much oftener; whether the pool had room."""
    heads[bag, FOUND] = FREE
    first, rows, live = heads[bag, TABLE_AT], heads[bag, TABLE_ROWS], heads[bag, HELD]
    place = -1
    if rows > 0:
        place = place_of(word, first, rows, table)
    if place < 0 or (table[place, 0] == FREE and rows > 4 and 4 * (live + 1) > 3 * rows):
        rows = LEAST
        while rows < 2 * live or (rows <= 4 and rows <= live):
            rows *= 2
        if state[0] + rows > table.shape[0]:
            return False
        first = state[0]
        rebuild(bag, rows, heads, table, first)
        state[0] += rows
        place = place_of(word, first, rows, table)
    if table[place, 0] == FREE:
        table[place, 0] = word
        table[place, 1] = diff
        heads[bag, HELD] = live + 1
        return True
    count = table[place, 1] + diff
    table[place, 1] = count
    if count == 0:
        remove(first, rows, table, place)
        heads[bag, HELD] = live - 1
    return True


@device
def fetch(items, origin, nodes, given, first, last, heads, table, state):
    """Look at the rows of some bags that will change, so that memory is asked for all of them at once."""
    seen = 0
    for k in range(first, last):
        seen ^= heads[items[k] >> 1, TABLE_AT]
    for k in range(first, last):
        at, rows = heads[items[k] >> 1, TABLE_AT], heads[items[k] >> 1, TABLE_ROWS]
        i = origin[k]
        while rows > 0 and i < nodes.shape[0] and nodes[i] == nodes[origin[k]]:
            seen ^= table[at + home(given[i], rows), 0]
            i += 1
    state[1] = seen  # or nobody would look


@kernel("int64(int64[::1], int64[::1], int64[::1], int64, int64[:, ::1], int64[:, ::1], int64[::1])")
def add(bags, given, diffs, first, heads, table, state):
    """Add words to bags, so often, from entry ``first`` on; at which entry the pool was full, else all."""
    for i in range(first, bags.shape[0]):
        if diffs[i] != 0 and not change(bags[i], given[i], diffs[i], heads, table, state):
            return i
    return bags.shape[0]


@kernel(
    "int64(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[:, ::1],"
    " int64[:, ::1], int64[::1])"
)
def spread(items, origin, nodes, given, diffs, done, heads, table, state):
    """Add to each of ``items`` what its writer has got: the rows of ``nodes`` from ``origin`` on.

    ``done`` says how many items and how many rows of the next one are, before and after. Returns the bag for
    which the pool was full, or -1.
    """
    ready = done[0]
    for k in range(done[0], items.shape[0]):
        if k == ready:
            ready = min(k + AHEAD, items.shape[0])
            fetch(items, origin, nodes, given, k, ready, heads, table, state)
        bag, sign = items[k] >> 1, 1 - 2 * (items[k] & 1)
        writer = nodes[origin[k]]
        i = origin[k] + done[1]
        while i < nodes.shape[0] and nodes[i] == writer:
            if diffs[i] != 0 and not change(bag, given[i], sign * diffs[i], heads, table, state):
                done[0] = k
                done[1] = i - origin[k]
                return bag
            i += 1
        done[1] = 0
    return -1


@kernel("int64(int64[:, ::1], int64[:, ::1], int64[::1])")
def compact(heads, table, order):
    """Move tables to the pool's beginning, those that begin first first; how many rows are taken then."""
    end = 0
    for i in range(order.shape[0]):
        bag = order[i]
        at, rows = heads[bag, TABLE_AT], heads[bag, TABLE_ROWS]
        if at != end:
            for k in range(rows):
                table[end + k, 0] = table[at + k, 0]
                table[end + k, 1] = table[at + k, 1]
            heads[bag, TABLE_AT] = end
        end += rows
    return end


@kernel("int64(int64, int64[:, ::1], int64[:, ::1], int64[::1], int64[::1])")
def listed(bag, heads, table, found, times):
    """The words of a bag and how often it has each; how many there are."""
    count = 0
    for at in range(heads[bag, TABLE_AT], heads[bag, TABLE_AT] + heads[bag, TABLE_ROWS]):
        if table[at, 0] != FREE:
            found[count] = table[at, 0]
            times[count] = table[at, 1]
            count += 1
    return count


@kernel("int64(int64[::1], int64[::1], int64[::1], int32[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1])")
def gathered(nodes, at_start, at_size, at_items, heads, table, out):
    """All that is in the bags of what feeds nodes, in ``out`` a node, a word and how often, as signs say.

    Returns how many entries there are, room or not.
    """
    count = 0
    for i in range(nodes.shape[0]):
        for k in range(at_start[nodes[i]], at_start[nodes[i]] + at_size[nodes[i]]):
            source = at_items[k] >> 1
            for at in range(heads[source, TABLE_AT], heads[source, TABLE_AT] + heads[source, TABLE_ROWS]):
                if table[at, 0] != FREE:
                    if count < out.shape[1]:
                        out[0, count] = nodes[i]
                        out[1, count] = table[at, 0]
                        out[2, count] = -table[at, 1] if at_items[k] & 1 else table[at, 1]
                    count += 1
    return count


@kernel("void(int64[::1], int64[:, ::1], int64[:, ::1], int64[::1])")
def least(bags, heads, table, out):
    """The least word of each bag; the largest word there is of an empty one."""
    for i in range(bags.shape[0]):
        found = 2**63 - 1
        first = heads[bags[i], TABLE_AT]
        for at in range(first, first + heads[bags[i], TABLE_ROWS]):
            word = table[at, 0]
            if word != FREE and table[at, 1] > 0 and word < found:
                found = word
        out[i] = found


@device
def most(first, rows, table, few, best):
    """The count of the word that comes ``few``-th by how often it is there; 0 if there are not so many."""
    known = 0
    for at in range(first, first + rows):
        count = table[at, 1]
        if table[at, 0] == FREE or count <= 0 or (known == few and count <= best[known - 1]):
            continue
        if known < few:
            known += 1
        place = known - 1
        while place > 0 and best[place - 1] < count:
            best[place] = best[place - 1]
            place -= 1
        best[place] = count
    return best[few - 1] if known == few else 0


@device
def oftener(words, counts, at, word, count, by_count):
    """Whether what is at a place comes before a word."""
    if by_count and counts[at] != count:
        return counts[at] > count
    return words[at] < word


@device
def arrange(words, counts, first, last, by_count):
    """Put words in order, the most frequent first if that is asked, and a group's number for each count."""
    gap = 1
    while gap < (last - first) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(first + gap, last):
            word, count = words[i], counts[i]
            j = i
            while j >= first + gap and not oftener(words, counts, j - gap, word, count, by_count):
                words[j] = words[j - gap]
                counts[j] = counts[j - gap]
                j -= gap
            words[j] = word
            counts[j] = count
        gap //= 3
    group, before = 0, 0
    for at in range(first, last):
        if by_count and at > first and counts[at] != before:
            group += 1
        before = counts[at]
        counts[at] = group


@device
def above(node, at_start, at_size, at_items, pushed, heads, stack):
    """What a node that is not kept is made of, in a list; how much that is, how many words there may be."""
    stack[0] = 2 * node
    top, expected, seen = 1, 0, 0
    while seen < top:
        item = stack[seen]
        seen += 1
        source = item >> 1
        if pushed[source]:
            expected += heads[source, HELD]
            continue
        while top + at_size[source] > stack.shape[0]:
            grown = np.empty(2 * stack.shape[0], np.int64)
            grown[: stack.shape[0]] = stack
            stack = grown
        for at in range(at_start[source], at_start[source] + at_size[source]):
            stack[top] = at_items[at] ^ (item & 1)
            top += 1
    return stack, top, expected


@device
def merge(stack, top, pushed, heads, table, heap, rows, tally):
    """Add up the bags of a list in ``tally``, a row for each word that has come; how many rows.

    ``heap`` says which row is a word's, by so many of its places: -1 in all, before and after.
    """
    count = 0
    for k in range(top):
        source = stack[k] >> 1
        if pushed[source] == 0:
            continue
        sign = 1 - 2 * (stack[k] & 1)
        first = heads[source, TABLE_AT]
        for at in range(first, first + heads[source, TABLE_ROWS]):
            word = table[at, 0]
            if word == FREE:
                continue
            place = home(word, rows)
            while heap[place] >= 0 and tally[heap[place], 0] != word:
                place = (place + 1) & (rows - 1)
            if heap[place] < 0:
                heap[place] = count
                tally[count, 0] = word
                tally[count, 1] = 0
                tally[count, 2] = place
                count += 1
            tally[heap[place], 1] += sign * table[at, 1]
    for k in range(count):
        heap[tally[k, 2]] = -1
    return count


@device
def approach(nodes, first, last, at_start, at_size, at_items, pushed, heads, table):
    """Look at the bags that some nodes are read from, so that memory is asked for all of them at once."""
    seen = 0
    for i in range(first, last):
        node = nodes[i]
        seen ^= heads[node, FOUND] ^ at_start[node] ^ at_size[node]
    for i in range(first, last):
        node = nodes[i]
        if pushed[node] == 0:
            for k in range(at_start[node], at_start[node] + at_size[node]):
                seen ^= heads[at_items[k] >> 1, TABLE_AT]
        elif heads[node, FOUND] == FREE:
            for at in range(heads[node, TABLE_AT], heads[node, TABLE_AT] + heads[node, TABLE_ROWS], 4):
                seen ^= table[at, 0]
    for i in range(first, last):
        node = nodes[i]
        if pushed[node] == 0:
            for k in range(at_start[node], at_start[node] + at_size[node]):
                source = at_items[k] >> 1
                if heads[source, TABLE_ROWS] > 0:
                    seen ^= table[heads[source, TABLE_AT], 0]
    return seen


@kernel(
    "int64(int64[::1], int64, int64[::1], int64[::1], int32[::1], uint8[::1], int64[:, ::1], int64[:, ::1],"
    " int64, int64, boolean, int64[:, ::1], int64[::1])"
)
def frequent(nodes, begun, at_start, at_size, at_items, pushed, heads, table, few, way, more, out, size):
    """Of each node's bag, from the one at ``begun`` on, the words that come as often as the ``few``-th most
    frequent one, or oftener.

    Bags of nodes that are not kept are those of what feeds them, added up. ``out`` gets words in order, one
    node after the other, and for each the number of its group, of those that come equally often if ``way`` is
    ``BY_COUNT``. Of those that come as often as the last one there may be ``more``, or else the least are
    taken. ``size`` gets how many of each, which is all there is if ``way`` is ``NUMBER``, or ``KNOWN``, or
    ``SAME``: so that a node is looked at once its answer is ``FREE + 1`` and its place, until there is one.
    Returns how many nodes are done then: the next one had no room.
    """
    stack = np.empty(1 << 10, np.int64)
    best = np.empty(max(few, 1), np.int64)
    heap = np.full(1 << 6, -1, np.int32)
    tally = np.empty((1 << 5, 3), np.int64)
    written, ready, seen = 0, begun, 0
    for i in range(begun, nodes.shape[0]):
        if i == ready:
            ready = min(i + NEXT, nodes.shape[0])
            seen ^= approach(nodes, i, ready, at_start, at_size, at_items, pushed, heads, table)
        node = nodes[i]
        first, rows, bag, answer = heads[node, TABLE_AT], heads[node, TABLE_ROWS], table, heads[node, FOUND]
        if FREE < answer <= FREE + nodes.shape[0]:
            size[i] = SAME - (answer - FREE - 1)
            continue
        if pushed[node] and answer != FREE and way != NUMBER:
            size[i] = KNOWN
            continue
        if pushed[node] == 0:
            stack, top, expected = above(node, at_start, at_size, at_items, pushed, heads, stack)
            places = 4
            while places < 2 * expected:
                places *= 2
            if places > heap.shape[0]:
                heap = np.full(places, -1, np.int32)
                tally = np.empty((places // 2, 3), np.int64)
            first, rows = 0, merge(stack, top, pushed, heads, table, heap, places, tally)
            bag = tally
        if way == NUMBER:
            count = heads[node, HELD]
            if pushed[node] == 0:
                count = 0
                for at in range(rows):
                    count += bag[at, 0] != FREE and bag[at, 1] > 0
            size[i] = count
            continue
        enough = most(first, rows, bag, few, best) if few > 0 else 0
        count = 0
        for at in range(first, first + rows):
            if bag[at, 0] != FREE and bag[at, 1] > 0 and bag[at, 1] >= enough:
                if written + count == out.shape[1]:
                    return i
                out[0, written + count] = bag[at, 0]
                out[1, written + count] = bag[at, 1]
                count += 1
        arrange(out[0], out[1], written, written + count, way == BY_COUNT)
        if few > 0 and not more:
            count = min(count, few)
        size[i] = count
        heads[node, FOUND] = FREE + 1 + i
        written += count
    tally[0, 0] = seen  # or nobody would look
    return nodes.shape[0]


@kernel("int64(int64[::1], int64[::1], int64[:, ::1], int64[::1], int64[::1])")
def placed(nodes, size, heads, log, places):
    """Where each node's list stands, and how many elements all of them have: ``size`` is as ``frequent`` has
    left it, and then how many there are of each.

    A place is one of what was found, one list after the other, or -1 less one of the log.
    """
    found, total = 0, 0
    for i in range(nodes.shape[0]):
        if size[i] >= 0:
            places[i] = found
            found += size[i]
        elif size[i] == KNOWN:
            at = heads[nodes[i], FOUND]
            size[i] = log[at]
            places[i] = -2 - at
        else:
            before = SAME - size[i]
            size[i] = size[before]
            places[i] = places[before]
        total += size[i]
    return total


@kernel(
    "void(int64[::1], int64[::1], int64[::1], int64[::1], uint8[::1], int64[:, ::1], int64[::1],"
    " int64[::1], int64[::1])"
)
def handed(nodes, size, places, found, pushed, heads, log, state, out):
    """Write all lists to ``out``, and those of kept nodes that were found to the log, their lengths first.

    ``state`` is how much of the log is taken, and how many had no room.
    """
    written = 0
    for i in range(nodes.shape[0]):
        node, count, at = nodes[i], size[i], places[i]
        if at < 0:
            for k in range(count):
                out[written + k] = log[k - 1 - at]
        else:
            for k in range(count):
                out[written + k] = found[at + k]
        if heads[node, FOUND] == FREE + 1 + i:
            heads[node, FOUND] = FREE
            taken = state[0]
            if pushed[node] and taken + count < log.shape[0]:
                heads[node, FOUND] = taken
                log[taken] = count
                for k in range(count):
                    log[taken + 1 + k] = out[written + k]
                state[0] = taken + count + 1
            elif pushed[node]:
                state[1] += 1
        written += count
