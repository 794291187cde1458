"""Transcripts: scripts of transactions on a program's facts, in the command language of FlowLog.

The commands are ``begin``, ``commit``, ``abort``, ``quit``, ``put`` and ``file``. A fact is written
``put edge 1,2``, ``put edge 1,2 -1``, ``put edge(1, 2)`` or ``put -edge(1, 2)``. ``file`` takes a relation
and a fact file; ``-1`` after it, or ``-`` before the name, deletes the facts. Comments begin with ``#`` or
``//``. Each commit prints the changes of the outputs. Facts given with a count have multiplicities: a fact
inserted twice holds until it is deleted twice.

A program whose facts come by commands gets the rules of FlowLog's shell: the first ``put`` or ``file`` opens
a transaction, a second ``begin`` restarts it, and errors are reported and skipped. For other programs a
command outside of a transaction is one of its own, and an error ends the transcript.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, TextIO

import numpy as np

from kpg.api.view import View
from kpg.compiler.datalog.core_program import BASE
from kpg.compiler.rules import core
from kpg.datalog import facts
from kpg.datalog.fact_files import read_facts
from kpg.datalog.program import Program
from kpg.datalog.terms import shown
from kpg.runtime.errors import DataError, Error, ProgrammingError, Span
from kpg.runtime.records import dataclass
from kpg.session.base_table import Table

COMMANDS: Final = ("begin", "put", "file", "commit", "abort", "help", "quit")
HELP: Final = """begin, txn               begin a transaction
put NAME ROW [COPIES]    a row of a relation: put edge 1,2 or put edge 1,2 -1
file NAME PATH [COPIES]  the rows of a file
commit, done             make them hold, and show what changes
abort, rollback          throw them away
quit, exit, q            end
"""
OTHER_WORDS: Final = {
    **dict.fromkeys(("txn", "cmd"), "begin"),
    "done": "commit",
    "rollback": "abort",
    **dict.fromkeys(("exit", "q"), "quit"),
    **dict.fromkeys(("h", "?"), "help"),
}
PUT: Final = re.compile(r"\s*(?P<sign>[+-])?\s*(?P<fact>[\w.?]+\s*\(.*\))\s*\.?\s*$", re.DOTALL)
FILE: Final = re.compile(
    r"\s*(?P<sign>[+-])?\s*(?P<name>[\w.?]+)\s+(?P<path>\S.*?)(?:\s+(?P<copies>[+-]?[0-9]+))?\s*$"
)
TUPLE: Final = re.compile(
    r"\s*(?P<name>[\w.?]+)\s+(?P<row>(?:\"(?:[^\"\\]|\\.)*\"|[^\s\"(])+)(?:\s+(?P<copies>[+-]?[0-9]+))?\s*$"
)
QUOTED: Final = re.compile(r"\"((?:[^\"\\]|\\.)*)\"")
ESCAPED: Final = re.compile(r"\\([tn\\\"])")
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
    wanted: dict[str, bool] = {}
    for one in program.checked.program.transfers:
        if one.direction is not core.Direction.INPUT and one.relation in program.installed.views:
            counts = one.direction is core.Direction.PRINTSIZE
            wanted[one.relation] = counts and wanted.get(one.relation, True)
    views = {name: program[name] for name in wanted}
    sizes = frozenset(name for name, counts in wanted.items() if counts)
    for view in views.values():
        view.changes(snapshot=False)
    player = Player(program, folder, views, sizes, out)
    try:
        for line in lines(text, file):
            if line.command == "quit":
                break
            if program.takes_commands:
                player.try_to_run(line, sys.stderr)
            else:
                player.run(line)
    finally:
        if player.abort() and program.takes_commands:
            sys.stderr.write("what was put after the last commit is thrown away\n")


def lines(text: str, file: str) -> Iterator[Line]:
    """The commands of a transcript."""
    place = 0
    for row in text.splitlines(keepends=True):
        stripped = row.strip()
        if stripped and not stripped.startswith(("#", "//")):
            start = place + row.index(stripped)
            command, _, rest = stripped.partition(" ")
            span = Span(text, start, start + len(stripped), file)
            word = command.rstrip(";").lower()
            yield Line(OTHER_WORDS.get(word, word), rest.strip().rstrip(";"), span)
        place += len(row)


class Player:
    """A transcript as it runs. Outside of ``begin`` and ``commit`` a command is a transaction of its own.

    ``sizes`` are the views of which it is told by how many rows they grew.
    """

    def __init__(
        self, program: Program, folder: Path, views: dict[str, View], sizes: frozenset[str], out: TextIO
    ) -> None:
        self._program = program
        self._folder = folder
        self._views = views
        self._sizes = sizes
        self._out = out
        self._open = False
        self._copies: dict[tuple[str, bytes], int] = {}
        self._before: dict[tuple[str, bytes], int] = {}

    def try_to_run(self, line: Line, errors: TextIO) -> None:
        """Run one command of FlowLog's shell; what is wrong with it is told."""
        if line.command in ("begin", "abort"):
            self.abort()
        elif line.command in ("put", "file") and not self._open:
            self.run(replace(line, command="begin"))
        if line.command == "abort":
            return
        if line.command == "commit" and not self._open:
            errors.write(f"{line.span.file} line {line.span.line}: no transaction is open\n")
            return
        try:
            self.run(line)
        except Error as error:
            errors.write(f"{error}\n")

    def run(self, line: Line) -> None:
        """Run one command."""
        transactions = self._program.engine.transactions
        match line.command:
            case "begin":
                transactions.begin()
                self._open = True
                self._before = dict(self._copies)
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
                self._copies = self._before
            case "help":
                self._out.write(HELP)
            case _:
                raise ProgrammingError(
                    f'"{line.command}" is no command', span=line.span, hint=f"they are {', '.join(COMMANDS)}"
                )

    def abort(self) -> bool:
        """Throw away what was not committed; whether there was a transaction."""
        if not self._open:
            return False
        self._program.engine.transactions.rollback()
        self._open = False
        self._copies = self._before
        return True

    def _put(self, line: Line) -> None:
        pair = PAIR.match(line.rest)
        found = pair or PUT.match(line.rest)
        given = TUPLE.match(line.rest) if found is None else None
        if given is not None:
            self._put_tuple(given, line.span)
            return
        if found is None:
            raise ProgrammingError("put takes a fact", span=line.span, hint="put edge 1,2 or put edge 1,2 -1")
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
        words = read_facts(path, relation, program, table.schema, table.dictionary, options)
        if found["copies"] is not None:
            self._count(table, relation.name, words, int(found["copies"]))
            return
        with self._program.engine.transactions.statement(changes=True):
            facts.delete(table, words) if found["sign"] == "-" else facts.insert(table, words)

    def _put_tuple(self, found: re.Match[str], span: Span) -> None:
        """A fact as a line of a file, with its number of copies behind it."""
        table, relation = self._input(found["name"], span)
        program = self._program.checked.program
        options = next((one.options for one in program.transfers if one.relation == relation.name), {})
        options = {"delimiter": options.get("delimiter", ",")}
        row = QUOTED.sub(lambda part: ESCAPED.sub(_unescaped, part[1]), found["row"])
        copies = int(found["copies"] or 1)
        if not relation.columns:
            copies, row = (-copies if row.lower() == "false" else copies), ""
        try:
            source = f"{row}\n".encode()
            words = read_facts(
                Path("put"), relation, program, table.schema, table.dictionary, options, source
            )
        except DataError as error:
            raise DataError(error.message, span=span, hint=error.hint) from error
        self._count(table, relation.name, words, copies)

    def _count(self, table: Table, name: str, words: facts.Words, copies: int) -> None:
        """So many copies of each row come or go; those of which any are left are there."""
        there = table.match(words) >= 0
        stays = np.zeros(words.shape[1], np.bool_)
        for place in range(words.shape[1]):
            key = (name, words[:, place].tobytes())
            left = self._copies.get(key, int(there[place])) + copies
            self._copies[key] = left
            stays[place] = left > 0
        with self._program.engine.transactions.statement(changes=True):
            facts.insert(table, np.ascontiguousarray(words[:, stays]))
            facts.delete(table, np.ascontiguousarray(words[:, ~stays]))

    def _input(self, name: str, span: Span) -> tuple[Table, core.Relation]:
        relations = self._program.checked.program.relations
        known_as = {one.removesuffix(BASE).lower(): one.removesuffix(BASE) for one in relations}
        if name not in relations:
            name = known_as.get(name.lower(), name)  # FlowLog does not tell cases apart.
        for known in (name + BASE, name):
            relation = relations.get(known)
            if relation is not None and relation.kind is core.Kind.INPUT:
                return self._program.engine.table(known), relation
        raise ProgrammingError(f"{name} is no relation that has facts", span=span)

    def _tell(self) -> None:
        """Print what the last commit changed in the outputs."""
        self._out.write(f"commit {self._program.engine.executor.epoch}\n")
        for name, view in self._views.items():
            if name in self._sizes:
                grown = sum(diff for _, _, diff in view.changes())
                self._out.write(f"{name} size {grown:+d}\n" if grown else "")
                continue
            for row, _, diff in sorted(view.changes(), key=lambda change: (change[2], repr(change[0]))):
                fields = row if self._program.checked.program.relations[name].columns else ()
                self._out.write(f"{name}({', '.join(map(shown, fields))}) {diff:+d}\n")


def _unescaped(found: re.Match[str]) -> str:
    return {"t": "\t", "n": "\n"}.get(found[1], found[1])
