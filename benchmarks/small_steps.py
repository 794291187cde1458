"""What a step costs when it is small: the streams of ``stream.py`` in steps of 100,000, 1,000 and 10 tuples.

    python benchmarks/small_steps.py --scale 0.1 --json small_steps.json

Each query is installed alone over empty tables. The steps of 100,000 and of 1,000 tuples take the whole
stream; the ratio of the two rates says what small steps keep of the speed. For 10 tuples a step (``--tiny``)
the stream's beginning comes as one large step, then so many small ones that their median is steady:
microseconds a step, row store included. Where tiny steps begin no large table has run out, so that each step
brings rows of all.
"""

import argparse
import gc
import time
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
from _common import Measurement, arguments, keep_memory, report
from _stream import Epoch, arrived, epochs, ready, replay
from _tpch import Encoded, add_arguments, folder, tables_of, worker_of

from kpg.runtime.worker.worker import Worker
from kpg.tpch.report import geometric_mean

LARGE = 100_000
MOST_STEPS = 2_000
BEGINNING = 40
"""The part of the stream that comes before tiny steps: the one-fortieth of it is before customers run out."""


def tiny_epochs(data: Encoded, size: int) -> Iterator[Epoch]:
    """The beginning of the stream as one epoch, then epochs of ``size`` tuples."""
    counts = [words.shape[1] for words in data.words.values()]
    first = sum(counts) // BEGINNING
    ends = [0, first, *range(first + size, sum(counts), size)]
    before = arrived(counts, 0)
    for end in ends[1:]:
        after = arrived(counts, end)
        yield [
            (table, np.ascontiguousarray(words[:, first:last]))
            for (table, words), first, last in zip(data.words.items(), before, after, strict=True)
            if last > first
        ]
        before = after


def step_times(worker: Worker, stream: Sequence[Epoch]) -> list[float]:
    """Seconds of each step, the rows' way into the row store included."""
    seconds = []
    clock = time.perf_counter
    for epoch in stream:
        start = clock()
        for table, rows in epoch:
            worker.tables.by_name[table].insert(rows)
        worker.step()
        seconds.append(clock() - start)
    return seconds


def rate(data: Encoded, number: int, logical: int, runs: int) -> tuple[float, ...]:
    """Tuples a second in steps of ``logical`` tuples."""
    stream = list(epochs(data, logical))
    tuples = sum(words.shape[1] for words in data.words.values())
    rates = []
    for _ in range(runs + 1):
        database = ready(data, number, known_sizes=False)
        gc.collect()
        rates.append(tuples / replay(worker_of(database), stream, 1).wall)
    return tuple(rates[1:])  # the first touches fresh memory


def tiny(data: Encoded, number: int, size: int) -> tuple[float, ...]:
    """Seconds a step of ``size`` tuples."""
    stream = list(islice(tiny_epochs(data, size), MOST_STEPS + 1))
    database = ready(data, number, known_sizes=False)
    step_times(worker_of(database), stream[:1])
    gc.collect()
    return tuple(step_times(worker_of(database), stream[1:]))


def measure(number: int, whole: Encoded, options: argparse.Namespace) -> Iterator[Measurement]:
    """The figures of one query."""
    data = whole.used_by(number, all_columns=False, keys=True)
    large = Measurement(f"q{number} large", "tuples/s", rate(data, number, LARGE, options.runs))
    small = rate(data, number, options.small, options.runs)
    yield large
    yield Measurement(f"q{number} small", "tuples/s", small, {"large": large.median})
    yield Measurement(f"q{number} tiny", "s", tiny(data, number, options.tiny))


def main() -> None:
    parser = arguments(__doc__ or "")
    add_arguments(parser, 0.1)
    parser.add_argument("--small", type=int, default=1_000, help="tuples in a small step")
    parser.add_argument("--tiny", type=int, default=10, help="tuples in a tiny step")
    options = parser.parse_args()
    keep_memory()
    tables = sorted({table for number in options.queries for table in tables_of(number)})
    whole = Encoded.of(folder(options), tables)
    measured = []
    for number in options.queries:
        figures = list(measure(number, whole, options))
        measured += figures
        large, small, least = (one.median for one in figures)
        rates = f"{large / 1e6:.2f} M/s, {small / 1e6:.3f} M/s ({small / large:.3f})"
        print(f"q{number}: {rates}, {1e6 * least:.0f} us", flush=True)
    report(f"small steps, scale factor {options.scale:g}", measured, options.json)
    ratios = [one.median / one.references["large"] for one in measured if "large" in one.references]
    print(f"small over large, geometric mean: {geometric_mean(ratios):.3f}")


if __name__ == "__main__":
    main()
