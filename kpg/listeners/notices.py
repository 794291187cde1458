"""What statements have to say beside their results: clients of the wire protocol are told."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kpg.runtime.records import dataclass

if TYPE_CHECKING:
    from kpg.engine.engine import Engine

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


def rank(severity: str) -> int:
    """How grave messages of a severity are."""
    return RANKS.index(severity) if severity in RANKS else len(RANKS)


def say(engine: "Engine", notice: Notice) -> None:
    """Have whoever runs the statement be told."""
    caller = sys._getframe(1)
    if caller.f_code is warn.__code__ and caller.f_back is not None:
        caller = caller.f_back
    source = (caller.f_code.co_filename, caller.f_lineno, caller.f_code.co_name)
    engine.notices.append(replace(notice, source=source))
    del engine.notices[:-MOST]


def warn(engine: "Engine", message: str, state: str = "01000") -> None:
    """Say a WARNING."""
    say(engine, Notice("WARNING", message, state))


def say_cascade(engine: "Engine", gone: Sequence[str]) -> None:
    """Say what CASCADE takes along (NOTICE): objects with their kinds."""
    lines = [f"drop cascades to {one}" for one in gone]
    if len(lines) == 1:
        say(engine, Notice("NOTICE", lines[0]))
    elif lines:
        message = f"drop cascades to {len(lines)} other objects"
        say(engine, Notice("NOTICE", message, detail="\n".join(lines)))
