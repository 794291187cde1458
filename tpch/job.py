"""``kpg tpch``: load TPC-H, maintain its queries as views, and check them against DuckDB at every step.

:class:`Engine` and :class:`View` are what the job needs of a database, so that tests can substitute another.
Spark, if present, starts while data is generated and queries compile, and serves the loads.
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
from kpg.runtime.spark.session import Work, require_java, require_pyspark, starting
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
from kpg.tpch.oracle import Oracle, Order, difference, without_limit
from kpg.tpch.refresh import Batch, RefreshStream
from kpg.tpch.report import JobReport, QueryReport, print_report, stage, write_json


class Stats(Protocol):
    """What a view says of itself."""

    @property
    def install_seconds(self) -> float:
        """Time to install the view, its first answer included."""

    @property
    def arrangements_built(self) -> int:
        """Arrangements that had to be made for the view."""

    @property
    def arrangements_reused(self) -> int:
        """Arrangements that were there already."""

    @property
    def last_step_seconds(self) -> float:
        """Time from the start of the last step until the view's answer was final."""


class View(Protocol):
    """A maintained view."""

    @property
    def stats(self) -> Stats:
        """Counters of the view."""

    def arrow(self) -> pa.Table:
        """The view's rows, in the order that its query asks for."""


class Engine(Protocol):
    """A database."""

    def sql(self, query: str, /) -> object:
        """Run a statement."""

    def load_all(
        self, sources: Mapping[str, object], *, mode: str, progress: Callable[[str, int], None]
    ) -> object:
        """Load files into tables, in one epoch; ``mode`` is ``spark`` or ``arrow``.

        ``progress`` is told of a table and its rows so far, 0 while Spark is at work on it.
        """

    def view(self, name: str, /) -> View:
        """A maintained view by name."""

    def transaction(self) -> AbstractContextManager[object]:
        """One epoch, all or nothing."""

    def delete(self, name: str, keys: pa.Table, /) -> object:
        """Delete rows by primary key."""

    def insert(self, name: str, rows: pa.Table, /) -> object:
        """Insert rows."""


def apply(engine: Engine, batch: Batch) -> None:
    """Give the engine a refresh as one transaction."""
    with engine.transaction():
        for table, change in batch.changes.items():
            engine.delete(table, change.deletes)
            engine.insert(table, change.inserts)


def obstacle() -> str | None:
    """Why Spark cannot run here; None if it can."""
    try:
        require_pyspark()
        require_java()
    except OperationalError as error:
        return error.message
    return None


def starting_spark() -> AbstractContextManager[None]:
    """Spark, which has no obstacle, starts while the block makes data and compiles, and serves its loads."""
    return starting(Work.READING)


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
