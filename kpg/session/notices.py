"""Notices: messages of statements beside their results, sent to clients of the wire protocol."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Protocol

from kpg.compiler.catalog.entries import Catalog
from kpg.runtime.records import dataclass

RANKS: Final = (*(f"DEBUG{n}" for n in range(5, 0, -1)), "DEBUG", "LOG", "NOTICE", "WARNING", "ERROR")
MAX_NOTICES: Final = 1_000
"""Unread notices that are kept."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A message. ``severity`` is DEBUG, LOG, INFO, NOTICE or WARNING; ``state`` its SQLSTATE."""

    severity: str
    message: str
    state: str = "00000"
    detail: str | None = None
    hint: str | None = None
    source: tuple[str, int, str] | None = None
    """File, line and function that sent it."""


class NoticeHost(Protocol):
    """The members of the engine that notices use."""

    @property
    def notices(self) -> list[Notice]:
        """Notices that no client has read."""

    @property
    def catalog(self) -> Catalog:
        """Names the schemas."""


def severity_rank(severity: str) -> int:
    """Return the rank of a severity, ascending."""
    return RANKS.index(severity) if severity in RANKS else len(RANKS)


def send_notice(engine: NoticeHost, notice: Notice) -> None:
    """Add a notice, with the caller as its source."""
    caller = sys._getframe(1)
    while caller.f_code.co_filename == __file__ and caller.f_back is not None:
        caller = caller.f_back
    source = (caller.f_code.co_filename, caller.f_lineno, caller.f_code.co_name)
    engine.notices.append(replace(notice, source=source))
    del engine.notices[:-MAX_NOTICES]


def warn(engine: NoticeHost, message: str, state: str = "01000") -> None:
    """Send a WARNING."""
    send_notice(engine, Notice("WARNING", message, state))


def notice_skipped(engine: NoticeHost, fact: str, state: str = "00000") -> None:
    """Send a NOTICE that a statement with IF EXISTS or IF NOT EXISTS changes nothing."""
    send_notice(engine, Notice("NOTICE", f"{fact}, skipping", state))


def notice_existing(engine: NoticeHost, name: str) -> None:
    """Send a NOTICE that a relation already exists."""
    notice_skipped(engine, f'relation "{name.rpartition(".")[2]}" already exists', "42P07")


def notice_missing_relation(engine: NoticeHost, name: str) -> None:
    """Send a NOTICE that a relation does not exist."""
    notice_skipped(engine, f'relation "{name.rpartition(".")[2]}" does not exist')


def notice_missing(engine: NoticeHost, kind: str, name: str) -> None:
    """Send a NOTICE that an object or its schema does not exist."""
    schema, _, plain = name.rpartition(".")
    if schema and schema.lower() not in engine.catalog.schemas:
        notice_skipped(engine, f'schema "{schema}" does not exist')
    else:
        notice_skipped(engine, f'{kind} "{plain}" does not exist')


def notice_missing_type(engine: NoticeHost, name: str) -> None:
    """Send a NOTICE that a type or its schema does not exist."""
    schema = name.rpartition(".")[0]
    if schema and schema.lower() not in engine.catalog.schemas:
        notice_skipped(engine, f'schema "{schema}" does not exist')
    else:
        notice_skipped(engine, f'type "{name}" does not exist')


def notice_cascade(engine: NoticeHost, dropped: Sequence[str]) -> None:
    """Send a NOTICE of the objects that CASCADE drops, each with its kind."""
    lines = [f"drop cascades to {description}" for description in dropped]
    if len(lines) == 1:
        send_notice(engine, Notice("NOTICE", lines[0]))
    elif lines:
        message = f"drop cascades to {len(lines)} other objects"
        send_notice(engine, Notice("NOTICE", message, detail="\n".join(lines)))
