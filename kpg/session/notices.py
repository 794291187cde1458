"""Notices: messages of statements beside their results, sent to clients of the wire protocol."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Protocol

from kpg.compiler.catalog.entries import Catalog
from kpg.runtime.records import dataclass

RANKS: Final = (*(f"DEBUG{n}" for n in range(5, 0, -1)), "DEBUG", "LOG", "NOTICE", "WARNING", "ERROR")
MOST: Final = 1_000
"""So many are kept that nobody has asked for."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A message. ``severity`` is DEBUG, LOG, INFO, NOTICE or WARNING; ``state`` its SQLSTATE."""

    severity: str
    message: str
    state: str = "00000"
    detail: str | None = None
    hint: str | None = None
    source: tuple[str, int, str] | None = None
    """File, line and function that say it."""


class Notified(Protocol):
    """The members of the engine that notices use."""

    @property
    def notices(self) -> list[Notice]:
        """The notices that no client has read yet."""

    @property
    def catalog(self) -> Catalog:
        """Names the schemas."""


def rank(severity: str) -> int:
    """How grave messages of a severity are."""
    return RANKS.index(severity) if severity in RANKS else len(RANKS)


def say(engine: Notified, notice: Notice) -> None:
    """Have whoever runs the statement be told."""
    caller = sys._getframe(1)
    while caller.f_code.co_filename == __file__ and caller.f_back is not None:
        caller = caller.f_back
    source = (caller.f_code.co_filename, caller.f_lineno, caller.f_code.co_name)
    engine.notices.append(replace(notice, source=source))
    del engine.notices[:-MOST]


def warn(engine: Notified, message: str, state: str = "01000") -> None:
    """Say a WARNING."""
    say(engine, Notice("WARNING", message, state))


def say_skipped(engine: Notified, fact: str, state: str = "00000") -> None:
    """Say (NOTICE) why a statement with IF EXISTS or IF NOT EXISTS changes nothing."""
    say(engine, Notice("NOTICE", f"{fact}, skipping", state))


def say_present(engine: Notified, name: str) -> None:
    """Say that a relation of that name is there already."""
    say_skipped(engine, f'relation "{name.rpartition(".")[2]}" already exists', "42P07")


def say_skipped_relation(engine: Notified, name: str) -> None:
    """Say that the relation that a statement is about does not exist."""
    say_skipped(engine, f'relation "{name.rpartition(".")[2]}" does not exist')


def say_missing(engine: Notified, kind: str, name: str) -> None:
    """Say that there is no object of a kind and a name, or not even its schema."""
    schema, _, plain = name.rpartition(".")
    if schema and schema.lower() not in engine.catalog.schemas:
        say_skipped(engine, f'schema "{schema}" does not exist')
    else:
        say_skipped(engine, f'{kind} "{plain}" does not exist')


def say_missing_type(engine: Notified, name: str) -> None:
    """Say that there is no type of that name, or not even its schema."""
    schema = name.rpartition(".")[0]
    if schema and schema.lower() not in engine.catalog.schemas:
        say_skipped(engine, f'schema "{schema}" does not exist')
    else:
        say_skipped(engine, f'type "{name}" does not exist')


def say_cascade(engine: Notified, gone: Sequence[str]) -> None:
    """Say what CASCADE takes along (NOTICE): objects with their kinds."""
    lines = [f"drop cascades to {one}" for one in gone]
    if len(lines) == 1:
        say(engine, Notice("NOTICE", lines[0]))
    elif lines:
        message = f"drop cascades to {len(lines)} other objects"
        say(engine, Notice("NOTICE", message, detail="\n".join(lines)))
