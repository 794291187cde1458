"""The report of the job: one row for each query, as a table for people and as JSON for programs.

It records the machine and the relevant versions. :func:`stage` shows the progress of a stage: a bar on a
terminal, one line when it is done.
"""

import json
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from kpg.runtime.records import dataclass

PACKAGES: Final = ("kpg", "numpy", "numba", "pyarrow", "sqlglot", "pyspark", "duckdb", "tpchgen-cli")


def machine() -> dict[str, str | int]:
    """Processor, cores that this process may use, memory in MB, and system."""
    return {
        "processor": _processor(),
        "cores": _cores(),
        "memory_mb": _memory_mb(),
        "system": platform.platform(terse=True),
    }


def versions() -> dict[str, str]:
    """Version of Python and of each installed package that takes part."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def describe() -> str:
    """Machine and versions in one line."""
    about = machine()
    parts = ", ".join(f"{name} {number}" for name, number in versions().items())
    return (
        f"{about['processor']}, {about['cores']} cores, {about['memory_mb']} MB, {about['system']}; {parts}"
    )


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _memory_mb() -> int:
    names = os.sysconf_names
    if "SC_PHYS_PAGES" not in names or "SC_PAGE_SIZE" not in names:
        return 0
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20


@dataclass(slots=True)
class QueryReport:
    """The measurements of one query; seconds throughout, one entry per refresh in the lists."""

    number: int
    rows: int = 0
    install_seconds: float = 0.0
    arrangements_built: int = 0
    arrangements_reused: int = 0
    refresh_seconds: list[float] = field(default_factory=list)
    duckdb_seconds: list[float] = field(default_factory=list)
    installed: bool = False
    difference: str | None = None
    """Where the view and DuckDB first differed, or the error that kept the view from being installed."""

    @property
    def p50(self) -> float:
        """Median time for a refresh to reach the view; NaN without refreshes."""
        return quantile(self.refresh_seconds, 0.5)

    @property
    def p95(self) -> float:
        """95th percentile of the time for a refresh to reach the view; NaN without refreshes."""
        return quantile(self.refresh_seconds, 0.95)

    @property
    def duckdb(self) -> float:
        """Median time for DuckDB to run the query from scratch."""
        return quantile(self.duckdb_seconds, 0.5)

    @property
    def ratio(self) -> float:
        """How many times faster the refresh was than running the query again."""
        return self.duckdb / self.p50 if self.p50 > 0 else math.nan


@dataclass(slots=True)
class JobReport:
    """The whole job: its parameters, its parts' times, its queries."""

    scale: float
    seed: int
    orders_per_refresh: int
    loader: str = "pyarrow"
    load_seconds: float = 0.0
    refresh_rows: list[int] = field(default_factory=list)
    refresh_seconds: list[float] = field(default_factory=list)
    """Wall time of each refresh as a whole: all tables, all views."""
    queries: list[QueryReport] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether every view agreed with DuckDB every time."""
        return all(query.difference is None for query in self.queries)


def quantile(values: Sequence[float], fraction: float) -> float:
    """The quantile of a sample, interpolated; NaN if it is empty."""
    ordered = sorted(values)
    if not ordered:
        return math.nan
    place = fraction * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of the positive values; NaN if there is none."""
    positive = [value for value in values if value > 0]
    return statistics.geometric_mean(positive) if positive else math.nan


def duration(seconds: float) -> str:
    """A time in the unit that suits it: ``0.42 ms``, ``42 ms``, ``4.2 s``; ``-`` for NaN."""
    if math.isnan(seconds):
        return "-"
    if seconds >= 1:
        return f"{seconds:.1f} s"
    milliseconds = seconds * 1000
    return f"{milliseconds:.0f} ms" if milliseconds >= 10 else f"{milliseconds:.2f} ms"


def print_report(report: JobReport, console: Console) -> None:
    """The table of queries and, as the last line, the totals."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("query", "rows", "install", "built", "reused", "p50", "p95", "duckdb", "ratio"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("result", overflow="fold")
    for query in report.queries:
        table.add_row(*_cells(query))
    console.print(table)
    console.print(totals(report), highlight=False, soft_wrap=True)


def totals(report: JobReport) -> str:
    """One line: how many queries agreed, the sums, the geometric mean of the ratios."""
    agreed = sum(query.difference is None for query in report.queries)
    parts = [
        f"{agreed} of {len(report.queries)} queries ok",
        f"load {duration(report.load_seconds)} ({report.loader})",
        f"install {duration(sum(query.install_seconds for query in report.queries))}",
        f"{sum(query.arrangements_built for query in report.queries)} arrangements built, "
        f"{sum(query.arrangements_reused for query in report.queries)} reused",
    ]
    if report.refresh_seconds:
        rows = round(statistics.median(report.refresh_rows))
        mean = geometric_mean([query.ratio for query in report.queries])
        median = quantile(report.refresh_seconds, 0.5)
        rerun = sum(query.duckdb for query in report.queries if query.duckdb_seconds)
        parts += [
            f"refresh of {rows:,} rows through all views p50 {duration(median)}",
            f"duckdb re-running all {duration(rerun)}",
            f"geometric mean of ratios {_ratio(mean)}",
        ]
    return "; ".join(parts)


def write_json(report: JobReport, path: Path) -> None:
    """Everything measured, with machine and versions."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(as_json(report), indent=2) + "\n", encoding="utf-8")


def as_json(report: JobReport) -> dict[str, Any]:
    """The report as JSON values: raw figures and the summaries derived from them."""
    document: dict[str, Any] = {
        "machine": machine(),
        "versions": versions(),
        "ok": report.ok,
        **asdict(report),
    }
    for query, values in zip(report.queries, document["queries"], strict=True):
        values |= {
            name: None if math.isnan(value) else value
            for name, value in (("p50", query.p50), ("p95", query.p95), ("ratio", query.ratio))
        }
    return document


def _cells(query: QueryReport) -> tuple[str | Text, ...]:
    return (
        f"q{query.number}",
        f"{query.rows:,}",
        duration(query.install_seconds),
        str(query.arrangements_built),
        str(query.arrangements_reused),
        duration(query.p50),
        duration(query.p95),
        duration(query.duckdb),
        _ratio(query.ratio),
        Text("ok", "green") if query.difference is None else Text(query.difference, "red"),
    )


def _ratio(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.1f}x" if value < 100 else f"{value:,.0f}x"


Advance = Callable[[str], None]


@contextmanager
def stage(console: Console, title: str, steps: int) -> Iterator[Advance]:
    """Show a stage of ``steps`` steps; the block calls what it is given with the name of each next step."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    start = time.perf_counter()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(title, total=steps)
        begun = False

        def advance(step: str) -> None:
            nonlocal begun
            progress.update(task, description=f"{title}: {step}", advance=1 if begun else 0)
            begun = True

        yield advance
    console.print(f"{title}: {duration(time.perf_counter() - start)}", highlight=False)
