"""Cursors: the rows of a query as of its DECLARE, with a position, and WHERE CURRENT OF."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import NDArray

from kpg.api.result import Result, Row, row_count_result
from kpg.compiler.catalog.entries import TableEntry, ViewEntry
from kpg.compiler.sql.bind.row_locks import restrict_to_row, with_table_columns
from kpg.compiler.sql.frontend import input_relations
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.statements import Select
from kpg.execute.queries.result_rows import EncodedContents, literal_of, words_of
from kpg.runtime.errors import Error, ProgrammingError, Span
from kpg.runtime.types import Type
from kpg.session.base_table import Changes
from kpg.session.engine import Cursor, Engine
from kpg.session.transaction import State

if TYPE_CHECKING:
    import pyarrow


Words = NDArray[np.int64]


class SelectedRows:
    """Some rows of a result, by position."""

    def __init__(self, rows: Result, positions: list[int]) -> None:
        self._rows = rows
        self._positions = positions

    def __len__(self) -> int:
        return len(self._positions)

    def arrow(self) -> "pyarrow.Table":
        return self._rows.arrow().take(self._positions)

    def part(self, start: int, stop: int | None) -> list[Row]:
        return [self._rows.part(place, place + 1)[0] for place in self._positions[start:stop]]


def fetch(engine: Engine, statement: ast.Fetch) -> Result:
    """Run FETCH or MOVE."""
    return fetch_or_move(_cursor(engine, statement), statement)


def close(engine: Engine, statement: ast.Close) -> None:
    """Run CLOSE of a cursor, or of all cursors of the session."""
    if not statement.name:
        close_all(engine, engine.catalog.asker.number)
        return
    _cursor(engine, statement)
    del engine.cursors[cursor_key(engine, statement.name)]


def cursor_key(engine: Engine, name: str) -> tuple[int, str]:
    """Return the key of a cursor: the session's number and the name."""
    return engine.catalog.asker.number, name


def close_all(engine: Engine, number: int) -> None:
    """Close all cursors of a session."""
    for key in [cursor_id for cursor_id in engine.cursors if cursor_id[0] == number]:
        del engine.cursors[key]


def cursor_columns(engine: Engine, name: str) -> tuple[tuple[str, ...], tuple[Type, ...]] | None:
    """Return the column names and types of a session's open cursor; None if there is none of that name."""
    cursor = engine.cursors.get(cursor_key(engine, name))
    if cursor is None or not is_open(engine, cursor):
        return None
    return tuple(cursor.rows.columns), tuple(cursor.rows.types)


def declare(engine: Engine, statement: ast.Declare) -> None:
    """Run DECLARE CURSOR."""
    if engine.transactions.state is State.NONE and not statement.holds:
        raise ProgrammingError(
            "DECLARE CURSOR can only be used in transaction blocks",
            span=statement.span,
            hint="write BEGIN before it, or DECLARE ... WITH HOLD",
        )
    name = cursor_key(engine, statement.name)
    if name in engine.cursors and is_open(engine, engine.cursors[name]):
        error = ProgrammingError(f'cursor "{statement.name}" already exists', span=statement.span)
        error.sqlstate = "42P03"
        raise error
    assert isinstance(statement.query, Select)
    cursor = open_cursor(engine, statement.name, statement.query, holds=statement.holds)
    cursor.can_scroll = statement.scrolls
    place = statement.span
    cursor.text = place.source[place.start : place.end]


def open_cursor(engine: Engine, name: str, query: Select, *, holds: bool = False) -> Cursor:
    """Open a cursor that ends with the transaction or, with ``holds``, outlives its commit."""
    found = _select_with_base_rows(engine, query)
    if found is None:
        cursor = Cursor(name, engine.nested_execution.select(engine, query), None, True)
    else:
        result, entry = found
        words = words_of(result, engine.executor.dictionary)
        width = words.shape[0] - len(entry.schema.columns)
        names, types = tuple(result.columns[:width]), tuple(result.types[:width])
        contents = EncodedContents(
            names, types, np.ascontiguousarray(words[:width]), engine.executor.dictionary
        )
        cursor = Cursor(name, Result(names, types, contents), None, True)
        cursor.base_rows, cursor.table = words[width:].copy(), entry.name
    cursor.transaction = None if holds else engine.transactions.number
    cursor.moment, cursor.query = engine.catalog.now, query
    engine.cursors[cursor_key(engine, name)] = cursor
    _close_at_rollback(engine, cursor_key(engine, name), cursor)
    return cursor


def _close_at_rollback(engine: Engine, key: tuple[int, str], cursor: Cursor) -> None:
    """Close the cursor at a rollback of its savepoint; unless WITH HOLD, also at the transaction's end."""
    transactions = engine.transactions
    if transactions.state is State.NONE:
        return

    number = cursor.number  # not the cursor, whose rows would live until the end of the transaction

    def end() -> None:
        found = engine.cursors.get(key)
        if found is not None and found.number == number:
            del engine.cursors[key]

    transactions.setting_changes.add(transactions.depth, end)
    if cursor.transaction is not None:
        transactions.setting_changes.add_local(end)


def _select_with_base_rows(engine: Engine, query: Select) -> tuple[Result, TableEntry] | None:
    """Return a query's rows, each with the row of its only table; None if it is not simply updatable."""

    made = with_table_columns(query.query, engine.reading_catalog) if query.as_of is None else None
    if made is None or engine.catalog.checks_privileges:
        return None
    try:
        return engine.nested_execution.select(engine, replace(query, query=made[0])), made[1]
    except Error:
        return None


def list_cursors(engine: Engine) -> list[tuple[int | str | None, ...]]:
    """Return the rows of pg_cursors for the session."""
    mine = (
        cursor
        for key, cursor in engine.cursors.items()
        if key[0] == engine.catalog.asker.number and is_open(engine, cursor)
    )
    found: list[tuple[int | str | None, ...]] = [
        (cursor.name, cursor.text, int(cursor.transaction is None), 0, int(cursor.can_scroll), cursor.moment)
        for cursor in mine
    ]
    sessions = {} if engine.sessions is None else engine.sessions.sessions
    session = sessions.get(engine.catalog.asker.number)
    portals = [] if session is None else session.portals()
    return found + [(name, text, 0, 0, 0, moment) for name, text, moment, _ in portals]


def is_open(engine: Engine, cursor: Cursor) -> bool:
    """Whether a cursor can still be used."""
    transactions = engine.transactions
    inside = transactions.state is not State.NONE and transactions.number == cursor.transaction
    return cursor.transaction is None or inside


def _cursor(engine: Engine, statement: ast.Fetch | ast.Close) -> Cursor:
    cursor = engine.cursors.get(cursor_key(engine, statement.name))
    if cursor is None or not is_open(engine, cursor):
        raise ProgrammingError(
            f'cursor "{statement.name}" does not exist', span=statement.span, sqlstate="34000"
        )
    return cursor


def fetch_or_move(cursor: Cursor, statement: ast.Fetch) -> Result:
    """Return the result of FETCH or MOVE."""
    former, inside = cursor.position, 1 <= cursor.position <= len(cursor.rows)
    found = fetch_rows(cursor, statement.direction, statement.count)
    back = cursor.position < former or (cursor.position == former and inside and not statement.moves)
    back = back or (statement.direction == "ABSOLUTE" and statement.count < 0)
    if not cursor.can_scroll and back:
        error = ProgrammingError(
            "cursor can only scan forward", span=statement.span, hint="declare it with SCROLL"
        )
        error.sqlstate = "55000"
        raise error
    return row_count_result(len(found)) if statement.moves else found


def fetch_rows(cursor: Cursor, direction: str, count: int) -> Result:
    """Return the rows of a FETCH and move the cursor."""
    former, last = cursor.position, len(cursor.rows)
    match direction:
        case "ABSOLUTE":
            target = count if count >= 0 else last + 1 + count
            positions = _move_to(cursor, target)
        case "RELATIVE":
            positions = _move_to(cursor, former + count)
        case _ if count == 0:
            positions = _move_to(cursor, former)
        case _ if count > 0:
            cursor.position = min(former + count, last + 1)
            positions = list(range(former + 1, min(former + count, last) + 1))
        case _:
            cursor.position = max(former + count, 0)
            positions = list(range(former - 1, max(former + count, 1) - 1, -1))
    rows = cursor.rows
    return Result(rows.columns, rows.types, SelectedRows(rows, [place - 1 for place in positions]))


def _move_to(cursor: Cursor, target: int) -> list[int]:
    """Move to a row; return its position if it exists."""
    last = len(cursor.rows)
    cursor.position = max(0, min(target, last + 1))
    return [cursor.position] if 1 <= cursor.position <= last else []


def current_row_changes(
    engine: Engine, statement: ast.Update | ast.Delete, prepare: Callable[[Engine, ast.Change], Changes]
) -> Changes:
    """Compute the change of the row at a cursor's position; ``prepare`` computes it for all equal rows."""
    cursor = engine.cursors.get(cursor_key(engine, statement.cursor))
    if cursor is None or not is_open(engine, cursor):
        _refuse(f'cursor "{statement.cursor}" does not exist', "34000", statement.span)
    entry = engine.catalog.table(statement.table, statement.span)
    if cursor.base_rows is None or cursor.table != entry.name:
        what = f'a simply updatable scan of table "{entry.name.rpartition(".")[2]}"'
        _refuse(f'cursor "{statement.cursor}" is not {what}', "24000", statement.span)
    if not 1 <= cursor.position <= len(cursor.rows):
        _refuse(f'cursor "{statement.cursor}" is not positioned on a row', "24000", statement.span)
    words = cursor.base_rows[:, cursor.position - 1].tolist()
    dictionary = engine.executor.dictionary
    row = [literal_of(word, type_, dictionary) for type_, word in zip(entry.schema.types, words, strict=True)]
    found = prepare(engine, restrict_to_row(statement, entry, row))
    return _first_row_only(engine, found, cursor, entry) if isinstance(found, Changes) else found


def _refuse(message: str, state: str, span: Span) -> NoReturn:
    error = ProgrammingError(message, span=span)
    error.sqlstate = state
    raise error


def _first_row_only(engine: Engine, changes: Changes, cursor: Cursor, entry: TableEntry) -> Changes:
    """Restrict changes to one of several equal rows; the cursor then has the new row."""
    assert cursor.base_rows is not None
    if changes.deleted is not None and changes.deleted.size > 1:
        changes = replace(changes, deleted=changes.deleted[:1])
    elif changes.updated is not None and changes.updated[0].size:
        rowids, words = changes.updated
        changes = replace(changes, updated=(rowids[:1], np.ascontiguousarray(words[:, :1])))
        if words.shape[0] == len(entry.schema.columns):
            _set_current_row(engine, cursor, words[:, 0])
    if changes.returned is not None and changes.returned.words.shape[1] > 1:
        returned = replace(changes.returned, words=np.ascontiguousarray(changes.returned.words[:, :1]))
        changes = replace(changes, returned=returned)
    return changes


def _set_current_row(engine: Engine, cursor: Cursor, row: Words) -> None:
    """Replace the row at the cursor's position, until a rollback."""
    whole, place, transactions = cursor.base_rows, cursor.position - 1, engine.transactions
    assert whole is not None
    before = whole[:, place].copy()
    whole[:, place] = row
    if transactions.state is not State.NONE:
        transactions.setting_changes.add(
            transactions.depth, lambda: whole.__setitem__((slice(None), place), before)
        )


def check_unused(engine: Engine, names: Iterable[str], command: str, span: Span) -> None:
    """Raise ProgrammingError if an open cursor or portal of the session reads one of the tables."""
    read = frozenset().union(*(_tables_read(engine, statement) for statement in _open_statements(engine)))
    if not read:
        return
    for name in names:
        entry = engine.catalog.find(name)
        if entry is not None and entry.name in read:
            table_name = entry.name.rpartition(".")[2]
            error = ProgrammingError(
                f'cannot {command} "{table_name}" because it is being used by active queries in this session',
                span=span,
                hint="close the cursor, or the portal, first",
            )
            error.sqlstate = "55006"
            raise error


def _open_statements(engine: Engine) -> Iterator[object]:
    """Yield the statements of open cursors and portals."""
    number = engine.catalog.asker.number
    if engine.cursors:
        for (owner, _), cursor in engine.cursors.items():
            if owner == number and cursor.transaction is not None and is_open(engine, cursor):
                yield cursor.query
    session = None if engine.sessions is None else engine.sessions.sessions.get(number)
    if session is not None:
        yield from (portal.statement for portal in session.portals())


def _tables_read(engine: Engine, statement: object) -> frozenset[str]:
    """Return the relations that a statement reads, with plain views expanded."""
    found: set[str] = set()
    uses: dict[str, list[str]] = {}
    for view, used in engine.views.read_pairs():
        uses.setdefault(view, []).append(used)
    waiting = list(input_relations(statement, engine.catalog))
    while waiting:
        entry = engine.catalog.find(waiting.pop())
        if isinstance(entry, ViewEntry) and not entry.materialized:
            waiting += uses.get(entry.name, ())
        elif entry is not None:
            found.add(entry.name)
    return frozenset(found)
