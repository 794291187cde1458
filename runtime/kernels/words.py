"""Operations of the expression machine on words that may be NULL or ERROR, a chunk of rows at a time.

An operation on a NULL gives NULL, one that fails gives ERROR, and ERROR on an operand wins over NULL.
"""

import math

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import device
from kpg.runtime.kernels.accumulators import NAN_WORD
from kpg.runtime.kernels.opcodes import (
    ADD,
    ADD_DOUBLE,
    ADD_MONTHS,
    AND,
    BOTH,
    DISTINCT,
    DIV,
    EQ,
    IS_NULL,
    LE,
    LT,
    MOD,
    MUL,
    MUL_DOUBLE,
    NE,
    NOT,
    OR,
    ORDER,
    RANGE,
    SCALE_DOWN,
    SUB,
    SUB_DOUBLE,
    TEXT_COMPARE,
    TO_DOUBLE,
)

Words = NDArray[np.int64]
LAST_DAY = 106_000_000  # days from 1970 beyond which there are only the infinities
Bytes = NDArray[np.uint8]

NULL = -(2**63)
ERROR = NULL + 1
MIN_WORD = NULL + 2
MAX_WORD = 2**63 - 1
SIGN_FLIP = 0x7FFFFFFFFFFFFFFF


@device
def special(p: int, q: int) -> int:
    """What an operation gives on two operands of which one is NULL or ERROR."""
    low = min(p, q)
    high = max(p, q)
    return high if high < MIN_WORD else low


@device
def truncated(p: int, q: int) -> int:
    """``p / q`` towards zero."""
    result = p // q
    if result * q != p and (p < 0) != (q < 0):
        result += 1
    return result


@device
def multiply(p: int, q: int, low: int, high: int) -> int:
    """``p * q``, or ERROR out of bounds: the double product tells whether the wrapped one can be trusted."""
    estimate = abs(float(p) * float(q))
    if estimate > 9.3e18:
        return ERROR
    result = p * q
    if estimate > 9.1e18 and truncated(result, q) != p:
        return ERROR
    return result if low <= result <= high else ERROR


@device
def scale_down(p: int, factor: int) -> int:
    """``p / factor``, half away from zero."""
    result = truncated(p, factor)
    rest = abs(p - result * factor)
    if rest >= factor - rest:
        result += 1 if p > 0 else -1
    return result


@device
def days_before_year(year: int) -> int:
    """Days from 0000-03-01 to March 1 of ``year``."""
    return 365 * year + year // 4 - year // 100 + year // 400


@device
def civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of a date; the year is counted from March, so that the leap day is its last."""
    shifted = days + 719468
    year = (10000 * shifted + 14780) // 3652425
    rest = shifted - days_before_year(year)
    if rest < 0:
        year -= 1
        rest = shifted - days_before_year(year)
    month = (100 * rest + 52) // 3060
    day = rest - (month * 306 + 5) // 10 + 1
    if month >= 10:
        return year + 1, month - 9, day
    return year, month + 3, day


@device
def first_of_month(months: int) -> int:
    """The date of the first of a month, counted from January of year 0."""
    march = months - 2
    return days_before_year(march // 12) + (march % 12 * 306 + 5) // 10 - 719468


@device
def add_months(days: int, months: int) -> int:
    """A date some months later, clamped to the end of the month."""
    if abs(months) > 1200000:
        return MAX_WORD
    year, month, day = civil(days)
    total = year * 12 + month - 1 + months
    first = first_of_month(total)
    return min(first + day, first_of_month(total + 1)) - 1


@device
def arithmetic(op: int, x: Words, y: Words, out: Words, rows: int, low: int, high: int) -> None:
    """The integer operations of two registers."""
    if op == ADD:
        for i in range(rows):
            p, q = x[i], y[i]
            r = p + q
            bad = (((p ^ r) & (q ^ r)) < 0) | (r < low) | (r > high)
            r = ERROR if bad else r
            out[i] = special(p, q) if min(p, q) < MIN_WORD else r
    elif op == SUB:
        for i in range(rows):
            p, q = x[i], y[i]
            r = p - q
            bad = (((p ^ q) & (p ^ r)) < 0) | (r < low) | (r > high)
            r = ERROR if bad else r
            out[i] = special(p, q) if min(p, q) < MIN_WORD else r
    elif op == MUL:
        for i in range(rows):
            p, q = x[i], y[i]
            out[i] = special(p, q) if min(p, q) < MIN_WORD else multiply(p, q, low, high)
    else:
        for i in range(rows):
            p, q = x[i], y[i]
            if min(p, q) < MIN_WORD:
                out[i] = special(p, q)
                continue
            if op == ADD_MONTHS:
                r = add_months(p, q)
            elif q == 0:
                r = ERROR
            elif op == DIV:
                r = truncated(p, q)
            elif op == MOD:
                r = p - truncated(p, q) * q
            else:
                r = p // q
            out[i] = r if low <= r <= high else ERROR


@device
def convert(op: int, x: Words, operand: int, out: Words, rows: int, low: int, high: int) -> None:
    """The operations of one register and an immediate operand."""
    if op == SCALE_DOWN:
        for i in range(rows):
            p = x[i]
            r = scale_down(p, operand)
            out[i] = p if p < MIN_WORD else (r if low <= r <= high else ERROR)
    elif op == RANGE:
        for i in range(rows):
            p = x[i]
            out[i] = ERROR if (p >= MIN_WORD) & ((p < low) | (p > high)) else p
    elif op == IS_NULL:
        for i in range(rows):
            p = x[i]
            out[i] = ERROR if p == ERROR else int(p == NULL)
    elif op == NOT:
        for i in range(rows):
            p = x[i]
            out[i] = p if p < MIN_WORD else 1 - p
    elif op == ORDER:
        null = MIN_WORD if operand & 2 else MAX_WORD
        for i in range(rows):
            p = x[i]
            if p == NULL:
                out[i] = null
            elif operand & 1 and p != ERROR:
                out[i] = max(-p, MIN_WORD)
            else:
                out[i] = p
    else:
        for i in range(rows):
            p = x[i]
            if p > LAST_DAY or p < -LAST_DAY:
                p = ERROR if p == ERROR else NULL
            else:
                year, month, day = civil(p)
                year -= int(year <= 0)
                p = year if operand == 0 else (month if operand == 1 else day)
            out[i] = p


@device
def compare(op: int, x: Words, y: Words, out: Words, rows: int) -> None:
    """Comparisons and connectives of two registers."""
    if op == EQ:
        for i in range(rows):
            p, q = x[i], y[i]
            out[i] = special(p, q) if min(p, q) < MIN_WORD else int(p == q)
    elif op == NE:
        for i in range(rows):
            p, q = x[i], y[i]
            out[i] = special(p, q) if min(p, q) < MIN_WORD else int(p != q)
    elif op == LT:
        for i in range(rows):
            p, q = x[i], y[i]
            out[i] = special(p, q) if min(p, q) < MIN_WORD else int(p < q)
    elif op == LE:
        for i in range(rows):
            p, q = x[i], y[i]
            out[i] = special(p, q) if min(p, q) < MIN_WORD else int(p <= q)
    elif op == DISTINCT:
        for i in range(rows):
            p, q = x[i], y[i]
            out[i] = ERROR if (p == ERROR) | (q == ERROR) else int(p != q)
    elif op == AND:
        for i in range(rows):
            p, q = x[i], y[i]
            r = special(p, q) if min(p, q) < MIN_WORD else 1
            out[i] = 0 if (p == 0) | (q == 0) else r
    elif op == OR:
        for i in range(rows):
            p, q = x[i], y[i]
            r = special(p, q) if min(p, q) < MIN_WORD else 0
            out[i] = 1 if (p == 1) | (q == 1) else r
    elif op == BOTH:
        for i in range(rows):
            p, q = x[i], y[i]
            r = ERROR if min(p, q) < MIN_WORD else 1
            out[i] = 0 if (p == 0) | (q == 0) | (p == NULL) | (q == NULL) else r
    else:
        for i in range(rows):
            p, q = x[i], y[i]
            out[i] = q if p == NULL else p


@device
def to_double(word: int) -> float:
    """The double of a word."""
    bits = np.int64(word if word >= 0 else word ^ SIGN_FLIP)
    return bits.view(np.float64)


@device
def from_double(value: float) -> int:
    """The word of a double."""
    if value != value:
        return NAN_WORD
    bits = int(np.float64(value + 0.0).view(np.int64))
    return bits if bits >= 0 else bits ^ SIGN_FLIP


@device
def operate_double(op: int, p: int, q: int) -> int:
    """One operation on the words of two doubles; a finite overflow and a division by zero are ERROR."""
    u, v = to_double(p), to_double(q)
    if op == ADD_DOUBLE:
        r = u + v
    elif op == SUB_DOUBLE:
        r = u - v
    elif op == MUL_DOUBLE:
        r = u * v
    else:
        if v == 0.0:
            return p if math.isnan(u) else ERROR
        r = u / v
    if math.isinf(r) and not (math.isinf(u) or math.isinf(v)):
        return ERROR
    return from_double(r)


@device
def doubles(op: int, x: Words, y: Words, out: Words, rows: int) -> None:
    """The operations of two registers of doubles."""
    for i in range(rows):
        p, q = x[i], y[i]
        out[i] = special(p, q) if min(p, q) < MIN_WORD else operate_double(op, p, q)


@device
def convert_double(op: int, x: Words, factor: int, out: Words, rows: int, low: int, high: int) -> None:
    """Between doubles and integers that stand for that many of a unit."""
    if op == TO_DOUBLE:
        for i in range(rows):
            p = x[i]
            out[i] = p if p < MIN_WORD else from_double(float(p) / float(factor))
        return
    for i in range(rows):
        p = x[i]
        if p < MIN_WORD:
            out[i] = p
            continue
        value = to_double(p) * float(factor)
        if factor == 1:
            value = np.rint(value)
        else:
            value = math.floor(abs(value) + 0.5) if value >= 0 else -math.floor(abs(value) + 0.5)
        if not abs(value) < 9.2e18:
            out[i] = ERROR
            continue
        r = int(value)
        out[i] = r if low <= r <= high else ERROR


@device
def compare_text(p: int, q: int, arena: Bytes, offsets: Words) -> int:
    """-1, 0 or 1 as string p is before, equal to or after string q, byte by byte."""
    if p == q:
        return 0
    left, right = offsets[p], offsets[q]
    left_size, right_size = offsets[p + 1] - left, offsets[q + 1] - right
    for i in range(min(left_size, right_size)):
        if arena[left + i] != arena[right + i]:
            return -1 if arena[left + i] < arena[right + i] else 1
    return -1 if left_size < right_size else 1


@device
def text_word(p: int, part: int, arena: Bytes, offsets: Words) -> int:
    """Seven bytes of string p from ``7 * part`` on, most significant first, then their number in 3 bits."""
    start = offsets[p] + 7 * part
    size = min(7, max(0, offsets[p + 1] - start))
    word = 0
    for i in range(7):
        word = word << 8
        if i < size:
            word |= int(arena[start + i])
    return word << 3 | size


@device
def texts(
    op: int, x: Words, y: Words, part: int, out: Words, rows: int, arena: Bytes, offsets: Words
) -> None:
    """The operations that read the bytes of strings."""
    if op == TEXT_COMPARE:
        for i in range(rows):
            p, q = x[i], y[i]
            out[i] = special(p, q) if min(p, q) < MIN_WORD else compare_text(p, q, arena, offsets)
    else:
        for i in range(rows):
            p = x[i]
            out[i] = p if p < MIN_WORD else text_word(p, part, arena, offsets)
