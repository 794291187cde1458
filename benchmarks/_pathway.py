"""TPC-H queries in Pathway's terms; runs with the interpreter of an environment that has Pathway.

    python _pathway.py QUERY FOLDER EPOCH

FOLDER has <table>.parquet with the columns that the query needs. With EPOCH 0 each table is one batch of a
static CSV file; else rows come from Python and EPOCH of them are committed at a time. Prints as JSON the
seconds that ``pathway.run`` took and the final rows. Pathway has no decimals: amounts are floats.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import pathway as pw
import pyarrow.csv
import pyarrow.parquet as pq


class Rows(pw.io.python.ConnectorSubject):
    """The rows of a parquet file, some at a time."""

    def __init__(self, path: Path, epoch: int) -> None:
        super().__init__()
        self.path, self.epoch = path, epoch

    def run(self) -> None:
        for batch in pq.ParquetFile(self.path).iter_batches(self.epoch):
            for row in batch.to_pylist():
                self.next(**row)
            self.commit()


def table(folder: Path, name: str, epoch: int) -> pw.Table:
    path = folder / f"{name}.parquet"
    kinds = {"int64": int, "int32": int, "double": float}
    schema = pw.schema_from_types(**{f.name: kinds.get(str(f.type), str) for f in pq.read_schema(path)})
    if epoch:
        return pw.io.python.read(Rows(path, epoch), schema=schema, autocommit_duration_ms=None)
    pyarrow.csv.write_csv(pq.read_table(path), folder / f"{name}.csv")
    return pw.io.csv.read(folder / f"{name}.csv", schema=schema, mode="static")


def q1(folder: Path, epoch: int) -> pw.Table:
    line = table(folder, "lineitem", epoch)
    line = line.filter(line.l_shipdate <= "1998-09-02")
    line = line.with_columns(net=line.l_extendedprice * (1 - line.l_discount))
    return line.groupby(line.l_returnflag, line.l_linestatus).reduce(
        line.l_returnflag,
        line.l_linestatus,
        sum_qty=pw.reducers.sum(line.l_quantity),
        sum_base_price=pw.reducers.sum(line.l_extendedprice),
        sum_disc_price=pw.reducers.sum(line.net),
        sum_charge=pw.reducers.sum(line.net * (1 + line.l_tax)),
        avg_qty=pw.reducers.avg(line.l_quantity),
        avg_price=pw.reducers.avg(line.l_extendedprice),
        avg_disc=pw.reducers.avg(line.l_discount),
        count_order=pw.reducers.count(),
    )


def q3(folder: Path, epoch: int) -> pw.Table:
    """Without the final ORDER BY and LIMIT."""
    customer, orders, line = (table(folder, name, epoch) for name in ("customer", "orders", "lineitem"))
    customer = customer.filter(customer.c_mktsegment == "BUILDING")
    orders = orders.filter(orders.o_orderdate < "1995-03-15")
    line = line.filter(line.l_shipdate > "1995-03-15")
    of_customer = orders.join(customer, orders.o_custkey == customer.c_custkey).select(
        orders.o_orderkey, orders.o_orderdate, orders.o_shippriority
    )
    joined = line.join(of_customer, line.l_orderkey == of_customer.o_orderkey).select(
        line.l_orderkey,
        of_customer.o_orderdate,
        of_customer.o_shippriority,
        net=line.l_extendedprice * (1 - line.l_discount),
    )
    return joined.groupby(joined.l_orderkey, joined.o_orderdate, joined.o_shippriority).reduce(
        joined.l_orderkey, joined.o_orderdate, joined.o_shippriority, revenue=pw.reducers.sum(joined.net)
    )


def q6(folder: Path, epoch: int) -> pw.Table:
    line = table(folder, "lineitem", epoch)
    line = line.filter(
        (line.l_shipdate >= "1994-01-01")
        & (line.l_shipdate < "1995-01-01")
        & (line.l_discount > 0.0499)
        & (line.l_discount < 0.0701)
        & (line.l_quantity < 24)
    )
    return line.reduce(revenue=pw.reducers.sum(line.l_extendedprice * line.l_discount))


def main() -> None:
    query, folder, epoch = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    rows: dict[Any, Any] = {}

    def changed(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        if is_addition:
            rows[key] = row
        elif rows.get(key) == row:
            del rows[key]

    pw.io.subscribe({"1": q1, "3": q3, "6": q6}[query](folder, epoch), on_change=changed)
    start = time.perf_counter()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    print(json.dumps({"seconds": time.perf_counter() - start, "rows": list(rows.values())}))


if __name__ == "__main__":
    main()
