"""The round-robin stream of TPC-H tuples, and its way through a worker."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from _common import Elapsed
from _tpch import Encoded, Words, install

from kpg import Database
from kpg.runtime.worker.worker import Worker

Epoch = list[tuple[str, Words]]


def arrived(counts: Sequence[int], total: int) -> list[int]:
    """How many rows of each table are among the first ``total`` tuples of the round-robin stream."""
    low, high = 0, max(counts)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if sum(min(n, middle) for n in counts) <= total else (low, middle - 1)
    taken = [min(n, low) for n in counts]
    rest = total - sum(taken)
    for position, count in enumerate(counts):
        if rest and count > low:
            taken[position] += 1
            rest -= 1
    return taken


def epochs(data: Encoded, logical: int) -> Iterator[Epoch]:
    """The round-robin stream of all rows, in epochs of ``logical`` tuples."""
    counts = [words.shape[1] for words in data.words.values()]
    ends = [*range(0, sum(counts), logical), sum(counts)]
    for before, after in pairwise(arrived(counts, end) for end in ends):
        yield [
            (table, np.ascontiguousarray(words[:, first:last]))
            for (table, words), first, last in zip(data.words.items(), before, after, strict=True)
            if last > first
        ]


def replay(worker: Worker, stream: Sequence[Epoch], physical: int) -> Elapsed:
    """Take the stream through the worker, ``physical`` epochs a step."""
    start, processor = time.perf_counter(), time.process_time()
    for number, epoch in enumerate(stream, 1):
        for table, rows in epoch:
            worker.tables.by_name[table].insert(rows)
        worker.close_epoch()
        if number % physical == 0:
            worker.step()
    worker.step()
    return Elapsed(time.perf_counter() - start, time.process_time() - processor)


def ready(data: Encoded, number: int, *, known_sizes: bool) -> Database:
    """A new database with empty tables and the query installed."""
    database = data.empty_database()
    if known_sizes:
        sizes = {name: words.shape[1] for name, words in data.words.items()}
        database._engine.statistics = Sizes(sizes)  # type: ignore[assignment]
    install(database, number)
    return database


@dataclass(frozen=True, slots=True)
class Sizes:
    """Statistics that tell the planner how large the tables, still empty, will be."""

    sizes: Mapping[str, int]

    def rows(self, table: str) -> int:
        return self.sizes[table]

    def arrangements(self, table: str) -> tuple[tuple[int, ...], ...]:
        return ()
