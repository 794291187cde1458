"""Transcripts: a program's facts changed by transactions that are written down, as FlowLog's users know them.

A line is a command: ``begin``; ``put`` and a fact as ``put edge +1 (1, 2)``, ``put edge(1, 2)`` or
``put -edge(1, 2)``; ``file`` and a relation with a file of facts, and with ``-`` or ``+`` before its name;
``commit``; ``abort``. Comments begin with ``#`` or ``//``. Each commit prints the changes of the outputs.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TextIO

from kpg.compiler.datalog.assemble import BASE
from kpg.compiler.rules import core
from kpg.datalog import facts
from kpg.datalog.files import read
from kpg.datalog.program import Program
from kpg.datalog.spelling import shown
from kpg.runtime.errors import ProgrammingError, Span
from kpg.runtime.records import dataclass
from kpg.table import Table
from kpg.view import View

COMMANDS: Final = ("begin", "put", "file", "commit", "abort")
PUT: Final = re.compile(r"\s*(?P<sign>[+-])?\s*(?P<fact>[\w.?]+\s*\(.*\))\s*\.?\s*$", re.DOTALL)
FILE: Final = re.compile(r"\s*(?P<sign>[+-])?\s*(?P<name>[\w.?]+)\s+(?P<path>\S.*?)\s*$")
PAIR: Final = re.compile(r"\s*(?P<name>[\w.?]+)\s+(?P<sign>[+-])1?\s*(?P<row>\(.*\))\s*\.?\s*$")


@dataclass(frozen=True, slots=True)
class Line:
    """A command with the rest of its line."""

    command: str
    rest: str
    span: Span


def play(program: Program, text: str, file: str, folder: Path, out: TextIO) -> None:
    """Run a transcript; each commit prints its epoch and the changes of the outputs as (tuple, +1 or -1).

    Files are looked up in ``folder``. ProgrammingError, with its place, for what is no command; the
    transactions before it stand, and the one that is open is aborted.
    """
    wanted = [
        one.relation
        for one in program.checked.program.transfers
        if one.direction is not core.Direction.INPUT and one.relation in program.installed.views
    ]
    views = {name: program[name] for name in dict.fromkeys(wanted)}
    for view in views.values():
        view.changes(snapshot=False)
    player = Player(program, folder, views, out)
    try:
        for line in lines(text, file):
            player.run(line)
    finally:
        player.abort()


def lines(text: str, file: str) -> Iterator[Line]:
    """The commands of a transcript."""
    place = 0
    for row in text.splitlines(keepends=True):
        stripped = row.strip()
        if stripped and not stripped.startswith(("#", "//")):
            start = place + row.index(stripped)
            command, _, rest = stripped.partition(" ")
            span = Span(text, start, start + len(stripped), file)
            yield Line(command.rstrip(";").lower(), rest.strip().rstrip(";"), span)
        place += len(row)


class Player:
    """A transcript as it runs. Outside of ``begin`` and ``commit`` a command is a transaction of its own."""

    def __init__(self, program: Program, folder: Path, views: dict[str, View], out: TextIO) -> None:
        self._program = program
        self._folder = folder
        self._views = views
        self._out = out
        self._open = False

    def run(self, line: Line) -> None:
        """Run one command."""
        transactions = self._program.engine.transactions
        match line.command:
            case "begin":
                transactions.begin()
                self._open = True
            case "put" | "file":
                self._put(line) if line.command == "put" else self._file(line)
                if not self._open:
                    self._tell()
            case "commit":
                self._open = False
                transactions.commit()
                self._tell()
            case "abort":
                transactions.rollback()
                self._open = False
            case _:
                raise ProgrammingError(
                    f'"{line.command}" is no command', span=line.span, hint=f"they are {', '.join(COMMANDS)}"
                )

    def abort(self) -> None:
        """Throw away what was not committed."""
        if self._open:
            self._program.engine.transactions.rollback()
            self._open = False

    def _put(self, line: Line) -> None:
        pair = PAIR.match(line.rest)
        found = pair or PUT.match(line.rest)
        if found is None:
            raise ProgrammingError(
                "put takes a fact", span=line.span, hint="put edge(1, 2), or put -edge(1, 2)"
            )
        fact = f"{found['name']}{found['row']}" if pair else found["fact"]
        try:
            self._program.update(f"{found['sign'] or '+'}{fact}.")
        except ProgrammingError as error:
            raise ProgrammingError(error.message, span=line.span, hint=error.hint) from error

    def _file(self, line: Line) -> None:
        found = FILE.match(line.rest)
        if found is None:
            raise ProgrammingError(
                "file takes a relation and a path", span=line.span, hint="file edge new.facts"
            )
        table, relation = self._input(found["name"], line.span)
        program = self._program.checked.program
        options = next((one.options for one in program.transfers if one.relation == relation.name), {})
        path = Path(self._folder, found["path"].strip("\"'"))
        words = read(path, relation, program, table.schema, table.dictionary, options)
        with self._program.engine.transactions.statement(changes=True):
            facts.delete(table, words) if found["sign"] == "-" else facts.insert(table, words)

    def _input(self, name: str, span: Span) -> tuple[Table, core.Relation]:
        relations = self._program.checked.program.relations
        for known in (name + BASE, name):
            relation = relations.get(known)
            if relation is not None and relation.kind is core.Kind.INPUT:
                return self._program.engine.table(known), relation
        raise ProgrammingError(f"{name} is no relation that has facts", span=span)

    def _tell(self) -> None:
        """Print what the last commit changed in the outputs."""
        self._out.write(f"commit {self._program.engine.executor.epoch}\n")
        for name, view in self._views.items():
            for row, _, diff in sorted(view.changes(), key=lambda change: (change[2], repr(change[0]))):
                self._out.write(f"{name}({', '.join(map(shown, row))}) {diff:+d}\n")
