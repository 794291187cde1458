"""Query results on standard output: a box for people, or CSV, JSON or TSV for programs."""

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
    """Output format of rows."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    TSV = "tsv"


def write(rows: Rows, output_format: Format, out: TextIO) -> None:
    """Print rows in a format."""
    _WRITERS[output_format](rows, out)


def _write_table(rows: Rows, out: TextIO) -> None:
    out.write(f"{rows!r}\n")


def _write_csv(rows: Rows, out: TextIO) -> None:
    """Write NULL as an empty field and the empty string quoted, as Postgres' COPY does."""
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_MINIMAL)
    writer.writerow(rows.columns)
    for row in rows:
        if "" not in row and row != (None,):
            writer.writerow(["" if value is None else _format_value(value) for value in row])
            continue
        out.write(",".join(_csv_field(value) for value in row) + "\n")


def _csv_field(value: Any) -> str:
    if value is None:
        return ""
    text = _format_value(value)
    if text and not set(text) & set(',"\r\n'):
        return text
    return '"' + text.replace('"', '""') + '"'


def _write_tsv(rows: Rows, out: TextIO) -> None:
    r"""Write NULL as ``\N``, and escape tab, newline and backslash, as Postgres' COPY does."""
    out.write("\t".join(_tsv_field(name) for name in rows.columns) + "\n")
    for row in rows:
        out.write("\t".join(_tsv_field(value) for value in row) + "\n")


def _tsv_field(value: Any) -> str:
    if value is None:
        return r"\N"
    text = _format_value(value).replace("\\", "\\\\")
    return text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def _write_json(rows: Rows, out: TextIO) -> None:
    """Write an array with one object per line. Decimals keep all digits; NaN and infinity become text."""
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
            return json.dumps(_format_value(value), ensure_ascii=False)


def _format_value(value: Any) -> str:
    """Return a value as text that can be read back."""
    if isinstance(value, str):
        return value
    if isinstance(value, datetime.timedelta):
        return str(value)
    return cell(value)


_WRITERS: dict[Format, Callable[[Rows, TextIO], None]] = {
    Format.TABLE: _write_table,
    Format.CSV: _write_csv,
    Format.JSON: _write_json,
    Format.TSV: _write_tsv,
}
