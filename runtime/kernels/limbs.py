"""Whole numbers of any size as limbs: words that each count for 2**32 times the one before.

A limb may be anything that 64 bits hold, negative too, so adding carries seldom; read canonically, all limbs
but the sign are from 0 to 2**32 - 1. A function that changes limbs is given the array, the row in it and the
column at which they begin, and how many there are.
"""

import numpy as np

from kpg.runtime.kernels import device

LOW = 0xFFFFFFFF
MOST_AMOUNT = 1 << 28  # products of 33 bits with it are added to limbs


@device
def add_limb(acc, group, base, limbs, limb, amount):
    """Add to a limb; carry on only when it nears overflow, so that signs may alternate cheaply."""
    acc[group, base + limb] += amount
    while limb + 1 < limbs:
        value = acc[group, base + limb]
        if -(1 << 61) < value < (1 << 61):
            break
        acc[group, base + limb] = value & LOW
        acc[group, base + limb + 1] += value >> 32
        limb += 1


@device
def add_mantissa(acc, group, base, limbs, position, mantissa, amount):
    """Add mantissa * amount * 2**position, where amount is at most ``MOST_AMOUNT`` either way."""
    limb = position >> 5
    shift = position & 31
    a = (mantissa & LOW) << shift
    b = (mantissa >> 32) << shift
    add_limb(acc, group, base, limbs, limb, (a & LOW) * amount)
    add_limb(acc, group, base, limbs, limb + 1, ((a >> 32) + (b & LOW)) * amount)
    add_limb(acc, group, base, limbs, limb + 2, (b >> 32) * amount)


@device
def add_limbs(acc, index, at, source, other, of, limbs):
    """Add limbs to limbs."""
    for limb in range(limbs):
        if source[other, of + limb] != 0:
            add_limb(acc, index, at, limbs, limb, source[other, of + limb])


@device
def is_nothing(acc, index, base, limbs):
    """Whether the number is 0."""
    zero = True
    carry = np.int64(0)
    for limb in range(limbs):
        value = acc[index, base + limb] + carry
        zero = zero and value & LOW == 0
        carry = value >> 32
    return zero and carry == 0


@device
def canonical(row, base, count, limbs):
    """The canonical magnitude of a row's ``count`` limbs into ``limbs``; returns the sign (-1, 0, 1)."""
    carry = np.int64(0)
    any_set = False
    for i in range(count):
        value = row[base + i] + carry
        limbs[i] = value & LOW
        carry = value >> 32
        any_set = any_set or limbs[i] != 0
    if carry < 0:
        borrow = np.int64(1)
        for i in range(count):
            value = (limbs[i] ^ LOW) + borrow
            limbs[i] = value & LOW
            borrow = value >> 32
        return -1
    return 1 if any_set else 0


@device
def top_of(limbs):
    """The place of the highest of canonical limbs that is not 0; -1 if all are."""
    top = limbs.shape[0] - 1
    while top >= 0 and limbs[top] == 0:
        top -= 1
    return top


@device
def leading(limbs, top):
    """The 64 leading bits of canonical limbs, the last one set if any bit behind is, and their exponent.

    Turned into a double, they are the number correctly rounded, divided by 2**exponent.
    """
    shift = 0
    while (limbs[top] << shift) & 0x80000000 == 0:
        shift += 1
    second = limbs[top - 1] if top >= 1 else 0
    third = limbs[top - 2] if top >= 2 else 0
    x = np.uint64((limbs[top] << 32) | second) << np.uint64(shift)
    x |= np.uint64(third >> (32 - shift))
    sticky = (third & ((1 << (32 - shift)) - 1)) != 0
    i = top - 3
    while not sticky and i >= 0:
        sticky = limbs[i] != 0
        i -= 1
    if sticky:
        x |= np.uint64(1)
    return np.float64(x), 32 * (top - 1) - shift
