"""A refresh against re-running: what RF1 and RF2 cost each view, and what the query costs DuckDB.

    python benchmarks/refresh.py --scale 1 --orders 1500 --json refresh.json

A refresh deletes ``--orders`` orders with their lineitems and inserts as many, in one transaction; with
``--updates`` it also updates the other tables. ``q<n>`` is the time that the operators of the view took
in a step with all views installed, those it shares included. ``commit q<n>`` is the whole transaction
through the public API (encoding the Arrow rows, the row store, the step) with only that view installed.
DuckDB re-runs the query over the same tables, with all cores.
"""

import argparse
import gc
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from _common import Measurement, arguments, keep_memory, report, timed
from _tpch import Encoded, add_arguments, folder, install

from kpg import Database
from kpg.tpch.data import TABLES, query_text
from kpg.tpch.job import apply_batch
from kpg.tpch.oracle import Oracle
from kpg.tpch.refresh import Batch, RefreshStream
from kpg.tpch.report import quantile

REFRESHED = ("orders", "lineitem")


def batches(options: argparse.Namespace) -> list[Batch]:
    """The refreshes, one to warm up and one for each run."""
    stream = RefreshStream(folder(options), seed=options.seed, orders=options.orders)
    found = [stream.next_batch() for _ in range(options.runs + 1)]
    if options.updates:
        return found
    kept = [{table: batch.changes[table] for table in REFRESHED} for batch in found]
    return [replace(batch, changes=changes) for batch, changes in zip(found, kept, strict=True)]


def duckdb_seconds(options: argparse.Namespace, refreshes: Sequence[Batch]) -> dict[int, float]:
    """DuckDB's median time for each query, over the tables as the refreshes leave them."""
    with Oracle(folder(options)) as oracle:
        for batch in refreshes:
            oracle.apply(batch)
        return {
            number: quantile([oracle.query(query_text(number))[1] for _ in range(options.runs + 1)][1:], 0.5)
            for number in options.queries
        }


def together(
    data: Encoded, refreshes: Sequence[Batch], options: argparse.Namespace, rerun: dict[int, float]
) -> list[Measurement]:
    """All views in one database: the time of each in a step, and that of the whole transaction."""
    database = data.database()
    for number in options.queries:
        install(database, number)
    commits: list[float] = []
    steps: dict[int, list[float]] = {number: [] for number in options.queries}
    for batch in refreshes:
        commits.append(timed(partial(apply_batch, database, batch)))
        for number, seconds in steps.items():
            seconds.append(database.view(f"q{number}").stats.last_step_seconds)
    views = [
        Measurement(f"q{number}", "s", tuple(seconds[1:]), {"DuckDB": rerun[number]})
        for number, seconds in steps.items()
    ]
    whole = Measurement("commit, all views", "s", tuple(commits[1:]), {"DuckDB": sum(rerun.values())})
    return [*views, whole]


def alone(data: Encoded, refreshes: Sequence[Batch], number: int, rerun: float) -> Measurement:
    """The transaction with one view installed."""
    database: Database = data.database()
    install(database, number)
    commits = [timed(partial(apply_batch, database, batch)) for batch in refreshes]
    gc.collect()
    return Measurement(f"commit q{number}", "s", tuple(commits[1:]), {"DuckDB": rerun})


def main() -> None:
    parser = arguments(__doc__ or "")
    add_arguments(parser, 1)
    parser.add_argument("--orders", type=int, default=1500, help="orders that leave and enter in a refresh")
    parser.add_argument("--updates", action="store_true", help="update the other tables as well")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-alone", action="store_true", help="leave out the views on their own")
    options = parser.parse_args()
    keep_memory()
    refreshes = batches(options)
    rerun = duckdb_seconds(options, refreshes)
    data = Encoded.of(folder(options), TABLES)
    kind = "with updates" if options.updates else "RF1 and RF2"
    rows = round(quantile([batch.rows for batch in refreshes], 0.5))
    title = f"refresh ({kind}), scale factor {options.scale:g}, {options.orders:,} orders, {rows:,} rows"
    report(title, together(data, refreshes, options, rerun), options.json)
    if options.no_alone:
        return
    measured: list[Measurement] = []
    for number in () if options.no_alone else options.queries:
        gc.collect()
        measured.append(alone(data, refreshes, number, rerun[number]))
        print(f"q{number} alone: {measured[-1].median:.4f} s", file=sys.stderr)
    path = options.json and options.json.with_stem(f"{options.json.stem}_alone")
    report(f"{title}, one view", measured, path)


if __name__ == "__main__":
    main()
