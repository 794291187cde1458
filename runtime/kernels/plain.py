"""Operations of the expression machine on words of which bounds tell that nothing can go wrong.

They take addresses of words; loops without a branch or a check become vector instructions.
"""

from kpg.runtime.kernels import device, load_intrinsic, save_intrinsic
from kpg.runtime.kernels.opcodes import (
    ADD,
    EQ,
    LE,
    LT,
    MUL,
    NE,
    OR,
    SUB,
)
from kpg.runtime.kernels.words import (
    ERROR,
    MAX_WORD,
    NULL,
)

SAFE = 1 << 62  # sums of words below it do not wrap

load = load_intrinsic()
save = save_intrinsic()


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
