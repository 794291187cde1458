"""Nanoseconds a row to take data in: encode, insert with key, match, find, delete; and a Spark load.

    python benchmarks/ingest.py [--rows 6000000] [--batch 100000] [--spark lineitem.parquet]

Prints medians over batches. Keys are those of TPC-H's LINEITEM: (order, line), arriving in order or shuffled.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kpg.runtime.convert.arrow import arrow_type, encode_table
from kpg.runtime.convert.python_values import encode_rows
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.tables.table import Table
from kpg.runtime.types import BIGINT, DATE, INTEGER, TEXT, ColumnDef, Schema, Type, decimal

Words = NDArray[np.int64]

ORDER_LINE = Schema(
    (ColumnDef("o", BIGINT), ColumnDef("l", INTEGER), ColumnDef("p", decimal(15, 2)), ColumnDef("d", DATE)),
    (0, 1),
)


def order_lines(rows: int) -> Words:
    """Four lines to an order; eight order keys used of each 32, as dbgen does."""
    order = np.arange(rows) // 4
    return np.stack(
        (order // 8 * 32 + order % 8, np.arange(rows) % 4, np.arange(rows), np.arange(rows) % 2500)
    )


def batches(words: Words, size: int) -> Iterator[Words]:
    for start in range(0, words.shape[1], size):
        yield np.ascontiguousarray(words[:, start : start + size])


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def report(name: str, samples: list[float], rows: int) -> None:
    median, mean = (1e9 * f(samples) / rows for f in (statistics.median, statistics.fmean))
    print(f"{name:34}{median:10.1f} ns a row (median of {len(samples)}), mean {mean:.1f}")


def table_figures(name: str, words: Words, batch: int) -> None:
    """Insert everything in batches, then find, match and delete the batches in the middle."""
    table = Table("t", ORDER_LINE, Dictionary())
    report(
        f"insert, keys {name}", [seconds(lambda b=b: table.insert(b)) for b in batches(words, batch)], batch
    )
    table.drain()
    index_time = 1e9 * seconds(table.build_index) / words.shape[1]
    print(f"{'index what arrived in order':34}{index_time:10.1f} ns a row")
    chosen = list(batches(words, batch))[2:12]
    report(f"find, keys {name}", [seconds(lambda b=b: table.find(b[:2])) for b in chosen], batch)
    report(f"match, keys {name}", [seconds(lambda b=b: table.match(b)) for b in chosen], batch)
    rowids = [table.find(b[:2]) for b in chosen]
    report(f"delete, keys {name}", [seconds(lambda r=r: table.delete(r)) for r in rowids], batch)
    ones = [np.array([[10**9 + i], [1], [1], [1]]) for i in range(1000)]
    report(f"insert one row, keys {name}", [seconds(lambda b=b: table.insert(b)) for b in ones], 1)


def encode_figures(rows: int) -> None:
    """One column of each source at a time."""
    day = np.arange(rows, dtype=np.int32) % 2500
    price = pa.array(np.arange(rows)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2))
    columns: list[tuple[str, Type, pa.Array]] = [
        ("bigint", BIGINT, pa.array(np.arange(rows))),
        ("decimal", decimal(15, 2), price),
        ("double to decimal", decimal(15, 2), pa.array(np.arange(rows) / 100)),
        ("date", DATE, pa.array(day).cast(arrow_type(DATE))),
        ("text, few values", TEXT, pa.array(["RAIL", "SHIP", "AIR", "TRUCK"] * (rows // 4))),
        (
            "text, all different",
            TEXT,
            pa.array([f"comment number {i} of many" for i in range(rows // 4 * 4)]),
        ),
    ]
    dictionary = Dictionary()
    encode_table(pa.table({"x": pa.array(["x"])}), Schema((ColumnDef("x", TEXT),)), dictionary)
    for name, type_, array in columns:
        data, schema = pa.table({"x": array}), Schema((ColumnDef("x", type_),))
        report(
            f"encode {name}", [seconds(lambda d=data, s=schema: encode_table(d, s, dictionary))], len(array)
        )
    row = (5, 6, 17.25, None)
    encode_rows([row], ORDER_LINE, dictionary)
    samples = [seconds(lambda: encode_rows([row], ORDER_LINE, dictionary)) for _ in range(1000)]
    report("encode one Python row of 4", samples, 1)


def spark_figures(path: str) -> None:
    """A parquet file of LINEITEM's shape through Spark, session start included."""
    from kpg.runtime.spark.load import load_tables
    from kpg.runtime.spark.source import Source

    kinds = {"int32": INTEGER, "int64": BIGINT, "date32[day]": DATE}
    columns = []
    for name, given in zip(pq.read_schema(path).names, pq.read_schema(path).types, strict=True):
        other = decimal(given.precision, given.scale) if pa.types.is_decimal(given) else TEXT
        columns.append(ColumnDef(name, kinds.get(str(given), other)))
    key = tuple(i for i, column in enumerate(columns) if column.name in ("l_orderkey", "l_linenumber"))
    schema = Schema(tuple(columns), key)
    table = Table("lineitem", schema, Dictionary())
    start = time.perf_counter()
    reading = 0.0
    for chunk in load_tables([Source("lineitem", path, schema)]):
        reading += seconds(lambda c=chunk.rows: table.insert(encode_table(c, schema, table.dictionary)))
    total = time.perf_counter() - start
    print(f"Spark load of {table.rows} rows: {total:.1f} s, of which {reading:.2f} s encode and insert")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--batch", type=int, default=100_000)
    parser.add_argument("--spark", metavar="PARQUET")
    options = parser.parse_args()
    words = order_lines(options.rows)
    shuffled = words[:, np.random.default_rng(1).permutation(options.rows)]
    table_figures("ascending", words[:, : options.batch * 12], options.batch)
    print("(warm)")
    table_figures("ascending", words, options.batch)
    table_figures("shuffled", shuffled, options.batch)
    encode_figures(200_000)
    if options.spark:
        spark_figures(options.spark)


if __name__ == "__main__":
    main()
