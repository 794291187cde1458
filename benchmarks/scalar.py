"""Measure expressions and text: Q6's predicate, Q1's expressions, LIKE, interning.

``python benchmarks/scalar.py`` prints nanoseconds per row over 100,000 rows and microseconds per call
for one row; each figure is the best of several runs on one core.
"""

import time
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pyarrow as pa

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.functions import resolve
from kpg.runtime.mfp import CompiledMfp
from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Call, Column, Fetch, Literal, Scalar
from kpg.runtime.tables.row_groups import RowGroups
from kpg.runtime.types import DATE, INTEGER, ROWID, TEXT, decimal

ROWS = 100_000
STRINGS = 50_000
RANDOM = np.random.default_rng(7)
MONEY = decimal(15, 2)


def call(name: str, *args: Scalar) -> Scalar:
    """A call with its arguments cast as the registry demands."""
    resolution = resolve(name, tuple(arg.type for arg in args))
    cast = (
        arg if arg.type == type_ else Call("cast", (arg,), type_)
        for arg, type_ in zip(args, resolution.arg_types, strict=True)
    )
    return Call(name, tuple(cast), resolution.result_type)


def lineitem(rows: int) -> "np.ndarray":
    """Ship date, discount, quantity, extended price and tax, about as TPC-H has them."""
    bounds = [(8036, 10562), (0, 11), (100, 5001), (90_000, 10_500_000), (0, 9)]
    return np.vstack([RANDOM.integers(low, high, rows) for low, high in bounds])


def q6(columns: list[Scalar]) -> Mfp:
    """Q6: five comparisons and a product."""
    ship, discount, quantity, price, _ = columns
    two_places = decimal(3, 2)
    return Mfp(
        (
            call("ge", ship, Literal(8766, DATE)),
            call("lt", ship, Literal(9131, DATE)),
            call("ge", discount, Literal(5, two_places)),
            call("le", discount, Literal(7, two_places)),
            call("lt", quantity, Literal(24, INTEGER)),
        ),
        (call("mul", price, discount),),
    )


def q1(columns: list[Scalar]) -> Mfp:
    """Q1: a comparison, two differences and sums, two products, three plain columns."""
    ship, discount, quantity, price, tax = columns
    one = Literal(1, INTEGER)
    discounted = call("mul", price, call("sub", one, discount))
    charge = call("mul", discounted, call("add", one, tax))
    return Mfp((call("le", ship, Literal(10471, DATE)),), (quantity, price, discounted, charge, discount))


def best(action: Callable[[], object], runs: int) -> float:
    """The best time of ``action`` in seconds, after one run that warms up."""
    action()
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        action()
        times.append(time.perf_counter() - begin)
    return min(times)


def report(what: str, seconds: float, rows: int) -> None:
    """One line of the table."""
    figure = f"{seconds / rows * 1e9:9.1f} ns/row" if rows > 1 else f"{seconds * 1e6:9.2f} us/call"
    print(f"{what:48}{figure}")


def measure_compiled(context: SimpleNamespace, data: "np.ndarray") -> None:
    """Q6 and Q1 over inline columns and over fetched ones, and the cost of one addition."""
    types = (DATE, MONEY, MONEY, MONEY, MONEY)
    inline: list[Scalar] = [Column(i, type_) for i, type_ in enumerate(types)]
    fetched: list[Scalar] = [Fetch("lineitem", i, Column(0, ROWID), type_) for i, type_ in enumerate(types)]
    rowids = np.arange(ROWS, dtype=np.int64).reshape(1, -1)
    shuffled = RANDOM.permutation(ROWS).reshape(1, -1)
    one_row = np.ascontiguousarray(data[:, :1])
    queries = {"q6": q6, "q1": q1, "one addition": lambda c: Mfp((), (call("add", c[2], c[3]),))}
    for name, build in queries.items():
        compiled, fetching = CompiledMfp(build(inline), context), CompiledMfp(build(fetched), context)
        report(f"{name}, inline columns", best(lambda p=compiled: p.run(data), 30), ROWS)
        report(f"{name}, fetched, rowids in order", best(lambda p=fetching: p.run(rowids), 30), ROWS)
        report(f"{name}, fetched, rowids at random", best(lambda p=fetching: p.run(shuffled), 30), ROWS)
        report(f"{name}, one row", best(lambda p=compiled: p.run(one_row), 2000), 1)
        report(f"{name}, one row fetched", best(lambda p=fetching: p.run(rowids[:, :1]), 2000), 1)


def measure_text(dictionary: Dictionary) -> None:
    """Interning, LIKE and a Python text function, on strings seen for the first time and again."""
    comments = [
        f"carefully final {i} deposits special requests {i % 97}"[: 20 + i % 30] for i in range(STRINGS)
    ]
    names = pa.array([f"Customer#{i:09d}" for i in range(STRINGS)])
    report("intern, new strings of 18 bytes", best(lambda: Dictionary().intern_arrow(names), 5), STRINGS)
    filled = Dictionary()
    report("intern, known strings", best(lambda: filled.intern_arrow(names), 5), STRINGS)
    like = call("like", Column(0, TEXT), Literal("%special%requests%", TEXT))
    prefix = call("substring", Column(0, TEXT), Literal(1, INTEGER), Literal(2, INTEGER))

    def cold(scalar: Scalar) -> float:
        fresh = SimpleNamespace(dictionary=Dictionary())
        words = fresh.dictionary.intern(comments).reshape(1, -1)
        compiled = CompiledMfp(Mfp((), (scalar,)), fresh)
        begin = time.perf_counter()
        compiled.run(words)
        return time.perf_counter() - begin

    words = dictionary.intern(comments).reshape(1, -1)
    for name, scalar in (("LIKE '%special%requests%'", like), ("substring(x, 1, 2)", prefix)):
        report(f"{name}, new strings", min(cold(scalar) for _ in range(4)), STRINGS)
        compiled = CompiledMfp(Mfp((), (scalar,)), SimpleNamespace(dictionary=dictionary))
        report(f"{name}, known strings", best(lambda p=compiled: p.run(words), 10), STRINGS)


def main() -> None:
    """Prints the table."""
    data = lineitem(ROWS)
    table = RowGroups.from_columns(data)
    context = SimpleNamespace(dictionary=Dictionary(), store=lambda name: table)
    measure_compiled(context, data)
    measure_text(context.dictionary)


if __name__ == "__main__":
    main()
