"""Cursors: the rows of a query as of its DECLARE, with a position, and WHERE CURRENT OF."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import NDArray

from kpg.api.result import Result, Row, row_count
from kpg.compiler.catalog.entries import TableEntry, ViewEntry
from kpg.compiler.sql.bind.row_locks import at_row, with_row
from kpg.compiler.sql.frontend import read_relations
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.statements import Select
from kpg.execute.changes.dml import Changes
from kpg.execute.queries.result_rows import Decoded, literal_of, words_of
from kpg.runtime.errors import Error, ProgrammingError, Span
from kpg.runtime.types import Type
from kpg.session.engine import Cursor, Engine
from kpg.session.transaction import State

if TYPE_CHECKING:
    import pyarrow


Words = NDArray[np.int64]


class Picked:
    """Some rows of a result, by their numbers."""

    def __init__(self, rows: Result, places: list[int]) -> None:
        self._rows = rows
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    def arrow(self) -> "pyarrow.Table":
        return self._rows.arrow().take(self._places)

    def part(self, start: int, stop: int | None) -> list[Row]:
        return [self._rows.part(place, place + 1)[0] for place in self._places[start:stop]]


def fetch(engine: Engine, statement: ast.Fetch) -> Result:
    """FETCH and MOVE."""
    return moved(_cursor(engine, statement), statement)


def close(engine: Engine, statement: ast.Close) -> None:
    """CLOSE of a cursor, or of all of the session."""
    if not statement.name:
        forget(engine, engine.catalog.asker.number)
        return
    _cursor(engine, statement)
    del engine.cursors[key_of(engine, statement.name)]


def key_of(engine: Engine, name: str) -> tuple[int, str]:
    """A cursor's name, and the session whose it is."""
    return engine.catalog.asker.number, name


def forget(engine: Engine, number: int) -> None:
    """Close all cursors of a session."""
    for key in [one for one in engine.cursors if one[0] == number]:
        del engine.cursors[key]


def shape_of(engine: Engine, name: str) -> tuple[tuple[str, ...], tuple[Type, ...]] | None:
    """The columns of a session's cursor; None if there is none of that name."""
    cursor = engine.cursors.get(key_of(engine, name))
    if cursor is None or not is_open(engine, cursor):
        return None
    return tuple(cursor.rows.columns), tuple(cursor.rows.types)


def declare(engine: Engine, statement: ast.Declare) -> None:
    """DECLARE CURSOR."""
    if engine.transactions.state is State.NONE and not statement.holds:
        raise ProgrammingError(
            "DECLARE CURSOR can only be used in transaction blocks",
            span=statement.span,
            hint="write BEGIN before it, or DECLARE ... WITH HOLD",
        )
    name = key_of(engine, statement.name)
    if name in engine.cursors and is_open(engine, engine.cursors[name]):
        error = ProgrammingError(f'cursor "{statement.name}" already exists', span=statement.span)
        error.sqlstate = "42P03"
        raise error
    assert isinstance(statement.query, Select)
    cursor = opened(engine, statement.name, statement.query, holds=statement.holds)
    cursor.scrolls = statement.scrolls
    place = statement.span
    cursor.text = place.source[place.start : place.end]


def opened(engine: Engine, name: str, query: Select, *, holds: bool = False) -> Cursor:
    """A cursor of the present transaction, or one that ``holds`` once that is committed."""
    found = _with_rows(engine, query)
    if found is None:
        cursor = Cursor(name, engine.nested.select(engine, query), None, True)
    else:
        result, entry = found
        words = words_of(result, engine.executor.dictionary)
        width = words.shape[0] - len(entry.schema.columns)
        names, types = tuple(result.columns[:width]), tuple(result.types[:width])
        contents = Decoded(names, types, np.ascontiguousarray(words[:width]), engine.executor.dictionary)
        cursor = Cursor(name, Result(names, types, contents), None, True)
        cursor.whole, cursor.table = words[width:].copy(), entry.name
    cursor.transaction = None if holds else engine.transactions.begun
    cursor.moment, cursor.query = engine.catalog.moment, query
    engine.cursors[key_of(engine, name)] = cursor
    _tie(engine, key_of(engine, name), cursor)
    return cursor


def _tie(engine: Engine, key: tuple[int, str], cursor: Cursor) -> None:
    """Have the cursor end with what of its transaction it was declared in; if it holds, unless that stays."""
    transactions = engine.transactions
    if transactions.state is State.NONE:
        return

    number = cursor.number  # and not the cursor: what is closed is not to be kept until the end

    def end() -> None:
        found = engine.cursors.get(key)
        if found is not None and found.number == number:
            del engine.cursors[key]

    transactions.settled.note(transactions.depth, end)
    if cursor.transaction is not None:
        transactions.settled.until_end(end)


def _with_rows(engine: Engine, query: Select) -> tuple[Result, TableEntry] | None:
    """The rows of a query, and behind each that of its one table; None if it is not so simple."""

    made = with_row(query.query, engine.reading_catalog) if query.then is None else None
    if made is None or engine.catalog.is_limited:
        return None
    try:
        return engine.nested.select(engine, replace(query, query=made[0])), made[1]
    except Error:
        return None


def listed(engine: Engine) -> list[tuple[int | str | None, ...]]:
    """What pg_cursors has of the session's cursors."""
    mine = (
        one
        for key, one in engine.cursors.items()
        if key[0] == engine.catalog.asker.number and is_open(engine, one)
    )
    found: list[tuple[int | str | None, ...]] = [
        (one.name, one.text, int(one.transaction is None), 0, int(one.scrolls), one.moment) for one in mine
    ]
    sessions = {} if engine.sessions is None else engine.sessions.sessions
    session = sessions.get(engine.catalog.asker.number)
    portals = [] if session is None else session.portals()
    return found + [(name, text, 0, 0, 0, moment) for name, text, moment, _ in portals]


def is_open(engine: Engine, cursor: Cursor) -> bool:
    transactions = engine.transactions
    inside = transactions.state is not State.NONE and transactions.begun == cursor.transaction
    return cursor.transaction is None or inside


def _cursor(engine: Engine, statement: ast.Fetch | ast.Close) -> Cursor:
    cursor = engine.cursors.get(key_of(engine, statement.name))
    if cursor is None or not is_open(engine, cursor):
        raise ProgrammingError(f'cursor "{statement.name}" does not exist', span=statement.span)
    return cursor


def moved(cursor: Cursor, statement: ast.Fetch) -> Result:
    """What FETCH or MOVE gives."""
    at, inside = cursor.place, 1 <= cursor.place <= len(cursor.rows)
    found = fetched(cursor, statement.direction, statement.count)
    back = cursor.place < at or (cursor.place == at and inside and not statement.moves)
    back = back or (statement.direction == "ABSOLUTE" and statement.count < 0)
    if not cursor.scrolls and back:
        error = ProgrammingError(
            "cursor can only scan forward", span=statement.span, hint="declare it with SCROLL"
        )
        error.sqlstate = "55000"
        raise error
    return row_count(len(found)) if statement.moves else found


def fetched(cursor: Cursor, direction: str, count: int) -> Result:
    """The rows of a FETCH."""
    at, last = cursor.place, len(cursor.rows)
    match direction:
        case "ABSOLUTE":
            target = count if count >= 0 else last + 1 + count
            places = _single(cursor, target)
        case "RELATIVE":
            places = _single(cursor, at + count)
        case _ if count == 0:
            places = _single(cursor, at)
        case _ if count > 0:
            cursor.place = min(at + count, last + 1)
            places = list(range(at + 1, min(at + count, last) + 1))
        case _:
            cursor.place = max(at + count, 0)
            places = list(range(at - 1, max(at + count, 1) - 1, -1))
    rows = cursor.rows
    return Result(rows.columns, rows.types, Picked(rows, [place - 1 for place in places]))


def _single(cursor: Cursor, target: int) -> list[int]:
    """Go to a row; it is that row, if there is one."""
    last = len(cursor.rows)
    cursor.place = max(0, min(target, last + 1))
    return [cursor.place] if 1 <= cursor.place <= last else []


def positioned(
    engine: Engine, statement: ast.Update | ast.Delete, prepare: Callable[[Engine, ast.Change], Changes]
) -> Changes:
    """What the statement is going to change: one row at most. ``prepare`` gives the changes of its equals."""
    cursor = engine.cursors.get(key_of(engine, statement.cursor))
    if cursor is None or not is_open(engine, cursor):
        _refuse(f'cursor "{statement.cursor}" does not exist', "34000", statement.span)
    entry = engine.catalog.table(statement.table, statement.span)
    if cursor.whole is None or cursor.table != entry.name:
        what = f'a simply updatable scan of table "{entry.name.rpartition(".")[2]}"'
        _refuse(f'cursor "{statement.cursor}" is not {what}', "24000", statement.span)
    if not 1 <= cursor.place <= len(cursor.rows):
        _refuse(f'cursor "{statement.cursor}" is not positioned on a row', "24000", statement.span)
    words = cursor.whole[:, cursor.place - 1].tolist()
    dictionary = engine.executor.dictionary
    row = [literal_of(word, type_, dictionary) for type_, word in zip(entry.schema.types, words, strict=True)]
    found = prepare(engine, at_row(statement, entry, row))
    return _first(engine, found, cursor, entry) if isinstance(found, Changes) else found


def _refuse(message: str, state: str, span: Span) -> NoReturn:
    error = ProgrammingError(message, span=span)
    error.sqlstate = state
    raise error


def _first(engine: Engine, changes: Changes, cursor: Cursor, entry: TableEntry) -> Changes:
    """One of rows that are equal; the cursor goes on to know it as what it becomes."""
    assert cursor.whole is not None
    if changes.deleted is not None and changes.deleted.size > 1:
        changes = replace(changes, deleted=changes.deleted[:1])
    elif changes.updated is not None and changes.updated[0].size:
        rowids, words = changes.updated
        changes = replace(changes, updated=(rowids[:1], np.ascontiguousarray(words[:, :1])))
        if words.shape[0] == len(entry.schema.columns):
            _becomes(engine, cursor, words[:, 0])
    if changes.returned is not None and changes.returned.words.shape[1] > 1:
        returned = replace(changes.returned, words=np.ascontiguousarray(changes.returned.words[:, :1]))
        changes = replace(changes, returned=returned)
    return changes


def _becomes(engine: Engine, cursor: Cursor, row: Words) -> None:
    """The row at which the cursor stands is another one, unless that is taken back."""
    whole, place, transactions = cursor.whole, cursor.place - 1, engine.transactions
    assert whole is not None
    before = whole[:, place].copy()
    whole[:, place] = row
    if transactions.state is not State.NONE:
        transactions.settled.note(transactions.depth, lambda: whole.__setitem__((slice(None), place), before))


def check_unused(engine: Engine, names: Iterable[str], what: str, span: Span) -> None:
    """ProgrammingError if a query of the session that is still open reads one of some tables."""
    read = frozenset().union(*(_tables(engine, one) for one in _open(engine)))
    if not read:
        return
    for name in names:
        entry = engine.catalog.find(name)
        if entry is not None and entry.name in read:
            shown = entry.name.rpartition(".")[2]
            error = ProgrammingError(
                f'cannot {what} "{shown}" because it is being used by active queries in this session',
                span=span,
                hint="close the cursor, or the portal, first",
            )
            error.sqlstate = "55006"
            raise error


def _open(engine: Engine) -> Iterator[object]:
    """The statements of open cursors and portals."""
    number = engine.catalog.asker.number
    if engine.cursors:
        for (owner, _), cursor in engine.cursors.items():
            if owner == number and cursor.transaction is not None and is_open(engine, cursor):
                yield cursor.query
    session = None if engine.sessions is None else engine.sessions.sessions.get(number)
    if session is not None:
        yield from (portal.statement for portal in session.portals())


def _tables(engine: Engine, statement: object) -> frozenset[str]:
    """What a statement reads, by way of views that are not kept."""
    found: set[str] = set()
    uses: dict[str, list[str]] = {}
    for view, used in engine.views.uses():
        uses.setdefault(view, []).append(used)
    waiting = list(read_relations(statement, engine.catalog))
    while waiting:
        entry = engine.catalog.find(waiting.pop())
        if isinstance(entry, ViewEntry) and not entry.materialized:
            waiting += uses.get(entry.name, ())
        elif entry is not None:
            found.add(entry.name)
    return frozenset(found)
