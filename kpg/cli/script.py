"""``kpg sql`` and ``kpg explain``: run SQL scripts, detect the end of a typed statement, and print plans.

``kpg explain`` plans a query without data. ``kpg sql`` chooses between a script and the prompt, which its
caller passes in.
"""

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import kpg
from kpg.api.result import Result
from kpg.cli.output import Format, write
from kpg.runtime.errors import InterfaceError, OperationalError

if TYPE_CHECKING:
    from kpg.api.database import Database
    from kpg.api.view import View


WORDS: Final = frozenset({"help", "exit", "quit"})
"""Commands that need no dot."""
OF_PSQL: Final = {
    "\\d": ".tables",
    "\\dt": ".tables",
    "\\dv": ".tables",
    "\\dm": ".tables",
    "\\i": ".read",
    "\\timing": ".timing",
    "\\?": ".help",
    "\\h": ".help",
    "\\q": ".quit",
}
"""What psql's users type, and which command that is here."""

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)   # what does not count
      | '(?:[^']|'')*' | "(?:[^"]|"")*"      # quoted, closed
      | (?P<open>['"]|/\*)                   # quoted or comment, not closed
      | (?P<end>;)
      | .""",
    re.VERBOSE | re.DOTALL,
)


def command_of(text: str) -> tuple[str, str] | None:
    """The command that an entry is, with a dot or as psql has it, and its argument; None for SQL."""
    stripped = text.strip().rstrip(";").rstrip()
    if stripped.lower() in WORDS:
        return f".{stripped.lower()}", ""
    if not stripped.startswith((".", "\\")):
        return None
    name, _, argument = stripped.partition(" ")
    return OF_PSQL.get(name, name), argument.strip()


def is_complete(text: str) -> bool:
    """Whether an entry can be run: nothing, a dot command, or statements that all have their semicolon."""
    if not text.strip() or command_of(text) is not None:
        return True
    ended = True
    for token in _TOKEN.finditer(text):
        if token["open"]:
            return False
        if not token["space"]:
            ended = token["end"] is not None
    return ended


NAME: Final = re.compile(r'\w+(\.\w+)?|"[^"]+"')


def run_explain(query: str, stage: str, schema: str | None, folder: str | None = None) -> None:
    """Print the plan of every query in a file or text at a stage, over the tables of a schema or of a
    database in a folder; there ``query`` may be the name of a view.
    """
    with kpg.connect(folder, read_only=folder is not None) as db:
        if schema == "tpch":
            from kpg.tpch.data import create_statements  # lazy: only for the schema of TPC-H

            for statement in create_statements().values():
                db.sql(statement)
        elif schema is not None:
            db.sql(read_script(schema))
        text = read_script(query) if _is_file(query) else query
        if NAME.fullmatch(text.strip()):
            text = f"EXPLAIN VIEW {text}"
        for plan in db.explanations(text, stage):
            print(plan)


def read_script(path: str) -> str:
    """The text of a script; OperationalError if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise OperationalError(f"cannot read {path}: {reason}") from None


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file() or (text.endswith(".sql") and " " not in text)
    except (OSError, ValueError):
        return False


def run_command(
    file: str | None,
    command: str | None,
    form: Format,
    prompt: "Callable[[Database, Format], int]",
    folder: str | None = None,
    *,
    read_only: bool = False,
) -> int:
    """Run what ``kpg sql`` was given, ``prompt`` if that is nothing; the exit code."""
    if read_only and folder is None:
        raise InterfaceError("--read-only is about a folder", hint="name it with --folder")
    if file is not None and command is not None:
        raise InterfaceError("both a file and -c were given", hint="give one of them")
    with kpg.connect(folder, read_only=read_only) as db:
        if command is None and file is None and sys.stdin.isatty():
            return prompt(db, form)
        run_script(db, command if command is not None else _text_of(file), form)
    return 0


def run_script(db: "Database", text: str, form: Format) -> None:
    """Run a script and print the result of each statement; raises its first error."""
    for outcome in db.script(text):
        show(outcome, form)


def show(outcome: "Result | View | None", form: Format, started: float | None = None) -> None:
    """Print what a statement gave, and for people, how long it took since ``started``."""
    people = form is Format.TABLE
    if isinstance(outcome, Result):
        if outcome.text is not None and people:
            print(outcome.text)
        elif outcome.affected is None:
            write(outcome, form, sys.stdout)
        elif people:
            print(f"{outcome.affected:,} row{'' if outcome.affected == 1 else 's'}")
    elif outcome is not None and people:
        print(f"{outcome.name}: {len(outcome):,} rows, kept up to date")
    if started is not None and people:
        print(f"time: {duration(time.perf_counter() - started)}")
    sys.stdout.flush()


def duration(seconds: float) -> str:
    """A time for people."""
    return f"{seconds:.3f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"


def _text_of(file: str | None) -> str:
    if file is None or (file == "-" and not Path("-").exists()):
        return sys.stdin.read()
    if " " in file and not Path(file).exists():
        raise OperationalError(
            f"there is no file {file!r}", hint='a statement follows -c: kpg sql -c "SELECT 1"'
        )
    return read_script(file)
