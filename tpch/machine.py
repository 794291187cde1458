"""What a measurement was made on: the machine and the versions that matter."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

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
