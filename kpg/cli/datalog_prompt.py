"""``kpg datalog repl``: a prompt for rules, facts, goals and updates, each ended by a full stop."""

import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter

from kpg.api.result import Rows
from kpg.cli.output import Format, write
from kpg.cli.script import BARE_COMMANDS, format_duration
from kpg.cli.sql_prompt import enter_key_bindings, open_history, run_prompt_loop
from kpg.compiler.datalog.preprocessor import blank_comments
from kpg.datalog.dispatch import has_only_goals_and_updates
from kpg.runtime.errors import Error, InterfaceError

if TYPE_CHECKING:
    from kpg.api.database import Database

HELP: Final = """\
A statement ends with a full stop and may take several lines. Try:

  .decl edge(a: number, b: number)
  edge(1, 2). edge(2, 3).
  .decl tc(a: number, b: number)
  tc(x, y) :- edge(x, y).
  tc(x, y) :- tc(x, z), edge(z, y).
  ?- tc(1, x).
  +edge(3, 4). -edge(1, 2).

.explain tc(1, 4)      why a row holds, or why not
.explain ?- tc(1, x).  how a goal is answered
.list                  the relations with their rows
.program               the rules
.sql SELECT ...        SQL over the same relations
.help                  this text; help too
.quit                  leave, as exit, quit and Ctrl-D do; Ctrl-C drops what you typed"""

DIRECTIVE: Final = re.compile(r"\.(decl|type|input|output|printsize|init|pragma|query|override)\b")
COMMAND: Final = re.compile(r"\.(explain|list|program|sql|help|quit|exit)\b(.*)", re.DOTALL)
STATEMENTS: Final = (
    "comp|decl|functor|init|input|lattice|limitsize|number_type|output|override|plan|pragma|printsize|query|"
    "symbol_type|type"
)
UNKNOWN_COMMAND: Final = re.compile(rf"\.(?!(?:{STATEMENTS})\b)[a-z]\w*")
"""Matches the beginning of an entry that is neither a command nor a statement."""
QUOTED: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"')


class DatalogPrompt:
    """Prompt for one program, which every entry extends or queries."""

    def __init__(
        self, db: "Database", output_format: Format, session: "PromptSession[str] | None" = None
    ) -> None:
        self._db = db
        self._output_format = output_format
        self._shows_time = output_format is Format.TABLE
        self._program = db.datalog("")
        self._session = session

    def install(self, text: str, filename: str, facts: Path) -> None:
        """Replace the program by one from a file, and answer its goals."""
        self._program = self._db.datalog(text, filename=filename, facts=facts)
        self._answer_goals()

    def run(self) -> int:
        """Run entries until the end, and return the exit code."""
        session = self._session or PromptSession(
            history=open_history("datalog_history"),
            completer=WordCompleter(lambda: sorted(self._db.names()), sentence=False),
            complete_while_typing=False,
            multiline=True,
            key_bindings=enter_key_bindings(is_complete),
            prompt_continuation="...> ",
        )
        print("kpg Datalog, in memory: .help for help, .quit to leave")
        return run_prompt_loop(session, self.execute)

    def run_script(self, text: str) -> None:
        """Run the entries of a text. Raises the first error."""
        entry = ""
        for line in text.splitlines(keepends=True):
            entry += line
            if is_complete(entry):
                if not self._run(entry.strip()):
                    return
                entry = ""
        self._run(entry.strip())

    def execute(self, text: str) -> bool:
        """Run one entry and print its result or error. Returns False if it ends the session."""
        try:
            return self._run(text.strip())
        except Error as error:
            print(f"error: {error}", file=sys.stderr)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
        return True

    def _run(self, text: str) -> bool:
        command = COMMAND.fullmatch(f".{text}" if text.lower() in BARE_COMMANDS else text)
        if command is not None:
            return self._run_command(command[1], command[2].strip())
        unknown = UNKNOWN_COMMAND.match(text)
        if unknown is not None:
            raise InterfaceError(f"unknown command {unknown[0]}", hint=".help lists them")
        if not text:
            return True
        if has_only_goals_and_updates(text, "", self._program.engine.catalog):
            self._add(text)
        else:
            self._program.extend(text)
            for warning in self._program.warnings:
                if warning.span is not None and warning.span.source == text:
                    print(warning.text(), file=sys.stderr)
        return True

    def _add(self, text: str) -> None:
        changed = self._program.add(text)
        if changed is not None:
            print(f"{changed} {'fact' if changed == 1 else 'facts'} changed")
        self._answer_goals()

    def _answer_goals(self) -> None:
        """Answer each new goal of the program once."""
        try:
            for goal in self._program.goals:
                started = time.perf_counter()
                self._show(goal(), started)
        finally:
            self._program.drop_goals()

    def _show(self, rows: Rows, started: float) -> None:
        write(rows, self._output_format, sys.stdout)
        if self._shows_time:
            print(f"time: {format_duration(time.perf_counter() - started)}")

    def _run_command(self, name: str, argument: str) -> bool:
        match name:
            case "help":
                print(HELP)
            case "list":
                print(self._db.tables())
                print(self._db.views())
            case "program":
                for relation in self._program.installation.views:
                    print(self._program.explain(relation, "rules"))
            case "explain" if not argument:
                raise InterfaceError("nothing to explain", hint=".explain tc(1, 4) or .explain ?- tc(1, x).")
            case "explain" if not argument.startswith("?-"):
                print(self._program.explain_atom(argument))
            case "explain":
                with self._program.prepare(argument) as goal:
                    print(goal.explain())
            case "sql":
                self._show(self._db.query(argument), time.perf_counter())
            case _:
                return False
        return True


def is_complete(text: str) -> bool:
    """Return whether an entry can run: it is empty, a command, or complete statements."""
    blanked, unclosed = blank_comments(text)
    if unclosed is not None:
        return False
    stripped = blanked.strip()
    if (
        not stripped
        or COMMAND.fullmatch(stripped)
        or UNKNOWN_COMMAND.match(stripped)
        or stripped.lower() in BARE_COMMANDS
    ):
        return True
    unquoted = QUOTED.sub('""', stripped)
    if unquoted.count("{") > unquoted.count("}") or unquoted.count("(") > unquoted.count(")"):
        return False
    if unquoted.endswith((".", "}")):
        return True
    return DIRECTIVE.match(unquoted.splitlines()[-1].strip()) is not None
