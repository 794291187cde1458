"""The expression machine: one kernel that runs a map-filter-project program over rows, 1024 at a time.

An instruction is ``(opcode, destination, a, b, c)``; registers hold one word for each row of the chunk
that is still selected. Word conventions are those of ``runtime.types``: an operation on a NULL gives
NULL, one that fails gives ERROR, and ERROR on an operand wins over NULL. The meaning of each opcode is
the comment beside its number.
"""

import math

import numpy as np

from kpg.runtime.kernels import device, kernel, load_intrinsic

load = load_intrinsic()

NULL = -(2**63)
ERROR = NULL + 1
MIN_WORD = NULL + 2
MAX_WORD = 2**63 - 1
NAN_WORD = 0x7FF8000000000000
SIGN_FLIP = 0x7FFFFFFFFFFFFFFF
CHUNK = 1024

LOAD = 0  # input column a
FETCH = 1  # column c of source b at rowid a
STORE = 2  # a to output column destination
FILTER = 3  # keep the rows whose a is true, or ERROR
COMPACT = 4  # drop from register destination the rows that the last FILTER dropped
MEMO = 5  # entry a of source b, a code table, noting the codes it lacks
SELECT = 6  # b where a is true, else c
IN_SET = 7  # whether a is among the sorted constants b .. b + c

ADD = 10  # integers; c is the position of the lowest and highest allowed result in the constants
SUB = 11
MUL = 12
DIV = 13  # truncates; ERROR when b is 0
MOD = 14  # sign of a; ERROR when b is 0
FLOOR_DIV = 15
SCALE_DOWN = 16  # a / 10**b, half away from zero
RANGE = 17  # a if within bounds c
ADD_MONTHS = 18  # date a plus b months, clamped to the end of the month
CIVIL = 19  # year, month or day (b = 0, 1, 2) of date a

EQ = 20
NE = 21
LT = 22
LE = 23
DISTINCT = 24  # NULLs equal each other
IS_NULL = 25
NOT = 26
AND = 27  # three-valued; false and ERROR is false
OR = 28
BOTH = 29  # AND of two predicates: NULL counts as false
COALESCE = 30
ORDER = 31  # a, negated if b & 1; NULL becomes the lowest word if b & 2, else the highest
TEXT_COMPARE = 32  # -1, 0 or 1 by the bytes of strings a and b
TEXT_WORD = 33  # bytes 7b .. 7b + 7 of string a as a number, and how many there are

ADD_DOUBLE = 40
SUB_DOUBLE = 41
MUL_DOUBLE = 42
DIV_DOUBLE = 43  # ERROR when b is 0
TO_DOUBLE = 44  # a / 10**b
FROM_DOUBLE = 45  # a * 10**b, within bounds c; halves to even if b is 0, else away from zero


@device
def special(p, q):
    """What an operation gives on two operands of which one is NULL or ERROR."""
    low = min(p, q)
    high = max(p, q)
    return high if high < MIN_WORD else low


@device
def truncated(p, q):
    """``p / q`` towards zero."""
    result = p // q
    if result * q != p and (p < 0) != (q < 0):
        result += 1
    return result


@device
def multiply(p, q, low, high):
    """``p * q``, or ERROR out of bounds: the double product tells whether the wrapped one can be trusted."""
    estimate = abs(float(p) * float(q))
    if estimate > 9.3e18:
        return ERROR
    result = p * q
    if estimate > 9.1e18 and truncated(result, q) != p:
        return ERROR
    return result if low <= result <= high else ERROR


@device
def scale_down(p, factor):
    """``p / factor``, half away from zero."""
    result = truncated(p, factor)
    rest = abs(p - result * factor)
    if rest >= factor - rest:
        result += 1 if p > 0 else -1
    return result


@device
def days_before_year(year):
    """Days from 0000-03-01 to March 1 of ``year``."""
    return 365 * year + year // 4 - year // 100 + year // 400


@device
def civil(days):
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
def days_of(year, month, day):
    """The date of a year, month and day; inverse of ``civil``."""
    march_year = year - 1 if month <= 2 else year
    march_month = (month + 9) % 12
    return days_before_year(march_year) + (march_month * 306 + 5) // 10 + day - 1 - 719468


@device
def add_months(days, months):
    """A date some months later, clamped to the end of the month."""
    year, month, day = civil(days)
    if abs(months) > 1200000:
        return MAX_WORD
    total = year * 12 + month - 1 + months
    new_year = total // 12
    new_month = total % 12 + 1
    following = total + 1
    last = days_of(following // 12, following % 12 + 1, 1) - days_of(new_year, new_month, 1)
    return days_of(new_year, new_month, min(day, last))


@device
def arithmetic(op, x, y, out, rows, low, high):
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
def convert(op, x, operand, out, rows, low, high):
    """The operations of one register and an immediate operand."""
    if op == SCALE_DOWN:
        factor = 1
        for _ in range(operand):
            factor *= 10
        for i in range(rows):
            p = x[i]
            r = scale_down(p, factor)
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
            if p >= MIN_WORD:
                year, month, day = civil(p)
                p = year if operand == 0 else (month if operand == 1 else day)
            out[i] = p


@device
def compare(op, x, y, out, rows):
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
def to_double(word):
    """The double of a word."""
    bits = np.int64(word if word >= 0 else word ^ SIGN_FLIP)
    return bits.view(np.float64)


@device
def from_double(value):
    """The word of a double."""
    if value != value:
        return NAN_WORD
    bits = np.float64(value + 0.0).view(np.int64)
    return bits if bits >= 0 else bits ^ SIGN_FLIP


@device
def operate_double(op, p, q):
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
            return ERROR
        r = u / v
    if math.isinf(r) and not (math.isinf(u) or math.isinf(v)):
        return ERROR
    return from_double(r)


@device
def doubles(op, x, y, out, rows):
    """The operations of two registers of doubles."""
    for i in range(rows):
        p, q = x[i], y[i]
        out[i] = special(p, q) if min(p, q) < MIN_WORD else operate_double(op, p, q)


@device
def convert_double(op, x, scale, out, rows, low, high):
    """Between doubles and integers of a scale."""
    factor = 1.0
    for _ in range(scale):
        factor *= 10.0
    if op == TO_DOUBLE:
        for i in range(rows):
            p = x[i]
            out[i] = p if p < MIN_WORD else from_double(float(p) / factor)
        return
    for i in range(rows):
        p = x[i]
        if p < MIN_WORD:
            out[i] = p
            continue
        value = to_double(p) * factor
        if scale == 0:
            value = np.rint(value)
        else:
            value = math.floor(abs(value) + 0.5) if value >= 0 else -math.floor(abs(value) + 0.5)
        if not abs(value) < 9.2e18:
            out[i] = ERROR
            continue
        r = int(value)
        out[i] = r if low <= r <= high else ERROR


@device
def compare_text(p, q, arena, offsets):
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
def text_word(p, part, arena, offsets):
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
def texts(op, x, y, part, out, rows, arena, offsets):
    """The operations that read the bytes of strings."""
    if op == TEXT_COMPARE:
        for i in range(rows):
            p, q = x[i], y[i]
            out[i] = special(p, q) if min(p, q) < MIN_WORD else compare_text(p, q, arena, offsets)
    else:
        for i in range(rows):
            p = x[i]
            out[i] = p if p < MIN_WORD else text_word(p, part, arena, offsets)


@device
def look_up(x, source, address, size, out, rows, missing, found):
    """Entries of the code table at an address; codes without an entry are appended to ``missing``."""
    for i in range(rows):
        p = x[i]
        if p < MIN_WORD:
            out[i] = p
        elif p < size and load(address, p) != 0:
            out[i] = load(address, p) ^ MIN_WORD
        else:
            out[i] = NULL
            if found < missing.shape[1]:
                missing[0, found] = source
                missing[1, found] = p
                found += 1
    return found


@device
def in_set(x, constants, first, size, out, rows):
    """Whether each word is among ``size`` sorted constants."""
    for i in range(rows):
        p = x[i]
        if p < MIN_WORD:
            out[i] = p
            continue
        low, high = first, first + size
        while low < high:
            middle = (low + high) >> 1
            if constants[middle] < p:
                low = middle + 1
            else:
                high = middle
        out[i] = int(low < first + size and constants[low] == p)


@device
def fetch(rowids, address, first, out, rows):
    """One column, which starts at word ``first``, of the table at an address, at some rowids."""
    for i in range(rows):
        p = rowids[i]
        out[i] = p if p < 0 else load(address, first + p)


@kernel(
    "int64(int64[:, ::1], int64[::1], int64[:, ::1], int64[:, ::1], uint8[::1], int64[::1], int64[:, ::1],"
    " int64[::1], int64[:, ::1], int64[::1])"
)
def run(code, constants, data, sources, arena, offsets, out, kept, missing, status):
    """Runs ``code`` over the rows of ``data``; returns the number of rows that passed.

    ``constants``: number of registers, number k of constant registers (the first ones), their k words,
    then whatever the instructions refer to. ``sources int64[k, 2]``: address and length (of one column)
    of the row stores and code tables, which the caller keeps alive. ``out int64[m, n]`` and ``kept
    int64[n]`` (or empty) are filled from the left. ``missing int64[2, any]`` takes (source, code) that
    MEMO lacks; results count only if there are none. ``status`` becomes [missing, 1 if some FILTER kept
    an ERROR, 1 if an ERROR was stored]; the return value is ``-1 - passed`` unless all three are 0.
    """
    total = data.shape[1]
    chunk = min(total, CHUNK)
    registers = np.empty((constants[0], chunk), dtype=np.int64)
    selection = np.empty(chunk, dtype=np.int64)
    position = np.empty(chunk, dtype=np.int64)
    fixed = constants[1]
    for register in range(fixed):
        registers[register, :] = constants[2 + register]
    found = 0
    doubtful = False
    failed = False
    passed = 0
    for start in range(0, total, CHUNK):
        rows = min(CHUNK, total - start)
        dense = True
        shrunk = False
        for step in range(code.shape[0]):
            op = code[step, 0]
            a = code[step, 2]
            b = code[step, 3]
            c = code[step, 4]
            if op == STORE:
                x = registers[a]
                y = out[code[step, 1]]
                bad = False
                for i in range(rows):
                    p = x[i]
                    bad |= p == ERROR
                    y[passed + i] = p
                failed |= bad
                continue
            if op == FILTER:
                x = registers[a]
                count = 0
                bad = False
                for i in range(rows):
                    p = x[i]
                    position[count] = i
                    bad |= p == ERROR
                    count += int((p == 1) | (p == ERROR))
                doubtful |= bad
                shrunk = count < rows
                if shrunk and dense:
                    selection[:count] = position[:count]
                elif shrunk:
                    for i in range(count):
                        selection[i] = selection[position[i]]
                dense = dense and not shrunk
                rows = count
                if rows == 0:
                    break
                continue
            target = registers[code[step, 1]]
            if op == LOAD:
                x = data[a]
                if dense:
                    for i in range(rows):
                        target[i] = x[start + i]
                else:
                    for i in range(rows):
                        target[i] = x[start + selection[i]]
            elif op == COMPACT:
                if shrunk:
                    for i in range(rows):
                        target[i] = target[position[i]]
            elif op == FETCH:
                fetch(registers[a], sources[b, 0], c * sources[b, 1], target, rows)
            elif op == MEMO:
                found = look_up(registers[a], b, sources[b, 0], sources[b, 1], target, rows, missing, found)
            elif op == IN_SET:
                in_set(registers[a], constants, b, c, target, rows)
            elif op == SELECT:
                x, y, z = registers[a], registers[b], registers[c]
                for i in range(rows):
                    p = x[i]
                    r = y[i] if p == 1 else z[i]
                    target[i] = p if p == ERROR else r
            elif op in (ADD, SUB, MUL, DIV, MOD, FLOOR_DIV, ADD_MONTHS):
                arithmetic(op, registers[a], registers[b], target, rows, constants[c], constants[c + 1])
            elif op in (SCALE_DOWN, RANGE, CIVIL, IS_NULL, NOT, ORDER):
                convert(op, registers[a], b, target, rows, constants[c], constants[c + 1])
            elif op in (TO_DOUBLE, FROM_DOUBLE):
                convert_double(op, registers[a], b, target, rows, constants[c], constants[c + 1])
            elif op >= ADD_DOUBLE:
                doubles(op, registers[a], registers[b], target, rows)
            elif op == TEXT_COMPARE:
                texts(op, registers[a], registers[b], 0, target, rows, arena, offsets)
            elif op == TEXT_WORD:
                texts(op, registers[a], registers[a], b, target, rows, arena, offsets)
            else:
                compare(op, registers[a], registers[b], target, rows)
        if kept.shape[0] > 0:
            for i in range(rows):
                kept[passed + i] = start + i if dense else start + selection[i]
        passed += rows
    status[0] = found
    status[1] = int(doubtful)
    status[2] = int(failed)
    return passed if found == 0 and not doubtful and not failed else -1 - passed
