"""Sorting rows with times: order, grouping of equal rows, gathering.

Rows are columns ``data int64[width, n]`` and ``time int64[depth, n]`` or ``[depth, 1]`` (all equal).
The order is lexicographic by all data columns, then by all time columns.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import device, kernel

Words = NDArray[np.int64]
Keys = NDArray[np.uint64]

SHORT = 24
"""Runs up to this length are sorted by insertion."""

FEW = 48
"""Most rows for which :func:`consolidate_few` is the one to call."""

PERMUTED = 0
SORTED = 1
STRICTLY_SORTED = 2

IDENTITY = 1
DISTINCT = 2


@device
def compare(data: Words, time: Words, first: int, columns: int, a: int, b: int) -> int:
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
def insertion_sort(
    data: Words, time: Words, first: int, columns: int, order: Words, low: int, high: int
) -> None:
    """Sort order[low:high] by columns [first, columns), stably."""
    for i in range(low + 1, high):
        row = order[i]
        j = i
        while j > low and compare(data, time, first, columns, order[j - 1], row) > 0:
            order[j] = order[j - 1]
            j -= 1
        order[j] = row


@device
def bit_length(word: Any) -> int:
    """Position of the highest set bit of a uint64, plus one."""
    bits = 0
    while word != np.uint64(0):
        word >>= np.uint64(1)
        bits += 1
    return bits


@device
def column_of(data: Words, time: Words, column: int) -> Words:
    """Column number ``column`` of the sort key."""
    width = data.shape[0]
    return data[column] if column < width else time[column - width]


@device
def pack(values: Words, order: Words, low: int, high: int, index_bits: int, words: Keys) -> tuple[Any, Any]:
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
    cut = np.uint64(max(0, bit_length(np.uint64(largest) - base) + index_bits - 64))
    first = (np.uint64(values[order[low]]) - base) >> cut
    varying = np.uint64(0)
    for k in range(high - low):
        key = (np.uint64(values[order[low + k]]) - base) >> cut
        varying |= key ^ first
        words[k] = (key << np.uint64(index_bits)) | np.uint64(k)
    return np.int64(cut), varying


@device
def plan_digits(varying: Any, widest: int, digits: Words) -> int:
    """Cut the varying key bits into digits (place, width) of about equal width; returns their number."""
    count = 0
    shift = 0
    while (varying >> np.uint64(shift)) != np.uint64(0):
        if (varying >> np.uint64(shift)) & np.uint64(1) == np.uint64(0):
            shift += 1
            continue
        left = bit_length(varying >> np.uint64(shift))
        passes = (left + widest - 1) // widest
        width = (left + passes - 1) // passes
        digits[count, 0] = shift
        digits[count, 1] = width
        count += 1
        shift += width
    return count


@device
def radix_sort(
    words: Keys,
    spare: Keys,
    count: int,
    index_bits: int,
    varying: Any,
    widest: int,
    digits: Words,
    histogram: Words,
) -> bool:
    """Sort words[:count] by the bits above index_bits that vary, stably; True if the result is in spare."""
    flipped = False
    for d in range(plan_digits(varying, widest, digits)):
        place = np.uint64(digits[d, 0] + index_bits)
        buckets = 1 << digits[d, 1]
        mask = np.uint64(buckets - 1)
        source = spare if flipped else words
        target = words if flipped else spare
        histogram[:buckets] = 0
        for k in range(count):
            histogram[(source[k] >> place) & mask] += 1
        total = 0
        for bucket in range(buckets):
            size = histogram[bucket]
            histogram[bucket] = total
            total += size
        for k in range(count):
            word = source[k]
            bucket = (word >> place) & mask
            target[histogram[bucket]] = word
            histogram[bucket] += 1
        flipped = not flipped
    return flipped


@device
def permute(order: Words, low: int, words: Keys, size: int, index_bits: int, before: Words) -> None:
    """Put order[low:low + size] in the order of the positions in the low bits of the words."""
    position_mask = np.uint64((1 << index_bits) - 1)
    before[:size] = order[low : low + size]
    for k in range(size):
        order[low + k] = before[words[k] & position_mask]


@device
def run_is_sorted(
    data: Words, time: Words, following: int, columns: int, order: Words, start: int, end: int
) -> int:
    """STRICTLY_SORTED, SORTED or PERMUTED: what columns [following, columns) make of order[start:end]."""
    if following == columns:
        return SORTED if end - start > 1 else STRICTLY_SORTED
    values = column_of(data, time, following)
    result = STRICTLY_SORTED
    x = values[order[start]]
    for k in range(start + 1, end):
        y = values[order[k]]
        if x > y:
            return PERMUTED
        if x == y:
            sign = compare(data, time, following + 1, columns, order[k - 1], order[k])
            if sign > 0:
                return PERMUTED
            if sign == 0:
                result = SORTED
        x = y
    return result


@device
def identity_order(data: Words, time: Words, columns: int, order: Words) -> int:
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


@device
def order_rows(data: Words, time: Words, order: Words) -> int:
    """See :func:`sort_order`."""
    count = order.shape[0]
    columns = data.shape[0] + (time.shape[0] if time.shape[1] == count else 0)
    state = identity_order(data, time, columns, order)
    if state != PERMUTED:
        return IDENTITY + (DISTINCT if state == STRICTLY_SORTED else 0)
    distinct = True
    words = np.empty(count, np.uint64)
    spare = np.empty(count, np.uint64)
    before = np.empty(count, np.int64)
    histogram = np.empty(2048, np.int64)
    digits = np.empty((64, 2), np.int64)
    pending = np.empty((count // SHORT + 2, 3), np.int64)
    pending[0] = (0, count, 0)
    top = 1
    while top > 0:
        top -= 1
        low, high, column = pending[top]
        size = high - low
        index_bits = bit_length(np.uint64(size - 1))
        cut, varying = pack(column_of(data, time, column), order, low, high, index_bits, words)
        widest = 11 if size > 8192 else (8 if size > 512 else 6)
        flipped = radix_sort(words, spare, size, index_bits, varying, widest, digits, histogram)
        result = spare if flipped else words
        permute(order, low, result, size, index_bits, before)
        following = column if cut > 0 else column + 1
        start = 0
        while start < size:
            key = result[start] >> np.uint64(index_bits)
            end = start + 1
            while end < size and result[end] >> np.uint64(index_bits) == key:
                end += 1
            if end > start + 1:
                run = run_is_sorted(data, time, following, columns, order, low + start, low + end)
                if run == PERMUTED and end - start <= SHORT:
                    insertion_sort(data, time, following, columns, order, low + start, low + end)
                    run = run_is_sorted(data, time, following, columns, order, low + start, low + end)
                if run == PERMUTED:
                    pending[top] = (low + start, low + end, following)
                    top += 1
                elif run == SORTED:
                    distinct = False
            start = end
    return DISTINCT if distinct else 0


@kernel("int64(int64[:, ::1], int64[:, ::1], int64[::1])")
def sort_order(data: Words, time: Words, order: Words) -> int:
    """Fill ``order int64[n]`` with the stable permutation that sorts; returns a sum of flags about the rows.

    ``IDENTITY``: they were sorted already; ``DISTINCT``: no two are equal.
    Most significant column first: radix sort on one column, then, within runs of equal values that the
    other columns leave unsorted, insertion sort if short, else the same again on the next column.
    """
    return order_rows(data, time, order)


@device
def add_up(
    data: Words, time: Words, diff: Words, order: Words, heads: Words, sums: Words, state: Words
) -> int:
    """See :func:`group`."""
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


@kernel("int64(int64[:, ::1], int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def group(
    data: Words, time: Words, diff: Words, order: Words, heads: Words, sums: Words, state: Words
) -> int:
    """Add up the diffs of equal rows along ``order``; the rows with a sum other than 0.

    Fills ``heads`` with the first position of each such group and ``sums`` with its sum, and returns
    their number. ``state[0]``: whether all sums are equal; ``state[1]``: whether a sum overflowed.
    ``diff`` has one element if all are equal.
    """
    return add_up(data, time, diff, order, heads, sums, state)


@device
def put_rows(data: Words, time: Words, rows: Words, count: int, out: Words, out_time: Words) -> None:
    """The first ``count`` of ``rows``, column after column; times, too, if there is room for any."""
    for c in range(data.shape[0]):
        for k in range(count):
            out[c * count + k] = data[c, rows[k]]
    if out_time.shape[0] > 0:
        for c in range(time.shape[0]):
            for k in range(count):
                out_time[c * count + k] = time[c, rows[k]]


@device
def put_sums(
    data: Words,
    time: Words,
    diff: Words,
    order: Words,
    out: Words,
    out_time: Words,
    sums: Words,
    state: Words,
) -> int:
    """The rows whose diffs do not add up to 0, put one after another; how many."""
    heads = np.empty(order.shape[0], np.int64)
    kept = add_up(data, time, diff, order, heads, sums, state)
    put_rows(data, time, heads, kept, out, out_time)
    return kept


@kernel("int64(int64[:, ::1], int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def consolidate_few(
    data: Words, time: Words, diff: Words, out: Words, out_time: Words, sums: Words, state: Words
) -> int:
    """Sort by insertion, then :func:`group`, for few rows: one call that is quick to make.

    The rows that remain fill the beginnings of ``out`` and, unless that is empty, ``out_time``, column after
    column. Returns their number, or -1 if the rows are consolidated already.
    """
    count = data.shape[1]
    columns = data.shape[0] + (time.shape[0] if time.shape[1] == count else 0)
    order = np.empty(count, np.int64)
    sortedness = identity_order(data, time, columns, order)
    if sortedness == STRICTLY_SORTED and np.all(diff != 0):
        return -1
    if sortedness == PERMUTED:
        insertion_sort(data, time, 0, columns, order, 0, count)
    return put_sums(data, time, diff, order, out, out_time, sums, state)


@device
def put_in_order(
    data: Words,
    time: Words,
    diff: Words,
    order: Words,
    out: Words,
    out_time: Words,
    sums: Words,
    state: Words,
) -> None:
    """:func:`put_sums` where no two rows are equal, and no diff is 0."""
    count = order.shape[0]
    put_rows(data, time, order, count, out, out_time)
    step = 1 if diff.shape[0] == count else 0
    uniform = True
    for k in range(count):
        sums[k] = diff[order[k] * step]
        uniform &= sums[k] == sums[0]
    state[0] = 1 if uniform else 0
    state[1] = 0


@kernel("int64(int64[:, ::1], int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def consolidate(
    data: Words, time: Words, diff: Words, out: Words, out_time: Words, sums: Words, state: Words
) -> int:
    """:func:`consolidate_few` for more rows, in the order that :func:`sort_order` finds."""
    order = np.empty(data.shape[1], np.int64)
    found = order_rows(data, time, order)
    if found & DISTINCT != 0 and np.all(diff != 0):
        if found & IDENTITY != 0:
            return -1
        put_in_order(data, time, diff, order, out, out_time, sums, state)
        return order.shape[0]
    return put_sums(data, time, diff, order, out, out_time, sums, state)


@kernel("void(int64[:, ::1], int64[::1], int64[:, ::1])")
def gather(source: Words, index: Words, target: Words) -> None:
    """target[c, k] = source[c, index[k]]."""
    for column in range(target.shape[0]):
        values = source[column]
        out = target[column]
        for k in range(index.shape[0]):
            out[k] = values[index[k]]
