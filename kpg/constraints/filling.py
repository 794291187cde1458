"""Values for columns that a statement gives none: numbers of sequences, and what SET DEFAULT sets."""

from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.entries import Catalog, TableEntry
from kpg.compiler.sql.rewrite.column_expressions import Default, defaults
from kpg.constraints.sequences import Sequences
from kpg.runtime.executor import Executor
from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Column
from kpg.runtime.types import ERROR, NULL

Words = NDArray[np.int64]


def numbered(entry: TableEntry, catalog: Catalog, places: list[int]) -> dict[int, Default]:
    """The DEFAULTs among those of ``places`` that take numbers of sequences."""
    rules = entry.constraints.rules
    if not any("(" in rules[place].default for place in places):
        return {}
    return {place: one for place, one in defaults(entry, places, catalog).items() if one.sequences}


def filled(executor: Executor, sequences: Sequences, found: dict[int, Default], words: Words) -> Words:
    """Rows with numbers of sequences in the columns that have such a DEFAULT."""
    if found:
        words = words.copy()
    taken = _taken(sequences, found, words.shape[1])
    for place, default in found.items():
        words[place] = _computed(executor, default, taken, words.shape[1])
    return words


def _taken(sequences: Sequences, found: dict[int, Default], rows: int) -> dict[str, Iterator[Words]]:
    """The numbers that the rows take, row by row: for each sequence those of one call after another."""
    uses = Counter(name for default in found.values() for name in default.sequences if name)
    return {name: iter(sequences.take(name, rows * each).reshape(-1, each).T) for name, each in uses.items()}


def default_words(
    executor: Executor,
    sequences: Sequences,
    entry: TableEntry,
    catalog: Catalog,
    places: tuple[int, ...],
    rows: int,
) -> Words:
    """The DEFAULTs of some columns ``int64[places, rows]``."""
    found = defaults(entry, places, catalog)
    taken = _taken(sequences, found, rows)
    return np.array([_computed(executor, found[place], taken, rows) for place in places], np.int64)


def with_defaults(
    executor: Executor, sequences: Sequences, entry: TableEntry, catalog: Catalog, words: Words
) -> Words:
    """Rows ``words[ncols, n]`` with DEFAULTs in the place of values that are omitted, which are ERROR.

    A column without a DEFAULT gets NULL. A sequence gives as many numbers as rows omit its column.
    """
    omitted = words == ERROR
    words = np.where(omitted, NULL, words)
    for place in np.flatnonzero(omitted.any(axis=1)).tolist():
        if entry.constraints.rule(place).default:
            rows = int(omitted[place].sum())
            found = default_words(executor, sequences, entry, catalog, (place,), rows)
            words[place, omitted[place]] = found[0]
    return np.ascontiguousarray(words)


def _computed(executor: Executor, default: Default, taken: dict[str, Iterator[Words]], rows: int) -> Words:
    numbers = [next(taken[name]) if name else np.arange(rows) for name in default.sequences]
    if isinstance(default.scalar, Column):
        return numbers[default.scalar.index]
    inputs = np.array(numbers or [np.zeros(rows, np.int64)], np.int64)
    values, _ = executor.evaluate(Mfp((), (default.scalar,)), np.ascontiguousarray(inputs))
    return values[0]
