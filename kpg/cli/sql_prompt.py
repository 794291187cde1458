"""Prompt of ``kpg sql``: reads lines until a semicolon ends a statement."""

import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from kpg.cli.output import Format
from kpg.cli.script import is_complete, parse_command, print_outcome, read_script, run_script
from kpg.runtime.errors import Error

if TYPE_CHECKING:
    from kpg.api.database import Database

KEYWORDS: Final = """
ALL AND AS ASC BEGIN BETWEEN BY CASE CAST COMMIT COPY COUNT CREATE CROSS DELETE DESC DESCRIBE DISTINCT DROP
ELSE END EXCEPT EXISTS EXPLAIN EXTRACT FALSE FROM FULL GROUP HAVING IN INNER INSERT INTERSECT INTO IS JOIN KEY
LEFT LIKE LIMIT MATERIALIZED NOT NULL OFFSET ON OR ORDER PRIMARY REPLACE RIGHT ROLLBACK SELECT SET SHOW SUM
TABLE TABLES THEN TRUE UNION UPDATE USING VALUES VIEW WHEN WHERE WITH
"""
HELP: Final = """\
A statement ends with a semicolon and may take several lines. Try:

  CREATE TABLE item (id INT PRIMARY KEY, kind TEXT, price DECIMAL(10, 2));
  CREATE MATERIALIZED VIEW total AS SELECT kind, sum(price) FROM item GROUP BY kind;
  INSERT INTO item VALUES (1, 'a', 2.50), (2, 'a', 3.50);
  SELECT * FROM total;
  EXPLAIN SELECT * FROM item WHERE price > 3;

.tables        tables and views
.arrangements  the indexes there are, their size, and the views that share them
.read FILE     run a script
.timing on|off say how long statements take, or stop saying it
.help          this text; help too
.quit          leave, as exit, quit and Ctrl-D do; Ctrl-C drops what you typed

Of psql's, \\d, \\i, \\timing, \\? and \\q mean the same."""


class NameCompleter(Completer):
    """Completes keywords and the names of relations and columns."""

    def __init__(self, db: "Database") -> None:
        self._db = db

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        word = document.get_word_before_cursor()
        if not word.strip():
            return
        keywords = KEYWORDS if word.isupper() else KEYWORDS.lower()
        names = [*sorted(self._db.names()), *keywords.split()]
        for name in names:
            if name.lower().startswith(word.lower()):
                yield Completion(name, start_position=-len(word))


class Prompt:
    """A session at a terminal."""

    def __init__(
        self, db: "Database", output_format: Format, session: "PromptSession[str] | None" = None
    ) -> None:
        self._db = db
        self._output_format = output_format
        self._shows_time = True
        self._session = session or PromptSession(
            history=open_history("history"),
            completer=NameCompleter(db),
            complete_while_typing=False,
            multiline=True,
            key_bindings=enter_key_bindings(is_complete),
            prompt_continuation="...> ",
        )
        self._commands: dict[str, Callable[[str], bool]] = {
            ".help": self._help,
            ".tables": self._tables,
            ".arrangements": self._arrangements,
            ".read": self._read,
            ".timing": self._set_timing,
            ".quit": lambda argument: False,
            ".exit": lambda argument: False,
        }

    def run(self) -> int:
        """Run entries until the end, and return the exit code."""
        print("kpg, in memory: .help for help, .quit to leave")
        return run_prompt_loop(self._session, self.execute)

    def execute(self, text: str) -> bool:
        """Run one entry and print its result or error. Returns False if it ends the session."""
        found = parse_command(text)
        try:
            if found is not None:
                name, argument = found
                command = self._commands.get(name)
                if command is None:
                    print(f"unknown command {name}: .help lists them", file=sys.stderr)
                    return True
                return command(argument)
            self._run(text.strip())
        except Error as error:
            print(f"error: {error}", file=sys.stderr)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
        return True

    def _run(self, text: str) -> None:
        started = time.perf_counter()
        for outcome in self._db.script(text):
            print_outcome(outcome, self._output_format, started if self._shows_time else None)
            started = time.perf_counter()

    def _help(self, argument: str) -> bool:
        print(HELP)
        return True

    def _tables(self, argument: str) -> bool:
        print(self._db.tables())
        print(self._db.views())
        return True

    def _arrangements(self, argument: str) -> bool:
        print(self._db.arrangements())
        return True

    def _read(self, argument: str) -> bool:
        run_script(self._db, read_script(argument.strip("'\"")), self._output_format)
        return True

    def _set_timing(self, argument: str) -> bool:
        if argument.lower() not in ("", "on", "off"):
            print(f"error: .timing takes on or off, not {argument}", file=sys.stderr)
            return True
        self._shows_time = argument.lower() == "on" if argument else not self._shows_time
        print(f"timing is {'on' if self._shows_time else 'off'}")
        return True


def run_prompt_loop(session: PromptSession[str], execute: Callable[[str], bool]) -> int:
    """Execute entries until one ends the session or the input ends, and return the exit code."""
    while True:
        try:
            text = session.prompt("kpg> ")
        except KeyboardInterrupt:
            continue
        except EOFError:
            return 0
        if not execute(text):
            return 0


def enter_key_bindings(is_finished: Callable[[str], bool]) -> KeyBindings:
    """Return bindings by which Enter ends a complete entry, and otherwise starts a new line."""
    key_bindings = KeyBindings()

    @key_bindings.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_finished(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return key_bindings


def open_history(name: str) -> History:
    """Return the history file in the user's state folder, or an in-memory history if it is not writable."""
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "kpg"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / name
        path.touch()
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))
