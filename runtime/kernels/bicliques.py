"""Bicliques of readers' input lists, found in FP-trees: overlays by VNM, VNM_A, VNM_N and VNM_D.

Reader r's inputs are the items ``items[start[r]:start[r] + size[r]]``: a node and a sign, ``2 * node + 1``
if it is taken away. Readers that are alike stand near each other in ``order``, and are taken a chunk at a
time. The tree of a chunk has a path for each list, its most frequent items first; the readers that come
through a place of the tree, and the items on its path, are a biclique. The one that saves most becomes a
node, in the place of the items in these lists.
"""

import numpy as np

from kpg.runtime.kernels import device, inlined, kernel

PLAIN = 0
NEGATIVE = 1  # a list may lack some items of a path: they are taken away from what the node gives
AGAIN = 2  # an item may reach a reader by several nodes; an odd item has reached it already
VISITS = 256  # places of a tree that are looked at for one list, of those that it is not on

PLACE = (1 << 32) - 1  # the bits of a gain that are the place; the higher ones are what it saves, negated
SAVED = 0  # of the account: edges saved
NODES = 1  # nodes made
MEMBERS = 2  # items of nodes made
FIELDS = 3


@device
def mixed(item, salt):
    h = (np.uint64(item) + np.uint64(salt)) * np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(32)
    h *= np.uint64(0xD6E8FEB86659FD93)
    h ^= h >> np.uint64(29)
    return np.int64(h >> np.uint64(1))


@kernel("void(int64[::1], int64[::1], int32[::1], int64, int64[:, ::1])")
def shingles(start, size, items, seed, out):
    """Of each list the least hash of its items, for some hashes: equal for lists that are alike, mostly."""
    for r in range(size.shape[0]):
        for h in range(out.shape[0]):
            least = 2**63 - 1
            for at in range(start[r], start[r] + size[r]):
                value = mixed(items[at], seed + 0x51ED27 * (h + 1))
                if value < least:
                    least = value
            out[h, r] = least


@device
def sort_few(values, first, last):
    """In ascending order, in place (Shell's)."""
    gap = 1
    while gap < (last - first) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(first + gap, last):
            value = values[i]
            j = i
            while j >= first + gap and values[j - gap] > value:
                values[j] = values[j - gap]
                j -= gap
            values[j] = value
        gap //= 3


@device
def gather(chunk, start, size, items, seen, limit):
    """The chunk's items of two lists or more, as ranks by how often: the lists, and the ranks' items."""
    total = 0
    for j in range(chunk.shape[0]):
        total += size[chunk[j]]
    known = np.empty(total, np.int64)
    count = 0
    for j in range(chunk.shape[0]):
        r = chunk[j]
        for at in range(start[r], start[r] + size[r]):
            item = items[at] & limit
            if seen[item] == 0:
                known[count] = item
                count += 1
            seen[item] += 1
    keys = np.empty(count, np.int64)
    often = 0
    for k in range(count):
        if seen[known[k]] > 1:
            keys[often] = ((chunk.shape[0] - seen[known[k]]) << 32) | known[k]
            often += 1
        seen[known[k]] = 0
    sort_few(keys, 0, often)
    ranked = np.empty(often, np.int64)
    for k in range(often):
        ranked[k] = keys[k] & 0xFFFFFFFF
        seen[ranked[k]] = k + 1
    lists = np.empty(total, np.int64)
    begin = np.zeros(chunk.shape[0] + 1, np.int64)
    written = 0
    for j in range(chunk.shape[0]):
        r = chunk[j]
        kept = start[r]
        for at in range(start[r], start[r] + size[r]):
            rank = seen[items[at] & limit]
            if rank > 0:
                lists[written] = 2 * (rank - 1) + (items[at] & 1 & ~limit)
                written += 1
            else:
                items[kept] = items[at]
                kept += 1
        size[r] = kept - start[r]
        begin[j + 1] = written
        sort_few(lists, begin[j], written)
    for k in range(often):
        seen[ranked[k]] = 0
    return ranked, lists[:written], begin


@device
def child_of(place, rank, tree):
    child = tree[1, place]
    while child >= 0 and tree[0, child] != rank:
        child = tree[2, child]
    return child


@device
def join_list(place, j, gain, tree, members, count):
    """Add a list to those that come through a place, if it is not the last one there already."""
    last = tree[5, place]
    if last >= 0 and members[0, last] == j:
        return count
    members[0, count] = j
    members[1, count] = gain
    members[2, count] = last
    tree[5, place] = count
    if gain > 1:
        tree[6, place] += gain - 1
        tree[7, place] += 1
    return count + 1


@device
def lacking(j, first, last, lists, tree, members, count, lacks, stack, found):
    """Have a list come through places of the tree that it lacks some items of, two at most, the best ones."""
    found[0, 0] = found[0, 1] = 0
    visits, top = 0, 0
    child = tree[1, 0]
    while child >= 0 and top < stack.shape[1]:
        stack[0, top], stack[1, top], stack[2, top] = child, first, 0
        top += 1
        child = tree[2, child]
    while top > 0 and visits < VISITS:
        top -= 1
        place, at, without = stack[0, top], stack[1, top], stack[2, top]
        visits += 1
        while at < last and (lists[at] >> 1) < tree[0, place]:
            at += 1
        if at < last and (lists[at] >> 1) == tree[0, place]:
            at += 1
        else:
            without += 1
            if without > lacks:
                continue
        gain = tree[4, place] - 2 * without
        if without > 0 and gain > 1:
            worse = 0 if found[0, 0] <= found[0, 1] else 1
            if gain > found[0, worse]:
                found[0, worse], found[1, worse] = gain, place
        child = tree[1, place]
        while child >= 0 and top < stack.shape[1]:
            stack[0, top], stack[1, top], stack[2, top] = child, at, without
            top += 1
            child = tree[2, child]
    for k in range(2):
        if found[0, k] <= 1:
            continue
        place, gain = found[1, k], found[0, k]
        at = last - 1
        without = (tree[4, place] - gain) // 2
        while place != 0:
            while at >= first and (lists[at] >> 1) > tree[0, place]:
                at -= 1
            count = join_list(place, j, tree[4, place] - 2 * without, tree, members, count)
            if not (at >= first and (lists[at] >> 1) == tree[0, place]):
                without -= 1
            place = tree[3, place]
    return count


@device
def grow(lists, begin, variant, lacks):
    """The tree of lists: rank, first child, next sibling, parent, depth, last member, savings, members."""
    total = lists.shape[0]
    tree = np.empty((8, total + 1), np.int64)
    tree[0, 0] = tree[1, 0] = tree[2, 0] = tree[3, 0] = tree[5, 0] = -1
    tree[4, 0] = tree[6, 0] = tree[7, 0] = 0
    places, count = 1, 0
    room = total + 1
    if variant == NEGATIVE:
        room = 3 * total + 2 * begin.shape[0] * (lacks + 1) + 64
    members = np.empty((3, room), np.int64)
    stack = np.empty((3, 4 * VISITS), np.int64)
    found = np.zeros((2, 2), np.int64)
    for j in range(begin.shape[0] - 1):
        place, gain = 0, 0
        before = places
        for at in range(begin[j], begin[j + 1]):
            rank = lists[at] >> 1
            child = child_of(place, rank, tree)
            if child < 0:
                child = places
                places += 1
                tree[0, child] = rank
                tree[1, child] = -1
                tree[2, child] = tree[1, place]
                tree[3, child] = place
                tree[4, child] = tree[4, place] + 1
                tree[5, child] = -1
                tree[6, child] = tree[7, child] = 0
                tree[1, place] = child
            place = child
            gain += 1 - (lists[at] & 1)
            count = join_list(place, j, gain, tree, members, count)
        if variant == NEGATIVE and before > 1:
            count = lacking(j, begin[j], begin[j + 1], lists, tree, members, count, lacks, stack, found)
    return tree, members, places


@device
def take_out(j, path, lists, begin, length, variant):
    """Take a path's ranks out of a list; how many it had. Ranks of both ascend, those of ``path`` descend."""
    first, last = begin[j], begin[j] + length[j]
    kept, at = first, first
    step = path.shape[0] - 1
    had = 0
    while at < last:
        rank = lists[at] >> 1
        while step >= 0 and path[step] < rank:
            step -= 1
        if step >= 0 and path[step] == rank:
            had += 1
            if variant == AGAIN:
                lists[kept] = lists[at] | 1
                kept += 1
        else:
            lists[kept] = lists[at]
            kept += 1
        at += 1
    if variant == AGAIN:
        # The node stands in the place of one item that has reached the reader already.
        at = first
        while lists[at] & 1 == 0:
            at += 1
        for k in range(at, kept - 1):
            lists[k] = lists[k + 1]
        kept -= 1
    length[j] = kept - first
    return had


@device
def lacks_of(j, path, lists, begin, length, ranked, out):
    """The items of a path that a list has not, with the other sign: how many."""
    first, last = begin[j], begin[j] + length[j]
    at, count = first, 0
    for step in range(path.shape[0] - 1, -1, -1):
        while at < last and (lists[at] >> 1) < path[step]:
            at += 1
        if not (at < last and (lists[at] >> 1) == path[step]):
            out[count] = ranked[path[step]] ^ 1
            count += 1
    return count


@device
def close_up(lists, begin, length):
    """Lists without the gaps that took what was taken out."""
    written = 0
    fresh = np.zeros(begin.shape[0], np.int64)
    for j in range(length.shape[0]):
        for at in range(begin[j], begin[j] + length[j]):
            lists[written] = lists[at]
            written += 1
        fresh[j + 1] = written
    for j in range(begin.shape[0]):
        begin[j] = fresh[j]
    return lists[:written]


@device
def worth(place, tree, members, touched):
    """What a biclique saves whose members have not been touched, as ``grow`` has it."""
    total, entry = -tree[4, place], tree[5, place]
    while entry >= 0:
        if members[1, entry] > 1:
            if touched[members[0, entry]]:
                return 0
            total += members[1, entry] - 1
        entry = members[2, entry]
    return total


@device
def rank_by_gain(tree, places, gains):
    """The places that save something, best first, each with what it saves; how many."""
    good = 0
    for place in range(1, places):
        saved = tree[6, place] - tree[4, place]
        if saved > 0 and tree[7, place] > 1:
            gains[good] = -saved * (PLACE + 1) + place
            good += 1
    sort_few(gains, 0, good)
    return good


@inlined
def saved_by(gain):
    return -((gain - (gain & PLACE)) >> 32)


@device
def path_of(place, tree):
    """The ranks on the way from a place up to the root."""
    path = np.empty(tree[4, place], np.int64)
    for d in range(path.shape[0]):
        path[d] = tree[0, place]
        place = tree[3, place]
    return path


@device
def add_items(r, new, start, size, items):
    for k in range(new.shape[0]):
        items[start[r] + size[r]] = new[k]
        size[r] += 1


@device
def put_back(here, lists, begin, length, ranked, start, size, items):
    """Have readers' lists end with what is left of those of the chunk."""
    for j in range(here.shape[0]):
        r = here[j]
        for at in range(begin[j], begin[j] + length[j]):
            items[start[r] + size[r]] = ranked[lists[at] >> 1] | (lists[at] & 1)
            size[r] += 1


@kernel(
    "int64(int64[::1], int64, int64, int64[::1], int64[::1], int32[::1], int64, int64, int64, int32[::1],"
    " int64[::1], int32[::1], int64[::1], int64[::1])"
)
def mine(
    order,
    chunk,
    step,
    start,
    size,
    items,
    variant,
    lacks,
    next_node,
    seen,
    made,
    made_items,
    by_size,
    account,
):
    """Replace bicliques by nodes, chunk by chunk, in place; ``made_items`` are the nodes' items.

    Lists get shorter or stay as long. ``step`` is by how much a chunk begins after the one before. Of node
    ``next_node + i`` the items end at ``made[i]``. ``by_size`` adds up what is saved by how many readers
    share a node. Stops where there is no room for more; returns how many nodes there are.
    """
    nodes = account[NODES]
    limit = ~np.int64(1) if variant == AGAIN else ~np.int64(0)
    first = 0
    while first < order.shape[0]:
        here = order[first : min(first + chunk, order.shape[0])]
        first += step
        if here.shape[0] < 2:
            break
        ranked, lists, begin = gather(here, start, size, items, seen, limit)
        length = np.empty(here.shape[0], np.int64)
        for j in range(here.shape[0]):
            length[j] = begin[j + 1] - begin[j]
        out = np.empty(ranked.shape[0] + 1, np.int64)
        touched = np.zeros(here.shape[0], np.uint8)
        full = False
        while lists.shape[0] > 0 and not full:
            tree, members, places = grow(lists, begin, variant, lacks)
            gains = np.empty(places, np.int64)
            good = rank_by_gain(tree, places, gains)
            if good == 0:
                break
            touched[:] = 0
            for g in range(good):
                place = gains[g] & PLACE
                if 4 * saved_by(gains[g]) < saved_by(gains[0]):
                    break
                if g > 0 and worth(place, tree, members, touched) <= 0:
                    continue
                depth = tree[4, place]
                if nodes == made.shape[0] or account[MEMBERS] + depth > made_items.shape[0]:
                    full = True
                    break
                path = path_of(place, tree)
                for d in range(depth):
                    made_items[account[MEMBERS] + d] = ranked[path[d]]
                account[MEMBERS] += depth
                made[nodes] = account[MEMBERS]
                account[SAVED] += saved_by(gains[g])
                by_size[min(tree[7, place], by_size.shape[0] - 1)] += saved_by(gains[g])
                entry = tree[5, place]
                while entry >= 0:
                    j = members[0, entry]
                    if members[1, entry] > 1:
                        touched[j] = 1
                        out[0] = 2 * (next_node + nodes)
                        new = 1
                        if variant == NEGATIVE:
                            new += lacks_of(j, path, lists, begin, length, ranked, out[1:])
                        take_out(j, path, lists, begin, length, variant)
                        add_items(here[j], out[:new], start, size, items)
                    entry = members[2, entry]
                nodes += 1
            lists = close_up(lists, begin, length)
        put_back(here, lists, begin, length, ranked, start, size, items)
        if full:
            break
    account[NODES] = nodes
    return nodes


@kernel("void(int64[::1], int64[::1], int32[::1])")
def drop_odd(start, size, items):
    """Leave only the even items in lists."""
    for r in range(size.shape[0]):
        kept = start[r]
        for at in range(start[r], start[r] + size[r]):
            if items[at] & 1 == 0:
                items[kept] = items[at]
                kept += 1
        size[r] = kept - start[r]
