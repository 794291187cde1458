"""Results on standard output: a box for people, or CSV, JSON or TSV for programs."""

import csv
import datetime
import enum
import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TextIO

from kpg.api.display import cell
from kpg.api.result import Rows


class Format(enum.StrEnum):
    """How rows are printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    TSV = "tsv"


def write(rows: Rows, form: Format, out: TextIO) -> None:
    """Print the rows."""
    _WRITERS[form](rows, out)


def _table(rows: Rows, out: TextIO) -> None:
    out.write(f"{rows!r}\n")


def _csv(rows: Rows, out: TextIO) -> None:
    """NULL is an empty field and the empty text is quoted, as Postgres' COPY writes them."""
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_MINIMAL)
    writer.writerow(rows.columns)
    for row in rows:
        if "" not in row and row != (None,):
            writer.writerow(["" if value is None else _plain(value) for value in row])
            continue
        out.write(",".join(_csv_field(value) for value in row) + "\n")


def _csv_field(value: Any) -> str:
    if value is None:
        return ""
    text = _plain(value)
    if text and not set(text) & set(',"\r\n'):
        return text
    return '"' + text.replace('"', '""') + '"'


def _tsv(rows: Rows, out: TextIO) -> None:
    r"""NULL is ``\N``; tab, newline and backslash are escaped, as Postgres' COPY writes them."""
    out.write("\t".join(_tsv_field(name) for name in rows.columns) + "\n")
    for row in rows:
        out.write("\t".join(_tsv_field(value) for value in row) + "\n")


def _tsv_field(value: Any) -> str:
    if value is None:
        return r"\N"
    text = _plain(value).replace("\\", "\\\\")
    return text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def _json(rows: Rows, out: TextIO) -> None:
    """An array with one object a line. Decimals keep all their digits; NaN and infinity become text."""
    names = [json.dumps(name, ensure_ascii=False) for name in rows.columns]
    lines = []
    for row in rows:
        fields = (f"{name}: {_json_value(value)}" for name, value in zip(names, row, strict=True))
        lines.append("{" + ", ".join(fields) + "}")
    out.write("[" + ",\n ".join(lines) + "]\n")


def _json_value(value: Any) -> str:
    match value:
        case Decimal():
            return f"{value:f}"
        case float() if not math.isfinite(value):
            return json.dumps(str(value))
        case None | bool() | int() | float() | str():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> str:
    """A value as text that can be read back; unlike in a box, text stands as it is."""
    if isinstance(value, str):
        return value
    if isinstance(value, datetime.timedelta):
        return str(value)
    return cell(value)


_WRITERS: dict[Format, Callable[[Rows, TextIO], None]] = {
    Format.TABLE: _table,
    Format.CSV: _csv,
    Format.JSON: _json,
    Format.TSV: _tsv,
}
