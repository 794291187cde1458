"""SQLAlchemy dialect for a database in this process: ``kpg://`` in memory, ``kpg:///folder`` in a folder.

It derives from SQLAlchemy's Postgres dialect, so types, reflection and SQL rendering are those of Postgres.
The connections of one ``Engine`` share a database, and each connection is a session. A database in a
folder
stays open while any connection is open.
"""

import threading
from collections.abc import Callable
from datetime import time
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Time, pool
from sqlalchemy.dialects.postgresql import TIME
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.dialects.postgresql.pg_catalog import INT2VECTOR

import kpg
import kpg.dbapi

if TYPE_CHECKING:
    from types import ModuleType

    from sqlalchemy.engine import URL
    from sqlalchemy.engine.interfaces import ConnectArgsType, DBAPIConnection, IsolationLevel


def _parse_number(text: str) -> int:
    if not text.isdecimal():
        raise kpg.InterfaceError(f"{text!r} is no number")
    return int(text)


OPTIONS: Final[dict[str, Callable[[str], Any]]] = {
    "synchronous": str,
    "read_only": lambda text: text.lower() in ("1", "true", "on", "yes"),
    "merge_effort": str,
    "memory_limit": str,
    "history": str,
    "workers": _parse_number,
}
"""Options of an address that are passed to ``kpg.connect``, with the conversion of their text."""


class IntVector(INT2VECTOR):
    """An int2vector of the catalogs, which arrives as a text with spaces or as an array."""

    def result_processor(self, dialect: Any, coltype: Any) -> Any:
        """Return the conversion to a list of ints."""
        return lambda value: [*map(int, value.split())] if isinstance(value, str) else value


class TimeType(TIME):
    """A time of day. A time with a zone arrives as a text."""

    def result_processor(self, dialect: Any, coltype: Any) -> Any:
        """Return the conversion to Python's time with its zone."""
        return lambda value: time.fromisoformat(value) if isinstance(value, str) else value


class Dialect(PGDialect):
    """The dialect of ``kpg://`` addresses."""

    name = "kpg"
    driver = "kpg"
    default_paramstyle = "numeric_dollar"
    supports_statement_cache = True
    supports_native_enum = True
    supports_native_decimal = True
    postgresql_version = (16, 0)

    def __init__(self, **options: Any) -> None:
        options.setdefault("paramstyle", "numeric_dollar")
        initialize: Any = super().__init__
        initialize(**options)
        self.colspecs = {**self.colspecs, INT2VECTOR: IntVector, Time: TimeType}
        self._lock = threading.Lock()
        self._database: kpg.Database | None = None
        self._folder: str | None = None
        self._open = 0

    @classmethod
    def import_dbapi(cls) -> "ModuleType":
        """Return the module of PEP 249."""
        return kpg.dbapi

    @classmethod
    def get_pool_class(cls, url: "URL") -> type[pool.Pool]:
        """Return the class of a pool for threads."""
        return pool.QueuePool

    def create_connect_args(self, url: "URL") -> "ConnectArgsType":
        """Return the folder and the options of ``kpg.connect``: ``kpg:///folder?synchronous=normal``."""
        if url.host or url.username:
            raise kpg.InterfaceError(
                f"{url.host or url.username} is nobody that kpg:// asks: its database is in this process",
                hint="use kpg:///folder, or postgresql+psycopg:// to connect to a server",
            )
        options: dict[str, Any] = dict(url.query)
        for name, value in options.items():
            if name not in OPTIONS:
                raise kpg.InterfaceError(
                    f"there is no option {name}", hint=f"it is one of {', '.join(OPTIONS)}"
                )
            options[name] = OPTIONS[name](value)
        return ([url.database or ""], options)

    def connect(self, *args: Any, **options: Any) -> "DBAPIConnection":
        """Return a session of the database. ``connect_args={"database": db}`` uses an open database."""
        with self._lock:
            open_database = options.pop("database", None)
            if self._database is None or self._database.closed:
                self._folder = args[0] if args else None
                self._database = (
                    open_database
                    if open_database is not None
                    else kpg.connect(self._folder or None, **options)
                )
            self._open += 1
            connection: Any = kpg.dbapi.connect(database=self._database)
            if open_database is not None:
                self._folder = None
            return connection

    def do_close(self, dbapi_connection: "DBAPIConnection") -> None:
        """Close a session. The last one closes the database of a folder."""
        dbapi_connection.close()
        with self._lock:
            self._open -= 1
            if not self._open and self._folder and self._database is not None:
                self._database.close()
                self._database = None

    def do_terminate(self, dbapi_connection: "DBAPIConnection") -> None:
        """Close a session, as :meth:`do_close` does."""
        self.do_close(dbapi_connection)

    def get_isolation_level_values(self, dbapi_connection: "DBAPIConnection") -> list["IsolationLevel"]:
        """Return the isolation levels."""
        return ["AUTOCOMMIT", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]

    def set_isolation_level(self, dbapi_connection: "DBAPIConnection", level: "IsolationLevel") -> None:
        """Set the isolation level of a connection's transactions, or AUTOCOMMIT."""
        connection: Any = dbapi_connection
        connection.autocommit = level == "AUTOCOMMIT"
        if level != "AUTOCOMMIT":
            connection.session.sql(f"set default_transaction_isolation = '{level.lower()}'")

    def get_isolation_level(self, dbapi_connection: "DBAPIConnection") -> "IsolationLevel":
        """Return the isolation level of a connection's transactions."""
        connection: Any = dbapi_connection
        if connection.autocommit:
            return "AUTOCOMMIT"
        level: IsolationLevel = (
            connection.session.sql("show default_transaction_isolation").fetchone()[0].upper()
        )
        return level

    def _get_server_version_info(self, connection: Any) -> tuple[int, ...]:
        return self.postgresql_version

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        """Return False: there is no network connection."""
        return False
