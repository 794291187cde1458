"""Python's DB-API 2.0 (PEP 249) over a database in this process.

    import kpg.dbapi

    connection = kpg.dbapi.connect()          # or connect("folder")
    cursor = connection.cursor()
    cursor.execute("SELECT ? + 1", [41])

A connection is a session. Connections of one database (``connect(database=db)``) do not see each
other's uncommitted changes. A transaction begins with the first statement after a commit or a
rollback, unless the connection has ``autocommit``.
"""

import datetime
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import kpg
from kpg.api.result import Result, Row
from kpg.compiler.sql.parse.parameters import Parameters
from kpg.compiler.sql.parse.statements import Rollback
from kpg.runtime.errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Span,
)
from kpg.runtime.types import Kind
from kpg.session.transaction import State

if TYPE_CHECKING:
    from pathlib import Path

    from kpg.api.database import Database
    from kpg.api.result import Description
    from kpg.session.session import Session

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]

apilevel: Final = "2.0"
threadsafety: Final = 2
"""Threads may share the module and connections, but not cursors."""
paramstyle: Final = "qmark"
"""``$1`` and ``:name`` are accepted as well."""


class Warning(Exception):
    """The warning class of PEP 249, which is never raised."""


class TypeObject(frozenset[Kind]):
    """A type object of PEP 249: equal to the column types of some kinds in ``cursor.description``."""

    def __eq__(self, other: object) -> bool:
        return getattr(other, "kind", None) in self

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = frozenset.__hash__


STRING: Final = TypeObject({Kind.CHAR, Kind.VARCHAR})
BINARY: Final = TypeObject({Kind.BYTEA})
NUMBER: Final = TypeObject(
    {Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL, Kind.NUMERIC, Kind.REAL, Kind.DOUBLE}
)
DATETIME: Final = TypeObject({Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.INTERVAL})
ROWID: Final = TypeObject({Kind.ROWID})
Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes
DateFromTicks = datetime.date.fromtimestamp
TimestampFromTicks = datetime.datetime.fromtimestamp


def TimeFromTicks(ticks: float) -> datetime.time:
    """Return the local time of day, given the seconds since 1970-01-01 UTC."""
    return datetime.datetime.fromtimestamp(ticks).time()


def connect(
    folder: "str | Path | None" = None, *, database: "Database | None" = None, autocommit: bool = False
) -> "Connection":
    """Connect to a new database in memory, the durable one in a folder, or an open one."""
    target = database if database is not None else kpg.connect(folder)
    return Connection(target, owned=database is None, autocommit=autocommit)


class Connection:
    """A session. As a context manager it commits, or rolls back if the block raises. It stays open."""

    Warning, Error, InterfaceError, DatabaseError = Warning, Error, InterfaceError, DatabaseError
    DataError, OperationalError, IntegrityError = DataError, OperationalError, IntegrityError
    InternalError, ProgrammingError, NotSupportedError = InternalError, ProgrammingError, NotSupportedError

    def __init__(self, database: "Database", *, owned: bool, autocommit: bool) -> None:
        self.autocommit = autocommit
        self._database = database
        self._is_owned = owned
        self._session: Session | None = database.session()

    @property
    def session(self) -> "Session":
        """The session. Raises InterfaceError after it is closed."""
        if self._session is None:
            raise InterfaceError("the connection is closed")
        return self._session

    def cursor(self) -> "Cursor":
        """Return a new cursor."""
        _ = self.session
        return Cursor(self)

    def commit(self) -> None:
        """Commit the transaction."""
        self.session.sql("COMMIT")

    def rollback(self) -> None:
        """Roll back the transaction."""
        self.session.execute(Rollback(Span("", 0, 0)))

    def close(self) -> None:
        """Roll back uncommitted changes and close the session. Closing twice is allowed."""
        session, self._session = self._session, None
        if session is not None:
            session.close()
            if self._is_owned:
                self._database.close()

    def begin(self) -> None:
        """Begin a transaction unless one is open or the connection has ``autocommit``."""
        if not self.autocommit and self.session.transactions.state is State.NONE:
            self.session.sql("BEGIN")

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.commit()
        else:
            self.rollback()


class Cursor:
    """Runs statements and fetches the rows of the last one."""

    arraysize = 1
    lastrowid: int | None = None
    """Always None: rows have no public number. Use INSERT ... RETURNING for assigned values."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._closed = False
        self._fetched = 0
        self.description: list[Description] | None = None
        self.rowcount = -1
        self._result: Result | None = None

    def execute(self, operation: str, parameters: Parameters | None = None) -> "Cursor":
        """Run one or several statements. The rows of the last one can be fetched."""
        self._check_open()
        return self.connection.session.monitor.run(self._execute, operation, parameters)

    def _execute(self, operation: str, parameters: Parameters | None) -> "Cursor":
        """Begin a transaction if needed, and run the statement in the same monitor block."""
        session = self.connection.session
        self._result, self.description, self.rowcount, self._fetched = None, None, -1, 0
        self.connection.begin()
        result = session.sql(operation, parameters)
        is_rows = result is not None and not result.is_count
        self._result = result if is_rows else None
        self.description = result.description if result is not None and is_rows else None
        self.rowcount = -1 if result is None else result.rowcount
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> "Cursor":
        """Run a statement once per set of parameters."""
        self._check_open()
        return self.connection.session.monitor.run(self._execute_many, operation, seq_of_parameters)

    def _execute_many(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> "Cursor":
        count = 0
        for parameters in seq_of_parameters:
            self.execute(operation, parameters)
            count += max(self.rowcount, 0)
        self._result, self.description, self.rowcount = None, None, count
        return self

    def _check_open(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed")

    def _rows(self) -> Result:
        self._check_open()
        _ = self.connection.session
        if self._result is None:
            raise ProgrammingError("there are no rows to fetch", hint="execute a query first")
        return self._result

    def fetchone(self) -> Row | None:
        """Return the next row, or None after the last."""
        row = self._rows().fetchone()
        self._fetched += row is not None
        return row

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """Return the next ``size`` rows, by default ``arraysize``; fewer at the end."""
        rows = self._rows().fetchmany(self.arraysize if size is None else size)
        self._fetched += len(rows)
        return rows

    def fetchall(self) -> list[Row]:
        """Return the remaining rows."""
        rows = self._rows().fetchall()
        self._fetched += len(rows)
        return rows

    @property
    def rownumber(self) -> int | None:
        """The position of the next row; None without rows."""
        return None if self._result is None else self._fetched

    def nextset(self) -> None:
        """Return None: there is only one result."""

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def __enter__(self) -> "Cursor":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Do nothing. Required by PEP 249."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Do nothing. Required by PEP 249."""

    def close(self) -> None:
        """Discard the rows. A closed cursor cannot be used."""
        self._result = None
        self._closed = True
