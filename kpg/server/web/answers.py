"""Results and errors as JSON. Values are as Postgres prints them, except where JSON has a form of its own.

Numbers of the integer and floating types are numbers; integers beyond 2**53, which JavaScript would round,
NaN and the infinities are texts. JSON is itself, NULL is null; NUMERIC, whose digits count, and all else
is text.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from kpg.constraints.violations import fields_of
from kpg.listeners.states import state_of
from kpg.result import Result
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DatalogError, Error, IntegrityError
from kpg.runtime.types import Kind, Type
from kpg.server.portal import encoded

ARROW: Final = "application/vnd.apache.arrow.stream"
VIOLATED: Final = {"s": "schema_name", "t": "table_name", "c": "column_name", "n": "constraint_name"}
"""What fields of the wire protocol's errors are called in JSON."""
PORTION: Final = 2_000
"""Rows that are spelled in one go, so that others have their turn in between."""
SAFE: Final = 2**53
FLOATS: Final = (Kind.REAL, Kind.DOUBLE)
STATUSES: Final = (
    ("28", 401),
    ("42501", 403),
    ("40", 409),
    ("23505", 409),
    ("23503", 409),
    ("57014", 408),
    ("0A", 501),
    ("53", 503),
    ("XX", 500),
    ("58", 500),
    ("", 400),
)
"""The status of an answer by how its SQLSTATE begins."""


def status_of(error: BaseException) -> int:
    """The HTTP status of an error."""
    state = state_of(error)
    return next(status for begin, status in STATUSES if state.startswith(begin))


def error_of(error: BaseException) -> dict[str, Any]:
    """An error as data: what, where (``position`` counts characters from 1) and what to do."""
    found: dict[str, Any] = {"sqlstate": state_of(error)}
    if not isinstance(error, Error):
        return found | {"message": f"{type(error).__name__}: {error}"}
    found["message"] = error.message
    if error.hint is not None:
        found["hint"] = error.hint
    if error.span is not None:
        span = error.span
        place = {"position": span.start + 1, "length": span.end - span.start}
        found |= {**place, "line": span.line, "column": span.column, "excerpt": span.excerpt()}
    if isinstance(error, IntegrityError):
        found |= {VIOLATED[name]: text for name, text in fields_of(error).items()}
    if isinstance(error, DatalogError):
        found["diagnostics"] = [one.text() for one in error.diagnostics]
    return found


def columns_of(names: Sequence[str], types: Sequence[Type]) -> list[dict[str, str]]:
    """Columns as data."""
    return [{"name": name, "type": str(type_)} for name, type_ in zip(names, types, strict=True)]


def spelled(field: bytes | None, type_: Type) -> str:
    """A value's text as JSON."""
    if field is None:
        return "null"
    text = field.decode()
    kind = type_.kind
    if type_.is_integer:
        return text if kind is not Kind.BIGINT or -SAFE <= int(text) <= SAFE else f'"{text}"'
    if kind is Kind.BOOLEAN:
        return "true" if text.startswith("t") else "false"
    if kind in FLOATS:
        return text if text[-1].isdigit() else f'"{text}"'
    return text if kind in (Kind.JSON, Kind.JSONB) else json.dumps(text)


def row_of(row: Sequence[bytes | None], types: Sequence[Type]) -> str:
    """A row as a JSON array."""
    return "[" + ",".join(map(spelled, row, types)) + "]"


def portions(outcome: Result, dictionary: Dictionary, most: int | None) -> Iterator[bytes]:
    """The rows of a result as JSON arrays between commas, some at a time."""
    types, formats = outcome.types, [0] * len(outcome.types)
    count = len(outcome) if most is None else min(most, len(outcome))
    for start in range(0, count, PORTION):
        rows = encoded(outcome, start, min(count, start + PORTION), formats, dictionary)
        yield (",".join(row_of(row, types) for row in rows)).encode()


def arrow_of(outcome: Result, most: int | None) -> bytes:
    """The rows of a result, or the first of them, as a stream in Arrow's format."""
    import pyarrow

    table = outcome.arrow() if most is None else outcome.arrow().slice(0, most)
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found
