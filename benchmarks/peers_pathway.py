"""A peer: Pathway, a streaming dataflow system, maintains Q1, Q3 and Q6 over the same data.

    python benchmarks/peers_pathway.py --scale 0.1 --json pathway.json [--python PATH]

Pathway runs in an environment of its own: that of ``--python``, or a temporary one into which pip
installs it. ``static`` reads CSV files as one batch; ``epochs`` takes rows from Python and commits
``--epoch`` of them at a time. On the clock is ``pathway.run``, reading included, on one worker.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from _common import Measurement, arguments, report
from _tpch import add_arguments, folder, schema_of, tables_of

from kpg.tpch.data import query_text, table_path

EXPRESSED = (1, 3, 6)


def interpreter(base: Path) -> Path:
    """The interpreter of a new environment with Pathway; exits with a message if it cannot be installed."""
    venv.create(base, with_pip=True)
    python = base / "bin" / "python"
    command = [str(python), "-m", "pip", "install", "--quiet", "pathway"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        sys.exit(f"Pathway cannot be installed here: {finished.stderr.strip()}")
    return python


def write_tables(source: Path, target: Path, number: int) -> int:
    """The columns of a query as plain numbers and strings; how many tuples there are."""
    text, tuples = query_text(number), 0
    for name in tables_of(number):
        columns = [column for column in schema_of(name).names if column in text]
        table = pq.read_table(table_path(source, name), columns=columns)
        plain = {column: _plain(table[column]) for column in columns}
        pq.write_table(pa.table(plain), target / f"{name}.parquet")
        tuples += table.num_rows
    return tuples


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_decimal(column.type):
        return column.cast(pa.float64())
    return column if pa.types.is_integer(column.type) else column.cast(pa.string())


def run(python: Path, number: int, data: Path, epoch: int) -> dict[str, Any]:
    """Pathway's seconds and answer."""
    program = Path(__file__).with_name("_pathway.py")
    command = [str(python), str(program), str(number), str(data), str(epoch)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        sys.exit(f"q{number} failed in Pathway: {finished.stderr.strip()[-2000:]}")
    found: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return found


def measure(python: Path, options: argparse.Namespace) -> Iterator[Measurement]:
    """Tuples a second, in both ways."""
    for number in options.queries:
        with tempfile.TemporaryDirectory(prefix="pathway-data-") as name:
            data = Path(name)
            tuples = write_tables(folder(options), data, number)
            for kind, epoch in (("static", 0), ("epochs", options.epoch)):
                runs = [run(python, number, data, epoch) for _ in range(options.runs)]
                rates = tuple(tuples / one["seconds"] for one in runs)
                details = {"tuples": tuples, "rows": len(runs[0]["rows"]), "first": runs[0]["rows"][:1]}
                yield Measurement(f"q{number} {kind}", "tuples/s", rates, {}, details)


def main() -> None:
    parser = arguments(__doc__ or "")
    add_arguments(parser, 0.1)
    parser.set_defaults(queries=EXPRESSED)
    parser.add_argument("--python", type=Path, help="an interpreter that has Pathway")
    parser.add_argument("--epoch", type=int, default=100_000, help="rows that are committed at a time")
    options = parser.parse_args()
    if not set(options.queries) <= set(EXPRESSED):
        parser.error(f"only queries {', '.join(map(str, EXPRESSED))} are written for Pathway")
    with tempfile.TemporaryDirectory(prefix="pathway-") as name:
        python = options.python or interpreter(Path(name))
        command = [str(python), "-m", "pip", "show", "pathway"]
        shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        version = next((line for line in shown.splitlines() if line.startswith("Version")), "Version: ?")
        title = f"Pathway {version.split()[-1]}, one worker, scale factor {options.scale:g}"
        report(title, list(measure(python, options)), options.json)


if __name__ == "__main__":
    main()
