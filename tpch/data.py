"""TPC-H data and queries: parquet files cached per scale factor, and the SQL text of the 22 queries."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Final

from kpg.runtime.errors import OperationalError

PRIMARY_KEYS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "region": ("r_regionkey",),
        "nation": ("n_nationkey",),
        "supplier": ("s_suppkey",),
        "customer": ("c_custkey",),
        "part": ("p_partkey",),
        "partsupp": ("ps_partkey", "ps_suppkey"),
        "orders": ("o_orderkey",),
        "lineitem": ("l_orderkey", "l_linenumber"),
    }
)
TABLES: Final = tuple(PRIMARY_KEYS)
"""The tables, each after those that it references."""

QUERIES: Final = tuple(range(1, 23))


@cache
def create_statements() -> Mapping[str, str]:
    """Return the CREATE TABLE statement of each table, by name, without the final semicolon."""
    text = files("kpg.tpch").joinpath("schema.sql").read_text(encoding="utf-8")
    statements = re.finditer(r"^create table (\w+) .*?^\)", text, re.MULTILINE | re.DOTALL)
    return MappingProxyType({statement[1]: statement[0] for statement in statements})


@cache
def query_text(number: int) -> str:
    """Return a query's SQL text with the specification's validation parameters, without a final semicolon."""
    text = files("kpg.tpch").joinpath("queries", f"q{number:02d}.sql").read_text(encoding="utf-8")
    return text.strip().removesuffix(";").rstrip()


GENERATOR: Final = "tpchgen-cli"


def cache_folder() -> Path:
    """Return the folder for generated data: ``$XDG_CACHE_HOME/kpg/tpch``, by default below ``~/.cache``.

    If it cannot be created, this is a folder for temporary files.
    """
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base, "kpg", "tpch")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.gettempdir(), "kpg-tpch")
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def data_folder(scale: float, data: Path | None = None) -> Path:
    """Return the folder for the files of a scale factor.

    ``data`` is either a folder of such folders or one with the eight tables.
    """
    if data is not None and is_complete(data):
        return data
    return (cache_folder() if data is None else data) / f"sf{scale:g}"


def table_path(folder: Path, table: str) -> Path:
    """Return the path of a table's parquet file."""
    return folder / f"{table}.parquet"


def is_complete(folder: Path) -> bool:
    """Return whether a folder has all eight tables."""
    return all(table_path(folder, table).is_file() for table in TABLES)


def generate(scale: float, folder: Path) -> None:
    """Write the eight tables into ``folder``. An interrupted run leaves no partial file.

    Raises OperationalError if the generator is not installed or fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="partial-", dir=folder) as name:
        partial = Path(name)
        _run_generator(scale, partial)
        if not is_complete(partial):
            raise OperationalError(f"{GENERATOR} did not write all of {', '.join(TABLES)}")
        for table in TABLES:
            table_path(partial, table).replace(table_path(folder, table))


def _run_generator(scale: float, folder: Path) -> None:
    command = [
        _generator(),
        "parquet",
        "--scale-factor",
        f"{scale:g}",
        "--output-dir",
        str(folder),
        "--quiet",
    ]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        raise OperationalError(
            f"{GENERATOR} failed for scale factor {scale:g}: {finished.stderr.strip()}",
            hint="check that the disk has room: a scale factor of 1 needs about 400 MB",
        )


def _generator() -> str:
    local = Path(sys.executable).with_name(GENERATOR)
    path = str(local) if local.is_file() else shutil.which(GENERATOR)
    if path is None:
        raise OperationalError(
            f"{GENERATOR}, which makes TPC-H data, is not installed",
            hint="pip install 'kpg[tpch]', or give a folder with sf<scale>/<table>.parquet by --data",
        )
    return path
