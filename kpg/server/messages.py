"""Backend messages as bytes, and the command tags of completed statements.

DataRow messages are built here, many rows at a time, and in chunks: between two chunks other
clients run, and memory stays bounded. pygwire builds the other messages.
"""

import struct
import sys
import traceback
from collections.abc import Iterable, Sequence
from os.path import basename
from typing import Final

from pygwire import messages as wire

from kpg.api.result import Result
from kpg.compiler.sql.parse import statements
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.system.oids import oid_of, type_facts, type_modifier
from kpg.execute.scripts import command_of
from kpg.postgres.sqlstate import client_context, client_message, sqlstate_of, violation_fields
from kpg.runtime.errors import Error, IntegrityError
from kpg.runtime.types import Type
from kpg.session.channels import Message
from kpg.session.notices import Notice, severity_rank
from kpg.session.session import Session

NULL_FIELD: Final = b"\xff\xff\xff\xff"
PARSE_COMPLETE: Final = wire.ParseComplete().to_wire()
BIND_COMPLETE: Final = wire.BindComplete().to_wire()
CLOSE_COMPLETE: Final = wire.CloseComplete().to_wire()
NO_DATA: Final = wire.NoData().to_wire()
PORTAL_SUSPENDED: Final = wire.PortalSuspended().to_wire()
EMPTY_QUERY_RESPONSE: Final = wire.EmptyQueryResponse().to_wire()
_length = struct.Struct("!i").pack
_head = struct.Struct("!ciH").pack


def row_description(
    names: Sequence[str],
    types: Sequence[Type],
    formats: Sequence[int],
    origins: Sequence[tuple[str, int]] = (),
) -> bytes:
    """Return RowDescription."""
    fields = []
    field_origins = origins or [("", 0)] * len(names)
    for name, type_, format_, (relation, attribute) in zip(names, types, formats, field_origins, strict=True):
        facts = type_facts(type_)
        fields.append(
            wire.FieldDescription(
                name=name.replace("\0", ""),
                table_oid=oid_of("relation", relation) if relation else 0,
                column_attr=max(attribute, 0),
                type_oid=facts[2],
                type_size=facts[3],
                type_modifier=type_modifier(type_) if attribute >= 0 else -1,
                format_code=format_,
            )
        )
    return wire.RowDescription(fields=fields).to_wire()


def data_rows(rows: Iterable[tuple[bytes | None, ...]]) -> bytes:
    """Return a DataRow for each row."""
    out: list[bytes] = []
    for row in rows:
        parts: list[bytes] = []
        for field in row:
            if field is None:
                parts.append(NULL_FIELD)
            else:
                parts.append(_length(len(field)))
                parts.append(field)
        body = b"".join(parts)
        out.append(_head(b"D", len(body) + 6, len(row)))
        out.append(body)
    return b"".join(out)


def copy_data(line: bytes) -> bytes:
    """Return CopyData."""
    return b"d" + _length(len(line) + 4) + line


def command_complete(tag: str) -> bytes:
    """Return CommandComplete."""
    return wire.CommandComplete(tag=tag).to_wire()


def ready_for_query(status: str) -> bytes:
    """Return ReadyForQuery; the status is I, T or E."""
    return b"Z\x00\x00\x00\x05" + status.encode()


def error_response(error: BaseException, *, severity: str = "ERROR") -> bytes:
    """Return ErrorResponse for an exception."""
    fields = {"S": severity, "V": severity, "C": sqlstate_of(error)}
    if not isinstance(error, Error):
        fields["M"] = f"{type(error).__name__}: {error}"
    else:
        fields["M"] = client_message(error)
        error_context = client_context(error)
        if error_context is not None:
            fields["W"] = error_context
        if isinstance(error, IntegrityError):
            fields |= violation_fields(error)
        if error.hint is not None:
            fields["H"] = error.hint
        if error.detail is not None:
            fields["D"] = error.detail
        if error.span is not None:
            fields["P"] = str(error.span.start + 1)
    fields |= _error_source(error)
    return wire.ErrorResponse(fields={key: _escape_nul(value) for key, value in fields.items()}).to_wire()


def protocol_error(sqlstate: str, message: str, *, hint: str = "", severity: str = "FATAL") -> bytes:
    """Return ErrorResponse with a SQLSTATE and a message."""
    fields = {"S": severity, "V": severity, "C": sqlstate, "M": _escape_nul(message)}
    if hint:
        fields["H"] = hint
    caller = sys._getframe(1)
    fields |= _source_fields(caller.f_code.co_filename, caller.f_lineno, caller.f_code.co_name)
    return wire.ErrorResponse(fields=fields).to_wire()


def _error_source(error: BaseException) -> dict[str, str]:
    """Return the source fields of an error: where it was raised.

    Drivers decide by the routine whether to prepare a statement again. An error that they know by the
    name of Postgres' routine has that name as its ``routine``.
    """
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames:
        return {}
    frame, line = frames[-1]
    routine = error.routine if isinstance(error, Error) else None
    return _source_fields(frame.f_code.co_filename, line, routine or frame.f_code.co_name)


def _source_fields(file: str, line: int, routine: str) -> dict[str, str]:
    """Return the fields of ErrorResponse or NoticeResponse that name a place in the source."""
    return {"F": basename(file), "L": str(line), "R": routine}


def notice_response(notice: Notice) -> bytes:
    """Return NoticeResponse."""
    fields = {"S": notice.severity, "V": notice.severity, "C": notice.state, "M": _escape_nul(notice.message)}
    fields |= {} if notice.detail is None else {"D": _escape_nul(notice.detail)}
    fields |= {} if notice.hint is None else {"H": _escape_nul(notice.hint)}
    fields |= {} if notice.source is None else _source_fields(*notice.source)
    return wire.NoticeResponse(fields=fields).to_wire()


def take_notices(session: "Session") -> bytes:
    """Remove a session's notices and return the messages for those of at least ``client_min_messages``."""
    notices, responses = session.notices, []
    while notices:
        notice = notices.popleft()
        minimum = session.settings.get("client_min_messages", "notice").upper()
        if notice.severity == "INFO" or severity_rank(notice.severity) >= severity_rank(minimum):
            responses.append(notice_response(notice))
    return b"".join(responses)


def notification_response(message: Message) -> bytes:
    """Return NotificationResponse."""
    return wire.NotificationResponse(
        process_id=message.sender, channel=message.channel, payload=_escape_nul(message.payload)
    ).to_wire()


def parameter_status(name: str, value: str) -> bytes:
    """Return ParameterStatus."""
    return wire.ParameterStatus(name=name, value=value).to_wire()


def _escape_nul(text: str) -> str:
    """Replace the zero character, which ends strings on the wire."""
    return text.replace("\0", "\\0")


COUNTED_TAGS: Final[dict[type, str]] = {
    ast.Select: "SELECT",
    ast.Insert: "INSERT 0",
    ast.Delete: "DELETE",
    ast.Update: "UPDATE",
    ast.Merge: "MERGE",
    ast.CopyFrom: "COPY",
    ast.CopyTo: "COPY",
    ast.CreateTableAs: "SELECT",
}
"""Tags that are followed by a number of rows."""
LISTING: Final = (ast.ShowTables, ast.Describe, ast.VerifyView)
"""Statements of kpg's own that return rows."""


def command_tag(statement: ast.Statement, outcome: Result | None) -> str:
    """Return the command tag of a statement that has run.

    With data-modifying WITH clauses it is the tag of the main statement.
    """
    statement = statement.main if isinstance(statement, ast.ModifyingWith) else statement
    count = 0 if outcome is None else outcome.rowcount
    if isinstance(statement, LISTING) and outcome is not None:
        return f"SELECT {count}"
    word = COUNTED_TAGS.get(type(statement))
    if word is None and isinstance(statement, ast.Fetch):
        word = statement.command_tag()
    return statement.command_tag() if word is None else f"{word} {count}"


def executed_row_word(session: Session, statement: ast.Statement) -> str | None:
    """Return the first word of the statement that an EXECUTE runs, if its tag counts rows; else None."""
    if not isinstance(statement, statements.Execute):
        return None
    prepared = session.prepared_statements.get(
        statement.name
    ) or session.prepared_statements.protocol_statements.get(statement.name)
    return None if prepared is None else command_of(prepared.text)


INITIAL_ROWS: Final = 32
MAX_ROWS: Final = 2_000
TARGET_BYTES: Final = 1 << 18
"""Approximate size of a chunk."""


class ChunkSizer:
    """Number of rows of the next chunk, from the sizes of the previous ones."""

    def __init__(self) -> None:
        self.rows = INITIAL_ROWS

    def record_chunk(self, rows: int, size: int) -> None:
        """Record the size of a chunk, in bytes."""
        if rows:
            self.rows = max(1, min(TARGET_BYTES * rows // max(size, 1), self.rows * 4, MAX_ROWS))
