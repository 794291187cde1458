"""Kernels that change a history table; ``kernels/historytable.py`` has its layout."""

import numpy as np

from kpg.runtime.kernels import device, kernel
from kpg.runtime.kernels.accumulators import add_row, add_words, is_zero
from kpg.runtime.kernels.historytable import (
    COLUMNS,
    COMMITTED,
    CURRENT,
    FIRST_EPOCH,
    FREE,
    FREE_KEYS,
    FREE_RECORDS,
    KEYS,
    LAST_EPOCH,
    LIVE_KEYS,
    LIVE_RECORDS,
    MIXED,
    RECORDS,
    ROUNDS,
    SINK,
    STEP_RECORDS,
    TOUCHED,
    bits_of,
    current_of,
    keys_of,
    records_of,
    slots_of,
    spec_of,
    touched_of,
)
from kpg.runtime.kernels.limbs import LOW

BLOCK = 64
SEED = 0x9E3779B97F4A7C15 - 2**64
FACTOR = 0xFF51AFD7ED558CCD


@device
def hash_key(keys, number, width):
    """32 bits; as ``find_block`` has it."""
    h = np.uint64(SEED)
    for c in range(width):
        h = (h ^ np.uint64(keys[number, 1 + c])) * np.uint64(FACTOR)
        h ^= h >> np.uint64(32)
    return np.int64(h & np.uint64(LOW))


@device
def append(number, last, link, keys, records):
    """Let the key's record behind the link ``last``, or the one in the key, be followed by ``link``."""
    if last == 0:
        keys[number, 0] = link
    else:
        records[last - 1, 0] = link


@device
def list_key(number, bits, current, n):
    """Have the key evaluated, the n-th if it is not among them yet; how many they are then."""
    bit = 1 << (number & 63)
    if bits[number >> 6] & bit == 0:
        bits[number >> 6] |= bit
        current[n] = number
        n += 1
    return n


@device
def find_block(data, start, n, nk, slots, keys, records, homes, found):
    """Look n rows up: their keys' numbers, or -1, into ``found``; hash and slot into ``homes``.

    Each stage reads all of a kind together, so that the misses overlap.
    """
    mask = slots.shape[0] - 1
    for i in range(n):
        homes[i] = SEED
    for c in range(nk):
        for i in range(n):
            h = (np.uint64(homes[i]) ^ np.uint64(data[c, start + i])) * np.uint64(FACTOR)
            homes[i] = np.int64(h ^ (h >> np.uint64(32)))
    for i in range(n):
        homes[i] &= LOW
        found[i] = slots[homes[i] & mask]
    sink = 0
    for i in range(n):
        tag = homes[i]
        at = tag & mask
        slot = found[i]
        while slot != 0 and (slot >> 32) & LOW != tag:
            at = (at + 1) & mask
            slot = slots[at]
        number = (slot & LOW) - 1
        homes[i] = (tag << 32) | at
        found[i] = number
        if number >= 0:
            sink ^= keys[number, keys.shape[1] - 1]
    for c in range(nk):
        for i in range(n):
            if found[i] >= 0 and keys[found[i], 1 + c] != data[c, start + i]:
                found[i] = -1
    for i in range(n):
        if found[i] >= 0:
            link = keys[found[i], 0]
            if link > 0:
                sink ^= records[link - 1, 0]
    return sink


@device
def find_in(slots, slot, tag, keys, data, row, nk):
    """The number of a row's key and its slot, or -1 and the empty slot for it, from ``slot`` on.

    The key may have come with an earlier row of the block.
    """
    mask = slots.shape[0] - 1
    while slots[slot] != 0:
        if (slots[slot] >> 32) & LOW == tag:
            number = (slots[slot] & LOW) - 1
            same = True
            for c in range(nk):
                same = same and keys[number, 1 + c] == data[c, row]
            if same:
                return number, slot
        slot = (slot + 1) & mask
    return np.int64(-1), slot


@device
def add_key(data, row, nk, epoch, time, keys, table):
    """A key with an empty record; its number."""
    if table[FREE_KEYS] > 0:
        number = table[FREE_KEYS] - 1
        table[FREE_KEYS] = keys[number, 0]
    else:
        number = table[KEYS]
        table[KEYS] += 1
    table[LIVE_KEYS] += 1
    keys[number, 0] = 0
    for c in range(nk):
        keys[number, 1 + c] = data[c, row]
    keys[number, 1 + nk] = epoch
    for i in range(1, time.shape[0]):
        keys[number, 1 + nk + i] = time[i, 0]
    for word in range(1 + nk + time.shape[0], keys.shape[1]):
        keys[number, word] = 0
    return number


@device
def step_record(number, base, epoch, time, keys, records):
    """Where a key's record of the step at a time is: (if there, its link or 0, the link that it follows).

    Without one the last is the link behind which it belongs, 0 for the key. Nothing else came at these rounds
    later, so that they are before all others.
    """
    words = time.shape[0]
    if keys[number, base] == epoch:
        same = True
        for i in range(1, words):
            same = same and keys[number, base + i] == time[i, 0]
        if same:
            return True, np.int64(0), np.int64(0)
    ahead = np.int64(0)
    link = keys[number, 0]
    while link > 0 and records[link - 1, 1] >= epoch:
        same = True
        for i in range(1, words):
            same = same and records[link - 1, 1 + i] == time[i, 0]
        if not same:
            break
        if records[link - 1, 1] == epoch:
            return True, link, ahead
        ahead = link
        link = records[link - 1, 0]
    return False, np.int64(0), ahead


@device
def add_record(number, ahead, epoch, time, keys, records, table):
    """An empty record of a key, behind the link ``ahead``, or first; its link."""
    if table[FREE_RECORDS] > 0:
        link = table[FREE_RECORDS]
        table[FREE_RECORDS] = records[link - 1, 0]
    else:
        table[RECORDS] += 1
        link = table[RECORDS]
    table[LIVE_RECORDS] += 1
    if ahead == 0:
        records[link - 1, 0] = keys[number, 0]
        keys[number, 0] = link
    else:
        records[link - 1, 0] = records[ahead - 1, 0]
        records[ahead - 1, 0] = link
    records[link - 1, 1] = epoch
    for i in range(1, time.shape[0]):
        records[link - 1, 1 + i] = time[i, 0]
    for word in range(1 + time.shape[0], records.shape[1]):
        records[link - 1, word] = 0
    return link


@kernel("void(int64[:, ::1], int64[:, ::1], int64[::1], int64, int64, int64[::1])")
def accumulate(data, time, diff, first, last, table):
    """Add rows ``first .. last``, which bear the rounds ``time[1:, 0]``, to the step's records there.

    Lists new keys of the step in ``touched``, and every key in ``current``.
    """
    nk, words = table[COLUMNS], time.shape[0]
    base = 1 + nk
    keys, records, spec, slots = keys_of(table), records_of(table), spec_of(table), slots_of(table)
    bits, touched, current = bits_of(table), touched_of(table), current_of(table)
    diff_step = 0 if diff.shape[0] == 1 else 1
    time_step = 0 if time.shape[1] == 1 else 1
    homes, found = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    n_touched, n_current, n_step = table[TOUCHED], table[CURRENT], table[STEP_RECORDS]
    earliest, latest = table[FIRST_EPOCH], table[LAST_EPOCH]
    plain = spec.shape[0] == 0
    least = 1
    sink = 0
    for start in range(first, last, BLOCK):
        stop = min(start + BLOCK, last)
        sink ^= find_block(data, start, stop - start, nk, slots, keys, records, homes, found)
        for row in range(start, stop):
            number, link, added = found[row - start], np.int64(0), True
            epoch, change = time[0, row * time_step], diff[row * diff_step]
            least = min(least, change)
            if number < 0:
                tag = (homes[row - start] >> 32) & LOW
                number, slot = find_in(slots, homes[row - start] & LOW, tag, keys, data, row, nk)
                if number < 0:
                    number = add_key(data, row, nk, epoch, time, keys, table)
                    slots[slot] = (tag << 32) | (number + 1)
                    touched[n_touched] = number
                    n_touched += 1
                    link = np.int64(-1)
            if link == 0:
                ahead = np.int64(0)
                if (bits[number >> 6] >> (number & 63)) & 1:  # otherwise nothing came at these rounds yet
                    there, link, ahead = step_record(number, base, epoch, time, keys, records)
                    added = not there
                if added:
                    head = keys[number, 0]
                    if keys[number, base] < 0 and (head == 0 or records[head - 1, 1] < 0):
                        touched[n_touched] = number
                        n_touched += 1
                    link = add_record(number, ahead, epoch, time, keys, records, table)
            if added:
                n_step += 1
                earliest, latest = min(earliest, epoch), max(latest, epoch)
                n_current = list_key(number, bits, current, n_current)
            if plain and link <= 0:
                keys[number, base + words] += change
            elif plain:
                records[link - 1, 1 + words] += change
            elif link <= 0:
                add_row(data, row, change, keys, number, base + words, spec)
            else:
                add_row(data, row, change, records, link - 1, 1 + words, spec)
    table[TOUCHED], table[CURRENT], table[STEP_RECORDS] = n_touched, n_current, n_step
    table[FIRST_EPOCH], table[LAST_EPOCH] = earliest, latest
    if least <= 0:
        table[MIXED] = 1
    table[SINK] ^= sink


@kernel("void(int64[::1], int64[::1])")
def wake(numbers, table):
    """List keys in ``current``, each once."""
    bits, current = bits_of(table), current_of(table)
    for i in range(numbers.shape[0]):
        table[CURRENT] = list_key(numbers[i], bits, current, table[CURRENT])


@device
def free_record(link, records, table):
    records[link - 1, 0] = table[FREE_RECORDS]
    table[FREE_RECORDS] = link
    table[LIVE_RECORDS] -= 1


@device
def free_key(number, nk, slots, keys, table):
    """Forget a key that has no records but its own; backward-shift deletion of its slot."""
    mask = slots.shape[0] - 1
    hole = hash_key(keys, number, nk) & mask
    while slots[hole] & LOW != number + 1:
        hole = (hole + 1) & mask
    probe = hole
    while True:
        probe = (probe + 1) & mask
        if slots[probe] == 0:
            break
        home = (slots[probe] >> 32) & LOW & mask
        if ((probe - home) & mask) >= ((probe - hole) & mask):
            slots[hole] = slots[probe]
            hole = probe
    slots[hole] = 0
    keys[number, 1 + nk] = FREE
    keys[number, 0] = table[FREE_KEYS]
    table[FREE_KEYS] = number + 1
    table[LIVE_KEYS] -= 1


@device
def compare(a, i, i_base, b, j, j_base, rounds):
    """Lexicographic order of two records' rounds."""
    for c in range(1, rounds + 1):
        x = a[i, i_base + c]
        y = b[j, j_base + c]
        if x != y:
            return -1 if x < y else 1
    return 0


@device
def pop_step(number, keys, records):
    """Unlink the step's records from a key. Returns a link to them, in order of rounds."""
    link = keys[number, 0]
    step = 0
    while link > 0 and records[link - 1, 1] >= 0:
        following = records[link - 1, 0]
        records[link - 1, 0] = step
        step = link
        link = following
    keys[number, 0] = link
    return step


@device
def fold(number, base, rounds, spec, keys, records, table):
    """Merge the step's records of a key with its committed ones."""
    step = pop_step(number, keys, records)
    link = keys[number, 0]
    if keys[number, base] < 0 and step > 0 and compare(records, step - 1, 1, keys, number, base, rounds) < 0:
        for word in range(records.shape[1] - 1):
            here = keys[number, base + word]
            keys[number, base + word] = records[step - 1, 1 + word]
            records[step - 1, 1 + word] = here
        following = records[step - 1, 0]
        records[step - 1, 0] = link
        link = step
        step = following
    keys[number, base] = COMMITTED
    last = 0
    while step > 0:
        if link > 0 and compare(records, link - 1, 1, records, step - 1, 1, rounds) <= 0:
            taken = link
            link = records[link - 1, 0]
        else:
            taken = step
            step = records[step - 1, 0]
        records[taken - 1, 1] = COMMITTED
        if last == 0 and compare(keys, number, base, records, taken - 1, 1, rounds) == 0:
            add_words(keys, number, base + 1 + rounds, records, taken - 1, 2 + rounds, spec)
            free_record(taken, records, table)
        elif last > 0 and compare(records, last - 1, 1, records, taken - 1, 1, rounds) == 0:
            add_words(records, last - 1, 2 + rounds, records, taken - 1, 2 + rounds, spec)
            free_record(taken, records, table)
        else:
            append(number, last, taken, keys, records)
            last = taken
    append(number, last, link, keys, records)


@device
def drop_zeros(number, base, rounds, spec, keys, records, table):
    """Free a key's records that are zero. Returns whether any is left."""
    last = 0
    link = keys[number, 0]
    while link > 0:
        following = records[link - 1, 0]
        if is_zero(records, link - 1, 2 + rounds, spec):
            append(number, last, following, keys, records)
            free_record(link, records, table)
        else:
            last = link
        link = following
    if not is_zero(keys, number, base + 1 + rounds, spec):
        return True
    link = keys[number, 0]
    if link == 0:
        return False
    for word in range(records.shape[1] - 1):
        keys[number, base + word] = records[link - 1, 1 + word]
    keys[number, 0] = records[link - 1, 0]
    free_record(link, records, table)
    return True


@device
def commit_new(touched, start, n, base, rounds, keys, records, links, ends):
    """Commit n keys, those of them that were not there before the step, if the step is of one epoch.

    Their chains need but be turned round. They are followed side by side, so that the misses overlap.
    ``ends`` says of each key whether it is done: it is not if it was there or an accumulator may be zero.
    """
    count = base + 1 + rounds
    going = False
    for i in range(n):
        number = touched[start + i]
        ends[i] = keys[number, base] >= 0 and keys[number, count] != 0
        links[i] = 0
        if keys[number, base] >= 0:
            links[i] = keys[number, 0]
            keys[number, 0] = 0
            keys[number, base] = COMMITTED
            going = going or links[i] > 0
    while going:
        going = False
        for i in range(n):
            link = links[i]
            if link > 0:
                number = touched[start + i]
                links[i] = records[link - 1, 0]
                records[link - 1, 0] = keys[number, 0]
                records[link - 1, 1] = COMMITTED
                keys[number, 0] = link
                if records[link - 1, 2 + rounds] == 0:
                    ends[i] = 0
                going = going or links[i] > 0


@device
def touch_chains(touched, start, n, done, keys, records, links):
    """Read the records of those of n keys that are not ``done`` side by side, so that the misses overlap."""
    going = False
    sink = np.int64(0)
    for i in range(n):
        links[i] = 0 if done[i] else keys[touched[start + i], 0]
        going = going or links[i] > 0
    while going:
        going = False
        for i in range(n):
            link = links[i]
            if link > 0:
                links[i] = records[link - 1, 0]
                sink ^= records[link - 1, records.shape[1] - 1]
                going = going or links[i] > 0
    return sink


@kernel("void(int64[::1])")
def commit(table):
    """Make the step's records committed ones, merged with those before; forget what is zero.

    The one key of ``nk == 0`` stays.
    """
    nk, rounds = table[COLUMNS], table[ROUNDS]
    base = 1 + nk
    keys, records, spec = keys_of(table), records_of(table), spec_of(table)
    slots, touched = slots_of(table), touched_of(table)
    links = np.empty(BLOCK, np.int64)
    done = np.zeros(BLOCK, np.int64)
    single = table[FIRST_EPOCH] == table[LAST_EPOCH]
    for start in range(0, table[TOUCHED], BLOCK):
        n = min(BLOCK, table[TOUCHED] - start)
        if single:
            commit_new(touched, start, n, base, rounds, keys, records, links, done)
        table[SINK] ^= touch_chains(touched, start, n, done, keys, records, links)
        for i in range(n):
            if done[i]:
                continue
            number = touched[start + i]
            fold(number, base, rounds, spec, keys, records, table)
            if drop_zeros(number, base, rounds, spec, keys, records, table):
                continue
            if nk > 0:
                free_key(number, nk, slots, keys, table)
            else:
                for c in range(1, rounds + 1):
                    keys[number, base + c] = 0


@kernel("void(int64[::1])")
def rollback(table):
    """Forget the step's records, and the keys that have no others."""
    nk = table[COLUMNS]
    keys, records, slots = keys_of(table), records_of(table), slots_of(table)
    touched, current, bits = touched_of(table), current_of(table), bits_of(table)
    for i in range(table[CURRENT]):
        bits[current[i] >> 6] = 0
    for i in range(table[TOUCHED]):
        number = touched[i]
        step = pop_step(number, keys, records)
        while step > 0:
            following = records[step - 1, 0]
            free_record(step, records, table)
            step = following
        if keys[number, 1 + nk] >= 0:
            free_key(number, nk, slots, keys, table)
