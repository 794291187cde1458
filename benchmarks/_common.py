"""What the measuring programs share: machine and versions, medians, ratios, JSON."""

import argparse
import ctypes
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from kpg.tpch.report import describe_machine, geometric_mean, machine_info, package_versions, quantile

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4


@dataclass(frozen=True, slots=True)
class Measurement:
    """One figure measured several times, beside named references for the same thing.

    ``unit`` is ``s`` or ``bytes`` (less is better) or a rate such as ``tuples/s`` (more is better).
    """

    name: str
    unit: str
    values: tuple[float, ...]
    references: dict[str, float] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def median(self) -> float:
        """The median of the values."""
        return quantile(self.values, 0.5)

    @property
    def ratios(self) -> dict[str, float]:
        """How many times better than each reference the median is."""
        if self.median == 0:
            return {}
        ratios = {name: self.median / value for name, value in self.references.items() if value > 0}
        less_is_better = self.unit in ("s", "bytes")
        return {name: 1 / ratio for name, ratio in ratios.items()} if less_is_better else ratios


def arguments(description: str) -> argparse.ArgumentParser:
    """A parser with the options that every measuring program has: ``--runs`` and ``--json``."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--runs", type=int, default=3, help="times that each figure is measured")
    parser.add_argument("--json", type=Path, help="file for the raw figures")
    return parser


def keep_memory() -> None:
    """Have the allocator (of glibc) keep what is freed, so that only the first run pays for fresh pages.

    In a virtual machine whose host takes free pages back, the first touch of a gigabyte may cost seconds.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, -1)


@dataclass(frozen=True, slots=True)
class Elapsed:
    """Wall time, and the processor's time in it; a busy machine makes the one exceed the other."""

    wall: float
    processor: float


def elapsed(work: Callable[[], object]) -> Elapsed:
    """What ``work`` takes."""
    processor, wall = time.process_time(), time.perf_counter()  # the first takes its time on some machines
    work()
    return Elapsed(time.perf_counter() - wall, time.process_time() - processor)


def timed(work: Callable[[], object]) -> float:
    """The seconds that ``work`` takes."""
    return elapsed(work).wall


def report(title: str, measurements: Sequence[Measurement], path: Path | None = None) -> None:
    """Print the measurements with machine, versions and mean ratios; write the raw figures to ``path``."""
    console = Console()
    console = console if console.is_terminal else Console(width=110)
    console.print(f"{title}\n{describe_machine()}", highlight=False, soft_wrap=True)
    names = list(dict.fromkeys(name for one in measurements for name in one.references))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("measured", "median", "least", "most", "unit"):
        side: Literal["left", "right"] = "left" if heading in ("measured", "unit") else "right"
        table.add_column(heading, justify=side, no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
        table.add_column("ratio", justify="right", no_wrap=True)
    for one in measurements:
        table.add_row(*_cells(one, names))
    console.print(table)
    for summary in _summaries(measurements, names):
        console.print(summary, highlight=False, soft_wrap=True)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(_document(title, measurements), indent=2) + "\n", encoding="utf-8")


def _cells(one: Measurement, names: Sequence[str]) -> list[str]:
    spread = (_figure(one.median), _figure(min(one.values)), _figure(max(one.values)))
    beside = [_figure(values.get(name)) for name in names for values in (one.references, one.ratios)]
    return [one.name, *spread, one.unit, *beside]


def _summaries(measurements: Sequence[Measurement], names: Sequence[str]) -> Iterator[str]:
    """Geometric means: of the medians unit by unit, and of the ratios to each reference."""
    for unit in dict.fromkeys(one.unit for one in measurements):
        medians = [one.median for one in measurements if one.unit == unit]
        if len(medians) > 1:
            yield f"geometric mean of {len(medians)} medians: {_figure(geometric_mean(medians))} {unit}"
    for name in names:
        ratios = [one.ratios[name] for one in measurements if name in one.ratios]
        yield f"geometric mean of {len(ratios)} ratios to {name}: {_figure(geometric_mean(ratios))}"


def _document(title: str, measurements: Sequence[Measurement]) -> dict[str, Any]:
    rows = [
        {
            "name": one.name,
            "unit": one.unit,
            "values": list(one.values),
            "median": one.median,
            "references": one.references,
            "ratios": one.ratios,
            **one.details,
        }
        for one in measurements
    ]
    return {"title": title, "machine": machine_info(), "versions": package_versions(), "measurements": rows}


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
