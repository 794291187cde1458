"""Accumulators of aggregates, as groups and histories keep them: exact sums that forget what is retracted.

The first accumulator counts rows; each aggregate has words of its own from its offset among the
accumulators, in ``spec int64[naggs, 4]`` (kind, operand column or -1 for none, offset, column of a second
operand):

* COUNT: non-NULL operands;
* SUM: non-NULL operands, then the 128-bit sum (low word, high word);
* SUM_DOUBLE: non-NULL operands, NaNs, +infinities, -infinities, then 68 limbs of 32 bits of an exact
  fixed-point sum from 2**-1074 up (Kulisch's accumulator), so that retraction is exact;
* those of pairs and of bits: see ``moments``.

A function is given the table, the row and the column in it at which the accumulators begin.
"""

import math

import numpy as np

from kpg.runtime.kernels import device
from kpg.runtime.kernels.limbs import (
    LOW,
    MOST_AMOUNT,
    add_limbs,
    add_mantissa,
    canonical,
    is_nothing,
    leading,
    top_of,
)
from kpg.runtime.kernels.moments import (
    SPREAD,
    add_bits,
    add_pair,
    add_state,
    bits_word,
    comoment_word,
    is_bits,
    is_empty,
)

COUNT = 0
SUM = 1
SUM_DOUBLE = 2
LIMBS = 68
SUM_DOUBLE_WORDS = LIMBS + 4
NULL = -(2**63)
ERROR = NULL + 1
SMALL = 1 << 52  # sums of a block of 1024 words below it fit 64 bits
NAN_WORD = 0x7FF8000000000000
FLIP = 0x7FFFFFFFFFFFFFFF


@device
def add128(acc, group, offset, value, diff):
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
        ulow = (p00 & mask) | (middle << half)
        uhigh = p11 + (p01 >> half) + (p10 >> half) + (middle >> half)
        low = np.int64(ulow)
        high = np.int64(uhigh)
        if negative:
            high = ~high + (1 if low == 0 else 0)
            low = -low
    total = acc[group, offset] + low
    carry = 1 if (total ^ NULL) < (low ^ NULL) else 0
    acc[group, offset] = total
    acc[group, offset + 1] += high + carry


@device
def add_double(acc, group, offset, word, diff):
    """Add the double behind ``word``, times diff, exactly."""
    bits = word if word >= 0 else word ^ FLIP
    exponent = (bits >> 52) & 0x7FF
    mantissa = bits & 0xFFFFFFFFFFFFF
    if exponent == 0x7FF:
        which = 0 if mantissa != 0 else (1 if bits >= 0 else 2)
        acc[group, offset + which] += diff
        return
    if exponent > 0:
        mantissa |= 1 << 52
    else:
        exponent = 1
    amount = diff if bits >= 0 else -diff
    position = exponent - 1
    while not -MOST_AMOUNT <= amount <= MOST_AMOUNT:
        add_mantissa(acc, group, offset + 3, LIMBS, position, mantissa, amount & 0xFFFF)
        amount >>= 16
        position += 16
    add_mantissa(acc, group, offset + 3, LIMBS, position, mantissa, amount)


@device
def double_word(row, offset):
    """The word of the correctly rounded sum whose accumulator starts at ``offset``."""
    if row[offset] > 0 or (row[offset + 1] > 0 and row[offset + 2] > 0):
        return NAN_WORD
    if row[offset + 1] > 0:
        return np.int64(0x7FF0000000000000)
    if row[offset + 2] > 0:
        return np.int64(-0x7FF0000000000001)
    limbs = np.empty(LIMBS, np.int64)
    sign = canonical(row, offset + 3, LIMBS, limbs)
    if sign == 0:
        return np.int64(0)
    mantissa, exponent = leading(limbs, top_of(limbs))
    buffer = np.empty(1, np.float64)
    buffer[0] = sign * math.ldexp(mantissa, exponent - 1074)
    bits = buffer.view(np.int64)[0]
    if bits & 0x7FF0000000000000 == 0x7FF0000000000000:
        return np.int64(ERROR)
    return bits if bits >= 0 else bits ^ FLIP


@device
def add_other(data, row, diff, acc, index, offset, spec, s):
    """Add one row, ``diff`` times, to a state of ``moments``."""
    if is_bits(spec[s, 0]):
        add_bits(acc, index, offset, data[spec[s, 1], row], diff)
    else:
        add_pair(acc, index, offset, spec[s, 0], data[spec[s, 1], row], data[spec[s, 3], row], diff)


@device
def other_word(row, kind, offset):
    """The result of a state of ``moments``, which is not of no rows."""
    return bits_word(row, offset, kind) if is_bits(kind) else comoment_word(row, offset, kind)


@device
def add_row(data, row, diff, acc, index, base, spec):
    """Add one row, ``diff`` times, to the accumulators that start at column ``base``."""
    acc[index, base] += diff
    for s in range(spec.shape[0]):
        offset = base + spec[s, 2]
        if spec[s, 0] >= SPREAD:
            add_other(data, row, diff, acc, index, offset, spec, s)
            continue
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
        if spec[s, 0] >= SPREAD:
            add_state(acc, index, at, source, other, of, spec[s, 0])
            continue
        acc[index, at] += source[other, of]
        if spec[s, 0] == SUM:
            low = source[other, of + 1]
            total = acc[index, at + 1] + low
            acc[index, at + 1] = total
            acc[index, at + 2] += source[other, of + 2] + (1 if (total ^ NULL) < (low ^ NULL) else 0)
        elif spec[s, 0] != COUNT:
            for special in range(1, 4):
                acc[index, at + special] += source[other, of + special]
            add_limbs(acc, index, at + 4, source, other, of + 4, LIMBS)


@device
def is_zero(acc, index, base, spec):
    """Whether all accumulators are zero, so that the record can be forgotten."""
    zero = acc[index, base] == 0
    for s in range(spec.shape[0]):
        offset = base + spec[s, 2]
        zero = zero and acc[index, offset] == 0
        if spec[s, 0] >= SPREAD:
            zero = zero and is_empty(acc, index, offset, spec[s, 0])
        elif spec[s, 0] == SUM:
            zero = zero and acc[index, offset + 1] == 0 and acc[index, offset + 2] == 0
        elif spec[s, 0] != COUNT and zero:
            for special in range(1, 4):
                zero = zero and acc[index, offset + special] == 0
            zero = zero and is_nothing(acc, index, offset + 4, LIMBS)
    return zero


@device
def add_counts(data, column, start, stop, diff, groups, offset, acc):
    """Add a block of rows to one count. Returns whether it came not to fit 64 bits."""
    step = 0 if diff.shape[0] == 1 else 1
    wrapped = np.int64(0)
    for row in range(start, stop):
        if column < 0 or data[column, row] != NULL:
            count = acc[groups[row - start], offset]
            added = count + diff[row * step]
            wrapped |= (count ^ added) & (diff[row * step] ^ added)
            acc[groups[row - start], offset] = added
    return wrapped < 0


@device
def add_sums(data, column, start, stop, diff, groups, offset, acc):
    """Add a block of rows to one exact sum."""
    if diff.shape[0] == 1 and diff[0] == 1:
        for row in range(start, stop):
            word = data[column, row]
            if word != NULL:
                group = groups[row - start]
                acc[group, offset] += 1
                total = acc[group, offset + 1] + word
                carry = 1 if (total ^ NULL) < (word ^ NULL) else 0
                acc[group, offset + 1] = total
                acc[group, offset + 2] += (word >> 63) + carry
        return
    step = 0 if diff.shape[0] == 1 else 1
    for row in range(start, stop):
        word = data[column, row]
        if word != NULL:
            acc[groups[row - start], offset] += diff[row * step]
            add128(acc, groups[row - start], offset + 1, word, diff[row * step])


@device
def add_block(data, start, stop, diff, groups, base, acc, spec):
    """Add a block of rows, whose groups are known, one aggregate after the other.

    Returns whether the count of a group's rows came not to fit 64 bits.
    """
    overflow = add_counts(data, -1, start, stop, diff, groups, base, acc)
    step = 0 if diff.shape[0] == 1 else 1
    for s in range(spec.shape[0]):
        offset = base + spec[s, 2]
        column = spec[s, 1]
        if spec[s, 0] == COUNT:
            add_counts(data, column, start, stop, diff, groups, offset, acc)
        elif spec[s, 0] == SUM:
            add_sums(data, column, start, stop, diff, groups, offset, acc)
        elif spec[s, 0] >= SPREAD:
            for row in range(start, stop):
                add_other(data, row, diff[row * step], acc, groups[row - start], offset, spec, s)
        else:
            for row in range(start, stop):
                word = data[column, row]
                if word != NULL:
                    acc[groups[row - start], offset] += diff[row * step]
                    add_double(acc, groups[row - start], offset + 1, word, diff[row * step])
    return overflow


@device
def sort_by_group(groups, count, allotted, ends, order):
    """Sort the rows of a block by group: group g's are ``order[ends[g] : ends[g + 1]]``."""
    for g in range(allotted + 2):
        ends[g] = 0
    for i in range(count):
        ends[groups[i] + 2] += 1
    for g in range(2, allotted + 2):
        ends[g] += ends[g - 1]
    for i in range(count):
        place = ends[groups[i] + 1]
        order[place] = i
        ends[groups[i] + 1] = place + 1


@device
def are_small(words, start, stop):
    """Whether no word of a part of a column is NULL or so large that the sum might not fit 64 bits."""
    low, high = 0, 0
    for row in range(start, stop):
        low = min(low, words[row])
        high = max(high, words[row])
    return low > -SMALL and high < SMALL


@device
def add_few(data, start, stop, amount, groups, allotted, ends, order, base, acc, spec):
    """Add a large block of rows, ``amount`` (1 or -1) times each, sorted by group, to counts and exact sums.

    Returns whether the count of a group's rows came not to fit 64 bits.
    """
    diff = np.full(1, amount, np.int64)
    wrapped = np.int64(0)
    for g in range(allotted):
        change = amount * (ends[g + 1] - ends[g])
        added = acc[g, base] + change
        wrapped |= (acc[g, base] ^ added) & (change ^ added)
        acc[g, base] = added
    for s in range(spec.shape[0]):
        offset = base + spec[s, 2]
        column = spec[s, 1]
        if column >= 0:
            words = data[column]
            if not are_small(words, start, stop):
                if spec[s, 0] == SUM:
                    add_sums(data, column, start, stop, diff, groups, offset, acc)
                else:
                    add_counts(data, column, start, stop, diff, groups, offset, acc)
                continue
        for g in range(allotted):
            if ends[g] == ends[g + 1]:
                continue
            acc[g, offset] += amount * (ends[g + 1] - ends[g])
            if spec[s, 0] == SUM:
                words = data[column, start:stop]
                total = np.int64(0)
                for i in range(ends[g], ends[g + 1]):
                    total += words[order[i]]
                add128(acc, g, offset + 1, total, amount)
    return wrapped < 0
