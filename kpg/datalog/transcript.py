"""Transcripts: scripts of transactions on a program's facts, in the command language of FlowLog.

The commands are ``begin``, ``commit``, ``abort``, ``quit``, ``put`` and ``file``. A fact is written
``put edge 1,2``, ``put edge 1,2 -1``, ``put edge(1, 2)`` or ``put -edge(1, 2)``. ``file`` takes a
relation and a fact file; ``-1`` after it, or ``-`` before the name, deletes the facts. Comments
begin with ``#`` or ``//``. Each commit prints the changes of the outputs. Facts with a count have
multiplicities: a fact inserted twice holds until it is deleted twice.

A program whose facts come from commands has the rules of FlowLog's shell. The first ``put`` or
``file`` opens a transaction, a second ``begin`` restarts it, and errors are reported and skipped.
In other programs, a command outside a transaction is its own transaction, and an error ends the
transcript.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, TextIO

import numpy as np

from kpg.api.view import View
from kpg.compiler.datalog.core_program import BASE_SUFFIX
from kpg.compiler.rules import core
from kpg.datalog import facts
from kpg.datalog.fact_files import read_facts
from kpg.datalog.program import Program
from kpg.datalog.terms import value_text
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
SYNONYMS: Final = {
    **dict.fromkeys(("txn", "cmd"), "begin"),
    "done": "commit",
    "rollback": "abort",
    **dict.fromkeys(("exit", "q"), "quit"),
    **dict.fromkeys(("h", "?"), "help"),
}
"""Other names of the commands."""
PUT_ATOM: Final = re.compile(r"\s*(?P<sign>[+-])?\s*(?P<fact>[\w.?]+\s*\(.*\))\s*\.?\s*$", re.DOTALL)
FILE_ARGUMENTS: Final = re.compile(
    r"\s*(?P<sign>[+-])?\s*(?P<name>[\w.?]+)\s+(?P<path>\S.*?)(?:\s+(?P<copies>[+-]?[0-9]+))?\s*$"
)
PUT_TUPLE: Final = re.compile(
    r"\s*(?P<name>[\w.?]+)\s+(?P<row>(?:\"(?:[^\"\\]|\\.)*\"|[^\s\"(])+)(?:\s+(?P<copies>[+-]?[0-9]+))?\s*$"
)
QUOTED: Final = re.compile(r"\"((?:[^\"\\]|\\.)*)\"")
ESCAPED: Final = re.compile(r"\\([tn\\\"])")
PUT_PAIR: Final = re.compile(r"\s*(?P<name>[\w.?]+)\s+(?P<sign>[+-])1?\s*(?P<row>\(.*\))\s*\.?\s*$")


@dataclass(frozen=True, slots=True)
class Command:
    """A command with its arguments."""

    name: str
    arguments: str
    span: Span


def run_transcript(program: Program, text: str, file: str, folder: Path, out: TextIO) -> None:
    """Run a transcript. Each commit prints its epoch and the changes of the outputs as (tuple, +1 or -1).

    Files are relative to ``folder``. Raises ProgrammingError with the position of an invalid command.
    Earlier transactions stay committed, and the open one is rolled back.
    """
    counts_only: dict[str, bool] = {}
    for transfer in program.checked.program.transfers:
        if (
            transfer.direction is not core.TransferKind.INPUT
            and transfer.relation in program.installation.views
        ):
            is_count = transfer.direction is core.TransferKind.PRINTSIZE
            counts_only[transfer.relation] = is_count and counts_only.get(transfer.relation, True)
    views = {name: program[name] for name in counts_only}
    sizes = frozenset(name for name, counts in counts_only.items() if counts)
    for view in views.values():
        view.changes(snapshot=False)
    runner = TranscriptRunner(program, folder, views, sizes, out)
    try:
        for command in parse_commands(text, file):
            if command.name == "quit":
                break
            if program.takes_commands:
                runner.run_and_report(command, sys.stderr)
            else:
                runner.run(command)
    finally:
        if runner.abort() and program.takes_commands:
            sys.stderr.write("what was put after the last commit is thrown away\n")


def parse_commands(text: str, file: str) -> Iterator[Command]:
    """Yield the commands of a transcript."""
    offset = 0
    for line in text.splitlines(keepends=True):
        stripped = line.strip()
        if stripped and not stripped.startswith(("#", "//")):
            start = offset + line.index(stripped)
            keyword, _, rest = stripped.partition(" ")
            span = Span(text, start, start + len(stripped), file)
            name = keyword.rstrip(";").lower()
            yield Command(SYNONYMS.get(name, name), rest.strip().rstrip(";"), span)
        offset += len(line)


class TranscriptRunner:
    """Runs a transcript. Outside ``begin`` and ``commit``, a command is its own transaction.

    For the views in ``sizes``, only the change in the number of rows is printed.
    """

    def __init__(
        self, program: Program, folder: Path, views: dict[str, View], sizes: frozenset[str], out: TextIO
    ) -> None:
        self._program = program
        self._folder = folder
        self._views = views
        self._sizes = sizes
        self._out = out
        self._in_transaction = False
        self._multiplicities: dict[tuple[str, bytes], int] = {}
        self._savepoint: dict[tuple[str, bytes], int] = {}
        """The multiplicities at the beginning of the transaction."""

    def run_and_report(self, command: Command, errors: TextIO) -> None:
        """Run one command by the rules of FlowLog's shell, and write its error to ``errors``."""
        if command.name in ("begin", "abort"):
            self.abort()
        elif command.name in ("put", "file") and not self._in_transaction:
            self.run(replace(command, name="begin"))
        if command.name == "abort":
            return
        if command.name == "commit" and not self._in_transaction:
            errors.write(f"{command.span.file} line {command.span.line}: no transaction is open\n")
            return
        try:
            self.run(command)
        except Error as error:
            errors.write(f"{error}\n")

    def run(self, command: Command) -> None:
        """Run one command."""
        transactions = self._program.engine.transactions
        match command.name:
            case "begin":
                transactions.begin()
                self._in_transaction = True
                self._savepoint = dict(self._multiplicities)
            case "put" | "file":
                self._put(command) if command.name == "put" else self._load_file(command)
                if not self._in_transaction:
                    self._print_changes()
            case "commit":
                self._in_transaction = False
                transactions.commit()
                self._print_changes()
            case "abort":
                transactions.rollback()
                self._in_transaction = False
                self._multiplicities = self._savepoint
            case "help":
                self._out.write(HELP)
            case _:
                raise ProgrammingError(
                    f'"{command.name}" is no command',
                    span=command.span,
                    hint=f"they are {', '.join(COMMANDS)}",
                )

    def abort(self) -> bool:
        """Roll back the open transaction, and return whether there was one."""
        if not self._in_transaction:
            return False
        self._program.engine.transactions.rollback()
        self._in_transaction = False
        self._multiplicities = self._savepoint
        return True

    def _put(self, command: Command) -> None:
        pair = PUT_PAIR.match(command.arguments)
        fact_match = pair or PUT_ATOM.match(command.arguments)
        tuple_match = PUT_TUPLE.match(command.arguments) if fact_match is None else None
        if tuple_match is not None:
            self._put_tuple(tuple_match, command.span)
            return
        if fact_match is None:
            raise ProgrammingError(
                "put takes a fact", span=command.span, hint="put edge 1,2 or put edge 1,2 -1"
            )
        fact = f"{fact_match['name']}{fact_match['row']}" if pair else fact_match["fact"]
        try:
            self._program.update(f"{fact_match['sign'] or '+'}{fact}.")
        except ProgrammingError as error:
            raise ProgrammingError(error.message, span=command.span, hint=error.hint) from error

    def _load_file(self, command: Command) -> None:
        match_ = FILE_ARGUMENTS.match(command.arguments)
        if match_ is None:
            raise ProgrammingError(
                "file takes a relation and a path", span=command.span, hint="file edge new.facts"
            )
        table, relation = self._find_input(match_["name"], command.span)
        program = self._program.checked.program
        options = next(
            (transfer.options for transfer in program.transfers if transfer.relation == relation.name), {}
        )
        path = Path(self._folder, match_["path"].strip("\"'"))
        words = read_facts(path, relation, program, table.schema, table.dictionary, options)
        if match_["copies"] is not None:
            self._add_copies(table, relation.name, words, int(match_["copies"]))
            return
        with self._program.engine.transactions.statement(changes=True):
            facts.delete(table, words) if match_["sign"] == "-" else facts.insert(table, words)

    def _put_tuple(self, tuple_match: re.Match[str], span: Span) -> None:
        """Insert or delete a fact that is written like a line of a fact file, with an optional count."""
        table, relation = self._find_input(tuple_match["name"], span)
        program = self._program.checked.program
        options = next(
            (transfer.options for transfer in program.transfers if transfer.relation == relation.name), {}
        )
        options = {"delimiter": options.get("delimiter", ",")}
        row = QUOTED.sub(lambda quoted: ESCAPED.sub(_unescape, quoted[1]), tuple_match["row"])
        copies = int(tuple_match["copies"] or 1)
        if not relation.columns:
            copies, row = (-copies if row.lower() == "false" else copies), ""
        try:
            source = f"{row}\n".encode()
            words = read_facts(
                Path("put"), relation, program, table.schema, table.dictionary, options, source
            )
        except DataError as error:
            raise DataError(error.message, span=span, hint=error.hint) from error
        self._add_copies(table, relation.name, words, copies)

    def _add_copies(self, table: Table, name: str, words: facts.Words, copies: int) -> None:
        """Add ``copies`` to the multiplicity of each row. Rows of positive multiplicity are in the table."""
        is_present = table.match(words) >= 0
        is_positive = np.zeros(words.shape[1], np.bool_)
        for index in range(words.shape[1]):
            key = (name, words[:, index].tobytes())
            multiplicity = self._multiplicities.get(key, int(is_present[index])) + copies
            self._multiplicities[key] = multiplicity
            is_positive[index] = multiplicity > 0
        with self._program.engine.transactions.statement(changes=True):
            facts.insert(table, np.ascontiguousarray(words[:, is_positive]))
            facts.delete(table, np.ascontiguousarray(words[:, ~is_positive]))

    def _find_input(self, name: str, span: Span) -> tuple[Table, core.Relation]:
        relations = self._program.checked.program.relations
        plain_names = {
            relation_name.removesuffix(BASE_SUFFIX).lower(): relation_name.removesuffix(BASE_SUFFIX)
            for relation_name in relations
        }
        if name not in relations:
            name = plain_names.get(name.lower(), name)  # FlowLog ignores case.
        for candidate in (name + BASE_SUFFIX, name):
            relation = relations.get(candidate)
            if relation is not None and relation.kind is core.Kind.INPUT:
                return self._program.engine.table(candidate), relation
        raise ProgrammingError(f"{name} is no relation that has facts", span=span)

    def _print_changes(self) -> None:
        """Print the last commit's changes of the outputs."""
        self._out.write(f"commit {self._program.engine.executor.epoch}\n")
        for name, view in self._views.items():
            if name in self._sizes:
                growth = sum(diff for _, _, diff in view.changes())
                self._out.write(f"{name} size {growth:+d}\n" if growth else "")
                continue
            for row, _, diff in sorted(view.changes(), key=lambda change: (change[2], repr(change[0]))):
                fields = row if self._program.checked.program.relations[name].columns else ()
                self._out.write(f"{name}({', '.join(map(value_text, fields))}) {diff:+d}\n")


def _unescape(escape: re.Match[str]) -> str:
    return {"t": "\t", "n": "\n"}.get(escape[1], escape[1])
