"""What the measuring programs share: machine and versions, medians, ratios, JSON."""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from kpg.tpch.machine import describe, machine, versions
from kpg.tpch.report import geometric_mean, quantile


@dataclass(frozen=True, slots=True)
class Measurement:
    """One figure measured several times, beside a reference for the same if there is one.

    ``unit`` is ``s`` (less is better) or a rate such as ``tuples/s`` (more is better).
    """

    name: str
    unit: str
    values: tuple[float, ...]
    reference: float | None = None
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def median(self) -> float:
        """The median of the values."""
        return quantile(self.values, 0.5)

    @property
    def ratio(self) -> float | None:
        """How many times better than the reference the median is."""
        if self.reference is None:
            return None
        return self.reference / self.median if self.unit == "s" else self.median / self.reference


def arguments(description: str) -> argparse.ArgumentParser:
    """A parser with the options that every measuring program has: ``--runs`` and ``--json``."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--runs", type=int, default=3, help="times that each figure is measured")
    parser.add_argument("--json", type=Path, help="file for the raw figures")
    return parser


def timed(work: Callable[[], object]) -> float:
    """The seconds that ``work`` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def report(title: str, measurements: Sequence[Measurement], path: Path | None = None) -> None:
    """Print the measurements with machine, versions and mean ratio; write the raw figures to ``path``."""
    console = Console()
    console.print(f"{title}\n{describe()}", highlight=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("measured", "median", "least", "most", "unit", "reference", "ratio"):
        table.add_column(heading, justify="left" if heading in ("measured", "unit") else "right")
    for one in measurements:
        spread = (_figure(one.median), _figure(min(one.values)), _figure(max(one.values)))
        table.add_row(one.name, *spread, one.unit, _figure(one.reference), _figure(one.ratio))
    console.print(table)
    ratios = [one.ratio for one in measurements if one.ratio is not None]
    if ratios:
        console.print(f"geometric mean of ratios {geometric_mean(ratios):.2f}", highlight=False)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(_document(title, measurements), indent=2) + "\n", encoding="utf-8")


def _document(title: str, measurements: Sequence[Measurement]) -> dict[str, Any]:
    rows = [
        {
            "name": one.name,
            "unit": one.unit,
            "values": list(one.values),
            "median": one.median,
            "reference": one.reference,
            "ratio": one.ratio,
            **one.details,
        }
        for one in measurements
    ]
    return {"title": title, "machine": machine(), "versions": versions(), "measurements": rows}


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
