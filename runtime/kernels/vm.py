"""The expression machine: one kernel that runs a map-filter-project program over rows, 1024 at a time.

An instruction is ``(opcode, destination, a, b, c)``; registers hold one word for each row of the chunk
that is still selected. Word conventions are those of ``runtime.types``: an operation on a NULL gives
NULL, one that fails gives ERROR, and ERROR on an operand wins over NULL. The meaning of each opcode is
the comment beside its number.
"""

import math

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import device, kernel, load_intrinsic, save_intrinsic, view_intrinsic
from kpg.runtime.kernels.rowgroups import BYTES, CHART, COLUMNS, REWRITTEN, STRIDE, locate

Words = NDArray[np.int64]
Table = NDArray[np.int64]
Bytes = NDArray[np.uint8]

load = load_intrinsic()
save = save_intrinsic()
view = view_intrinsic()

NULL = -(2**63)
ERROR = NULL + 1
MIN_WORD = NULL + 2
MAX_WORD = 2**63 - 1
NAN_WORD = 0x7FF8000000000000
SIGN_FLIP = 0x7FFFFFFFFFFFFFFF
CHUNK = 1024
SAFE = 1 << 62  # sums and products of plain words below it do not wrap
FEW = 8  # constants of a set that are compared one by one

LOAD = 0  # input column b
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
ADD_MONTHS = 16  # date a plus b months, clamped to the end of the month

SCALE_DOWN = 20  # a / b, half away from zero, within bounds c
RANGE = 21  # a if within bounds c
CIVIL = 22  # year, month or day (b = 0, 1, 2) of date a
IS_NULL = 23
NOT = 24
ORDER = 25  # a, negated if b & 1; NULL becomes the lowest word if b & 2, else the highest

EQ = 30
NE = 31
LT = 32
LE = 33
DISTINCT = 34  # NULLs equal each other
AND = 35  # three-valued; false and ERROR is false
OR = 36
BOTH = 37  # AND of two predicates: NULL counts as false
COALESCE = 38
TEXT_COMPARE = 39  # -1, 0 or 1 by the bytes of strings a and b
TEXT_WORD = 40  # bytes 7b .. 7b + 7 of string a as a number, and how many there are
BETWEEN = 41  # whether a is within bounds b; NULL counts as false

ADD_DOUBLE = 50
SUB_DOUBLE = 51
MUL_DOUBLE = 52
DIV_DOUBLE = 53  # ERROR when b is 0
TO_DOUBLE = 54  # a / b
FROM_DOUBLE = 55  # a * b, within bounds c; halves to even if b is 1, else away from zero


HOME = 0  # of a register: the address of its own words
WHERE = 1  # the address of the words that it stands for now
LOW = 2  # no word is below it, or above HIGH, if KNOWN
HIGH = 3
KNOWN = 4
SHAPE = 5  # of rowids: 1 if they are consecutive, 0 if not, -1 if nobody looked
DIFFERING = 6  # the bits in which some differs from the first
FIELDS = 7


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
            if p >= MIN_WORD:
                year, month, day = civil(p)
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
            return ERROR
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


@device
def look_up(
    x: Words, source: int, address: int, size: int, out: Words, rows: int, missing: Table, status: Words
) -> None:
    """Entries of the code table at an address; codes without one go to ``missing[:, status[0]]``."""
    for i in range(rows):
        p = x[i]
        if p < MIN_WORD:
            out[i] = p
        elif p < size and load(address, p) != 0:
            out[i] = load(address, p) ^ MIN_WORD
        else:
            out[i] = NULL
            found = status[0]
            if found < missing.shape[1]:
                missing[0, found] = source
                missing[1, found] = p
                status[0] = found + 1


@device
def in_set(x: Words, constants: Words, first: int, size: int, out: Words, rows: int) -> None:
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
def measure(words: int, rows: int) -> tuple[int, int]:
    """The least and the greatest word."""
    low = MAX_WORD
    high = NULL
    for i in range(rows):
        p = load(words, i)
        low = min(low, p)
        high = max(high, p)
    return low, high


@device
def plain_arithmetic(op: int, x: int, y: int, out: int, rows: int) -> None:
    """Sum, difference or product of words that are known to give none that needs a check."""
    if op == ADD:
        for i in range(rows):
            save(out, i, load(x, i) + load(y, i))
    elif op == SUB:
        for i in range(rows):
            save(out, i, load(x, i) - load(y, i))
    else:
        for i in range(rows):
            save(out, i, load(x, i) * load(y, i))


@device
def plain_compare(op: int, x: int, y: int, out: int, rows: int) -> None:
    """Comparisons of words without NULL and ERROR, connectives of 0 and 1."""
    if op == EQ:
        for i in range(rows):
            save(out, i, int(load(x, i) == load(y, i)))
    elif op == NE:
        for i in range(rows):
            save(out, i, int(load(x, i) != load(y, i)))
    elif op == LT:
        for i in range(rows):
            save(out, i, int(load(x, i) < load(y, i)))
    elif op == LE:
        for i in range(rows):
            save(out, i, int(load(x, i) <= load(y, i)))
    elif op == OR:
        for i in range(rows):
            save(out, i, load(x, i) | load(y, i))
    else:
        for i in range(rows):
            save(out, i, load(x, i) & load(y, i))


@device
def between(x: int, low: int, high: int, out: int, rows: int) -> int:
    """Whether each word is within bounds, which no NULL or ERROR is; returns whether there is an ERROR."""
    failed = 0
    for i in range(rows):
        p = load(x, i)
        failed |= int(p == ERROR)
        save(out, i, int(p >= low) & int(p <= high))
    if failed:
        for i in range(rows):
            if load(x, i) == ERROR:
                save(out, i, ERROR)
    return failed


@device
def among_few(x: int, constants: int, size: int, out: int, rows: int) -> None:
    """Whether each word, none of them NULL or ERROR, is one of a few constants."""
    for k in range(size):
        constant = load(constants, k)
        if k == 0:
            for i in range(rows):
                save(out, i, int(load(x, i) == constant))
        else:
            for i in range(rows):
                save(out, i, load(out, i) | int(load(x, i) == constant))


@device
def product_bounds(a: int, b: int, c: int, d: int) -> tuple[int, int]:
    """The least and greatest product of ``a .. b`` and ``c .. d``; (NULL, NULL) if one may wrap."""
    if max(abs(float(a)), abs(float(b))) * max(abs(float(c)), abs(float(d))) > 4.6e18:
        return NULL, NULL
    return min(a * c, a * d, b * c, b * d), max(a * c, a * d, b * c, b * d)


@device
def result_bounds(op: int, a: int, b: int, c: int, d: int) -> tuple[int, int]:
    """Bounds of the sum, difference or product of ``a .. b`` and ``c .. d``; (NULL, NULL) if one may wrap."""
    if op == MUL:
        return product_bounds(a, b, c, d)
    if min(a, c) <= -SAFE or max(b, d) >= SAFE:
        return NULL, NULL
    return (a + c, b + d) if op == ADD else (a - d, b - c)


@device
def spread(rowids: int, rows: int) -> tuple[int, int]:
    """Whether rowids are consecutive, and the bits in which they differ from the first, or sign bit."""
    first = load(rowids, 0)
    gaps = 0
    differing = first & NULL
    for i in range(rows):
        p = load(rowids, i)
        gaps |= p - first - i
        differing |= p ^ first
    return int(gaps == 0), differing


@device
def column_of_group(root: int, rowid: int, column: int) -> int:
    """The address that a row's word in a column is at; 0 if its group was rewritten."""
    group, position = locate(root, rowid)
    if load(group, CHART) != 0:
        return 0
    return load(group, COLUMNS) + 8 * (column * load(group, STRIDE) + position)


@device
def fetch(rowids: int, root: int, column: int, out: int, rows: int, differing: int) -> None:
    """One column of the table with the directory at an address, at some rowids (see ``spread``)."""
    bits = load(root, 0)
    first = load(rowids, 0)
    if differing >> bits == 0:
        address = column_of_group(root, first, column)
        if address != 0:
            address -= 8 * first
            for i in range(rows):
                save(out, i, load(address, load(rowids, i)))
            return
    if load(root, REWRITTEN) == 0:
        mask = (1 << bits) - 1
        for i in range(rows):
            p = load(rowids, i)
            if p >= 0:
                group = root + BYTES * (1 + (p >> bits))
                place = column * load(group, STRIDE) + (p & mask)
                p = load(load(group, COLUMNS), place)
            save(out, i, p)
        return
    for i in range(rows):
        p = load(rowids, i)
        if p >= 0:
            group, position = locate(root, p)
            p = NULL
            if position >= 0:
                p = load(load(group, COLUMNS), column * load(group, STRIDE) + position)
        save(out, i, p)


@kernel(
    "int64(int64[:, ::1], int64[::1], int64[:, ::1], int64[:, ::1], uint8[::1], int64[::1], int64[:, ::1],"
    " int64[::1], int64[:, ::1], int64[::1])"
)
def run(
    code: Table,
    constants: Words,
    data: Table,
    sources: Table,
    arena: Bytes,
    offsets: Words,
    out: Table,
    kept: Words,
    missing: Table,
    status: Words,
) -> int:
    """Runs ``code`` over the rows of ``data``; returns the number of rows that passed.

    ``constants``: number of registers, number k of constant registers (the first ones), their k words,
    then whatever the instructions refer to. ``sources int64[k, 2]``: address and length of code tables and
    of the directories of row stores (see ``kernels.rowgroups``), which the caller keeps alive. The first
    words of ``out int64[m, n]`` become the outputs ``int64[m, passed]``, those of ``kept int64[n]`` (or
    empty) the positions. ``missing int64[2, any]`` takes (source, code) that MEMO lacks; results count only
    if there are none. ``status`` becomes [missing, 1 if some FILTER kept an ERROR, 1 if an ERROR was
    stored]; the return value is ``-1 - passed`` unless all three are 0.
    """
    total = data.shape[1]
    chunk = min(total, CHUNK)
    registers = np.empty((constants[0] + 2, chunk), dtype=np.int64)
    selection = registers[constants[0]].ctypes.data
    position = registers[constants[0] + 1].ctypes.data
    # Of each register: where its words are, in it or in what they were read from, and what is known of them.
    frame = np.empty((constants[0], FIELDS), dtype=np.int64)
    fixed = constants[1]
    for register in range(constants[0]):
        frame[register, HOME] = registers[register].ctypes.data
        if register < fixed:
            word = constants[2 + register]
            for i in range(chunk):
                registers[register, i] = word
            frame[register, WHERE] = frame[register, HOME]
            frame[register, LOW] = frame[register, HIGH] = word
            frame[register, KNOWN] = 1
            frame[register, SHAPE] = -1
    status[0] = 0
    doubtful = False
    failed = False
    passed = 0
    for start in range(0, total, CHUNK):
        rows = min(CHUNK, total - start)
        dense = True
        shrunk = False
        for step in range(code.shape[0]):
            op = code[step, 0]
            target = code[step, 1]
            a = code[step, 2]
            b = code[step, 3]
            c = code[step, 4]
            x = frame[a, WHERE]
            if op == STORE:
                y = out.ctypes.data + 8 * (target * total + passed)
                bad = False
                for i in range(rows):
                    p = load(x, i)
                    bad |= p == ERROR
                    save(y, i, p)
                failed |= bad
                continue
            if op == FILTER:
                count = 0
                bad = False
                if frame[a, KNOWN] == 1 and frame[a, LOW] >= 0 and frame[a, HIGH] <= 1:
                    for i in range(rows):
                        save(position, count, i)
                        count += load(x, i)
                else:
                    for i in range(rows):
                        p = load(x, i)
                        save(position, count, i)
                        bad |= p == ERROR
                        count += int((p == 1) | (p == ERROR))
                doubtful |= bad
                shrunk = count < rows
                if shrunk and dense:
                    for i in range(count):
                        save(selection, i, load(position, i))
                elif shrunk:
                    for i in range(count):
                        save(selection, i, load(selection, load(position, i)))
                dense = dense and not shrunk
                rows = count
                if rows == 0:
                    break
                continue
            home = frame[target, HOME]
            if op == COMPACT:
                if shrunk:
                    x = frame[target, WHERE]
                    for i in range(rows):
                        save(home, i, load(x, load(position, i)))
                    frame[target, WHERE] = home
                    frame[target, SHAPE] = -1
                continue
            frame[target, WHERE] = home
            frame[target, KNOWN] = 0
            frame[target, SHAPE] = -1
            if op == LOAD:
                y = data.ctypes.data + 8 * (b * total + start)
                if dense:
                    frame[target, WHERE] = y
                else:
                    for i in range(rows):
                        save(home, i, load(y, load(selection, i)))
                continue
            if op == FETCH:
                if frame[a, SHAPE] < 0:
                    frame[a, SHAPE], frame[a, DIFFERING] = spread(x, rows)
                y = 0
                if frame[a, SHAPE] == 1 and frame[a, DIFFERING] >> load(sources[b, 0], 0) == 0:
                    y = column_of_group(sources[b, 0], load(x, 0), c)
                if y != 0:
                    frame[target, WHERE] = y
                else:
                    fetch(x, sources[b, 0], c, home, rows, frame[a, DIFFERING])
                continue
            if op == BETWEEN:
                if between(x, constants[b], constants[b + 1], home, rows) == 0:
                    frame[target, KNOWN] = 1
                    frame[target, LOW] = 0
                    frame[target, HIGH] = 1
                continue
            binary = (op >= ADD and op <= MUL) or (op >= EQ and op <= BOTH and op != DISTINCT)
            if binary or op == IN_SET:
                if frame[a, KNOWN] == 0:
                    frame[a, LOW], frame[a, HIGH] = measure(x, rows)
                    frame[a, KNOWN] = 1
                if binary and frame[b, KNOWN] == 0:
                    frame[b, LOW], frame[b, HIGH] = measure(frame[b, WHERE], rows)
                    frame[b, KNOWN] = 1
                plain = frame[a, LOW] >= MIN_WORD
                low, high = 0, 1
                if op == IN_SET:
                    plain = plain and c <= FEW and c > 0
                    if plain:
                        among_few(x, constants.ctypes.data + 8 * b, c, home, rows)
                else:
                    plain = plain and frame[b, LOW] >= MIN_WORD
                    if plain and op <= MUL:
                        low, high = result_bounds(
                            op, frame[a, LOW], frame[a, HIGH], frame[b, LOW], frame[b, HIGH]
                        )
                        plain = low != NULL and low >= constants[c] and high <= constants[c + 1]
                        if plain:
                            plain_arithmetic(op, x, frame[b, WHERE], home, rows)
                    elif plain:
                        if op >= AND:
                            plain = min(frame[a, LOW], frame[b, LOW]) >= 0
                            plain = plain and max(frame[a, HIGH], frame[b, HIGH]) <= 1
                        if plain:
                            plain_compare(op, x, frame[b, WHERE], home, rows)
                if plain:
                    frame[target, KNOWN] = 1
                    frame[target, LOW] = low
                    frame[target, HIGH] = high
                    continue
            x_words = view(x, 1, rows)[0]
            result = registers[target]
            if op == MEMO:
                look_up(x_words, b, sources[b, 0], sources[b, 1], result, rows, missing, status)
            elif op == IN_SET:
                in_set(x_words, constants, b, c, result, rows)
            elif op == SELECT:
                y, z = frame[b, WHERE], frame[c, WHERE]
                for i in range(rows):
                    p = load(x, i)
                    r = load(y, i) if p == 1 else load(z, i)
                    save(home, i, p if p == ERROR else r)
            elif op >= SCALE_DOWN and op <= ORDER:
                convert(op, x_words, b, result, rows, constants[c], constants[c + 1])
            elif op >= TO_DOUBLE:
                convert_double(op, x_words, b, result, rows, constants[c], constants[c + 1])
            elif op == TEXT_WORD:
                texts(op, x_words, x_words, b, result, rows, arena, offsets)
            else:
                y_words = view(frame[b, WHERE], 1, rows)[0]
                if op >= ADD and op <= ADD_MONTHS:
                    arithmetic(op, x_words, y_words, result, rows, constants[c], constants[c + 1])
                elif op >= ADD_DOUBLE:
                    doubles(op, x_words, y_words, result, rows)
                elif op == TEXT_COMPARE:
                    texts(op, x_words, y_words, b, result, rows, arena, offsets)
                else:
                    compare(op, x_words, y_words, result, rows)
        if kept.shape[0] > 0:
            y = kept.ctypes.data + 8 * passed
            if dense:
                for i in range(rows):
                    save(y, i, start + i)
            else:
                for i in range(rows):
                    save(y, i, start + load(selection, i))
        passed += rows
    # Addresses above are all that uses these arrays: they must not be given back before.
    kept_alive = registers.shape[0] + frame.shape[0]
    if passed < total and out.shape[0] > 1:
        flat = out.reshape(-1)
        for column in range(1, out.shape[0]):
            for i in range(passed):
                flat[column * passed + i] = flat[column * total + i]
    status[1] = int(doubtful)
    status[2] = int(failed) if kept_alive > 0 else 1
    return passed if status[0] == 0 and not doubtful and not failed else -1 - passed
