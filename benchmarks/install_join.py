"""A new dataflow that joins few keys with ten million arranged ones: install, run, complete.

    python benchmarks/install_join.py --keys 10000000

K-Pg's Figure 6f. The large collection is arranged in one dataflow. On the clock: making another, with an
input of 2^0 ... 2^20 keys, importing the arrangement, joining and probing, the step that brings the keys,
and the probe's word that it is complete. Keys are random; half of them are there. Dropping the dataflow,
which frees what it made, is measured beside (``drop_seconds`` in the JSON).
"""

import argparse
import time

import numpy as np
from _common import Measurement, arguments, keep_memory, report, timed
from _flows import loaded, note, profiled, quantiles, step
from numpy.typing import NDArray

import kpg

AIM_FOR_ONE = 0.002


def prepared(keys: int) -> tuple[kpg.Database, kpg.Arranged, float]:
    """A database that holds the even numbers below twice ``keys`` arranged; the seconds that took."""
    database = kpg.connect()
    flow = database.dataflow("large")
    order = np.random.default_rng(1).permutation(keys).astype(np.int64)
    given = loaded(flow, "keys", key=2 * order)
    arranged = given.arrange_by_key("key")
    seconds = step(flow, given)
    given.close()
    return database, arranged, seconds


def one(database: kpg.Database, arranged: kpg.Arranged, keys: NDArray[np.int64]) -> tuple[float, float]:
    """Seconds until the join is complete, and those to drop it."""
    start = time.perf_counter()
    flow = database.dataflow("join")
    given = loaded(flow, "few", key=keys)
    given.close()
    probe = given.join(flow.import_(arranged), "key").probe()
    flow.step()
    complete = probe.done(flow.epoch)
    seconds = time.perf_counter() - start
    if not complete:
        raise SystemExit("the join is not complete")
    return seconds, timed(flow.drop)


def measure(
    power: int, database: kpg.Database, arranged: kpg.Arranged, options: argparse.Namespace
) -> Measurement:
    """Several joins of 2**power keys each."""
    rng = np.random.default_rng(power)
    count = max(options.runs, options.samples >> (power // 2))
    seconds, drops = [], []
    for _ in range(count):
        keys = rng.integers(0, 2 * options.keys, 1 << power).astype(np.int64)
        taken, drop = one(database, arranged, keys)
        seconds.append(taken)
        drops.append(drop)
    details = {"drop_seconds": float(np.median(drops)), **quantiles(seconds)}
    note(f"2^{power}: {1000 * float(np.median(seconds)):.3f} ms")
    aim = {"aim": AIM_FOR_ONE} if power == 0 else {}
    return Measurement(f"2^{power} keys", "s", tuple(seconds), aim, details)


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--keys", type=int, default=10_000_000, help="keys of the large collection")
    parser.add_argument("--powers", type=int, nargs="+", default=list(range(0, 21, 2)))
    parser.add_argument("--samples", type=int, default=200, help="joins of one key; fewer of larger ones")
    parser.add_argument(
        "--profile", action="store_true", help="one more join of each size, under the profiler"
    )
    options = parser.parse_args()
    keep_memory()
    database, arranged, seconds = prepared(options.keys)
    note(f"{options.keys:,} keys arranged in {seconds:.2f} s")
    for power in (0, 4):
        one(database, arranged, np.arange(1 << power, dtype=np.int64))
    measured = [measure(power, database, arranged, options) for power in options.powers]
    if options.profile:
        for power in options.powers:
            print(f"\n2^{power}")
            keys = np.random.default_rng(0).integers(0, 2 * options.keys, 1 << power).astype(np.int64)
            profiled(lambda: [one(database, arranged, keys) for _ in range(20)], database)  # noqa: B023
    report(f"install, run and complete a join with {options.keys:,} keys", measured, options.json)


if __name__ == "__main__":
    main()
