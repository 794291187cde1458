"""What the job found out: one row per query, for people (a table) and for programs (JSON)."""

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kpg.runtime.records import dataclass
from kpg.tpch.machine import machine, versions


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
