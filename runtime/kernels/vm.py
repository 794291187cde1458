"""The expression machine: one kernel that runs a map-filter-project program over rows, 1024 at a time.

An instruction is ``(opcode, destination, a, b, c)``; registers hold one word for each row of the chunk
that is still selected. Word conventions are those of ``runtime.types``: an operation on a NULL gives
NULL, one that fails gives ERROR, and ERROR on an operand wins over NULL. ``kernels.opcodes`` tells what each
opcode means.

A register stands for words that are its own, or for those it was read from where they are consecutive:
a column of the input, or of consecutive rows of a table. Where the bounds of its words are known, operations
on them that can neither meet NULL or ERROR nor overflow run without checks (``kernels.plain``).
"""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import device, kernel, load_intrinsic, save_intrinsic, view_intrinsic
from kpg.runtime.kernels.opcodes import (
    ADD,
    ADD_DOUBLE,
    ADD_MONTHS,
    AND,
    BETWEEN,
    BOTH,
    COMPACT,
    DISTINCT,
    EQ,
    FETCH,
    FILTER,
    IN_SET,
    LOAD,
    MEMO,
    MUL,
    ORDER,
    SCALE_DOWN,
    SELECT,
    STORE,
    TEXT_COMPARE,
    TEXT_WORD,
    TO_DOUBLE,
)
from kpg.runtime.kernels.plain import (
    among_few,
    between,
    measure,
    plain_arithmetic,
    plain_compare,
    result_bounds,
)
from kpg.runtime.kernels.rowgroups import BYTES, CHART, COLUMN_STRIDE, COLUMNS, REWRITTEN, locate
from kpg.runtime.kernels.words import (
    ERROR,
    MIN_WORD,
    NULL,
    arithmetic,
    compare,
    convert,
    convert_double,
    doubles,
    texts,
)

Words = NDArray[np.int64]
Table = NDArray[np.int64]
Bytes = NDArray[np.uint8]

load = load_intrinsic()
save = save_intrinsic()
view = view_intrinsic()

CHUNK = 1024
FEW = 8  # constants of a set that are compared one by one

HOME = 0  # of a register: the address of its own words
WHERE = 1  # the address of the words that it stands for now
LOW = 2  # no word is below it, or above HIGH, if KNOWN
HIGH = 3
KNOWN = 4
SHAPE = 5  # of rowids: 1 if they are consecutive, 0 if not, -1 if nobody looked
DIFFERING = 6  # the bits in which some differs from the first
FIELDS = 7


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
    return load(group, COLUMNS) + 8 * (column * load(group, COLUMN_STRIDE) + position)


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
                place = column * load(group, COLUMN_STRIDE) + (p & mask)
                p = load(load(group, COLUMNS), place)
            save(out, i, p)
        return
    for i in range(rows):
        p = load(rowids, i)
        if p >= 0:
            group, position = locate(root, p)
            p = NULL
            if position >= 0:
                p = load(load(group, COLUMNS), column * load(group, COLUMN_STRIDE) + position)
        save(out, i, p)


@device
def know(frame: Table, register: int, rows: int) -> None:
    """Have bounds of a register's words."""
    if frame[register, KNOWN] == 0:
        frame[register, LOW], frame[register, HIGH] = measure(frame[register, WHERE], rows)
        frame[register, KNOWN] = 1


@device
def run_plain(
    op: int, frame: Table, target: int, a: int, b: int, c: int, constants: Words, rows: int
) -> bool:
    """Run an instruction if its operands' bounds tell that no word needs a check; whether they do."""
    x, out = frame[a, WHERE], frame[target, HOME]
    know(frame, a, rows)
    low, high = 0, 1
    plain = frame[a, LOW] >= MIN_WORD
    if op == IN_SET:
        if not plain or c == 0 or c > FEW:
            return False
        among_few(x, constants.ctypes.data + 8 * b, c, out, rows)
    else:
        know(frame, b, rows)
        plain = plain and frame[b, LOW] >= MIN_WORD
        if plain and op <= MUL:
            low, high = result_bounds(op, frame[a, LOW], frame[a, HIGH], frame[b, LOW], frame[b, HIGH])
            plain = low != NULL and low >= constants[c] and high <= constants[c + 1]
        elif plain and op >= AND:
            plain = min(frame[a, LOW], frame[b, LOW]) >= 0 and max(frame[a, HIGH], frame[b, HIGH]) <= 1
        if not plain:
            return False
        if op <= MUL:
            plain_arithmetic(op, x, frame[b, WHERE], out, rows)
        else:
            plain_compare(op, x, frame[b, WHERE], out, rows)
    frame[target, KNOWN] = 1
    frame[target, LOW] = low
    frame[target, HIGH] = high
    return True


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
            if (op >= ADD and op <= MUL) or (op >= EQ and op <= BOTH and op != DISTINCT) or op == IN_SET:
                if run_plain(op, frame, target, a, b, c, constants, rows):
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
