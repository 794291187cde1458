"""``kpg tpch``: TPC-H from SQL text, loaded, kept up to date, and checked against DuckDB at every step."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from rich.console import Console

from kpg import connect
from kpg.runtime.errors import Error, InterfaceError
from kpg.runtime.native import ahead
from kpg.tpch.compare import Order, difference, without_limit
from kpg.tpch.engine import Engine, apply
from kpg.tpch.generate import data_folder, generate, is_complete, table_path
from kpg.tpch.loading import obstacle, starting_spark
from kpg.tpch.oracle import Oracle
from kpg.tpch.progress import stage
from kpg.tpch.refresh import RefreshStream
from kpg.tpch.report import JobReport, QueryReport, print_report, write_json
from kpg.tpch.schema import QUERIES, TABLES, create_statements, query_text

SMALLEST_SCALE: Final = 0.01
"""Below, there are so few suppliers that generated offers repeat."""


def run(
    *,
    scale: float,
    queries: Sequence[int],
    refreshes: int,
    batch: int | None,
    data: Path | None,
    json: Path | None,
    seed: int,
    console: Console,
) -> int:
    """Run the job and print its report; 0 if every view agreed with DuckDB every time, else 1.

    No ``queries`` means all 22; ``batch`` is the number of orders that a refresh deletes and inserts.
    """
    if scale < SMALLEST_SCALE:
        raise InterfaceError(
            f"scale factor {scale:g} is too small: partsupp's primary key needs {SMALLEST_SCALE:g} or more"
        )
    ahead.begin()  # beside the generation of data and Spark's start
    folder = data_folder(scale, data)
    with ExitStack() as until_loaded:
        if obstacle() is None:
            until_loaded.enter_context(starting_spark())
        prepare(scale, folder, console)
        stream = RefreshStream(folder, seed=seed, orders=batch)
        report = JobReport(scale, seed, stream.orders)
        with Oracle(folder) as oracle:
            job = Job(connect(), oracle, report, console)
            job.load(folder)
            until_loaded.close()
            job.install(queries or QUERIES)
            if refreshes > 0:
                job.refresh(stream, refreshes)
    print_report(report, console)
    if json is not None:
        write_json(report, json)
    return 0 if report.ok else 1


def prepare(scale: float, folder: Path, console: Console) -> None:
    """Generate the data unless the folder has it."""
    if is_complete(folder):
        console.print(f"data: {folder}", highlight=False, soft_wrap=True)
        return
    with stage(console, f"generate scale factor {scale:g}", 1) as advance:
        advance("tpchgen-cli")
        generate(scale, folder)


class Job:
    """An engine and its oracle, brought through the same changes; what is measured goes into ``report``."""

    def __init__(self, engine: Engine, oracle: Oracle, report: JobReport, console: Console) -> None:
        self._engine = engine
        self._oracle = oracle
        self._report = report
        self._console = console

    def load(self, folder: Path) -> None:
        """Create the eight tables and load them, through Spark if it can run."""
        start = time.perf_counter()
        why_not = obstacle()
        mode = "spark" if why_not is None else "arrow"
        self._report.loader = "Spark" if why_not is None else "pyarrow"
        if why_not is not None:
            self._console.print(
                f"{why_not}: loading through pyarrow instead of Spark", highlight=False, soft_wrap=True
            )
        for statement in create_statements().values():
            self._engine.sql(statement)
        seen: set[tuple[str, bool]] = set()
        with stage(self._console, f"load through {self._report.loader}", 2 * len(TABLES)) as advance:

            def progress(table: str, rows: int) -> None:
                if (table, rows > 0) not in seen:
                    seen.add((table, rows > 0))
                    advance(table)

            paths = {table: str(table_path(folder, table)) for table in TABLES}
            self._engine.load_all(paths, mode=mode, progress=progress)
        self._report.load_seconds = time.perf_counter() - start

    def install(self, queries: Sequence[int]) -> None:
        """Install the queries one after the other, each compared with the oracle at once."""
        with stage(self._console, "install", len(queries)) as advance:
            for number in queries:
                advance(f"q{number}")
                query = QueryReport(number)
                self._report.queries.append(query)
                self._install(query)

    def refresh(self, stream: RefreshStream, refreshes: int) -> None:
        """Apply refreshes to both sides; compare every view after each."""
        with stage(self._console, f"{refreshes} refreshes", refreshes) as advance:
            for _ in range(refreshes):
                batch = stream.next_batch()
                advance(f"refresh {batch.number}")
                start = time.perf_counter()
                apply(self._engine, batch)
                self._report.refresh_seconds.append(time.perf_counter() - start)
                self._report.refresh_rows.append(batch.rows)
                self._oracle.apply(batch)
                for query in self._report.queries:
                    self._measure(query, batch.number)

    def _install(self, query: QueryReport) -> None:
        name = _view_name(query)
        try:
            self._engine.sql(f"create materialized view {name} as {query_text(query.number)}")
        except Error as error:
            query.difference = f"not installed: {error}"
            return
        query.installed = True
        stats = self._engine.view(name).stats
        query.install_seconds = stats.install_seconds
        query.arrangements_built = stats.arrangements_built
        query.arrangements_reused = stats.arrangements_reused
        self._compare(query, "after the load")

    def _measure(self, query: QueryReport, number: int) -> None:
        if not query.installed:
            return
        query.refresh_seconds.append(self._engine.view(_view_name(query)).stats.last_step_seconds)
        query.duckdb_seconds.append(self._compare(query, f"after refresh {number}"))

    def _compare(self, query: QueryReport, moment: str) -> float:
        """Note the first difference between view and oracle; returns the oracle's seconds."""
        text = query_text(query.number)
        expected, seconds = self._oracle.query(text)
        actual = self._engine.view(_view_name(query)).arrow()
        query.rows = actual.num_rows
        if query.difference is None:
            found = difference(
                actual, expected, Order.of(text), lambda: self._oracle.query(without_limit(text))[0]
            )
            query.difference = None if found is None else f"{moment}: {found}"
        return seconds


def _view_name(query: QueryReport) -> str:
    return f"q{query.number}"
