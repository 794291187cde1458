"""A peer: batch Spark SQL runs the same queries over the same files.

    python benchmarks/peers_spark.py --scale 1 --cores 2 --json spark.json

The tables are read from parquet into Spark's cache first (``--no-cache``: at every query). A figure is the
time to run the query from its SQL text and bring its rows to Python; the first run is not counted. Spark
starts anew for every change of the data, which is what a maintained view saves.
"""

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from _common import Measurement, arguments, report, timed
from _tpch import add_arguments, folder

from kpg.tpch.data import TABLES, query_text, table_path
from kpg.tpch.oracle import Oracle
from kpg.tpch.report import quantile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.app.name": "kpg peers",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "OFF",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def session(options: argparse.Namespace) -> "SparkSession":
    """A local Spark with the tables as views; a partition of a shuffle for each core, as suits small data."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{options.cores}]").config(
        "spark.driver.memory", options.memory
    )
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.config("spark.sql.shuffle.partitions", str(options.cores)).getOrCreate()
    for table in TABLES:
        frame = spark.read.parquet(str(table_path(folder(options), table)))
        if options.cache:
            frame = frame.cache()
            frame.count()
        frame.createOrReplaceTempView(table)
    return spark


def run(spark: "SparkSession", text: str) -> None:
    """Run a query and fetch its rows."""
    spark.sql(text).collect()


def measure(spark: "SparkSession", options: argparse.Namespace) -> Iterator[Measurement]:
    """Spark's seconds for each query, beside DuckDB's."""
    with Oracle(folder(options)) as oracle:
        for number in options.queries:
            text = query_text(number)
            duckdb = [oracle.query(text)[1] for _ in range(options.runs + 1)][1:]
            spark_seconds = [timed(partial(run, spark, text)) for _ in range(options.runs + 1)]
            yield Measurement(f"q{number}", "s", tuple(spark_seconds[1:]), {"DuckDB": quantile(duckdb, 0.5)})
            print(f"q{number}: {spark_seconds[-1]:.3f} s", file=sys.stderr)


def main() -> None:
    parser = arguments(__doc__ or "")
    add_arguments(parser, 1)
    parser.add_argument("--cores", type=int, default=2, help="Spark's worker threads")
    parser.add_argument("--memory", default="6g", help="memory of the driver, which holds the cache")
    parser.add_argument(
        "--no-cache", dest="cache", action="store_false", help="read the files at every query"
    )
    options = parser.parse_args()
    spark = session(options)
    try:
        measured = list(measure(spark, options))
    finally:
        spark.stop()
    report(f"Spark SQL, local[{options.cores}], scale factor {options.scale:g}", measured, options.json)


if __name__ == "__main__":
    main()
