"""Cursors: the rows of a query as they were when it was declared, and a place among them."""

from typing import TYPE_CHECKING, assert_never

from kpg.compiler.sql import session as ast
from kpg.compiler.sql.statements import Select
from kpg.engine import Engine
from kpg.result import Affected, Result, Row
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.records import dataclass
from kpg.runtime.types import Type
from kpg.transaction import State

if TYPE_CHECKING:
    import pyarrow


@dataclass(slots=True)
class Cursor:
    """``place`` is 0 before the first row, 1 at it, and one more than there are rows behind the last."""

    name: str
    rows: Result
    transaction: int | None
    scrolls: bool
    place: int = 0


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


def run_cursor(engine: Engine, statement: ast.Declare | ast.Fetch | ast.Close) -> Result | None:
    """Run one statement."""
    match statement:
        case ast.Declare():
            _declare(engine, statement)
        case ast.Fetch():
            found = _fetch(_cursor(engine, statement), statement)
            return Affected(len(found)) if statement.moves else found
        case ast.Close(name=""):
            forget(engine, engine.catalog.asker.number)
        case ast.Close():
            _cursor(engine, statement)
            del engine.cursors[key_of(engine, statement.name)]
        case _:
            assert_never(statement)
    return None


def key_of(engine: Engine, name: str) -> tuple[int, str]:
    """A cursor's name, and the session whose it is."""
    return engine.catalog.asker.number, name.lower()


def forget(engine: Engine, number: int) -> None:
    """Close all cursors of a session."""
    for key in [one for one in engine.cursors if one[0] == number]:
        del engine.cursors[key]


def shape_of(engine: Engine, name: str) -> tuple[tuple[str, ...], tuple[Type, ...]] | None:
    """The columns of a session's cursor; None if there is none of that name."""
    cursor = engine.cursors.get(key_of(engine, name))
    if cursor is None or not _is_open(engine, cursor):
        return None
    return tuple(cursor.rows.columns), tuple(cursor.rows.types)


def _declare(engine: Engine, statement: ast.Declare) -> None:
    from kpg.statements import select

    if engine.transactions.state is State.NONE and not statement.holds:
        raise ProgrammingError(
            "DECLARE needs a transaction",
            span=statement.span,
            hint="write BEGIN before it, or DECLARE ... WITH HOLD",
        )
    name = key_of(engine, statement.name)
    if name in engine.cursors and _is_open(engine, engine.cursors[name]):
        raise ProgrammingError(f'cursor "{statement.name}" already exists', span=statement.span)
    assert isinstance(statement.query, Select)
    rows = select(engine, statement.query)
    transaction = None if statement.holds else engine.transactions.begun
    engine.cursors[name] = Cursor(name[1], rows, transaction, statement.scrolls)


def _is_open(engine: Engine, cursor: Cursor) -> bool:
    transactions = engine.transactions
    inside = transactions.state is not State.NONE and transactions.begun == cursor.transaction
    return cursor.transaction is None or inside


def _cursor(engine: Engine, statement: ast.Fetch | ast.Close) -> Cursor:
    cursor = engine.cursors.get(key_of(engine, statement.name))
    if cursor is None or not _is_open(engine, cursor):
        raise ProgrammingError(f'cursor "{statement.name}" does not exist', span=statement.span)
    return cursor


def _fetch(cursor: Cursor, statement: ast.Fetch) -> Result:
    at = cursor.place
    found = fetched(cursor, statement.direction, statement.count)
    if not cursor.scrolls and cursor.place < at:
        raise ProgrammingError(
            f'cursor "{cursor.name}" goes forward only', span=statement.span, hint="declare it with SCROLL"
        )
    return found


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
