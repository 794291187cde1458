"""``frames``: by Python's integers."""

from collections.abc import Iterator

import numpy as np

from kpg.runtime.types import ERROR, NULL
from tests.model.references import Arguments, Random, reference
from tests.model.references.words import size, words


def bounds_cases(random: Random) -> Iterator[Arguments]:
    yield words(random, 1, size(random))[0], np.zeros(2, np.int64)


@reference("frames.bounds", bounds_cases, lambda result, words, found: (result, found.tolist()))
def bounds(words, found) -> object:
    values = [word for word in words.tolist() if word > ERROR]
    least, most = (min(values), max(values)) if values else (2**63 - 1, NULL)
    return len(words) - len(values), [least, most]


def encode_cases(random: Random) -> Iterator[Arguments]:
    width = int(random.integers(2, 33))
    count = size(random) + 1
    below = [-2, 40, 2**62, NULL][int(random.integers(4))]
    codes = random.integers(0, 1 << width, count).tolist()
    given = [NULL + code if code < 2 else below + code for code in codes]
    words = -(-count // (64 // width))
    yield np.array(given, np.int64), below, width, np.empty(words, np.int64)


@reference("frames.encode", encode_cases, lambda result, given, below, width, out: out.tolist())
def encode(given, below, width, out) -> object:
    codes = [word - NULL if word <= ERROR else word - below for word in given.tolist()]
    rows = [codes[first :: len(out)] for first in range(len(out))]
    whole = [sum(code << width * place for place, code in enumerate(some)) for some in rows]
    return [word - (1 << 64) if word >> 63 else word for word in whole]
