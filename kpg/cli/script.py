"""``kpg sql`` and ``kpg explain``: run SQL scripts, detect complete statements, and print plans.

``kpg explain`` plans a query without data. ``kpg sql`` runs a script, or the prompt that its caller
passes.
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
from kpg.runtime.gc_pause import LazyModule

if TYPE_CHECKING:
    from kpg.api.database import Database
    from kpg.api.view import View
    from kpg.tpch import data as tpch_data
else:
    tpch_data = LazyModule("kpg.tpch.data")


BARE_COMMANDS: Final = frozenset({"help", "exit", "quit"})
"""Commands that need no dot."""
PSQL_COMMANDS: Final = {
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
"""Commands of psql, and the commands here that they stand for."""

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)   # blanks and comments
      | '(?:[^']|'')*' | "(?:[^"]|"")*"      # quoted, closed
      | (?P<open>['"]|/\*)                   # quoted or comment, not closed
      | (?P<end>;)
      | .""",
    re.VERBOSE | re.DOTALL,
)


def parse_command(text: str) -> tuple[str, str] | None:
    """Return the command of an entry and its argument; None for SQL."""
    stripped = text.strip().rstrip(";").rstrip()
    if stripped.lower() in BARE_COMMANDS:
        return f".{stripped.lower()}", ""
    if not stripped.startswith((".", "\\")):
        return None
    name, _, argument = stripped.partition(" ")
    return PSQL_COMMANDS.get(name, name), argument.strip()


def is_complete(text: str) -> bool:
    """Return whether an entry can run: it is empty, a command, or statements that end with a semicolon."""
    if not text.strip() or parse_command(text) is not None:
        return True
    is_ended = True
    for token in _TOKEN.finditer(text):
        if token["open"]:
            return False
        if not token["space"]:
            is_ended = token["end"] is not None
    return is_ended


VIEW_NAME: Final = re.compile(r'\w+(\.\w+)?|"[^"]+"')


def run_explain(query: str, stage: str, schema: str | None, folder: str | None = None) -> None:
    """Print the plans of all queries in a file or text.

    ``query`` may also be the name of a view. ``schema`` is a file that creates the tables, or ``tpch``.
    """
    with kpg.connect(folder, read_only=folder is not None) as db:
        if schema == "tpch":
            for statement in tpch_data.create_statements().values():
                db.sql(statement)
        elif schema is not None:
            db.sql(read_script(schema))
        text = read_script(query) if _is_file(query) else query
        if VIEW_NAME.fullmatch(text.strip()):
            text = f"EXPLAIN VIEW {text}"
        for plan in db.explanations(text, stage):
            print(plan)


def read_script(path: str) -> str:
    """Return the text of a script. OperationalError if it cannot be read."""
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
    output_format: Format,
    prompt: "Callable[[Database, Format], int]",
    folder: str | None = None,
    *,
    read_only: bool = False,
) -> int:
    """Run a file, a command, or ``prompt`` without either, and return the exit code."""
    if read_only and folder is None:
        raise InterfaceError("--read-only is about a folder", hint="add --folder")
    if file is not None and command is not None:
        raise InterfaceError("a file and -c cannot be combined", hint="use one of them")
    with kpg.connect(folder, read_only=read_only) as db:
        if command is None and file is None and sys.stdin.isatty():
            return prompt(db, output_format)
        run_script(db, command if command is not None else _read_input(file), output_format)
    return 0


def run_script(db: "Database", text: str, output_format: Format) -> None:
    """Run a script and print the result of each statement. Raises the first error."""
    for outcome in db.script(text):
        print_outcome(outcome, output_format)


def print_outcome(
    outcome: "Result | View | None", output_format: Format, start_time: float | None = None
) -> None:
    """Print the outcome of a statement; in a table format also the time since ``start_time``."""
    is_table = output_format is Format.TABLE
    if isinstance(outcome, Result):
        if outcome.text is not None and is_table:
            print(outcome.text)
        elif outcome.affected is None:
            write(outcome, output_format, sys.stdout)
        elif is_table:
            print(f"{outcome.affected:,} row{'' if outcome.affected == 1 else 's'}")
    elif outcome is not None and is_table:
        print(f"{outcome.name}: {len(outcome):,} rows, kept up to date")
    if start_time is not None and is_table:
        print(f"time: {format_duration(time.perf_counter() - start_time)}")
    sys.stdout.flush()


def format_duration(seconds: float) -> str:
    """Return a duration as text with a unit."""
    return f"{seconds:.3f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"


def _read_input(file: str | None) -> str:
    if file is None or (file == "-" and not Path("-").exists()):
        return sys.stdin.read()
    if " " in file and not Path(file).exists():
        raise OperationalError(
            f"there is no file {file!r}", hint='a statement follows -c: kpg sql -c "SELECT 1"'
        )
    return read_script(file)
