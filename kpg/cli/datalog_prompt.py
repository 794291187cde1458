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
from kpg.cli.script import WORDS, duration
from kpg.cli.sql_prompt import bindings, converse, history
from kpg.compiler.datalog.preprocessor import blank_comments
from kpg.datalog.dispatch import only_adds
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
UNKNOWN: Final = re.compile(rf"\.(?!(?:{STATEMENTS})\b)[a-z]\w*")
"""The beginning of what is neither a command nor a statement of the language."""
QUOTED: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"')


class DatalogPrompt:
    """A session: one program that grows with what is typed."""

    def __init__(self, db: "Database", form: Format, session: "PromptSession[str] | None" = None) -> None:
        self._db = db
        self._form = form
        self._timing = form is Format.TABLE
        self._program = db.datalog("")
        self._session = session

    def install(self, text: str, filename: str, facts: Path) -> None:
        """Begin with a program from a file."""
        self._program = self._db.datalog(text, filename=filename, facts=facts)
        self._answer_goals()

    def run(self) -> int:
        """Read and run statements until the end; the exit code."""
        session = self._session or PromptSession(
            history=history("datalog_history"),
            completer=WordCompleter(lambda: sorted(self._db.names()), sentence=False),
            complete_while_typing=False,
            multiline=True,
            key_bindings=bindings(is_complete),
            prompt_continuation="...> ",
        )
        print("kpg Datalog, in memory: .help for help, .quit to leave")
        return converse(session, self.execute)

    def script(self, text: str) -> None:
        """Run what came through a pipe, an entry at a time; raises its first error."""
        entry = ""
        for line in text.splitlines(keepends=True):
            entry += line
            if is_complete(entry):
                if not self._run(entry.strip()):
                    return
                entry = ""
        self._run(entry.strip())

    def execute(self, text: str) -> bool:
        """Run one entry and print its outcome or error; False if it asks to leave."""
        try:
            return self._run(text.strip())
        except Error as error:
            print(f"error: {error}", file=sys.stderr)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
        return True

    def _run(self, text: str) -> bool:
        command = COMMAND.fullmatch(f".{text}" if text.lower() in WORDS else text)
        if command is not None:
            return self._command(command[1], command[2].strip())
        unknown = UNKNOWN.match(text)
        if unknown is not None:
            raise InterfaceError(f"unknown command {unknown[0]}", hint=".help lists them")
        if not text:
            return True
        if only_adds(text, "", self._program.engine.catalog):
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
        """Ask what was given as ``?-``, once."""
        try:
            for goal in self._program.goals:
                started = time.perf_counter()
                self._show(goal(), started)
        finally:
            self._program.drop_goals()

    def _show(self, rows: Rows, started: float) -> None:
        write(rows, self._form, sys.stdout)
        if self._timing:
            print(f"time: {duration(time.perf_counter() - started)}")

    def _command(self, name: str, argument: str) -> bool:
        match name:
            case "help":
                print(HELP)
            case "list":
                print(self._db.tables())
                print(self._db.views())
            case "program":
                for relation in self._program.installed.views:
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
    """Whether an entry can be run: nothing, a command, or statements that have come to their end."""
    blanked, unclosed = blank_comments(text)
    if unclosed is not None:
        return False
    stripped = blanked.strip()
    if not stripped or COMMAND.fullmatch(stripped) or UNKNOWN.match(stripped) or stripped.lower() in WORDS:
        return True
    plain = QUOTED.sub('""', stripped)
    if plain.count("{") > plain.count("}") or plain.count("(") > plain.count(")"):
        return False
    if plain.endswith((".", "}")):
        return True
    return DIRECTIVE.match(plain.splitlines()[-1].strip()) is not None
