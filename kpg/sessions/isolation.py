"""What a transaction may see of those that commit while it runs.

READ COMMITTED: every statement sees the last commit. REPEATABLE READ and SERIALIZABLE: all statements see the
commits before the first. No old state is read for that: a statement that would read a table which somebody
else has changed since is refused, and so is, under SERIALIZABLE, the commit of changes after such a table was
read. So transactions are as if they had run one after the other, at their commits. Some are refused that
Postgres, which looks at rows and not at tables, lets through.
"""

import enum
import re
from typing import Final

from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.query import read_relations
from kpg.engine import Engine
from kpg.sessions.parking import SerializationError
from kpg.sessions.transactions import SessionTransactions
from kpg.transaction import State


class Isolation(enum.Enum):
    """The levels; their values are SQL's names."""

    READ_COMMITTED = "read committed"
    REPEATABLE_READ = "repeatable read"
    SERIALIZABLE = "serializable"


LEVEL: Final = re.compile(
    r"isolation\s+level\s+(serializable|repeatable\s+read|read\s+committed|read\s+uncommitted)", re.IGNORECASE
)
DEFAULT: Final = "default_transaction_isolation"


def level_of(text: str) -> Isolation | None:
    """The level that a text names; READ UNCOMMITTED is READ COMMITTED, as in Postgres."""
    found = LEVEL.search(text) if "solation" in text.lower() else None
    if found is None:
        return None
    name = " ".join(found[1].lower().split()).replace("uncommitted", "committed")
    return Isolation(name)


def noted(transactions: "Isolated", statement: ast.Statement, settings: dict[str, str]) -> None:
    """Take note of what a statement says of isolation, before it runs."""
    text = statement.span.source[statement.span.start : statement.span.end]
    level = level_of(text)
    if isinstance(statement, ast.Begin):
        given = settings.get(DEFAULT, "")
        known = {one.value for one in Isolation}
        transactions.begin_at(level or Isolation(given if given in known else "read committed"))
    elif level is not None and text.lower().split()[:2] == ["set", "session"]:
        settings[DEFAULT] = level.value
    elif level is not None and text.lower().startswith("set"):
        transactions.begin_at(level)


class Isolated(SessionTransactions):
    """Transactions that know what they have read, and as of when."""

    level = Isolation.READ_COMMITTED
    _since: int | None = None
    _read: frozenset[str] = frozenset()

    def begin_at(self, level: Isolation) -> None:
        """A transaction begins, at a level."""
        self.level = level
        self._since = None
        self._read = frozenset()

    def check_reading(self, engine: Engine, statement: ast.Statement) -> None:
        """SerializationError, the transaction being rolled back, if a statement would see later commits."""
        if self.level is Isolation.READ_COMMITTED or self.state is not State.OPEN:
            return
        if self._since is None:
            self._since = engine.executor.epoch
        if isinstance(statement, ast.Commit):
            if self.level is Isolation.SERIALIZABLE and engine.executor.has_pending:
                self._check_commit(engine)
            return
        tables = engine.tables_under(read_relations(statement, engine.catalog))
        self._read |= tables
        self._check(engine, self._read if self.level is Isolation.SERIALIZABLE else tables)

    def _check_commit(self, engine: Engine) -> None:
        try:
            self._check(engine, self._read)
        except SerializationError:
            self.rollback()
            raise

    def _check(self, engine: Engine, tables: frozenset[str]) -> None:
        assert self._since is not None
        assert engine.changed is not None
        for name in sorted(tables):
            if engine.changed.get(name, 0) > self._since:
                with self.undoing():
                    raise SerializationError(
                        f'could not serialize access: table "{name}", which was read, was changed'
                    )
