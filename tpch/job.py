"""``kpg tpch``: load TPC-H, maintain its queries as views, and check them against DuckDB.

:class:`Engine` and :class:`View` are the interface to the database, so that tests can substitute
it. Spark, if present, starts while data is generated and queries compile, and runs the loads.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa
from rich.console import Console

from kpg import connect
from kpg.runtime.errors import Error, InterfaceError, OperationalError
from kpg.runtime.native import ahead
from kpg.runtime.spark.session import SessionWork, require_java, require_pyspark, start_early
from kpg.tpch.data import (
    QUERIES,
    TABLES,
    create_statements,
    data_folder,
    generate,
    is_complete,
    query_text,
    table_path,
)
from kpg.tpch.oracle import Oracle, Order, find_difference, remove_limit
from kpg.tpch.refresh import Batch, RefreshStream
from kpg.tpch.report import JobReport, QueryReport, print_report, show_stage, write_json


class Stats(Protocol):
    """Statistics of a view."""

    @property
    def install_seconds(self) -> float:
        """Time to install the view, including its first result."""

    @property
    def arrangements_built(self) -> int:
        """Number of arrangements that were built for the view."""

    @property
    def arrangements_reused(self) -> int:
        """Number of existing arrangements that the view shares."""

    @property
    def last_step_seconds(self) -> float:
        """Time from the start of the last step until the view was final."""


class View(Protocol):
    """A materialized view."""

    @property
    def stats(self) -> Stats:
        """Statistics of the view."""

    def arrow(self) -> pa.Table:
        """Return the view's rows, in the order of its query."""


class Engine(Protocol):
    """A database."""

    def sql(self, query: str, /) -> object:
        """Run a statement."""

    def load_all(
        self, sources: Mapping[str, object], *, mode: str, progress: Callable[[str, int], None]
    ) -> object:
        """Load files into tables in one epoch. ``mode`` is ``spark`` or ``arrow``.

        ``progress`` is called with a table and its rows so far, 0 while Spark reads it.
        """

    def view(self, name: str, /) -> View:
        """Return a materialized view by name."""

    def transaction(self) -> AbstractContextManager[object]:
        """Return a context whose changes are one epoch."""

    def delete(self, name: str, keys: pa.Table, /) -> object:
        """Delete rows by primary key."""

    def insert(self, name: str, rows: pa.Table, /) -> object:
        """Insert rows."""


def apply_batch(engine: Engine, batch: Batch) -> None:
    """Apply a refresh to the engine as one transaction."""
    with engine.transaction():
        for table, change in batch.changes.items():
            engine.delete(table, change.deletes)
            engine.insert(table, change.inserts)


def spark_obstacle() -> str | None:
    """Return why Spark cannot run here, or None if it can."""
    try:
        require_pyspark()
        require_java()
    except OperationalError as error:
        return error.message
    return None


def start_spark() -> AbstractContextManager[None]:
    """Start Spark while the block generates data and compiles. The loads use it."""
    return start_early(SessionWork.READING)


MIN_SCALE: Final = 0.01
"""Minimum scale factor. Smaller ones have so few suppliers that rows of partsupp repeat."""


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
    """Run the job and print its report. Returns 0 if every view always agreed with DuckDB, else 1.

    No ``queries`` means all 22. ``batch`` is the number of orders that a refresh deletes and inserts.
    """
    if scale < MIN_SCALE:
        raise InterfaceError(
            f"scale factor {scale:g} is too small: partsupp's primary key needs {MIN_SCALE:g} or more"
        )
    ahead.begin()  # in parallel with the generation of data and Spark's start
    folder = data_folder(scale, data)
    with ExitStack() as until_loaded:
        if spark_obstacle() is None:
            until_loaded.enter_context(start_spark())
        prepare_data(scale, folder, console)
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


def prepare_data(scale: float, folder: Path, console: Console) -> None:
    """Generate the data unless the folder has it."""
    if is_complete(folder):
        console.print(f"data: {folder}", highlight=False, soft_wrap=True)
        return
    with show_stage(console, f"generate scale factor {scale:g}", 1) as advance:
        advance("tpchgen-cli")
        generate(scale, folder)


class Job:
    """An engine and its oracle with the same changes. Measurements go into ``report``."""

    def __init__(self, engine: Engine, oracle: Oracle, report: JobReport, console: Console) -> None:
        self._engine = engine
        self._oracle = oracle
        self._report = report
        self._console = console

    def load(self, folder: Path) -> None:
        """Create the eight tables and load them, through Spark if it can run."""
        start = time.perf_counter()
        reason = spark_obstacle()
        mode = "spark" if reason is None else "arrow"
        self._report.loader = "Spark" if reason is None else "pyarrow"
        if reason is not None:
            self._console.print(
                f"{reason}: loading through pyarrow instead of Spark", highlight=False, soft_wrap=True
            )
        for statement in create_statements().values():
            self._engine.sql(statement)
        reported: set[tuple[str, bool]] = set()
        with show_stage(self._console, f"load through {self._report.loader}", 2 * len(TABLES)) as advance:

            def progress(table: str, rows: int) -> None:
                if (table, rows > 0) not in reported:
                    reported.add((table, rows > 0))
                    advance(table)

            paths = {table: str(table_path(folder, table)) for table in TABLES}
            self._engine.load_all(paths, mode=mode, progress=progress)
        self._report.load_seconds = time.perf_counter() - start

    def install(self, queries: Sequence[int]) -> None:
        """Install the queries one by one, and compare each with the oracle at once."""
        with show_stage(self._console, "install", len(queries)) as advance:
            for number in queries:
                advance(f"q{number}")
                query = QueryReport(number)
                self._report.queries.append(query)
                self._install(query)

    def refresh(self, stream: RefreshStream, refreshes: int) -> None:
        """Apply refreshes to both sides, and compare every view after each."""
        with show_stage(self._console, f"{refreshes} refreshes", refreshes) as advance:
            for _ in range(refreshes):
                batch = stream.next_batch()
                advance(f"refresh {batch.number}")
                start = time.perf_counter()
                apply_batch(self._engine, batch)
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
        query.installation = True
        stats = self._engine.view(name).stats
        query.install_seconds = stats.install_seconds
        query.arrangements_built = stats.arrangements_built
        query.arrangements_reused = stats.arrangements_reused
        self._compare(query, "after the load")

    def _measure(self, query: QueryReport, number: int) -> None:
        if not query.installation:
            return
        query.refresh_seconds.append(self._engine.view(_view_name(query)).stats.last_step_seconds)
        query.duckdb_seconds.append(self._compare(query, f"after refresh {number}"))

    def _compare(self, query: QueryReport, moment: str) -> float:
        """Record the first difference between view and oracle. Returns the oracle's seconds."""
        text = query_text(query.number)
        expected, seconds = self._oracle.query(text)
        actual = self._engine.view(_view_name(query)).arrow()
        query.rows = actual.num_rows
        if query.difference is None:
            mismatch = find_difference(
                actual, expected, Order.of(text), lambda: self._oracle.query(remove_limit(text))[0]
            )
            query.difference = None if mismatch is None else f"{moment}: {mismatch}"
        return seconds


def _view_name(query: QueryReport) -> str:
    return f"q{query.number}"
