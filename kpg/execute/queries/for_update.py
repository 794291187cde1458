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
from kpg.compiler.sql.bind.eager_subexpressions import rows_table_name
from kpg.compiler.sql.bind.row_locks import WAIT_ERROR, WAIT_SKIP, LockTarget
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parameters import map_trees
from kpg.execute.changes.dml import compute_with_numbers
from kpg.execute.queries.query_plan import plan
from kpg.execute.queries.result_rows import EncodedContents, expand, literal_of, permutation
from kpg.runtime.errors import InterfaceError, NotSupportedError, ProgrammingError, SerializationError
from kpg.runtime.records import dataclass
from kpg.runtime.types import NULL, ColumnDef, Schema, Type
from kpg.session.engine import Engine
from kpg.session.locks import ROW_SHARE, LockRequest, lock_error

Words = NDArray[np.int64]
Part = TypeVar("Part")
MAX_INLINE_ROWS: Final = 100
"""Up to this number of rows, a subquery becomes constants; for more, a temporary table."""


@dataclass(frozen=True, slots=True)
class LockedResult:
    """Rows of a query, locked as it requires."""

    names: tuple[str, ...]
    types: tuple[Type, ...]
    words: Words


def select_for_update(
    engine: Engine, statement: ast.Select, select: Callable[[Engine, ast.Select], Result]
) -> Result:
    """Return the rows of a query after locking them; ``select`` runs a query that locks none."""
    statement = run_locking_subqueries(engine, statement)
    if not row_locks.locks_rows(statement.query):
        return select(engine, statement)
    found = _select_and_lock(engine, statement)
    contents = EncodedContents(found.names, found.types, found.words, engine.executor.dictionary)
    return Result(found.names, found.types, contents)


def run_locking_subqueries(engine: Engine, statement: Part) -> Part:
    """Return a statement with locking subqueries replaced by their rows."""
    common = getattr(statement, "common", None)
    span = getattr(statement, "span", None)
    assert span is not None

    def run_subquery(query: Any) -> Any:
        return _query_of_rows(
            engine, _select_and_lock(engine, _check_uncorrelated(engine, ast.Select(query, span)))
        )

    whole = isinstance(statement, ast.Select)
    return map_trees(
        statement,
        lambda tree: row_locks.replace_locking_subqueries(tree, common, run_subquery, is_query=whole),
    )


def _check_uncorrelated(engine: Engine, statement: ast.Select) -> ast.Select:
    """Return a locking subquery that can run before the statement around it."""
    statement = run_locking_subqueries(engine, statement)
    try:
        plan(statement, engine.reading_catalog, engine.statistics)
    except ProgrammingError as error:
        raise NotSupportedError(
            f"rows are not locked by a subquery that cannot be asked by itself: {error.args[0]}",
            span=statement.span,
            hint="lock them by a query of its own",
        ) from None
    return statement


def _query_of_rows(engine: Engine, result: LockedResult) -> Any:
    """Return a query of known rows."""
    dictionary = engine.executor.dictionary
    if result.words.shape[1] > MAX_INLINE_ROWS:
        columns = [ColumnDef(f"c{place}", type_) for place, type_ in enumerate(result.types)]
        table = engine.tables.attach(rows_table_name("locking"), Schema(tuple(columns)))
        engine.table(table).insert(np.ascontiguousarray(result.words))
        return row_locks.table_query(result.names, table)
    rows = [
        [literal_of(word, type_, dictionary) for type_, word in zip(result.types, row, strict=True)]
        for row in result.words.T.tolist()
    ]
    nothing = [literal_of(NULL, type_, dictionary) for type_ in result.types]
    return row_locks.rows_query(result.names, rows, nothing)


def _select_and_lock(engine: Engine, statement: ast.Select) -> LockedResult:
    if engine.transactions.is_read_only:
        error = InterfaceError("cannot execute SELECT FOR UPDATE in a read-only transaction")
        error.sqlstate = "25006"
        raise error
    if statement.as_of is not None:
        raise NotSupportedError("rows of an earlier moment cannot be locked", span=statement.span)
    query = statement.query.unnest()
    query, targets = row_locks.expand_locked_views(query, engine.reading_catalog, statement.span.source)
    locking_query = _LockingQuery(engine, statement, targets)
    limits = (
        row_locks.constant_limits(query)
        if any(target.wait_policy == WAIT_SKIP for target in targets)
        else None
    )
    for table in sorted({table for target in targets for table in target.tables.values()}):
        _lock_table(engine, table, targets)
    if limits is None:
        return locking_query.run(row_locks.with_row_locations(query, targets))
    limit, offset = limits
    tables = [table for target in targets for table in target.tables.values()]
    fetched = None if limit is None else limit + offset + engine.locks.count_locked_rows(tables)
    result = locking_query.run(
        row_locks.with_row_locations(row_locks.with_limit(query, fetched), targets), limit, offset
    )
    if (
        fetched is not None
        and limit is not None
        and locking_query.count == fetched
        and result.words.shape[1] < limit
    ):
        result = locking_query.run(
            row_locks.with_row_locations(row_locks.with_limit(query, None), targets), limit, offset
        )
    return result


def _lock_table(engine: Engine, table: str, targets: Sequence[LockTarget]) -> None:
    """Take the ROW SHARE lock of a table, unless another session's lock conflicts."""
    request = LockRequest((table,), ROW_SHARE)
    if engine.locks.is_blocked(request):
        if any(target.wait_policy == WAIT_ERROR for target in targets):
            raise lock_error(table, is_row=False)
        engine.locks.suspend(engine, request)
    engine.locks.hold(request)


class _LockingQuery:
    """A query whose result rows are locked."""

    def __init__(self, engine: Engine, statement: ast.Select, targets: Sequence[LockTarget]) -> None:
        self._engine = engine
        self._statement = statement
        self._targets = targets
        self.count = 0
        """Number of rows that the query returned, locked or not."""

    def run(self, query: Any, limit: int | None = None, offset: int = 0) -> LockedResult:
        """Run a query that also returns the positions of the rows to lock, and lock them."""
        engine = self._engine

        def run_query() -> tuple[Words, Schema]:
            planned = plan(replace(self._statement, query=query), engine.reading_catalog, engine.statistics)
            words = expand(*engine.run(planned))
            if planned.order:
                order = permutation(words, planned.order, planned.types, engine.executor.dictionary)
                words = words[:, order]
            return words, planned.schema

        words, schema = compute_with_numbers(engine, run_query)
        self.count = words.shape[1]
        width = len(schema.columns) - 2 * len(self._targets)
        kept = self._lock_rows(words[width : len(schema.columns)], limit, offset)
        return LockedResult(
            schema.names[:width], schema.types[:width], np.ascontiguousarray(words[:width, kept])
        )

    def _lock_rows(self, positions: Words, limit: int | None, offset: int) -> Words:
        """Lock rows in result order; return the positions of the returned rows."""
        rows = [self._make_row_set(positions, place, one) for place, one in enumerate(self._targets)]
        contended = any(one.is_contended for one in rows)
        if not contended and limit is None and not offset:
            for one in rows:
                one.hold_all()
            return np.arange(positions.shape[1])
        kept: list[int] = []
        passed = 0
        for row in range(positions.shape[1]):
            if len(kept) == limit:
                break
            if all(one.lock(row) for one in rows):
                passed += 1
                if passed > offset:
                    kept.append(row)
        return np.array(kept, np.int64)

    def _make_row_set(self, positions: Words, index: int, target: LockTarget) -> "_LockedRelation":
        return _LockedRelation(self._engine, target, positions[2 * index], positions[2 * index + 1])


class _LockedRelation:
    """The rows of one relation to lock: table numbers, and positions within the tables."""

    def __init__(self, engine: Engine, target: LockTarget, numbers: Words, positions: Words) -> None:
        self._engine = engine
        self._target = target
        self._numbers = numbers
        self._rowids = row_locks.rowids_of_tids(positions)
        self._exists = positions != NULL
        self._own: dict[str, set[int]] = {}
        if engine.executor.tables.has_pending:
            changed = engine.executor.tables.changes_since(None)
            self._own = {name: set(inserted.tolist()) for name, _, inserted, _ in changed}
        self._blocked_rows: set[tuple[str, int]] = set()
        for number, table in target.tables.items():
            rowids = np.unique(self._rowids[self._exists & (numbers == number)])
            self._blocked_rows.update(
                (table, rowid)
                for rowid in self._find_contended(table, rowids)
                if self._is_blocked(table, rowid)
            )

    def _find_contended(self, table: str, rowids: Words) -> list[int]:
        """Return the rows that any session has locked, or that have been deleted."""
        engine = self._engine
        found = engine.locks.find_locked(table, rowids)
        if engine.snapshot_epoch is not None:
            found += np.setdiff1d(rowids, engine.executor.tables.filter_live(table, rowids)).tolist()
        return found

    def _is_blocked(self, table: str, rowid: int) -> bool:
        return self._is_deleted(table, rowid) or self._engine.locks.is_blocked(self._request(table, rowid))

    def _is_deleted(self, table: str, rowid: int) -> bool:
        engine = self._engine
        return (
            engine.snapshot_epoch is not None
            and not engine.executor.tables.filter_live(table, np.array([rowid], np.int64)).size
        )

    def _request(self, table: str, rowid: int) -> LockRequest:
        return LockRequest((table, rowid), self._target.mode)

    @property
    def is_contended(self) -> bool:
        """Whether some row cannot be locked now."""
        return bool(self._blocked_rows)

    def hold_all(self) -> None:
        """Lock rows that no other session has locked."""
        for number, table in self._target.tables.items():
            rowids = np.unique(self._rowids[self._exists & (self._numbers == number)])
            own = self._own.get(table)
            if own:
                rowids = rowids[~np.isin(rowids, np.fromiter(own, np.int64, len(own)))]
            self._engine.locks.hold_rows(table, rowids, self._target.mode)

    def lock(self, row: int) -> bool:
        """Lock one row; False with SKIP LOCKED. Raises WaitRequest, or an error with NOWAIT."""
        if not self._exists[row]:
            return True
        engine = self._engine
        table = self._target.tables[int(self._numbers[row])]
        rowid = int(self._rowids[row])
        if rowid in self._own.get(table, ()):
            return True  # no other session sees it
        if (table, rowid) not in self._blocked_rows:
            engine.locks.hold(self._request(table, rowid))
            return True
        if self._is_deleted(table, rowid):
            what = f'a row of table "{table}"'
            raise SerializationError(f"could not serialize access due to concurrent update of {what}")
        if self._target.wait_policy == WAIT_SKIP:
            return False
        if self._target.wait_policy == WAIT_ERROR:
            raise lock_error(table, is_row=True)
        if not engine.locks.can_suspend:
            raise lock_error(table, is_row=True, hint="wait in a session")
        engine.locks.suspend(engine, self._request(table, rowid))
