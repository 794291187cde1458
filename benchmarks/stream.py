"""Tuples a second through each TPC-H query alone: the protocol of the K-Pg paper's Table 5.

    python benchmarks/stream.py --scale 1 --queries all --json stream.json

The tables that a query reads arrive round-robin, one tuple of each in turn, inserted and never deleted, in
logical batches (epochs) of ``--logical`` tuples of which a step takes ``--physical``; all state is kept.
The query is installed over empty tables in a new engine. Before the clock starts the tuples are in memory,
encoded and cut into batches, as K-Pg's are: on the clock are the row store with its key index, the
closing of epochs, and the steps. A run that is not counted comes first. ``--history`` checks instead that
views change alike however many epochs a step takes. K-Pg's and DBToaster's figures are from the paper:
scale factor 10, another machine.
"""

import argparse
import gc
import sys

import numpy as np
from _common import Elapsed, Measurement, arguments, keep_memory, report
from _profile import print_functions, print_operators
from _stream import epochs, ready, replay
from _tpch import Encoded, add_arguments, folder, tables_of, worker_of

from kpg import Database
from kpg.runtime.trace.updates import Updates
from kpg.tpch.data import data_folder, query_text
from kpg.tpch.oracle import Oracle, Order, find_difference, remove_limit

K_PG = (
    *(9_341_713, 4_388_761, 11_049_606, 9_046_854, 5_802_513, 33_090_863, 7_551_628, 4_949_412),
    *(2_932_421, 9_708_371, 1_720_655, 11_258_702, 1_446_223, 21_908_762, 5_057_397, 4_435_818),
    *(5_218_907, 5_854_293, 22_696_357, 16_089_949, 1_968_771, 1_843_397),
)
DBTOASTER = (
    *(4_372_480, 691_260, 4_580_003, 9_752_380, 509_490, 101_327_791, 646_018, 221_020),
    *(76_296, 5_964_290, 591_716, 7_469_474, 474_765, 53_436_252, 964, 58_721),
    *(131_964, 971_313, 8_776_165, 1_871_407, 407_540, 815_903),
)
HISTORY_PHYSICAL = (1, 10, 1_000, 100_000)


def measure(number: int, whole: Encoded, options: argparse.Namespace) -> Measurement:
    """Tuples a second of one query, with its profile if that is asked for."""
    data = whole.used_by(number, all_columns=options.all_columns, keys=not options.no_keys)
    stream = list(epochs(data, options.logical))
    tuples = sum(words.shape[1] for words in data.words.values())
    times: list[Elapsed] = []
    for run in range(options.runs + 1):
        database = ready(data, number, known_sizes=options.known_sizes)
        gc.collect()
        elapsed = replay(worker_of(database), stream, options.physical)
        if run == 0:
            continue
        times.append(elapsed)
        share = 100 * times[-1].processor / times[-1].wall
        print(f"q{number}: {tuples / times[-1].wall:,.0f} a second, {share:.0f}% of a core", file=sys.stderr)
    if options.check:
        check(database, number, options)
    if options.profile:
        print_operators(number, worker_of(database), times[-1].wall)
        database = ready(data, number, known_sizes=options.known_sizes)
        print_functions(worker_of(database), stream, options.physical)
    references = {"K-Pg": float(K_PG[number - 1]), "DBToaster": float(DBTOASTER[number - 1])}
    details = {"tuples": tuples, "processor_seconds": [one.processor for one in times]}
    return Measurement(
        f"q{number}", "tuples/s", tuple(tuples / one.wall for one in times), references, details
    )


def check(database: Database, number: int, options: argparse.Namespace) -> None:
    """Compare the view with DuckDB over the whole data."""
    text = query_text(number)
    with Oracle(data_folder(options.scale, options.data)) as oracle:
        expected, _ = oracle.query(text)
        found = database.view(f"q{number}").arrow()
        wrong = find_difference(found, expected, Order.of(text), lambda: oracle.query(remove_limit(text))[0])
    if wrong is not None:
        sys.exit(f"q{number} differs from DuckDB: {wrong}")


def history(number: int, data: Encoded, options: argparse.Namespace, physical: int) -> Updates:
    """Every change of the view, with the epochs in which it happened."""
    database = ready(data, number, known_sizes=options.known_sizes)
    worker = worker_of(database)
    installed = worker.views[f"q{number}"]
    worker.watch(installed)
    replay(worker, list(epochs(data, options.logical)), physical)
    return Updates.concat([Updates.empty(installed.output.width, 1), *installed.drain()]).consolidate()


def compare_histories(number: int, whole: Encoded, options: argparse.Namespace) -> None:
    """Exit with a message unless the view's history is the same for every size of the physical batch."""
    data = whole.used_by(number, all_columns=options.all_columns, keys=not options.no_keys)
    first = history(number, data, options, HISTORY_PHYSICAL[0])
    for physical in HISTORY_PHYSICAL[1:]:
        other = history(number, data, options, physical)
        same = (
            np.array_equal(first.data, other.data)
            and np.array_equal(first.times(), other.times())
            and np.array_equal(first.diffs(), other.diffs())
        )
        if not same:
            sys.exit(f"q{number}: {physical} epochs a step give another history than one epoch a step")
    print(f"q{number}: {len(first):,} changes at {len(np.unique(first.times())):,} times, always the same")


def main() -> None:
    parser = arguments(__doc__ or "")
    add_arguments(parser, 1)
    parser.add_argument("--logical", type=int, default=100_000, help="tuples in an epoch")
    parser.add_argument("--physical", type=int, default=1, help="epochs in a step")
    parser.add_argument("--no-keys", action="store_true", help="declare no primary keys")
    parser.add_argument(
        "--all-columns", action="store_true", help="insert columns that the query ignores too"
    )
    parser.add_argument("--known-sizes", action="store_true", help="tell the planner the final table sizes")
    parser.add_argument("--check", action="store_true", help="compare the final views with DuckDB")
    parser.add_argument("--profile", action="store_true", help="print the time of each operator")
    parser.add_argument("--history", action="store_true", help="compare histories instead of measuring")
    options = parser.parse_args()
    keep_memory()
    path = folder(options)
    whole = Encoded.of(path, sorted({table for number in options.queries for table in tables_of(number)}))
    if options.history:
        for number in options.queries:
            compare_histories(number, whole, options)
        return
    title = (
        f"stream, scale factor {options.scale:g}, epochs of {options.logical:,}, {options.physical} a step"
    )
    report(title, [measure(number, whole, options) for number in options.queries], options.json)


if __name__ == "__main__":
    main()
