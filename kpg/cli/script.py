"""``kpg sql``: scripts, and the choice between them and the prompt."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import kpg
from kpg.cli.explain import read_script
from kpg.cli.output import Format, write
from kpg.result import Explanation, Result
from kpg.runtime.errors import InterfaceError, OperationalError

if TYPE_CHECKING:
    from kpg.database import Database
    from kpg.view import View


def run_command(
    file: str | None, command: str | None, form: Format, folder: str | None = None, *, read_only: bool = False
) -> int:
    """Run what ``kpg sql`` was given; the exit code."""
    if read_only and folder is None:
        raise InterfaceError("--read-only is about a folder", hint="name it with --folder")
    if file is not None and command is not None:
        raise InterfaceError("both a file and -c were given", hint="give one of them")
    with kpg.connect(folder, read_only=read_only) as db:
        if command is None and file is None and sys.stdin.isatty():
            from kpg.cli.prompt import Prompt

            return Prompt(db, form).run()
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
        if isinstance(outcome, Explanation) and people:
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
