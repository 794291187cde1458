"""Sorting rows with times: order, grouping of equal rows, gathering.

Rows are columns ``data int64[width, n]`` and ``time int64[depth, n]`` or ``[depth, 1]`` (all equal).
The order is lexicographic by all data columns, then by all time columns.
"""

import numpy as np

from kpg.runtime.kernels import device, kernel

SHORT = 24
"""Runs up to this length are sorted by insertion."""

PERMUTED = 0
SORTED = 1
STRICTLY_SORTED = 2


@device
def compare(data, time, first, columns, a, b):
    """-1, 0 or 1 as row a is before, equal to or after row b on columns [first, columns)."""
    width = data.shape[0]
    for column in range(first, columns):
        if column < width:
            x = data[column, a]
            y = data[column, b]
        else:
            x = time[column - width, a]
            y = time[column - width, b]
        if x < y:
            return -1
        if x > y:
            return 1
    return 0


@device
def insertion_sort(data, time, first, columns, order, low, high):
    """Sort order[low:high] by columns [first, columns), stably."""
    for i in range(low + 1, high):
        row = order[i]
        j = i
        while j > low and compare(data, time, first, columns, order[j - 1], row) > 0:
            order[j] = order[j - 1]
            j -= 1
        order[j] = row


@device
def bit_length(word):
    """Position of the highest set bit of a uint64, plus one."""
    bits = 0
    while word != np.uint64(0):
        word >>= np.uint64(1)
        bits += 1
    return bits


@device
def column_of(data, time, column):
    """Column number ``column`` of the sort key."""
    width = data.shape[0]
    return data[column] if column < width else time[column - width]


@device
def pack(values, order, low, high, index_bits, words):
    """words[k] = key of order[low + k] above its position k; returns (low key bits cut off, varying bits).

    The key is the value less the minimum, without its lowest bits where it does not fit.
    """
    smallest = values[order[low]]
    largest = smallest
    for k in range(low + 1, high):
        value = values[order[k]]
        smallest = min(smallest, value)
        largest = max(largest, value)
    base = np.uint64(smallest)
    cut = max(0, bit_length(np.uint64(largest) - base) + index_bits - 64)
    first = (np.uint64(values[order[low]]) - base) >> np.uint64(cut)
    varying = np.uint64(0)
    for k in range(low, high):
        key = (np.uint64(values[order[k]]) - base) >> np.uint64(cut)
        varying |= key ^ first
        words[k - low] = (key << np.uint64(index_bits)) | np.uint64(k - low)
    return cut, varying


@device
def radix_sort(words, spare, count, index_bits, varying, widest, histogram):
    """Sort words[:count] by the bits above index_bits that vary, stably; True if the result is in spare."""
    flipped = False
    shift = 0
    while (varying >> np.uint64(shift)) != np.uint64(0):
        if (varying >> np.uint64(shift)) & np.uint64(1) == np.uint64(0):
            shift += 1
            continue
        left = bit_length(varying >> np.uint64(shift))
        passes = (left + widest - 1) // widest
        digit = (left + passes - 1) // passes
        mask = np.uint64((1 << digit) - 1)
        place = np.uint64(shift + index_bits)
        source = spare if flipped else words
        target = words if flipped else spare
        histogram[: (1 << digit) + 1] = 0
        for k in range(count):
            histogram[np.int64((source[k] >> place) & mask) + 1] += 1
        for bucket in range(1, 1 << digit):
            histogram[bucket] += histogram[bucket - 1]
        for k in range(count):
            bucket = np.int64((source[k] >> place) & mask)
            target[histogram[bucket]] = source[k]
            histogram[bucket] += 1
        flipped = not flipped
        shift += digit
    return flipped


@device
def identity_order(data, time, columns, order):
    """Fill order with 0..n-1 and say how far the rows are sorted already."""
    strict = True
    result = STRICTLY_SORTED
    for i in range(order.shape[0]):
        order[i] = i
        if i > 0 and result != PERMUTED:
            sign = compare(data, time, 0, columns, i - 1, i)
            if sign > 0:
                result = PERMUTED
            elif sign == 0:
                strict = False
    if result == STRICTLY_SORTED and not strict:
        return SORTED
    return result


@kernel("int64(int64[:, ::1], int64[:, ::1], int64[::1])")
def sort_order(data, time, order):
    """Fill ``order int64[n]`` with the stable permutation that sorts; returns what the input was.

    ``STRICTLY_SORTED`` (no two rows equal) or ``SORTED`` with the identity, otherwise ``PERMUTED``.
    Most significant column first: radix sort on one column, then, within runs of equal values that the
    other columns leave unsorted, insertion sort if short, else the same again on the next column.
    """
    count = order.shape[0]
    columns = data.shape[0] + (time.shape[0] if time.shape[1] == count else 0)
    state = identity_order(data, time, columns, order)
    if state != PERMUTED:
        return state
    if count <= SHORT * 2:
        insertion_sort(data, time, 0, columns, order, 0, count)
        return state
    words = np.empty(count, np.uint64)
    spare = np.empty(count, np.uint64)
    before = np.empty(count, np.int64)
    histogram = np.empty(2049, np.int64)
    pending = np.empty((count // SHORT + 2, 3), np.int64)
    pending[0] = (0, count, 0)
    top = 1
    while top > 0:
        top -= 1
        low, high, column = pending[top]
        size = high - low
        index_bits = bit_length(np.uint64(size - 1))
        values = column_of(data, time, column)
        cut, varying = pack(values, order, low, high, index_bits, words)
        widest = 11 if size > 8192 else (8 if size > 512 else 6)
        flipped = radix_sort(words, spare, size, index_bits, varying, widest, histogram)
        result = spare if flipped else words
        position_mask = np.uint64((1 << index_bits) - 1)
        before[:size] = order[low:high]
        for k in range(size):
            order[low + k] = before[np.int64(result[k] & position_mask)]
        following = column if cut > 0 else column + 1
        if following == columns:
            continue
        start = 0
        while start < size:
            key = result[start] >> np.uint64(index_bits)
            end = start + 1
            sorted_run = True
            while end < size and result[end] >> np.uint64(index_bits) == key:
                if sorted_run:
                    a = order[low + end - 1]
                    b = order[low + end]
                    sorted_run = compare(data, time, following, columns, a, b) <= 0
                end += 1
            if not sorted_run:
                if end - start <= SHORT:
                    insertion_sort(data, time, following, columns, order, low + start, low + end)
                else:
                    pending[top] = (low + start, low + end, following)
                    top += 1
            start = end
    return state


@kernel("int64(int64[:, ::1], int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def group(data, time, diff, order, heads, sums, state):
    """Add up the diffs of equal rows along ``order``; the rows with a sum other than 0.

    Fills ``heads`` with the first position of each such group and ``sums`` with its sum, and returns
    their number. ``state[0]``: whether all sums are equal; ``state[1]``: whether a sum overflowed.
    ``diff`` has one element if all are equal.
    """
    count = order.shape[0]
    columns = data.shape[0] + (time.shape[0] if time.shape[1] == count else 0)
    step = 1 if diff.shape[0] == count else 0
    kept = 0
    uniform = True
    overflow = False
    i = 0
    while i < count:
        head = order[i]
        total = diff[head * step]
        i += 1
        while i < count and compare(data, time, 0, columns, head, order[i]) == 0:
            term = diff[order[i] * step]
            added = total + term
            overflow |= ((total ^ added) & (term ^ added)) < 0
            total = added
            i += 1
        if total != 0:
            heads[kept] = head
            sums[kept] = total
            uniform &= total == sums[0]
            kept += 1
    state[0] = 1 if uniform else 0
    state[1] = 1 if overflow else 0
    return kept


@kernel("void(int64[:, ::1], int64[::1], int64[:, ::1])")
def gather(source, index, target):
    """target[c, k] = source[c, index[k]]."""
    for column in range(target.shape[0]):
        values = source[column]
        out = target[column]
        for k in range(index.shape[0]):
            out[k] = values[index[k]]
