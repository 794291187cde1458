"""``.output`` and ``.printsize``: writes relations to files, databases or the screen, as Soufflé does."""

import gzip
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from kpg.api.result import Row, Rows
from kpg.compiler.datalog.types.declarations import io_kind, is_on, parse_order_by
from kpg.compiler.rules import core
from kpg.datalog.fact_files import field_delimiter
from kpg.datalog.program import Program
from kpg.datalog.terms import ValueFormatter, formatter_for
from kpg.runtime.convert.files import write_parquet
from kpg.runtime.errors import OperationalError
from kpg.runtime.gc_pause import LazyModule

if TYPE_CHECKING:
    from kpg.datalog import fact_formats
else:
    fact_formats = LazyModule("kpg.datalog.fact_formats")

FRAME_WIDTH: Final = 15
"""Width of the lines that frame a relation on the screen."""
QUOTED_DOMAINS: Final = (core.Domain.SYMBOL, core.Domain.RECORD, core.Domain.ADT)
"""Domains that are always quoted with ``rfc4180``."""
SUFFIXES: Final = {"parquet": ".parquet", "sqlite": ".sqlite", "jsonfile": ".json"}
"""File suffixes of the kinds that do not default to ``.csv``."""


def write_outputs(program: Program, folder: str, out: TextIO) -> None:
    """Write ``.output`` relations into the folder, and print the sizes of ``.printsize`` relations.

    The folder ``-`` stands for ``out``.
    """
    checked = program.checked.program
    for transfer in checked.transfers:
        if transfer.direction is core.TransferKind.INPUT:
            continue
        rows, kind = program.rows(transfer.relation), io_kind(transfer.options)
        if transfer.direction is core.TransferKind.PRINTSIZE or kind == "stdoutprintsize":
            out.write(f"{transfer.name}\t{len(rows)}\n")
            continue
        relation = checked.relations[transfer.relation]
        writer = RelationWriter(relation, transfer, checked, select_rows(rows, relation, transfer))
        if kind == "json":
            out.write(writer.to_json())
        elif kind == "stdout" or folder == "-":
            writer.write_framed(out, has_names=folder == "-")
        else:
            writer.write_file(rows, kind, Path(folder))


def select_rows(rows: Rows, relation: core.Relation, transfer: core.Transfer) -> list[Row]:
    """Return the rows to write, in the order of the directive, by default sorted by value."""
    ordered = sort_rows(rows)
    order_by, limit = transfer.options.get("order_by"), transfer.options.get("limit")
    if order_by:
        positions = {column.name: place for place, column in enumerate(relation.columns)}
        for name, is_ascending in reversed(parse_order_by(order_by)):
            position = positions[name]
            ordered.sort(key=lambda row: (row[position] is not None, row[position]), reverse=not is_ascending)
    return ordered if limit is None else ordered[: int(limit)]


def sort_rows(rows: Rows) -> list[Row]:
    """Return the rows sorted by value, NULL first."""
    return sorted(rows, key=lambda row: [(value is not None, value) for value in row])


class RelationWriter:
    """Writes a relation's rows by the options of its directive."""

    def __init__(
        self, relation: core.Relation, transfer: core.Transfer, program: core.Program, rows: list[Row]
    ) -> None:
        self._relation = relation
        self._transfer = transfer
        self._program = program
        self._rows = rows
        self._options = transfer.options
        self._rfc4180 = is_on(self._options, "rfc4180")
        self._has_names = is_on(self._options, "headers")
        self._delimiter = field_delimiter(self._options)

    def lines(self) -> Iterator[str]:
        """Yield the lines of text, including the header."""
        if self._has_names:
            names = (column.name for column in self._relation.columns)
            yield self._options.get("attributeNames", self._delimiter.join(names)) + "\n"
        if not self._relation.columns:
            yield from (f"{self._options.get('nullary', '()')}\n" for _ in self._rows)
            return
        spellings = [self._formatter(column) for column in self._relation.columns]
        for row in self._rows:
            fields = (spell(value) for spell, value in zip(spellings, row, strict=True))
            yield self._delimiter.join(fields) + "\n"

    def _formatter(self, column: core.Column) -> ValueFormatter:
        plain = formatter_for(column, quotes=self._rfc4180 or is_on(self._options, "quotes"))
        if not self._rfc4180:
            return plain
        is_always_quoted = column.type.domain in QUOTED_DOMAINS
        escaped_quote = '\\""' if column.type.domain is core.Domain.SYMBOL else '""'

        def quote_text(value: object) -> str:
            text = plain(value)
            if is_always_quoted or self._delimiter in text or '"' in text:
                return '"' + text.replace('"', escaped_quote) + '"'
            return text

        return quote_text

    def write_framed(self, out: TextIO, *, has_names: bool) -> None:
        """Write the rows to the screen, with column names if all outputs go there."""
        self._has_names = self._has_names or has_names
        lines = self.lines()
        header = [next(lines)] if self._has_names else []
        out.writelines(
            ("-" * FRAME_WIDTH + "\n", f"{self._transfer.name}\n", *header, "=" * FRAME_WIDTH + "\n")
        )
        out.writelines(lines)
        out.write("=" * FRAME_WIDTH + "\n")

    def to_json(self) -> str:
        """Return the rows as JSON."""
        return fact_formats.to_json(
            self._rows, self._relation, self._program, self._options.get("format", "list")
        )

    def write_file(self, rows: Rows, kind: str, folder: Path) -> None:
        """Write the rows to a file or a SQLite database."""
        is_compressed = is_on(self._options, "compress")
        suffix = SUFFIXES.get(kind, ".csv.gz" if is_compressed else ".csv")
        filename = self._options.get("filename", self._options.get("dbname", self._transfer.name + suffix))
        path = Path(folder, filename)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if kind == "parquet" or path.suffix == ".parquet":
                write_parquet(rows.arrow(), str(path))
            elif kind == "sqlite":
                fact_formats.write_sqlite(path, self._transfer.name, self._relation, self._rows)
            else:
                _write_text(
                    path,
                    (self.to_json(),) if kind == "jsonfile" else self.lines(),
                    is_compressed=is_compressed,
                )
        except OSError as error:
            raise OperationalError(f"cannot write {path}: {error.strerror}") from error


def _write_text(path: Path, lines: Iterable[str], *, is_compressed: bool) -> None:
    if not is_compressed:
        with path.open("w", encoding="utf-8", newline="") as out:
            out.writelines(lines)
        return
    # mtime=0: equal rows produce equal files.
    with (
        gzip.GzipFile(path, "wb", mtime=0) as compressed,
        io.TextIOWrapper(compressed, "utf-8", newline="") as out,
    ):
        out.writelines(lines)
