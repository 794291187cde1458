"""Kernels that change a history table: accumulators by key and time, for times (epoch, rounds...).

``slots int64[capacity]`` is an open-addressing hash table; a filled slot holds 32 bits of the key's hash,
then 32 of its number + 1, so that neither a probe that fails nor growth looks at the keys. Then there are

* ``keys int64[keys, 1 + nk + 1 + k + words]``: link, key columns, then the key's first record: epoch, k
  rounds, accumulators (as in ``groups``, whose ``spec`` describes them);
* ``records int64[records, 1 + 1 + k + words]``: link, then a record.

A link is a record's number + 1, or 0. A record of the step in progress bears its epoch, one of closed epochs
``COMMITTED``. From a key's link hang the step's records, latest rounds first and among equal rounds latest
epoch first, then the committed ones in lexicographic order of rounds, each rounds once; the record in the
key is the least committed one if there is any, else the step's first. ``bits`` marks the keys that are listed
in ``current``, those to be evaluated.
``state`` is indexed by the constants below: ``MIXED`` says whether the step had a diff that is not positive;
the last word is a sink for prefetches.
"""

import numpy as np

from kpg.runtime.kernels import device, kernel

COUNT = 0
SUM = 1
LIMBS = 68
NULL = -(2**63)
LOW = 0xFFFFFFFF
MOST_AMOUNT = 1 << 28  # products of 33 bits with it are added to limbs
FLIP = 0x7FFFFFFFFFFFFFFF
BLOCK = 64  # keys that are looked for ahead, so that their cache misses overlap
SEED = 0x9E3779B97F4A7C15 - 2**64
FACTOR = 0xFF51AFD7ED558CCD
COMMITTED = -1
FREE = -2

KEYS, FREE_KEYS, LIVE_KEYS, RECORDS, FREE_RECORDS, LIVE_RECORDS = range(6)
TOUCHED, CURRENT, STEP_RECORDS, FIRST_EPOCH, LAST_EPOCH, MIXED, ENTRIES, OWED, SINK = range(6, 15)


@device
def hash_key(keys, number, width):
    """32 bits; as ``find_block`` has it."""
    h = np.uint64(SEED)
    for c in range(width):
        h = (h ^ np.uint64(keys[number, 1 + c])) * np.uint64(FACTOR)
        h ^= h >> np.uint64(32)
    return np.int64(h & np.uint64(LOW))


@device
def add128(acc, index, offset, value, diff):
    """Add value * diff to the 128-bit sum at (offset, offset + 1)."""
    if diff == 1 or diff == -1:
        low = value * diff
        high = low >> 63
    else:
        negative = (value < 0) != (diff < 0)
        a = np.uint64(abs(value))
        b = np.uint64(abs(diff))
        mask = np.uint64(LOW)
        half = np.uint64(32)
        a0, a1, b0, b1 = a & mask, a >> half, b & mask, b >> half
        p00, p01, p10, p11 = a0 * b0, a0 * b1, a1 * b0, a1 * b1
        middle = (p00 >> half) + (p01 & mask) + (p10 & mask)
        low = np.int64((p00 & mask) | (middle << half))
        high = np.int64(p11 + (p01 >> half) + (p10 >> half) + (middle >> half))
        if negative:
            high = ~high + (1 if low == 0 else 0)
            low = -low
    total = acc[index, offset] + low
    acc[index, offset] = total
    acc[index, offset + 1] += high + (1 if (total ^ NULL) < (low ^ NULL) else 0)


@device
def add_limb(acc, index, base, limb, amount):
    """Add to a limb; carry on only when it nears overflow, so that signs may alternate cheaply."""
    acc[index, base + limb] += amount
    while limb + 1 < LIMBS:
        value = acc[index, base + limb]
        if -(1 << 61) < value < (1 << 61):
            break
        acc[index, base + limb] = value & LOW
        acc[index, base + limb + 1] += value >> 32
        limb += 1


@device
def add_mantissa(acc, index, base, position, mantissa, amount):
    """Add mantissa * amount * 2**position, where amount is at most ``MOST_AMOUNT`` either way."""
    limb = position >> 5
    shift = position & 31
    a = (mantissa & LOW) << shift
    b = (mantissa >> 32) << shift
    add_limb(acc, index, base, limb, (a & LOW) * amount)
    add_limb(acc, index, base, limb + 1, ((a >> 32) + (b & LOW)) * amount)
    add_limb(acc, index, base, limb + 2, (b >> 32) * amount)


@device
def add_double(acc, index, offset, word, diff):
    """Add the double behind ``word``, times diff, exactly."""
    bits = word if word >= 0 else word ^ FLIP
    exponent = (bits >> 52) & 0x7FF
    mantissa = bits & 0xFFFFFFFFFFFFF
    if exponent == 0x7FF:
        which = 0 if mantissa != 0 else (1 if bits >= 0 else 2)
        acc[index, offset + which] += diff
        return
    if exponent > 0:
        mantissa |= 1 << 52
    else:
        exponent = 1
    amount = diff if bits >= 0 else -diff
    position = exponent - 1
    while not -MOST_AMOUNT <= amount <= MOST_AMOUNT:
        add_mantissa(acc, index, offset + 3, position, mantissa, amount & 0xFFFF)
        amount >>= 16
        position += 16
    add_mantissa(acc, index, offset + 3, position, mantissa, amount)


@device
def add_row(data, row, diff, acc, index, base, spec):
    """Add one row, ``diff`` times, to the accumulators that start at column ``base``."""
    acc[index, base] += diff
    for s in range(spec.shape[0]):
        offset = base + spec[s, 2]
        word = data[spec[s, 1], row] if spec[s, 1] >= 0 else 0
        if word == NULL:
            continue
        acc[index, offset] += diff
        if spec[s, 0] == SUM:
            add128(acc, index, offset + 1, word, diff)
        elif spec[s, 0] != COUNT:
            add_double(acc, index, offset + 1, word, diff)


@device
def add_words(acc, index, base, source, other, offset, spec):
    """Add accumulators to accumulators."""
    acc[index, base] += source[other, offset]
    for s in range(spec.shape[0]):
        at = base + spec[s, 2]
        of = offset + spec[s, 2]
        acc[index, at] += source[other, of]
        if spec[s, 0] == SUM:
            low = source[other, of + 1]
            total = acc[index, at + 1] + low
            acc[index, at + 1] = total
            acc[index, at + 2] += source[other, of + 2] + (1 if (total ^ NULL) < (low ^ NULL) else 0)
        elif spec[s, 0] != COUNT:
            for special in range(1, 4):
                acc[index, at + special] += source[other, of + special]
            for limb in range(LIMBS):
                if source[other, of + 4 + limb] != 0:
                    add_limb(acc, index, at + 4, limb, source[other, of + 4 + limb])


@device
def is_zero(acc, index, base, spec):
    """Whether all accumulators are zero, so that the record can be forgotten."""
    zero = acc[index, base] == 0
    for s in range(spec.shape[0]):
        offset = base + spec[s, 2]
        zero = zero and acc[index, offset] == 0
        if spec[s, 0] == SUM:
            zero = zero and acc[index, offset + 1] == 0 and acc[index, offset + 2] == 0
        elif spec[s, 0] != COUNT and zero:
            for special in range(1, 4):
                zero = zero and acc[index, offset + special] == 0
            carry = np.int64(0)
            for limb in range(LIMBS):
                value = acc[index, offset + 4 + limb] + carry
                zero = zero and value & LOW == 0
                carry = value >> 32
            zero = zero and carry == 0
    return zero


@device
def append(number, last, link, keys, records):
    """Let the key's record behind the link ``last``, or the one in the key, be followed by ``link``."""
    if last == 0:
        keys[number, 0] = link
    else:
        records[last - 1, 0] = link


@device
def list_key(number, bits, current, state):
    """Have the key evaluated."""
    bit = 1 << (number & 63)
    if bits[number >> 6] & bit == 0:
        bits[number >> 6] |= bit
        current[state[CURRENT]] = number
        state[CURRENT] += 1


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


@kernel(
    "void(int64[:, ::1], int64[:, ::1], int64[::1], int64, int64, int64, int64[:, ::1], int64[::1],"
    " int64[:, ::1], int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1])"
)
def accumulate(
    data, time, diff, first, last, nk, spec, slots, keys, records, bits, touched, current, state
):  # fmt: skip
    """Add rows ``first .. last``, which bear the rounds ``time[1:, 0]``, to the step's records there.

    Lists new keys of the step in ``touched``, and every key in ``current``.
    """
    mask = slots.shape[0] - 1
    base = 1 + nk
    words = time.shape[0]
    diff_step = 0 if diff.shape[0] == 1 else 1
    time_step = 0 if time.shape[1] == 1 else 1
    plain = spec.shape[0] == 0
    homes = np.empty(BLOCK, np.int64)
    found = np.empty(BLOCK, np.int64)
    allotted, free_keys, live_keys = state[KEYS], state[FREE_KEYS], state[LIVE_KEYS]
    used, free_records, live_records = state[RECORDS], state[FREE_RECORDS], state[LIVE_RECORDS]
    n_touched, n_current, n_step = state[TOUCHED], state[CURRENT], state[STEP_RECORDS]
    earliest, latest = state[FIRST_EPOCH], state[LAST_EPOCH]
    least = 1
    sink = 0
    for start in range(first, last, BLOCK):
        stop = min(start + BLOCK, last)
        sink ^= find_block(data, start, stop - start, nk, slots, keys, records, homes, found)
        for row in range(start, stop):
            number = found[row - start]
            if number < 0:
                tag = (homes[row - start] >> 32) & LOW
                slot = homes[row - start] & LOW
                while slots[slot] != 0:
                    if (slots[slot] >> 32) & LOW == tag:
                        number = (slots[slot] & LOW) - 1
                        for c in range(nk):
                            if keys[number, 1 + c] != data[c, row]:
                                number = -1
                                break
                        if number >= 0:
                            break
                    slot = (slot + 1) & mask
            epoch = time[0, row * time_step]
            change = diff[row * diff_step]
            least = min(least, change)
            link = 0
            if number < 0:
                if free_keys > 0:
                    number = free_keys - 1
                    free_keys = keys[number, 0]
                else:
                    number = allotted
                    allotted += 1
                live_keys += 1
                slots[slot] = (tag << 32) | (number + 1)
                keys[number, 0] = 0
                for c in range(nk):
                    keys[number, 1 + c] = data[c, row]
                keys[number, base] = epoch
                for i in range(1, words):
                    keys[number, base + i] = time[i, 0]
                for word in range(base + words, keys.shape[1]):
                    keys[number, word] = 0
                touched[n_touched] = number
                n_touched += 1
                added = True
            else:
                head = keys[number, 0]
                added = True
                ahead = 0
                if (bits[number >> 6] >> (number & 63)) & 1:  # otherwise nothing came at these rounds yet
                    if keys[number, base] == epoch:
                        added = False
                        for i in range(1, words):
                            added = added or keys[number, base + i] != time[i, 0]
                    link = 0 if not added else head
                    while added and link > 0 and records[link - 1, 1] >= epoch:
                        same = True
                        for i in range(1, words):
                            same = same and records[link - 1, 1 + i] == time[i, 0]
                        if not same:
                            break
                        if records[link - 1, 1] == epoch:
                            added = False
                        else:
                            ahead = link
                            link = records[link - 1, 0]
                if added:
                    if keys[number, base] < 0 and (head == 0 or records[head - 1, 1] < 0):
                        touched[n_touched] = number
                        n_touched += 1
                    if free_records > 0:
                        link = free_records
                        free_records = records[link - 1, 0]
                    else:
                        used += 1
                        link = used
                    live_records += 1
                    if ahead == 0:
                        records[link - 1, 0] = head
                        keys[number, 0] = link
                    else:
                        records[link - 1, 0] = records[ahead - 1, 0]
                        records[ahead - 1, 0] = link
                    records[link - 1, 1] = epoch
                    for i in range(1, words):
                        records[link - 1, 1 + i] = time[i, 0]
                    for word in range(1 + words, records.shape[1]):
                        records[link - 1, word] = 0
            if added:
                n_step += 1
                earliest = min(earliest, epoch)
                latest = max(latest, epoch)
                if (bits[number >> 6] >> (number & 63)) & 1 == 0:
                    bits[number >> 6] |= 1 << (number & 63)
                    current[n_current] = number
                    n_current += 1
            if plain and link == 0:
                keys[number, base + words] += change
            elif plain:
                records[link - 1, 1 + words] += change
            elif link == 0:
                add_row(data, row, change, keys, number, base + words, spec)
            else:
                add_row(data, row, change, records, link - 1, 1 + words, spec)
    state[KEYS], state[FREE_KEYS], state[LIVE_KEYS] = allotted, free_keys, live_keys
    state[RECORDS], state[FREE_RECORDS], state[LIVE_RECORDS] = used, free_records, live_records
    state[TOUCHED], state[CURRENT], state[STEP_RECORDS] = n_touched, n_current, n_step
    state[FIRST_EPOCH], state[LAST_EPOCH] = earliest, latest
    if least <= 0:
        state[MIXED] = 1
    state[SINK] ^= sink


@kernel("void(int64[::1], int64[::1], int64[::1], int64[::1])")
def wake(numbers, bits, current, state):
    """List keys in ``current``, each once."""
    for i in range(numbers.shape[0]):
        list_key(numbers[i], bits, current, state)


@kernel("void(int64[:, ::1], int64, int64, int64[::1])")
def rehash(keys, used, nk, slots):
    """Insert the first ``used`` keys, but the free ones, into the empty ``slots``."""
    mask = slots.shape[0] - 1
    for number in range(used):
        if keys[number, 1 + nk] != FREE:
            tag = hash_key(keys, number, nk)
            slot = tag & mask
            while slots[slot] != 0:
                slot = (slot + 1) & mask
            slots[slot] = (tag << 32) | (number + 1)


@device
def free_record(link, records, state):
    records[link - 1, 0] = state[FREE_RECORDS]
    state[FREE_RECORDS] = link
    state[LIVE_RECORDS] -= 1


@device
def free_key(number, nk, slots, keys, state):
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
    keys[number, 0] = state[FREE_KEYS]
    state[FREE_KEYS] = number + 1
    state[LIVE_KEYS] -= 1


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
def fold(number, base, rounds, spec, keys, records, state):
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
            free_record(taken, records, state)
        elif last > 0 and compare(records, last - 1, 1, records, taken - 1, 1, rounds) == 0:
            add_words(records, last - 1, 2 + rounds, records, taken - 1, 2 + rounds, spec)
            free_record(taken, records, state)
        else:
            append(number, last, taken, keys, records)
            last = taken
    append(number, last, link, keys, records)


@device
def drop_zeros(number, base, rounds, spec, keys, records, state):
    """Free a key's records that are zero. Returns whether any is left."""
    last = 0
    link = keys[number, 0]
    while link > 0:
        following = records[link - 1, 0]
        if is_zero(records, link - 1, 2 + rounds, spec):
            append(number, last, following, keys, records)
            free_record(link, records, state)
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
    free_record(link, records, state)
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


@kernel("void(int64[::1], int64, int64, int64[:, ::1], int64[::1], int64[:, ::1], int64[:, ::1], int64[::1])")
def commit(touched, nk, rounds, spec, slots, keys, records, state):
    """Make the step's records committed ones, merged with those before; forget what is zero.

    The one key of ``nk == 0`` stays.
    """
    base = 1 + nk
    links = np.empty(BLOCK, np.int64)
    done = np.zeros(BLOCK, np.int64)
    single = state[FIRST_EPOCH] == state[LAST_EPOCH]
    for start in range(0, state[TOUCHED], BLOCK):
        n = min(BLOCK, state[TOUCHED] - start)
        if single:
            commit_new(touched, start, n, base, rounds, keys, records, links, done)
        state[SINK] ^= touch_chains(touched, start, n, done, keys, records, links)
        for i in range(n):
            if done[i]:
                continue
            number = touched[start + i]
            fold(number, base, rounds, spec, keys, records, state)
            if drop_zeros(number, base, rounds, spec, keys, records, state):
                continue
            if nk > 0:
                free_key(number, nk, slots, keys, state)
            else:
                for c in range(1, rounds + 1):
                    keys[number, base + c] = 0


@kernel(
    "void(int64[::1], int64[::1], int64, int64[::1], int64[::1], int64[:, ::1], int64[:, ::1], int64[::1])"
)
def rollback(touched, current, nk, bits, slots, keys, records, state):
    """Forget the step's records, and the keys that have no others."""
    for i in range(state[CURRENT]):
        bits[current[i] >> 6] = 0
    for i in range(state[TOUCHED]):
        number = touched[i]
        step = pop_step(number, keys, records)
        while step > 0:
            following = records[step - 1, 0]
            free_record(step, records, state)
            step = following
        if keys[number, 1 + nk] >= 0:
            free_key(number, nk, slots, keys, state)
