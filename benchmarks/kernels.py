"""Measure the storage core: sorting, merging, probing, and the fixed cost of tiny calls.

``python benchmarks/kernels.py`` prints a table of nanoseconds per row, or microseconds per call; each
figure is the best of several runs on one core, which is what the code costs when nobody else
uses the machine.
"""

import platform
import time
from collections.abc import Callable
from functools import partial

import numba
import numpy as np

from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.trace.batch import Batch, Layers
from kpg.runtime.trace.lookup import Order, lookup
from kpg.runtime.trace.merge import Merge
from kpg.runtime.trace.spine import Spine, TraceHandle
from kpg.runtime.trace.updates import Updates, Words

RANDOM = np.random.default_rng(7)
START, END = Antichain.of((0,)), Antichain.of((1,))


def best_seconds(action: Callable[[], object], runs: int = 15) -> float:
    """Best time of ``action``, after one run that warms up."""
    action()
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        action()
        times.append(time.perf_counter() - begin)
    return min(times)


def report(what: str, seconds: float, rows: int) -> None:
    """One line of the table: per row, or per call when there are few rows."""
    figure = f"{seconds / rows * 1e9:9.1f} ns/row" if rows > 100 else f"{seconds * 1e6:9.2f} us/call"
    print(f"{what:<62}{figure}", flush=True)


def updates(*columns: Words, epoch: int = 0) -> Updates:
    """Rows of ``columns``, all at one epoch, once each."""
    return Updates.of(np.vstack(columns), (epoch,), 1)


def batch(rows: Updates, epoch: int = 0) -> Batch:
    """``rows`` as the batch of one epoch."""
    return Batch.build(rows, Antichain.of((epoch,)), Antichain.of((epoch + 1,)))


def measure_sort() -> None:
    """Batches as commits make them: a key, and the ids of appended rows."""
    n = 100_000
    ids = np.arange(n)
    for what, key in (
        ("150k keys", RANDOM.integers(0, 150_000, n)),
        ("25 keys", RANDOM.integers(0, 25, n)),
        ("64-bit keys", RANDOM.integers(-(2**62), 2**62, n)),
    ):
        rows = updates(key, ids)
        report(f"consolidate 100k (key, rowid), {what}", best_seconds(rows.consolidate), n)
    rows = updates(ids)
    report("consolidate 100k sorted rowids", best_seconds(rows.consolidate), n)
    rows = updates(RANDOM.integers(0, 1000, n), RANDOM.integers(0, 100, n), ids[::-1].copy())
    report("consolidate 100k (key, key, descending rowid)", best_seconds(rows.consolidate), n)


def finish(merge: Merge) -> None:
    """Carry a merge out."""
    while merge.result is None:
        merge.advance(1 << 20)


def measure_merge() -> None:
    """Two runs of a million rows of two columns, by how they interleave."""
    n = 1_000_000
    ids = np.arange(2 * n)
    keys = RANDOM.integers(0, 300_000, 2 * n)
    first, second = batch(updates(keys[:n], ids[:n])), batch(updates(keys[n:], ids[n:]), 1)
    since = Antichain.of((2,))
    report("merge 2 x 1M, random keys", best_seconds(lambda: finish(Merge(first, second, since)), 5), 2 * n)
    report(
        "merge 2 x 1M, random keys, times kept",
        best_seconds(lambda: finish(Merge(first, second, None)), 5),
        2 * n,
    )
    low, high = batch(updates(ids[:n], ids[:n])), batch(updates(ids[n:], ids[n:]), 1)
    report(
        "merge 2 x 1M, one after the other", best_seconds(lambda: finish(Merge(low, high, since)), 5), 2 * n
    )
    gone = batch(Updates.of(first.data[:, ::2].copy(), (1,), -1), 1)
    report(
        "merge 1M with 500k deletes of it",
        best_seconds(lambda: finish(Merge(first, gone, since)), 5),
        3 * n // 2,
    )


def probe(stream: Updates, layers: Layers) -> int:
    """Look the stream's first column up, keep the stream's row id and the match's."""
    one = np.array([1])
    return sum(len(part) for part in lookup(stream, (0,), layers, one, one, Order.ANY))


def measure_probes() -> None:
    """Lookups in a batch of six million rows."""
    n, m = 6_000_000, 100_000
    keys = np.sort(RANDOM.integers(0, 1_500_000, n))
    large = Layers([batch(updates(keys, np.arange(n)))])
    wanted = RANDOM.integers(0, 1_500_000, m)
    report("probe 100k random keys in 6M, 4 matches each, first time", _once(wanted, large), m)
    stream = updates(wanted, np.arange(m), epoch=1)
    report("probe 100k random keys in 6M, 4 matches each", best_seconds(lambda: probe(stream, large)), m)
    ordered = updates(np.sort(wanted), np.arange(m), epoch=1)
    report("probe 100k sorted keys in 6M, 4 matches each", best_seconds(lambda: probe(ordered, large)), m)
    unique = Layers([batch(updates(np.arange(n), np.arange(n)))])
    stream = updates(RANDOM.integers(0, n, m), np.arange(m), epoch=1)
    report("probe 100k random keys in 6M, 1 match each", best_seconds(lambda: probe(stream, unique)), m)
    missing = updates(RANDOM.integers(n, 2 * n, m), np.arange(m), epoch=1)
    report("probe 100k keys beyond the range of 6M", best_seconds(lambda: probe(missing, unique)), m)


def _once(wanted: Words, large: Layers) -> float:
    stream = updates(wanted, np.arange(wanted.shape[0]), epoch=1)
    probe(updates(wanted[:4], np.arange(4), epoch=1), Layers([batch(updates(wanted[:4], np.arange(4)))]))
    begin = time.perf_counter()
    probe(stream, large)
    return time.perf_counter() - begin


def measure_tiny_calls() -> None:
    """What one row costs, when there is no other to share the call with."""
    single = updates(np.array([7]), np.array([1]), epoch=1)
    layers = Layers(batch(updates(np.arange(n), np.arange(n))) for n in (100_000, 1000, 50, 9))
    for count in (1, 4):
        some = Layers(layers[:count])
        report(
            f"lookup of 1 row in {count} batches",
            best_seconds(partial(_repeat, probe, single, some)) / 1000,
            1,
        )
    miss = updates(np.array([-1]), np.array([1]), epoch=1)
    report(
        "lookup of 1 row in 4 batches, no match", best_seconds(lambda: _repeat(probe, miss, layers)) / 1000, 1
    )
    few = updates(np.array([5, 3, 9, 1]), np.arange(4))
    report("consolidate 4 rows", best_seconds(lambda: _repeat(Updates.consolidate, few)) / 1000, 1)
    report("spine: insert 1 row and work, 1000 epochs", best_seconds(_insert_singles) / 1000, 1)


def _repeat(action: Callable[..., object], *args: object) -> None:
    for _ in range(1000):
        action(*args)


def _insert_singles() -> None:
    spine = Spine(2, 1)
    handle = TraceHandle(spine)
    for epoch in range(1000):
        upper = Antichain.of((epoch + 1,))
        row = Updates.of([[epoch * 7919 % 1000], [epoch]], (epoch,), 1)
        spine.insert(Batch.build(row, spine.upper, upper))
        handle.advance_logical(upper)
        handle.advance_physical(upper)
        spine.finish_step()


def measure_stream() -> None:
    """A stream of batches into one trace, merging included."""
    n, batches = 100_000, 30
    keys = RANDOM.integers(0, 750_000, n * batches)
    begin = time.perf_counter()
    spine = Spine(2, 1)
    handle = TraceHandle(spine)
    for epoch in range(batches):
        upper = Antichain.of((epoch + 1,))
        rows = updates(keys[epoch * n : (epoch + 1) * n], np.arange(epoch * n, (epoch + 1) * n), epoch=epoch)
        spine.insert(Batch.build(rows, spine.upper, upper))
        handle.advance_logical(upper)
        handle.advance_physical(upper)
        spine.finish_step()
    report(
        "spine: 30 batches of 100k (key, rowid), merging included", time.perf_counter() - begin, n * batches
    )
    print(f"{'  merged rows per inserted row':<62}{spine.merged_rows / spine.inserted_rows:9.2f}")


def main() -> None:
    """Print the table."""
    print(
        f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}",
        end="",
    )
    print(f", numpy {np.__version__}, numba {numba.__version__}\n")
    measure_sort()
    measure_merge()
    measure_probes()
    measure_tiny_calls()
    measure_stream()


if __name__ == "__main__":
    main()
