"""Multisets of words, many in one pool: what holistic aggregates keep of a node.

A bag is a table with open addressing, ``room[bag]`` places from ``start[bag]`` on in ``words`` and
``counts``. A place with count 0 is free, or was: ``used[bag]`` places have had a word since the table was
made anew. ``live[bag]`` is how many words it has. ``answer[bag]`` may have what was once found of it, and is
``FREE`` when it has changed. A bag without a table has room 0. ``state`` says how many
places of the pool are taken.
"""

import numpy as np

from kpg.runtime.kernels import device, kernel

FREE = -(2**63) + 1  # the word of a place that never had one; no value has it
LEAST = 2  # places of a table
KNOWN = -1  # the size of what has an answer
NUMBER, BY_WORD, BY_COUNT = 0, 1, 2  # what is asked of bags: how many words, which, in what order


@device
def place_of(word, first, room, words):
    """Where a word is, or the free place for it; -1 if there is none."""
    h = np.uint64(word) * np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(29)
    at = np.int64(h & np.uint64(room - 1))
    for _ in range(room):
        held = words[first + at]
        if held in (word, FREE):
            return first + at
        at = (at + 1) & (room - 1)
    return -1


@device
def rebuild(bag, room, start, rooms, used, words, counts, end):
    """Give a bag a table of so many places at the pool's end."""
    for at in range(end, end + room):
        words[at] = FREE
        counts[at] = 0
    used[bag] = 0
    for at in range(start[bag], start[bag] + rooms[bag]):
        if counts[at] != 0:
            place = place_of(words[at], end, room, words)
            words[place] = words[at]
            counts[place] = counts[at]
            used[bag] += 1
    start[bag] = end
    rooms[bag] = room


@kernel(
    "int64(int64[::1], int64[::1], int64[::1], int64, int64[::1], int64[::1], int64[::1], int64[::1],"
    " int64[::1], int64[::1], int64[::1], int64[::1])"
)
def add(bags, given, diffs, first, start, room, used, live, answer, words, counts, state):
    """Add words to bags, so often, from entry ``first`` on; at which entry the pool was full, else all."""
    for i in range(first, bags.shape[0]):
        bag = bags[i]
        if diffs[i] == 0:
            continue
        answer[bag] = FREE
        place = -1
        if room[bag] > 0:
            place = place_of(given[i], start[bag], room[bag], words)
        full = place < 0 or (words[place] == FREE and room[bag] > 4 and 4 * used[bag] >= 3 * room[bag])
        if full:
            wanted = LEAST
            while wanted < 2 * live[bag] or (wanted <= 4 and wanted <= live[bag]):
                wanted *= 2
            if state[0] + wanted > words.shape[0]:
                return i
            rebuild(bag, wanted, start, room, used, words, counts, state[0])
            state[0] += wanted
            place = place_of(given[i], start[bag], room[bag], words)
        if words[place] == FREE:
            words[place] = given[i]
            used[bag] += 1
        before = counts[place]
        counts[place] = before + diffs[i]
        if before == 0:
            live[bag] += 1
        elif counts[place] == 0:
            live[bag] -= 1
    return bags.shape[0]


@kernel("int64(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def compact(start, room, words, counts, order):
    """Move tables to the pool's beginning, those that begin first first; how many places are taken then."""
    end = 0
    for i in range(order.shape[0]):
        bag = order[i]
        at = start[bag]
        if at != end:
            for k in range(room[bag]):
                words[end + k] = words[at + k]
                counts[end + k] = counts[at + k]
            start[bag] = end
        end += room[bag]
    return end


@kernel("int64(int64, int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def listed(bag, start, room, words, counts, found, times):
    """The words of a bag and how often it has each; how many there are."""
    count = 0
    for at in range(start[bag], start[bag] + room[bag]):
        if counts[at] != 0:
            found[count] = words[at]
            times[count] = counts[at]
            count += 1
    return count


@kernel(
    "int64(int64[::1], int64[::1], int64[::1], int32[::1], int64[::1], int64[::1], int64[::1], int64[::1],"
    " int64[:, ::1])"
)
def gathered(nodes, at_start, at_size, at_items, start, room, words, counts, out):
    """All that is in the bags of what feeds nodes, in ``out`` a node, a word and how often, as signs say.

    Returns how many entries there are, room or not.
    """
    count = 0
    for i in range(nodes.shape[0]):
        for k in range(at_start[nodes[i]], at_start[nodes[i]] + at_size[nodes[i]]):
            source = at_items[k] >> 1
            for at in range(start[source], start[source] + room[source]):
                if counts[at] != 0:
                    if count < out.shape[1]:
                        out[0, count] = nodes[i]
                        out[1, count] = words[at]
                        out[2, count] = -counts[at] if at_items[k] & 1 else counts[at]
                    count += 1
    return count


@kernel("void(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def least(bags, start, room, words, counts, out):
    """The least word of each bag; the largest word there is of an empty one."""
    for i in range(bags.shape[0]):
        found = 2**63 - 1
        for at in range(start[bags[i]], start[bags[i]] + room[bags[i]]):
            if counts[at] > 0 and words[at] < found:
                found = words[at]
        out[i] = found


@device
def most(first, room, counts, few, best):
    """The count of the word that comes ``few``-th by how often it is there; 0 if there are not so many."""
    known = 0
    for at in range(first, first + room):
        count = counts[at]
        if count <= 0 or (known == few and count <= best[known - 1]):
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
def above(node, at_start, at_size, at_items, pushed, live, stack):
    """What a node that is not kept is made of, in a list, and how many words there may be."""
    stack[0] = 2 * node
    top, expected, seen = 1, 0, 0
    while seen < top:
        item = stack[seen]
        seen += 1
        source = item >> 1
        if pushed[source]:
            expected += live[source]
            continue
        while top + at_size[source] > stack.shape[0]:
            grown = np.empty(2 * stack.shape[0], np.int64)
            grown[: stack.shape[0]] = stack
            stack = grown
        for at in range(at_start[source], at_start[source] + at_size[source]):
            stack[top] = at_items[at] ^ (item & 1)
            top += 1
    return stack, top, expected


@kernel(
    "int64(int64[::1], int64[::1], int64[::1], int32[::1], uint8[::1], int64[::1], int64[::1],"
    " int64[::1], int64[::1], int64[::1], int64[::1], int64, int64, int64[:, ::1], int64[::1])"
)
def frequent(
    nodes,
    at_start,
    at_size,
    at_items,
    pushed,
    start,
    room,
    live,
    answer,
    words,
    counts,
    few,
    way,
    out,
    size,
):
    """Of each node's bag the words that come as often as the ``few``-th most frequent one, or oftener.

    Bags of nodes that are not kept are those of what feeds them, added up. ``out`` gets words in order, one
    node after the other, and for each the number of its group, of those that come equally often if ``way``
    is ``BY_COUNT``; ``size`` gets how many of each, which is all if it is ``NUMBER``, or ``KNOWN``. Returns
    the nodes that there was room for.
    """
    stack = np.empty(1 << 10, np.int64)
    best = np.empty(max(few, 1), np.int64)
    heap_words = np.empty(1 << 6, np.int64)
    heap_counts = np.empty(1 << 6, np.int64)
    written = 0
    for i in range(nodes.shape[0]):
        node = nodes[i]
        first, places, table, times = start[node], room[node], words, counts
        if pushed[node] and answer[node] != FREE:
            size[i] = KNOWN
            continue
        if pushed[node] == 0:
            stack, top, expected = above(node, at_start, at_size, at_items, pushed, live, stack)
            places = 4
            while places < 2 * expected:
                places *= 2
            if places > heap_words.shape[0]:
                heap_words = np.empty(places, np.int64)
                heap_counts = np.empty(places, np.int64)
            for at in range(places):
                heap_words[at] = FREE
                heap_counts[at] = 0
            for k in range(top):
                source = stack[k] >> 1
                if pushed[source] == 0:
                    continue
                for at in range(start[source], start[source] + room[source]):
                    if counts[at] != 0:
                        place = place_of(words[at], 0, places, heap_words)
                        heap_words[place] = words[at]
                        heap_counts[place] += -counts[at] if stack[k] & 1 else counts[at]
            first, table, times = 0, heap_words, heap_counts
        if way == NUMBER:
            count = live[node]
            if pushed[node] == 0:
                count = 0
                for at in range(first, first + places):
                    count += times[at] > 0
            size[i] = count
            continue
        enough = most(first, places, times, few, best) if few > 0 else 0
        count = 0
        for at in range(first, first + places):
            if times[at] > 0 and times[at] >= enough:
                if written + count == out.shape[1]:
                    return i
                out[0, written + count] = table[at]
                out[1, written + count] = times[at]
                count += 1
        arrange(out[0], out[1], written, written + count, way == BY_COUNT)
        size[i] = count
        written += count
    return nodes.shape[0]
