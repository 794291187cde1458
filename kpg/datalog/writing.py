"""``.output`` and ``.printsize``: relations to text files, parquet or the screen."""

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, TextIO

from kpg.compiler.rules import core
from kpg.datalog.files import TRUE, delimiter_of
from kpg.datalog.program import Program
from kpg.result import Row, Rows
from kpg.runtime.convert.files import write_parquet
from kpg.runtime.errors import NotSupportedError, OperationalError

RULE: Final = 15
"""How long the lines are that frame a relation on the screen."""


def write(program: Program, folder: str, out: TextIO) -> None:
    """Write ``.output`` relations into the folder, ``-`` being ``out``, and print the sizes asked."""
    for transfer in program.checked.program.transfers:
        if transfer.direction is core.Direction.INPUT:
            continue
        rows = program.rows(transfer.relation)
        if transfer.direction is core.Direction.PRINTSIZE:
            out.write(f"{transfer.name}\t{len(rows)}\n")
        elif folder == "-" or transfer.options.get("IO") in ("stdout", "stdoutprintsize"):
            _frame(rows, transfer, out)
        else:
            _file(rows, transfer, folder)


def _file(rows: Rows, transfer: core.Transfer, folder: str) -> None:
    kind = transfer.options.get("IO", "file")
    if kind not in ("file", "csv", "parquet"):
        raise NotSupportedError(
            f".output with IO={kind} is not supported", hint='"file", "parquet" or "stdout"'
        )
    suffix = ".parquet" if kind == "parquet" else ".csv"
    path = Path(folder, transfer.options.get("filename", transfer.name + suffix))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".parquet":
            write_parquet(rows.arrow(), str(path))
            return
        with path.open("w", encoding="utf-8", newline="") as out:
            _lines(rows, transfer, out)
    except OSError as error:
        raise OperationalError(f"cannot write {path}: {error.strerror}") from error


def _lines(rows: Rows, transfer: core.Transfer, out: TextIO) -> None:
    """One row a line, in order; fields are quoted only if ``rfc4180`` is set."""
    delimiter = delimiter_of(Path(), transfer.options)
    lines: Iterable[Row] = in_order(rows)
    if transfer.options.get("headers", "false").lower() in TRUE:
        lines = [tuple(rows.columns), *lines]
    if transfer.options.get("rfc4180", "false").lower() in TRUE:
        csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(lines)
        return
    for row in lines:
        out.write(delimiter.join(map(shown, row)) + "\n")


def _frame(rows: Rows, transfer: core.Transfer, out: TextIO) -> None:
    out.write(f"{'-' * RULE}\n{transfer.name}\n")
    _lines(rows, transfer, out)
    out.write(f"{'=' * RULE}\n")


def in_order(rows: Rows) -> list[Row]:
    """The rows sorted by their values, NULL first."""
    return sorted(rows, key=lambda row: [(value is not None, value) for value in row])


def shown(value: Any) -> str:
    """A value as it stands in a file of facts."""
    return "" if value is None else str(value)
