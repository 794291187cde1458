"""SQL scripts with their answers: one database, and the same statements in a real Postgres.

A file is a sequence of cases (``tests/datadriven.py``). The commands:

``setup``
    Statements that each database from here on begins with.
``database``
    Begin anew, with a database that has the setup alone. The input is a title.
``statement``
    Statements without rows. The answer is empty, or the error of the last one, which the others precede.
``count``
    One statement that changes rows, and how many.
``query``
    One statement with rows, each a line of values with ``|`` between them. The lines are sorted unless the
    query ends in ORDER BY. ``ordered`` has the rows in the order in which they come.

An error is ``error``, its SQLSTATE and its message. A NULL is ``NULL``, an empty text ``(empty)``.

``kpg`` after a command means that Postgres does not run the case, since the statement is ours.
``differs`` means that Postgres runs it, and that its answer is another one. Postgres refreshes its
materialized views before each query.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import psycopg
from psycopg.pq import TransactionStatus

import kpg
from kpg.api.database import Database
from kpg.api.result import Rows
from kpg.compiler.sql.parse.reader import split_statements
from kpg.postgres.sqlstate import sqlstate_of
from kpg.runtime.types import Type
from kpg.runtime.values import codec_of

ORDERS: Final = re.compile(r"order\s+by[^)]*$", re.IGNORECASE | re.DOTALL)


def shown(value: str | None) -> str:
    """Return a value as it stands in a file."""
    if value is None:
        return "NULL"
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace("|", "\\|") or "(empty)"


def lines(command: str, text: str, rows: Sequence[Sequence[str | None]]) -> str:
    """Return the rows as lines, in the order that the command and the query ask for."""
    found = ["|".join(map(shown, row)) for row in rows]
    return "\n".join(found if command == "ordered" or ORDERS.search(text) else sorted(found))


class Ours:
    """A kpg database that begins anew when a file says so."""

    def __init__(self) -> None:
        self.db: Database | None = None
        self.setup = ""

    def close(self) -> None:
        if self.db is not None:
            self.db.close()
            self.db = None

    def answer(self, command: str, text: str) -> str:
        """Run a case; return its answer."""
        if command == "setup":
            self.setup = text
            return ""
        if command == "database" or self.db is None:
            self.close()
            self.db = kpg.connect()
            self.db.sql(self.setup)
        if command == "database":
            return ""
        try:
            found = [self.db.sql(statement) for statement in split_statements(text)][-1]
        except kpg.Error as error:
            return f"error {sqlstate_of(error)}: {error.message}".replace("\n", "\\n")
        if command == "statement":
            return ""
        assert isinstance(found, Rows), text
        return lines(command, text, [tuple(map(_text, found.types, row)) for row in found.fetchall()])


class Theirs:
    """A Postgres whose public schema is emptied when a file says so."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.setup = ""
        self.connection: psycopg.Connection | None = None

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def answer(self, command: str, text: str) -> str:
        """Run a case; return its answer."""
        if command == "setup":
            self.setup = text
            return ""
        if command == "database" or self.connection is None:
            self.close()
            self.connection = psycopg.connect(self.address, autocommit=True, prepare_threshold=None)
            owned = "select nspname from pg_namespace where nspname !~ '^pg_|^information_schema$'"
            for (name,) in self.connection.execute(owned).fetchall():
                self.connection.execute(f'drop schema "{name}" cascade'.encode())
            self.connection.execute("create schema public; set timezone to 'UTC'")
            for statement in split_statements(self.setup):
                self.connection.execute(statement.encode())
        if command == "database":
            return ""
        if command in ("query", "ordered"):
            self._refresh()
        try:
            for statement in split_statements(text):
                cursor = self.connection.execute(statement.encode())
        except psycopg.Error as error:
            return f"error {error.sqlstate}: {error.diag.message_primary}"
        result = cursor.pgresult
        if command == "statement" or result is None:
            return ""
        if command == "count":
            return str(cursor.rowcount)
        values = [
            [result.get_value(row, place) for place in range(result.nfields)] for row in range(result.ntuples)
        ]
        texts = [[None if value is None else value.decode() for value in row] for row in values]
        return lines(command, text, texts)

    def _refresh(self) -> None:
        """Bring materialized views up to date, as they always are in kpg, unless a cursor reads them."""
        assert self.connection is not None
        if self.connection.info.transaction_status == TransactionStatus.INERROR:
            return
        if not self.connection.execute("select from pg_cursors").fetchall():
            views = "select oid::regclass::text from pg_class where relkind = 'm' order by oid"
            for (name,) in self.connection.execute(views).fetchall():
                with suppress(psycopg.Error):  # the query then has the rows from before
                    self.connection.execute(f"refresh materialized view {name}".encode())


def agree(ours: str, theirs: str) -> bool:
    """Whether two answers are the same; of errors, whether they have the same SQLSTATE."""
    if ours.startswith("error ") and theirs.startswith("error "):
        return ours.partition(":")[0] == theirs.partition(":")[0]
    return ours == theirs


def _text(type_: Type, value: object) -> str | None:
    """Return a value as kpg writes it, truth values as the protocol does."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "t" if value else "f"
    codec = codec_of(type_)
    return str(codec.show(codec.from_python(value)))
