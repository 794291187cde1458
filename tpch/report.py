"""The report of the job: one row per query, as a table for people and as JSON for programs.

It records the machine and the relevant versions. :func:`show_stage` shows the progress of a stage: a bar
on a terminal, one line when it ends.
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


def machine_info() -> dict[str, str | int]:
    """Return the processor, the cores that this process may use, the memory in MB, and the system."""
    return {
        "processor": _processor(),
        "cores": _cores(),
        "memory_mb": _memory_mb(),
        "system": platform.platform(terse=True),
    }


def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the relevant installed packages."""
    result = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            result[package] = version(package)
        except PackageNotFoundError:
            continue
    return result


def describe_machine() -> str:
    """Return the machine and the versions in one line."""
    info = machine_info()
    parts = ", ".join(f"{name} {number}" for name, number in package_versions().items())
    return f"{info['processor']}, {info['cores']} cores, {info['memory_mb']} MB, {info['system']}; {parts}"


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
    """The measurements of one query, in seconds. Lists have one entry per refresh."""

    number: int
    rows: int = 0
    install_seconds: float = 0.0
    arrangements_built: int = 0
    arrangements_reused: int = 0
    refresh_seconds: list[float] = field(default_factory=list)
    duckdb_seconds: list[float] = field(default_factory=list)
    installation: bool = False
    difference: str | None = None
    """The first difference between the view and DuckDB, or the error of the installation."""

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
        """DuckDB's time to run the query from scratch, divided by the refresh time."""
        return self.duckdb / self.p50 if self.p50 > 0 else math.nan


@dataclass(slots=True)
class JobReport:
    """The whole job: its parameters, the times of its parts, its queries."""

    scale: float
    seed: int
    orders_per_refresh: int
    loader: str = "pyarrow"
    load_seconds: float = 0.0
    refresh_rows: list[int] = field(default_factory=list)
    refresh_seconds: list[float] = field(default_factory=list)
    """Wall time of each refresh, for all tables and views."""
    queries: list[QueryReport] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether every view always agreed with DuckDB."""
        return all(query.difference is None for query in self.queries)


def quantile(values: Sequence[float], fraction: float) -> float:
    """Return the quantile of a sample, interpolated; NaN if it is empty."""
    ordered = sorted(values)
    if not ordered:
        return math.nan
    position = fraction * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of the positive values; NaN if there is none."""
    positive = [value for value in values if value > 0]
    return statistics.geometric_mean(positive) if positive else math.nan


def format_duration(seconds: float) -> str:
    """Return a time in a suitable unit: ``0.42 ms``, ``42 ms``, ``4.2 s``; ``-`` for NaN."""
    if math.isnan(seconds):
        return "-"
    if seconds >= 1:
        return f"{seconds:.1f} s"
    milliseconds = seconds * 1000
    return f"{milliseconds:.0f} ms" if milliseconds >= 10 else f"{milliseconds:.2f} ms"


def print_report(report: JobReport, console: Console) -> None:
    """Print the table of queries and, as the last line, the totals."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("query", "rows", "install", "built", "reused", "p50", "p95", "duckdb", "ratio"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("result", overflow="fold")
    for query in report.queries:
        table.add_row(*_table_row(query))
    console.print(table)
    console.print(totals_line(report), highlight=False, soft_wrap=True)


def totals_line(report: JobReport) -> str:
    """Return one line: how many queries agreed, the sums, the geometric mean of the ratios."""
    agreed = sum(query.difference is None for query in report.queries)
    parts = [
        f"{agreed} of {len(report.queries)} queries ok",
        f"load {format_duration(report.load_seconds)} ({report.loader})",
        f"install {format_duration(sum(query.install_seconds for query in report.queries))}",
        f"{sum(query.arrangements_built for query in report.queries)} arrangements built, "
        f"{sum(query.arrangements_reused for query in report.queries)} reused",
    ]
    if report.refresh_seconds:
        rows = round(statistics.median(report.refresh_rows))
        mean = geometric_mean([query.ratio for query in report.queries])
        median = quantile(report.refresh_seconds, 0.5)
        rerun = sum(query.duckdb for query in report.queries if query.duckdb_seconds)
        parts += [
            f"refresh of {rows:,} rows through all views p50 {format_duration(median)}",
            f"duckdb re-running all {format_duration(rerun)}",
            f"geometric mean of ratios {_ratio_text(mean)}",
        ]
    return "; ".join(parts)


def write_json(report: JobReport, path: Path) -> None:
    """Write all measurements, with machine and versions."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(to_json(report), indent=2) + "\n", encoding="utf-8")


def to_json(report: JobReport) -> dict[str, Any]:
    """Return the report as JSON values: raw measurements and the summaries derived from them."""
    document: dict[str, Any] = {
        "machine": machine_info(),
        "versions": package_versions(),
        "ok": report.ok,
        **asdict(report),
    }
    for query, values in zip(report.queries, document["queries"], strict=True):
        values |= {
            name: None if math.isnan(value) else value
            for name, value in (("p50", query.p50), ("p95", query.p95), ("ratio", query.ratio))
        }
    return document


def _table_row(query: QueryReport) -> tuple[str | Text, ...]:
    return (
        f"q{query.number}",
        f"{query.rows:,}",
        format_duration(query.install_seconds),
        str(query.arrangements_built),
        str(query.arrangements_reused),
        format_duration(query.p50),
        format_duration(query.p95),
        format_duration(query.duckdb),
        _ratio_text(query.ratio),
        Text("ok", "green") if query.difference is None else Text(query.difference, "red"),
    )


def _ratio_text(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.1f}x" if value < 100 else f"{value:,.0f}x"


Advance = Callable[[str], None]


@contextmanager
def show_stage(console: Console, title: str, steps: int) -> Iterator[Advance]:
    """Show the progress of a stage. The block calls the yielded function with the name of each next step."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    start = time.perf_counter()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(title, total=steps)
        has_begun = False

        def advance(step: str) -> None:
            nonlocal has_begun
            progress.update(task, description=f"{title}: {step}", advance=1 if has_begun else 0)
            has_begun = True

        yield advance
    console.print(f"{title}: {format_duration(time.perf_counter() - start)}", highlight=False)
