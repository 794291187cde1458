"""``.output`` and ``.printsize``: writes relations to files, databases or the screen, as Soufflé does."""

import gzip
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, TextIO

from kpg.api.result import Row, Rows
from kpg.compiler.datalog.types.declarations import is_on, kind_of, order_of
from kpg.compiler.rules import core
from kpg.datalog.fact_files import separator
from kpg.datalog.program import Program
from kpg.datalog.terms import Spelling, spelling_of
from kpg.runtime.convert.files import write_parquet
from kpg.runtime.errors import OperationalError

RULE: Final = 15
"""How long the lines are that frame a relation on the screen."""
ALWAYS_QUOTED: Final = (core.Domain.SYMBOL, core.Domain.RECORD, core.Domain.ADT)
SUFFIXES: Final = {"parquet": ".parquet", "sqlite": ".sqlite", "jsonfile": ".json"}


def write(program: Program, folder: str, out: TextIO) -> None:
    """Write ``.output`` relations into the folder, ``-`` being ``out``, and print the sizes asked."""
    checked = program.checked.program
    for transfer in checked.transfers:
        if transfer.direction is core.Direction.INPUT:
            continue
        rows, kind = program.rows(transfer.relation), kind_of(transfer.options)
        if transfer.direction is core.Direction.PRINTSIZE or kind == "stdoutprintsize":
            out.write(f"{transfer.name}\t{len(rows)}\n")
            continue
        relation = checked.relations[transfer.relation]
        writer = Writer(relation, transfer, checked, chosen(rows, relation, transfer))
        if kind == "json":
            out.write(writer.json())
        elif kind == "stdout" or folder == "-":
            writer.frame(out, has_names=folder == "-")
        else:
            writer.file(rows, kind, Path(folder))


def chosen(rows: Rows, relation: core.Relation, transfer: core.Transfer) -> list[Row]:
    """The rows to write, in the order of the directive, or else of their values."""
    found = in_order(rows)
    order_by, limit = transfer.options.get("order_by"), transfer.options.get("limit")
    if order_by:
        places = {column.name: place for place, column in enumerate(relation.columns)}
        for name, ascends in reversed(order_of(order_by)):
            place = places[name]
            found.sort(key=lambda row: (row[place] is not None, row[place]), reverse=not ascends)
    return found if limit is None else found[: int(limit)]


def in_order(rows: Rows) -> list[Row]:
    """The rows sorted by their values, NULL first."""
    return sorted(rows, key=lambda row: [(value is not None, value) for value in row])


class Writer:
    """A relation's rows on their way out, by the options of its directive."""

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
        self._delimiter = separator(self._options)

    def lines(self) -> Iterator[str]:
        """The lines of text, the header among them."""
        if self._has_names:
            names = (column.name for column in self._relation.columns)
            yield self._options.get("attributeNames", self._delimiter.join(names)) + "\n"
        if not self._relation.columns:
            yield from (f"{self._options.get('nullary', '()')}\n" for _ in self._rows)
            return
        spellings = [self._spelling(column) for column in self._relation.columns]
        for row in self._rows:
            fields = (spell(value) for spell, value in zip(spellings, row, strict=True))
            yield self._delimiter.join(fields) + "\n"

    def _spelling(self, column: core.Column) -> Spelling:
        plain = spelling_of(column, quotes=self._rfc4180 or is_on(self._options, "quotes"))
        if not self._rfc4180:
            return plain
        always = column.type.domain in ALWAYS_QUOTED
        mark = '\\""' if column.type.domain is core.Domain.SYMBOL else '""'

        def quoted(value: object) -> str:
            text = plain(value)
            if always or self._delimiter in text or '"' in text:
                return '"' + text.replace('"', mark) + '"'
            return text

        return quoted

    def frame(self, out: TextIO, *, has_names: bool) -> None:
        """The rows on the screen; with the columns' names if all outputs go there."""
        self._has_names = self._has_names or has_names
        lines = self.lines()
        header = [next(lines)] if self._has_names else []
        out.writelines(("-" * RULE + "\n", f"{self._transfer.name}\n", *header, "=" * RULE + "\n"))
        out.writelines(lines)
        out.write("=" * RULE + "\n")

    def json(self) -> str:
        """The rows as JSON."""
        from kpg.datalog.fact_formats import to_text  # lazy: it imports sqlite3

        return to_text(self._rows, self._relation, self._program, self._options.get("format", "list"))

    def file(self, rows: Rows, kind: str, folder: Path) -> None:
        """The rows in a file of its own, or in a database."""
        is_zipped = is_on(self._options, "compress")
        suffix = SUFFIXES.get(kind, ".csv.gz" if is_zipped else ".csv")
        given = self._options.get("filename", self._options.get("dbname", self._transfer.name + suffix))
        path = Path(folder, given)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if kind == "parquet" or path.suffix == ".parquet":
                write_parquet(rows.arrow(), str(path))
            elif kind == "sqlite":
                from kpg.datalog.fact_formats import write_table  # lazy: it imports sqlite3

                write_table(path, self._transfer.name, self._relation, self._rows)
            else:
                _text(path, (self.json(),) if kind == "jsonfile" else self.lines(), is_zipped=is_zipped)
        except OSError as error:
            raise OperationalError(f"cannot write {path}: {error.strerror}") from error


def _text(path: Path, lines: Iterable[str], *, is_zipped: bool) -> None:
    if not is_zipped:
        with path.open("w", encoding="utf-8", newline="") as out:
            out.writelines(lines)
        return
    # Without the time, so that equal rows are equal files.
    with gzip.GzipFile(path, "wb", mtime=0) as packed, io.TextIOWrapper(packed, "utf-8", newline="") as out:
        out.writelines(lines)
