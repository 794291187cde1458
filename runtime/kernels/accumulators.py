"""Accumulators of aggregates, as groups and histories keep them: exact sums that forget what is retracted.

The first accumulator counts rows; each aggregate has words of its own from its offset among the
accumulators, in ``spec int64[naggs, 3]`` (kind, operand column or -1 for none, offset):

* COUNT: non-NULL operands;
* SUM: non-NULL operands, then the 128-bit sum (low word, high word);
* SUM_DOUBLE: non-NULL operands, NaNs, +infinities, -infinities, then 68 limbs of 32 bits of an exact
  fixed-point sum from 2**-1074 up (Kulisch's accumulator), so that retraction is exact.

A function is given the table, the row and the column in it at which the accumulators begin.
"""

import numpy as np

from kpg.runtime.kernels import device

COUNT = 0
SUM = 1
SUM_DOUBLE = 2
LIMBS = 68
SUM_DOUBLE_WORDS = LIMBS + 4
NULL = -(2**63)
ERROR = NULL + 1
LOW = 0xFFFFFFFF
MOST_AMOUNT = 1 << 28  # products of 33 bits with it are added to limbs
FLIP = 0x7FFFFFFFFFFFFFFF


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
