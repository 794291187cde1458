"""Backend messages as bytes, and the command tags of completed statements.

DataRow messages are built here, many rows at a time, and in portions: between two portions other clients
run, and memory stays bounded. pygwire builds the other messages.
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
from kpg.compiler.system.oids import modifier, number_of, type_facts
from kpg.execute.scripts import word_of
from kpg.postgres.sqlstate import context, detail, fields_of, state_of, told
from kpg.runtime.errors import Error, IntegrityError
from kpg.runtime.types import Type
from kpg.session.channels import Message
from kpg.session.notices import Notice, rank
from kpg.session.session import Session

NULL_FIELD: Final = b"\xff\xff\xff\xff"
PARSED: Final = wire.ParseComplete().to_wire()
BOUND: Final = wire.BindComplete().to_wire()
CLOSED: Final = wire.CloseComplete().to_wire()
NO_DATA: Final = wire.NoData().to_wire()
SUSPENDED: Final = wire.PortalSuspended().to_wire()
EMPTY: Final = wire.EmptyQueryResponse().to_wire()
_length = struct.Struct("!i").pack
_head = struct.Struct("!ciH").pack


def description(
    names: Sequence[str],
    types: Sequence[Type],
    formats: Sequence[int],
    origins: Sequence[tuple[str, int]] = (),
) -> bytes:
    """RowDescription."""
    fields = []
    known = origins or [("", 0)] * len(names)
    for name, type_, format_, (relation, place) in zip(names, types, formats, known, strict=True):
        facts = type_facts(type_)
        fields.append(
            wire.FieldDescription(
                name=name.replace("\0", ""),
                table_oid=number_of("relation", relation) if relation else 0,
                column_attr=max(place, 0),
                type_oid=facts[2],
                type_size=facts[3],
                type_modifier=modifier(type_) if place >= 0 else -1,
                format_code=format_,
            )
        )
    return wire.RowDescription(fields=fields).to_wire()


def data(rows: Iterable[tuple[bytes | None, ...]]) -> bytes:
    """A DataRow for each row."""
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
    """CopyData."""
    return b"d" + _length(len(line) + 4) + line


def complete(tag: str) -> bytes:
    """CommandComplete."""
    return wire.CommandComplete(tag=tag).to_wire()


def ready(status: str) -> bytes:
    """ReadyForQuery: I, T or E."""
    return b"Z\x00\x00\x00\x05" + status.encode()


def failure(error: BaseException, *, severity: str = "ERROR") -> bytes:
    """ErrorResponse: what, where and what to do."""
    fields = {"S": severity, "V": severity, "C": state_of(error)}
    if not isinstance(error, Error):
        fields["M"] = f"{type(error).__name__}: {error}"
    else:
        fields["M"] = told(error)
        where = context(error)
        if where is not None:
            fields["W"] = where
        if isinstance(error, IntegrityError):
            fields |= fields_of(error)
        if error.hint is not None:
            fields["H"] = error.hint
        more = detail(error)
        if more is not None:
            fields["D"] = more
        if error.span is not None:
            fields["P"] = str(error.span.start + 1)
    fields |= _raised_at(error)
    return wire.ErrorResponse(fields={key: _clean(value) for key, value in fields.items()}).to_wire()


def refusal(state: str, message: str, *, hint: str = "", severity: str = "FATAL") -> bytes:
    """ErrorResponse with a SQLSTATE of the protocol's own."""
    fields = {"S": severity, "V": severity, "C": state, "M": _clean(message)}
    if hint:
        fields["H"] = hint
    caller = sys._getframe(1)
    fields |= _source_fields(caller.f_code.co_filename, caller.f_lineno, caller.f_code.co_name)
    return wire.ErrorResponse(fields=fields).to_wire()


def _raised_at(error: BaseException) -> dict[str, str]:
    """The source fields of an error: where it was raised.

    Drivers decide by the routine whether to prepare a statement again: an error that they know by the
    name of Postgres' routine carries that name as its ``routine``.
    """
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames:
        return {}
    frame, line = frames[-1]
    routine = error.routine if isinstance(error, Error) else None
    return _source_fields(frame.f_code.co_filename, line, routine or frame.f_code.co_name)


def _source_fields(file: str, line: int, routine: str) -> dict[str, str]:
    """The fields of an ErrorResponse or NoticeResponse that name a place in the source."""
    return {"F": basename(file), "L": str(line), "R": routine}


def notice(said: Notice) -> bytes:
    """NoticeResponse."""
    fields = {"S": said.severity, "V": said.severity, "C": said.state, "M": _clean(said.message)}
    fields |= {} if said.detail is None else {"D": _clean(said.detail)}
    fields |= {} if said.hint is None else {"H": _clean(said.hint)}
    fields |= {} if said.source is None else _source_fields(*said.source)
    return wire.NoticeResponse(fields=fields).to_wire()


def said(session: "Session") -> bytes:
    """What a session's statements have said, unless its client wants no such messages; it is said then."""
    notices, found = session.notices, []
    while notices:
        one = notices.popleft()
        least = session.settings.get("client_min_messages", "notice").upper()
        if one.severity == "INFO" or rank(one.severity) >= rank(least):
            found.append(notice(one))
    return b"".join(found)


def notification(message: Message) -> bytes:
    """NotificationResponse."""
    return wire.NotificationResponse(
        process_id=message.sender, channel=message.channel, payload=_clean(message.payload)
    ).to_wire()


def setting(name: str, value: str) -> bytes:
    """ParameterStatus."""
    return wire.ParameterStatus(name=name, value=value).to_wire()


def _clean(text: str) -> str:
    """Without the character that ends strings on the wire."""
    return text.replace("\0", "\\0")


NOISE: Final = frozenset(
    ("OR", "REPLACE", "TEMP", "TEMPORARY", "UNLOGGED", "UNIQUE", "LOCAL", "GLOBAL", "RECURSIVE")
)
SHORT: Final = {
    "BEGIN": "BEGIN",
    "START": "START TRANSACTION",
    "COMMIT": "COMMIT",
    "END": "COMMIT",
    "ABORT": "ROLLBACK",
    "ROLLBACK": "ROLLBACK",
    "DECLARE": "DECLARE CURSOR",
    "TRUNCATE": "TRUNCATE TABLE",
}

COUNTED: Final[dict[type, str]] = {
    ast.Select: "SELECT",
    ast.Insert: "INSERT 0",
    ast.Delete: "DELETE",
    ast.Update: "UPDATE",
    ast.Merge: "MERGE",
    ast.CopyFrom: "COPY",
    ast.CopyTo: "COPY",
    ast.CreateTableAs: "SELECT",
}
"""Statements whose tags tell a number of rows."""
NAMED: Final[dict[type, str]] = {
    statements.LockTable: "LOCK TABLE",
    statements.Close: "CLOSE CURSOR",
    statements.SetConstraints: "SET CONSTRAINTS",
    statements.Show: "SHOW",
}
"""Statements whose tags are others than their first words."""


def tag_of(statement: ast.Statement, outcome: Result | None) -> str:
    """The tag of a statement that has run; of one with changes in its WITH, that of what comes behind it."""
    word = COUNTED.get(type(statement.main if isinstance(statement, ast.Modifying) else statement))
    if word is not None:
        return f"{word} {0 if outcome is None else outcome.rowcount}"
    if isinstance(statement, statements.Savepoint) and statement.kind == "RETURN":
        return "ROLLBACK"
    if isinstance(statement, statements.Close | statements.Deallocate) and not statement.name:
        return "CLOSE CURSOR ALL" if isinstance(statement, statements.Close) else "DEALLOCATE ALL"
    if type(statement) in NAMED:
        return NAMED[type(statement)]
    if isinstance(statement, statements.Fetch):
        return f"{'MOVE' if statement.moves else 'FETCH'} {0 if outcome is None else outcome.rowcount}"
    return _by_words(statement, outcome)


def _by_words(statement: ast.Statement, outcome: Result | None) -> str:
    span = statement.span
    words = span.source[span.start : span.end].upper().split()
    first = words[0].rstrip(";") if words else ""
    if first in SHORT:
        return SHORT[first]
    if first == "WITH" or (outcome is not None and first not in ("CREATE", "EXECUTE", "EXPLAIN")):
        return f"SELECT {0 if outcome is None else outcome.rowcount}"
    if first not in ("CREATE", "DROP", "ALTER"):
        return f"{first} {words[1].rstrip(';')}" if first == "DISCARD" else first
    rest = [word for word in words[1:4] if word not in NOISE]
    two = rest[:2] if rest[:1] == ["MATERIALIZED"] else rest[:1]
    return " ".join([first, *two])


def prepared_by(one: Session, statement: ast.Statement) -> str | None:
    """The word of the statement that an EXECUTE runs, if its tag counts rows; None for another statement."""
    if not isinstance(statement, statements.Execute):
        return None
    found = one.prepared.get(statement.name) or one.prepared.parsed.get(statement.name)
    return None if found is None else word_of(found.text)


FIRST: Final = 32
MOST: Final = 2_000
BYTES: Final = 1 << 18
"""What a piece shall have, about."""


class Pace:
    """``rows`` is for the next piece: by the size of those of the last."""

    def __init__(self) -> None:
        self.rows = FIRST

    def took(self, rows: int, size: int) -> None:
        """Note the bytes that a piece of so many rows has."""
        if rows:
            self.rows = max(1, min(BYTES * rows // max(size, 1), self.rows * 4, MOST))
