"""Accumulators of pairs of numbers, from which their covariance is had without cancellation, and of bits.

The state of a pair, from its offset on, in words:

* how many pairs there are in which neither is NULL;
* of how many a number is not finite;
* the limbs (see ``limbs``) of the sum of the first numbers, of the sum of the products, and, if the second
  numbers are others than the first, of their sum.

Whole numbers are in units of 1, doubles in units of 2**-1074 and their products of 2**-1124. What is smaller
is cut off a product: what a row adds depends on the row alone, so that taking it away is exact.

The state of bits: how many operands there are, then for each bit in how many of them it is set.
"""

import math

import numpy as np

from kpg.runtime.kernels import device
from kpg.runtime.kernels.limbs import (
    LOW,
    MOST_AMOUNT,
    add_limb,
    add_limbs,
    add_mantissa,
    canonical,
    is_nothing,
    leading,
    top_of,
)

SPREAD = 3  # of one operand with itself, whole numbers
SPREAD_DOUBLE = 4
COMOMENT = 5  # of two operands
COMOMENT_DOUBLE = 6
BIT_AND = 7
BIT_OR = 8
BIT_XOR = 9

SUM_LIMBS = 5  # 63 bits of a word and 63 of how often it is there
PRODUCT_LIMBS = 7
DOUBLE_LIMBS = 68
DOUBLE_PRODUCT_LIMBS = 104
LEAST = 1024  # products begin so many bits above the square of the least double
BITS = 64
NULL = -(2**63)
ERROR = NULL + 1
NAN_WORD = 0x7FF8000000000000
FLIP = 0x7FFFFFFFFFFFFFFF


@device
def is_double(kind):
    return kind in (SPREAD_DOUBLE, COMOMENT_DOUBLE)


@device
def is_bits(kind):
    return kind >= BIT_AND


@device
def sum_limbs(kind):
    return DOUBLE_LIMBS if is_double(kind) else SUM_LIMBS


@device
def product_limbs(kind):
    return DOUBLE_PRODUCT_LIMBS if is_double(kind) else PRODUCT_LIMBS


@device
def mantissa_of(word, double):
    """The magnitude of a number in units of 2**position, its position, and whether it is below 0."""
    if not double:
        return abs(word), 0, word < 0
    bits = word if word >= 0 else word ^ FLIP
    exponent = (bits >> 52) & 0x7FF
    mantissa = bits & 0xFFFFFFFFFFFFF
    if exponent > 0:
        return mantissa | (1 << 52), exponent - 1, bits < 0
    return mantissa, 0, bits < 0


@device
def is_finite(word):
    bits = word if word >= 0 else word ^ FLIP
    return (bits >> 52) & 0x7FF != 0x7FF


@device
def add_product(acc, group, base, limbs, position, x, y, amount, moved):
    """Add x * y * 2**position without the bits below limb 0, times amount * 2**moved, a multiple of 16.

    The amount is at most ``MOST_AMOUNT`` either way. What is cut off does not depend on it.
    """
    x0, x1, y0, y1 = np.uint64(x & LOW), np.uint64(x >> 32), np.uint64(y & LOW), np.uint64(y >> 32)
    mask, half = np.uint64(LOW), np.uint64(32)
    p00, p01, p10, p11 = x0 * y0, x0 * y1, x1 * y0, x1 * y1
    second = (p00 >> half) + (p01 & mask) + (p10 & mask)
    third = (second >> half) + (p01 >> half) + (p10 >> half) + (p11 & mask)
    limb = position >> 5
    shift = position & 31
    before = np.int64(0)
    for i in range(5):
        if i == 0:
            part = np.int64(p00 & mask)
        elif i == 1:
            part = np.int64(second & mask)
        elif i == 2:
            part = np.int64(third & mask)
        elif i == 3:
            part = np.int64((third >> half) + (p11 >> half))
        else:
            part = np.int64(0)
        shifted = part << shift
        if limb + i >= 0:
            value = ((shifted & LOW) + before) * amount
            at = limb + i + (moved >> 5)
            if moved & 31 == 0:
                add_limb(acc, group, base, limbs, at, value)
            else:
                add_limb(acc, group, base, limbs, at, (value & LOW) << 16)
                add_limb(acc, group, base, limbs, at + 1, (value >> 32) << 16)
        before = shifted >> 32


@device
def add_times(acc, group, offset, kind, x, y, at_x, at_y, negative_x, negative_y, diff):
    """Add a pair of finite numbers, given by magnitude, position and sign, ``diff`` times."""
    n, m = sum_limbs(kind), product_limbs(kind)
    first = offset + 2
    least = LEAST if is_double(kind) else 0
    amount, moved = diff, 0
    while amount != 0:
        part = amount if -MOST_AMOUNT <= amount <= MOST_AMOUNT else amount & 0xFFFF
        add_mantissa(acc, group, first, n, at_x + moved, x, -part if negative_x else part)
        sign = -part if negative_x != negative_y else part
        add_product(acc, group, first + n, m, at_x + at_y - least, x, y, sign, moved)
        if kind >= COMOMENT:
            add_mantissa(acc, group, first + n + m, n, at_y + moved, y, -part if negative_y else part)
        if part == amount:
            break
        amount >>= 16
        moved += 16


@device
def add_pair(acc, group, offset, kind, first, second, diff):
    """Add a pair of words, ``diff`` times; if one is NULL, nothing."""
    if first == NULL or second == NULL:
        return
    acc[group, offset] += diff
    double = is_double(kind)
    if double and not (is_finite(first) and is_finite(second)):
        acc[group, offset + 1] += diff
        return
    x, at_x, negative_x = mantissa_of(first, double)
    y, at_y, negative_y = mantissa_of(second, double)
    add_times(acc, group, offset, kind, x, y, at_x, at_y, negative_x, negative_y, diff)


@device
def add_bits(acc, group, offset, word, diff):
    """Add a word, ``diff`` times; if it is NULL, nothing."""
    if word == NULL:
        return
    acc[group, offset] += diff
    for bit in range(BITS):
        if (word >> bit) & 1:
            acc[group, offset + 1 + bit] += diff


@device
def add_state(acc, index, at, source, other, of, kind):
    """Add a state to a state."""
    if is_bits(kind):
        for bit in range(1 + BITS):
            acc[index, at + bit] += source[other, of + bit]
        return
    for word in range(2):
        acc[index, at + word] += source[other, of + word]
    n, m = sum_limbs(kind), product_limbs(kind)
    add_limbs(acc, index, at + 2, source, other, of + 2, n)
    add_limbs(acc, index, at + 2 + n, source, other, of + 2 + n, m)
    if kind >= COMOMENT:
        add_limbs(acc, index, at + 2 + n + m, source, other, of + 2 + n + m, n)


@device
def is_empty(acc, index, offset, kind):
    """Whether a state is that of no rows."""
    if is_bits(kind):
        for bit in range(1 + BITS):
            if acc[index, offset + bit] != 0:
                return False
        return True
    if acc[index, offset] != 0 or acc[index, offset + 1] != 0:
        return False
    n, m = sum_limbs(kind), product_limbs(kind)
    first = offset + 2
    if not is_nothing(acc, index, first, n) or not is_nothing(acc, index, first + n, m):
        return False
    return kind < COMOMENT or is_nothing(acc, index, first + n + m, n)


@device
def bits_word(row, offset, kind):
    """The AND, OR or XOR of the operands, of which there are some."""
    result = np.int64(0)
    for bit in range(BITS):
        count = row[offset + 1 + bit]
        if kind == BIT_AND:
            is_set = count == row[offset]
        elif kind == BIT_OR:
            is_set = count > 0
        else:
            is_set = count & 1 == 1
        if is_set:
            result |= np.int64(1) << bit
    return result


@device
def multiply(a, b, at, out):
    """Add the product of two magnitudes, in canonical limbs, to ``out uint64[...]`` from a limb on."""
    last = top_of(b)
    for i in range(top_of(a) + 1):
        if a[i] == 0:
            continue
        carry = np.uint64(0)
        factor = np.uint64(a[i])
        for j in range(last + 1):
            value = factor * np.uint64(b[j]) + out[at + i + j] + carry
            out[at + i + j] = value & np.uint64(LOW)
            carry = value >> np.uint64(32)
        j = at + i + last + 1
        while carry != 0:
            value = out[j] + carry
            out[j] = value & np.uint64(LOW)
            carry = value >> np.uint64(32)
            j += 1


@device
def subtract(left, right, limbs):
    """The magnitude of the difference of two magnitudes into ``limbs``; returns whether right is larger."""
    larger = False
    for i in range(left.shape[0] - 1, -1, -1):
        if left[i] != right[i]:
            larger = right[i] > left[i]
            break
    borrow = np.int64(0)
    for i in range(left.shape[0]):
        value = np.int64(left[i]) - np.int64(right[i])
        value = (-value if larger else value) + borrow
        limbs[i] = value & LOW
        borrow = value >> 32
    return larger


@device
def double_of(limbs, negative, divisor, exponent):
    """The word of the number in canonical limbs, divided, times 2**exponent; ERROR if it is no double."""
    top = top_of(limbs)
    if top < 0:
        return np.int64(0)
    mantissa, shifted = leading(limbs, top)
    buffer = np.empty(1, np.float64)
    buffer[0] = math.ldexp((-mantissa if negative else mantissa) / divisor, shifted + exponent)
    if buffer[0] == 0:
        return np.int64(0)
    bits = buffer.view(np.int64)[0]
    if bits & 0x7FF0000000000000 == 0x7FF0000000000000:
        return np.int64(ERROR)
    return bits if bits >= 0 else bits ^ FLIP


@device
def comoment_word(row, offset, kind):
    """The word of sum(x * y) - sum(x) * sum(y) / n, rounded once and once more when divided by n.

    NaN if a number is not finite, ERROR if the result is no double.
    """
    if row[offset + 1] > 0:
        return np.int64(NAN_WORD)
    n, m = sum_limbs(kind), product_limbs(kind)
    double = is_double(kind)
    x, y = np.zeros(n, np.int64), np.zeros(n, np.int64)
    products, number = np.zeros(m, np.int64), np.zeros(2, np.int64)
    sign_x = canonical(row, offset + 2, n, x)
    sign_products = canonical(row, offset + 2 + n, m, products)
    sign_y = canonical(row, offset + 2 + (n + m if kind >= COMOMENT else 0), n, y)
    count = abs(row[offset])
    sign_products = sign_products if row[offset] > 0 else -sign_products
    number[0], number[1] = count & LOW, count >> 32
    width = 2 * n + 4
    positive, negative = np.zeros(width, np.uint64), np.zeros(width, np.uint64)
    at = LEAST >> 5 if double else 0
    if sign_products > 0:
        multiply(products, number, at, positive)
    elif sign_products < 0:
        multiply(products, number, at, negative)
    if sign_x * sign_y < 0:
        multiply(x, y, 0, positive)
    elif sign_x * sign_y > 0:
        multiply(x, y, 0, negative)
    limbs = np.zeros(width, np.int64)
    below = subtract(positive, negative, limbs)
    if below and kind < COMOMENT:
        return np.int64(0)
    return double_of(limbs, below, np.float64(row[offset]), -2148 if double else 0)
