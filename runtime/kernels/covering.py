"""Incremental overlay building: lists of items are covered by sets that are there, or parts of them.

Rows are lists of items; nodes made are sets of items, too, and may stand in rows and in each other. Node n
is row n, or from ``rows`` on a set: its inputs ``inputs[at[n]:at[n] + count[n]]`` are items (``2 * item``)
or sets (``2 * set + 1``), and what it covers are the items ``covered[cover[n]:cover[n] + covers[n]]``.
"""

import numpy as np

from kpg.runtime.kernels import device, kernel

RECENT = 32  # of the nodes that cover an item the last so many, at most, are looked at

NODES = 0  # of the account: nodes, rows and sets
INPUTS = 1  # places of ``inputs`` taken
COVERED = 2  # places of ``covered`` taken
FIELDS = 3


@kernel("int64(int32[::1], int64[::1])")
def share_out(entries, slots):
    """Where each item's places begin in a list of nodes lately seen; how many places there are in all.

    As many as there are rows with the item, or somewhat more, a power of two, but not more than ``RECENT``.
    """
    for k in range(entries.shape[0]):
        slots[(entries[k] >> 1) + 1] += 1
    for item in range(slots.shape[0] - 1):
        places = 1
        while places <= slots[item + 1] and places < RECENT:
            places *= 2
        slots[item + 1] = slots[item] + places
    return slots[slots.shape[0] - 1]


@device
def note(item, node, recent, slots, turn):
    places = slots[item + 1] - slots[item]
    recent[slots[item] + (turn[item] & (places - 1))] = node
    turn[item] += 1


@device
def best_of(left, number, recent, slots, weigh, stamp, candidates, mark, now, refused):
    """The node that covers most of the items left, two at least; -1 if there is none."""
    known = 0
    best, most = -1, 1
    for k in range(number):
        item = left[k]
        if mark[item] != now:
            continue
        for place in range(slots[item], slots[item + 1]):
            node = recent[place]
            if node < 0:
                break
            if stamp[node] != now:
                stamp[node] = now
                weigh[node] = 0
                candidates[known] = node
                known += 1
            weigh[node] += 1
    for k in range(known):
        node = candidates[k]
        stamp[node] = -1
        if weigh[node] > most:
            skipped = False
            for r in range(refused[0]):
                skipped = skipped or refused[r + 1] == node
            if not skipped:
                best, most = node, weigh[node]
    return best


@device
def inside(node, cover, covers, covered, mark, now):
    for k in range(cover[node], cover[node] + covers[node]):
        if mark[covered[k]] != now:
            return False
    return True


@device
def split_off(node, at, count, inputs, cover, covers, covered, mark, now, recent, slots, turn, account):
    """A new set of a node's inputs that are wholly among the marked items, and that it has in their place.

    The set; or -1 if they are fewer than two; a set that is the only one as -2 - set; -1 without room.
    """
    number, total, single = 0, 0, -1
    for k in range(at[node], at[node] + count[node]):
        entry = inputs[k]
        if entry & 1:
            if inside(entry >> 1, cover, covers, covered, mark, now):
                number += 1
                total += covers[entry >> 1]
                single = entry >> 1
        elif mark[entry >> 1] == now:
            number += 1
            total += 1
    if number == 1 and single >= 0 and covers[single] > 1:
        return -2 - single
    if number < 2 or account[NODES] == at.shape[0]:
        return -1
    if account[INPUTS] + number > inputs.shape[0] or account[COVERED] + total > covered.shape[0]:
        return -1
    fresh = account[NODES]
    account[NODES] += 1
    at[fresh], count[fresh] = account[INPUTS], number
    cover[fresh], covers[fresh] = account[COVERED], total
    account[INPUTS] += number
    account[COVERED] += total
    put, written, kept = at[fresh], cover[fresh], at[node]
    for k in range(at[node], at[node] + count[node]):
        entry = inputs[k]
        taken = False
        if entry & 1:
            if inside(entry >> 1, cover, covers, covered, mark, now):
                taken = True
                for c in range(cover[entry >> 1], cover[entry >> 1] + covers[entry >> 1]):
                    covered[written] = covered[c]
                    written += 1
        elif mark[entry >> 1] == now:
            taken = True
            covered[written] = entry >> 1
            written += 1
        if taken:
            inputs[put] = entry
            put += 1
        else:
            inputs[kept] = entry
            kept += 1
    inputs[kept] = 2 * fresh + 1
    count[node] = kept + 1 - at[node]
    for k in range(cover[fresh], cover[fresh] + total):
        note(covered[k], fresh, recent, slots, turn)
    return fresh


@kernel(
    "void(int64[::1], int64, int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1],"
    " int32[::1], int64[::1], int32[::1], int64[::1])"
)
def cover_all(order, rows, at, count, cover, covers, inputs, covered, recent, slots, turn, account):
    """Cover each row's items, in order, by sets and single items; rows of few items stay as they are.

    Before it, a row's inputs are its items, and ``covered`` has the same items at its ``cover``.
    """
    items = turn.shape[0]
    mark = np.full(items, -1, np.int32)
    weigh = np.zeros(at.shape[0], np.int32)
    stamp = np.full(at.shape[0], -1, np.int32)
    longest = 0
    for r in range(rows):
        longest = max(longest, covers[r])
    left = np.empty(longest + 1, np.int64)
    chosen = np.empty(longest + 1, np.int64)
    candidates = np.empty(min(at.shape[0], (longest + 1) * RECENT), np.int32)
    refused = np.empty(9, np.int64)
    for o in range(order.shape[0]):
        row = order[o]
        number = covers[row]
        if number < 2:
            continue
        for k in range(number):
            left[k] = covered[cover[row] + k]
            mark[left[k]] = o
        uncovered, picked = number, 0
        refused[0] = 0
        while uncovered > 1:
            node = best_of(left, number, recent, slots, weigh, stamp, candidates, mark, o, refused)
            if node < 0:
                break
            if not (node >= rows and inside(node, cover, covers, covered, mark, o)):
                found = split_off(
                    node, at, count, inputs, cover, covers, covered, mark, o, recent, slots, turn, account
                )
                if found == -1:
                    if refused[0] == 8:
                        break
                    refused[0] += 1
                    refused[refused[0]] = node
                    continue
                node = found if found >= 0 else -2 - found
            chosen[picked] = node
            picked += 1
            for k in range(cover[node], cover[node] + covers[node]):
                mark[covered[k]] = -1
            uncovered -= covers[node]
        put = at[row]
        for k in range(picked):
            inputs[put] = 2 * chosen[k] + 1
            put += 1
        for k in range(number):
            if mark[left[k]] == o:
                inputs[put] = 2 * left[k]
                put += 1
                mark[left[k]] = -1
        count[row] = put - at[row]
        for k in range(number):
            note(left[k], row, recent, slots, turn)
