"""Rows as COPY writes them: contents whose lines are made when they are asked for, a part at a time."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kpg.queries.reading import Decoded
from kpg.result import Result, Row
from kpg.runtime.convert import csv_format
from kpg.runtime.convert.python_values import written
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.types import TEXT, Type
from kpg.runtime.values import codec_of
from kpg.runtime.values.codec import output_of
from kpg.runtime.values.styles import Style, depends, writer_of

if TYPE_CHECKING:
    import pyarrow

Shown = list[str | None]
NAME = "copy"


class Lines:
    """One column, a line for each row of a result, behind that of the header if there is one."""

    def __init__(self, rows: Result, form: csv_format.Form, dictionary: Dictionary, style: Style) -> None:
        self.rows = rows
        self._form = form
        self._names = rows.columns
        self._dictionary = dictionary
        self._writers = [_writer(type_, style) for type_ in rows.types]

    def __len__(self) -> int:
        return len(self.rows) + self._form.header

    def arrow(self) -> "pyarrow.Table":
        """See Contents."""
        import pyarrow

        return pyarrow.table(
            {NAME: pyarrow.array([line for (line,) in self.part(0, None)], pyarrow.string())}
        )

    def part(self, start: int, stop: int | None) -> list[Row]:
        """See Contents."""
        first = self._form.header
        last = len(self) if stop is None else min(stop, len(self))
        lines = [self._header()] if first and start == 0 < last else []
        begin = max(start - first, 0)
        lines += self._lines(begin, max(last - first, begin))
        return [(line,) for line in lines]

    def _header(self) -> str:
        return csv_format.line_of(self._names, csv_format.unforced(self._form), self._names)

    def _lines(self, start: int, stop: int) -> list[str]:
        columns = self._columns(start, stop) if stop > start else []
        if not columns:
            return [""] * (stop - start)
        return [csv_format.line_of(row, self._form, self._names) for row in zip(*columns, strict=True)]

    def _columns(self, start: int, stop: int) -> list[Shown]:
        contents, types = self.rows.contents, self.rows.types
        if isinstance(contents, Decoded):
            words = contents.words[:, start:stop]
            return [
                written(column, type_, self._dictionary, write)
                for column, type_, write in zip(words, types, self._writers, strict=True)
            ]
        made = [
            (codec_of(type_).from_python, write) for type_, write in zip(types, self._writers, strict=True)
        ]
        values = zip(*contents.part(start, stop), strict=True)
        return [
            [None if value is None else write(take(value)) for value in column]
            for column, (take, write) in zip(values, made, strict=True)
        ]


def lines_of(rows: Result, form: csv_format.Form, dictionary: Dictionary, style: Style) -> Result:
    """A result of lines."""
    return Result([NAME], [TEXT], Lines(rows, form, dictionary, style))


def _writer(type_: Type, style: Style) -> Callable[[Any], str]:
    return writer_of(type_, style) if depends(type_) else output_of(type_)
