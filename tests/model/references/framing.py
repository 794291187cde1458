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
