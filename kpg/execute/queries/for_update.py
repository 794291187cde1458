"""Locking reads: SELECT ... FOR UPDATE and its variants, also inside other statements.

Rows are locked in result order, and only those that the query returns. After a wait for a lock the whole
query runs again, on the present rows. A locking subquery runs first; the statement around it reads its rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from kpg.api.result import Result
from kpg.compiler.sql.bind import row_locks
from kpg.compiler.sql.bind.eager_subexpressions import named_rows
from kpg.compiler.sql.bind.row_locks import REFUSES, SKIPS, Target
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parameters import rewritten
from kpg.execute.changes.dml import settling
from kpg.execute.queries.query_plan import plan
from kpg.execute.queries.result_rows import Decoded, expand, literal_of, permutation
from kpg.runtime.errors import InterfaceError, NotSupportedError, ProgrammingError, SerializationError
from kpg.runtime.records import dataclass
from kpg.runtime.types import NULL, ColumnDef, Schema, Type
from kpg.session.engine import Engine
from kpg.session.locks import ROW_SHARE, Wish, refusal

Words = NDArray[np.int64]
Part = TypeVar("Part")
FEW: Final = 100
"""So many rows of a subquery are written into the statement around it; of more a table is made."""


@dataclass(frozen=True, slots=True)
class Locked:
    """The rows of a query, which are locked."""

    names: tuple[str, ...]
    types: tuple[Type, ...]
    words: Words


def select_locked(
    engine: Engine, statement: ast.Select, otherwise: Callable[[Engine, ast.Select], Result]
) -> Result:
    """The rows of a query that may lock some; ``otherwise`` asks one that does not."""
    statement = with_locked(engine, statement)
    if not row_locks.locks(statement.query):
        return otherwise(engine, statement)
    found = _locked(engine, statement)
    contents = Decoded(found.names, found.types, found.words, engine.executor.dictionary)
    return Result(found.names, found.types, contents)


def with_locked(engine: Engine, statement: Part) -> Part:
    """A statement with the rows of subqueries that lock some in their places."""
    common = getattr(statement, "common", None)
    span = getattr(statement, "span", None)
    assert span is not None

    def asked(query: Any) -> Any:
        return _as_query(engine, _locked(engine, _apart(engine, ast.Select(query, span))))

    whole = isinstance(statement, ast.Select)
    return rewritten(statement, lambda tree: row_locks.settled(tree, common, asked, whole=whole))


def _apart(engine: Engine, statement: ast.Select) -> ast.Select:
    """A subquery that can be asked before the statement around it."""
    statement = with_locked(engine, statement)
    try:
        plan(statement, engine.reading_catalog, engine.statistics)
    except ProgrammingError as error:
        raise NotSupportedError(
            f"rows are not locked by a subquery that cannot be asked by itself: {error.args[0]}",
            span=statement.span,
            hint="lock them by a query of its own",
        ) from None
    return statement


def _as_query(engine: Engine, found: Locked) -> Any:
    """A query of rows that are known."""
    dictionary = engine.executor.dictionary
    if found.words.shape[1] > FEW:
        columns = [ColumnDef(f"c{place}", type_) for place, type_ in enumerate(found.types)]
        table = engine.tables.attach(named_rows("locking"), Schema(tuple(columns)))
        engine.table(table).insert(np.ascontiguousarray(found.words))
        return row_locks.of_table(found.names, table)
    rows = [
        [literal_of(word, type_, dictionary) for type_, word in zip(found.types, row, strict=True)]
        for row in found.words.T.tolist()
    ]
    nothing = [literal_of(NULL, type_, dictionary) for type_ in found.types]
    return row_locks.of_rows(found.names, rows, nothing)


def _locked(engine: Engine, statement: ast.Select) -> Locked:
    """Ask a query, and lock the rows that it says."""
    if engine.transactions.read_only:
        error = InterfaceError("cannot execute SELECT FOR UPDATE in a read-only transaction")
        error.sqlstate = "25006"
        raise error
    if statement.then is not None:
        raise NotSupportedError("rows of an earlier moment cannot be locked", span=statement.span)
    query = statement.query.unnest()
    query, found = row_locks.opened(query, engine.reading_catalog, statement.span.source)
    asking = _Asking(engine, statement, found)
    limits = row_locks.limits(query) if any(one.locked == SKIPS for one in found) else None
    for table in sorted({table for one in found for table in one.tables.values()}):
        _lock_table(engine, table, found)
    if limits is None:
        return asking.taken(row_locks.located(query, found))
    limit, offset = limits
    tables = [table for one in found for table in one.tables.values()]
    most = None if limit is None else limit + offset + engine.locks.busy(tables)
    taken = asking.taken(row_locks.located(row_locks.limited(query, most), found), limit, offset)
    if most is not None and limit is not None and asking.count == most and taken.words.shape[1] < limit:
        taken = asking.taken(row_locks.located(row_locks.limited(query, None), found), limit, offset)
    return taken


def _lock_table(engine: Engine, table: str, found: Sequence[Target]) -> None:
    """A table whose rows are locked is not to be locked as a whole."""
    wish = Wish((table,), ROW_SHARE)
    if engine.locks.blocked(wish):
        if any(one.locked == REFUSES for one in found):
            raise refusal(table, row=False)
        engine.locks.wait_for(engine, wish)
    engine.locks.hold(wish)


class _Asking:
    """A query whose rows are locked."""

    def __init__(self, engine: Engine, statement: ast.Select, found: Sequence[Target]) -> None:
        self._engine = engine
        self._statement = statement
        self._targets = found
        self.count = 0
        """How many rows the query gave."""

    def taken(self, query: Any, limit: int | None = None, offset: int = 0) -> Locked:
        """The rows of a query with the places of those to lock, which are locked now."""
        engine = self._engine

        def asked() -> tuple[Words, Schema]:
            planned = plan(replace(self._statement, query=query), engine.reading_catalog, engine.statistics)
            words = expand(*engine.run(planned))
            if planned.order:
                order = permutation(words, planned.order, planned.types, engine.executor.dictionary)
                words = words[:, order]
            return words, planned.schema

        words, schema = settling(engine, asked)
        self.count = words.shape[1]
        width = len(schema.columns) - 2 * len(self._targets)
        kept = self._locked(words[width : len(schema.columns)], limit, offset)
        return Locked(schema.names[:width], schema.types[:width], np.ascontiguousarray(words[:width, kept]))

    def _locked(self, places: Words, limit: int | None, offset: int) -> Words:
        """Lock rows in their order: which of them are given."""
        rows = [self._rows(places, place, one) for place, one in enumerate(self._targets)]
        contended = any(one.contended for one in rows)
        if not contended and limit is None and not offset:
            for one in rows:
                one.hold_all()
            return np.arange(places.shape[1])
        kept: list[int] = []
        passed = 0
        for row in range(places.shape[1]):
            if len(kept) == limit:
                break
            if all(one.lock(row) for one in rows):
                passed += 1
                if passed > offset:
                    kept.append(row)
        return np.array(kept, np.int64)

    def _rows(self, places: Words, place: int, target: Target) -> "_Rows":
        return _Rows(self._engine, target, places[2 * place], places[2 * place + 1])


class _Rows:
    """The rows of one relation that are to be locked: the tables' numbers, and the places in these."""

    def __init__(self, engine: Engine, target: Target, numbers: Words, places: Words) -> None:
        self._engine = engine
        self._target = target
        self._numbers = numbers
        self._rowids = row_locks.rowids_of(places)
        self._there = places != NULL
        self._own: dict[str, set[int]] = {}
        if engine.executor.has_pending:
            changed = engine.executor.changed_since(None)
            self._own = {name: set(inserted.tolist()) for name, _, inserted, _ in changed}
        self._blocked: set[tuple[str, int]] = set()
        for number, table in target.tables.items():
            rowids = np.unique(self._rowids[self._there & (numbers == number)])
            self._blocked.update(
                (table, rowid) for rowid in self._find(table, rowids) if self._is_blocked(table, rowid)
            )

    def _find(self, table: str, rowids: Words) -> list[int]:
        """Rows that anybody has locked, or that are not there any more."""
        engine = self._engine
        found = engine.locks.locked(table, rowids)
        if engine.seen is not None:
            found += np.setdiff1d(rowids, engine.executor.live(table, rowids)).tolist()
        return found

    def _is_blocked(self, table: str, rowid: int) -> bool:
        return self._is_gone(table, rowid) or self._engine.locks.blocked(self._wish(table, rowid))

    def _is_gone(self, table: str, rowid: int) -> bool:
        engine = self._engine
        return engine.seen is not None and not engine.executor.live(table, np.array([rowid], np.int64)).size

    def _wish(self, table: str, rowid: int) -> Wish:
        return Wish((table, rowid), self._target.mode)

    @property
    def contended(self) -> bool:
        """Whether any of them cannot be locked now."""
        return bool(self._blocked)

    def hold_all(self) -> None:
        """Lock all of them, which nobody has."""
        for number, table in self._target.tables.items():
            rowids = np.unique(self._rowids[self._there & (self._numbers == number)])
            own = self._own.get(table)
            if own:
                rowids = rowids[~np.isin(rowids, np.fromiter(own, np.int64, len(own)))]
            self._engine.locks.hold_rows(table, rowids, self._target.mode)

    def lock(self, row: int) -> bool:
        """Lock one; False if it is to be left out. Else Waiting or an error if it cannot be had."""
        if not self._there[row]:
            return True
        engine = self._engine
        table = self._target.tables[int(self._numbers[row])]
        rowid = int(self._rowids[row])
        if rowid in self._own.get(table, ()):
            return True  # nobody else sees it
        if (table, rowid) not in self._blocked:
            engine.locks.hold(self._wish(table, rowid))
            return True
        if self._is_gone(table, rowid):
            what = f'a row of table "{table}"'
            raise SerializationError(f"could not serialize access due to concurrent update of {what}")
        if self._target.locked == SKIPS:
            return False
        if self._target.locked == REFUSES:
            raise refusal(table, row=True)
        if not engine.locks.suspends:
            raise refusal(table, row=True, hint="wait in a session")
        engine.locks.wait_for(engine, self._wish(table, rowid))
