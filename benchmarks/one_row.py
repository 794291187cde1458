"""One order in, one order out: the time of the smallest useful transaction, each query installed alone.

    python benchmarks/one_row.py --scale 0.1 --rounds 200 --json one_row.json

A round inserts an order with its lineitems in one transaction, and deletes it by key in another; each of
the two is a sample. ``commit`` is the transaction through the public API, from Python rows; ``step`` is what
the worker takes of it.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from _common import Measurement, arguments, keep_memory, report, timed
from _tpch import Encoded, add_arguments, folder, install, worker_of

from kpg import Database
from kpg.tpch.data import TABLES
from kpg.tpch.refresh import RefreshStream
from kpg.tpch.report import quantile

AIM = {"aim": 0.001}
WARM_UP = 20

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Order:
    """An order and its lineitems as rows, and the primary keys of both."""

    orders: Rows
    lineitem: Rows

    def insert(self, database: Database) -> None:
        with database.transaction():
            database.insert("orders", self.orders)
            database.insert("lineitem", self.lineitem)

    def delete(self, database: Database) -> None:
        with database.transaction():
            database.delete(
                "lineitem", [{"l_orderkey": row[0], "l_linenumber": row[3]} for row in self.lineitem]
            )
            database.delete("orders", [{"o_orderkey": row[0]} for row in self.orders])


def new_orders(path: Path, count: int) -> Iterator[Order]:
    """Orders that the data does not have."""
    changes = RefreshStream(path, seed=3, orders=count).next_batch().changes
    orders, lines = (
        [*zip(*changes[table].inserts.to_pydict().values(), strict=True)] for table in ("orders", "lineitem")
    )
    for order in orders:
        yield Order([order], [line for line in lines if line[0] == order[0]])


@dataclass(slots=True)
class Steps:
    """Stands in for the worker's ``step`` and notes how long it takes."""

    step: Any
    seconds: list[float] = field(default_factory=list)

    def __call__(self) -> None:
        start = time.perf_counter()
        self.step()
        self.seconds.append(time.perf_counter() - start)


def measure(number: int, data: Encoded, orders: list[Order]) -> Iterator[Measurement]:
    """The quantiles of the commit and of the step of one query."""
    database = data.database()
    install(database, number)
    worker = worker_of(database)
    steps = Steps(worker.step)
    worker.step = steps  # type: ignore[method-assign]
    commits = []
    for order in orders:
        commits.append(timed(partial(order.insert, database)))
        commits.append(timed(partial(order.delete, database)))
    for name, seconds in (("commit", commits), ("step", steps.seconds)):
        values = tuple(seconds[2 * WARM_UP :])
        quantiles = {f"p{percent}": quantile(values, percent / 100) for percent in (50, 95, 99)}
        yield Measurement(f"q{number} {name}", "s", values, AIM if name == "commit" else {}, quantiles)


def main() -> None:
    parser = arguments(__doc__ or "")
    add_arguments(parser, 0.1)
    parser.add_argument("--rounds", type=int, default=200, help="orders to insert and delete")
    options = parser.parse_args()
    keep_memory()
    data = Encoded.of(folder(options), TABLES)
    orders = list(new_orders(folder(options), options.rounds + WARM_UP))
    measured = [one for number in options.queries for one in measure(number, data, orders)]
    report(f"one order in or out, scale factor {options.scale:g}, one view", measured, options.json)
    for name in ("commit", "step"):
        for one in measured:
            if one.name.endswith(name):
                figures = ", ".join(f"{key} {1000 * value:.3f} ms" for key, value in one.details.items())
                print(f"{one.name}: {figures}")


if __name__ == "__main__":
    main()
