"""Cursors of bodies, which are those of the session, and the elements of arrays."""

from typing import TYPE_CHECKING, assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.blocks import assigning
from kpg.blocks.evaluating import Evaluator
from kpg.blocks.frame import Frame, Value, Variable, plain_of, word_of
from kpg.compiler.sql.blocks import tree as ast
from kpg.runtime.errors import DataError, ProgrammingError
from kpg.runtime.types import NULL, TEXT, Kind, Type, array

if TYPE_CHECKING:
    from kpg.statements.cursors import Cursor

Cursors = ast.OpenCursor | ast.FetchCursor | ast.CloseCursor


def _key(evaluator: Evaluator, name: str) -> tuple[int, str]:
    from kpg.statements.cursors import key_of

    return key_of(evaluator.engine, name)


def run(evaluator: Evaluator, frame: Frame, statement: Cursors) -> int | None:
    """Run a statement; how many rows it fetched, None if it fetches none."""
    match statement:
        case ast.OpenCursor():
            _open(evaluator, frame, statement)
            return None
        case ast.FetchCursor():
            return _fetch(evaluator, frame, statement)
        case ast.CloseCursor(cursor=name):
            del evaluator.engine.cursors[_key(evaluator, _portal(evaluator, frame, name))]
            return None
        case _:
            assert_never(statement)


def _variable(frame: Frame, name: str) -> Variable:
    found = frame.find(name.lower())
    if not isinstance(found, Variable):
        raise ProgrammingError(f'cursor variable "{name}" does not exist')
    return found


def _is_open(evaluator: Evaluator, name: str) -> bool:
    from kpg.statements.cursors import is_open

    cursor = evaluator.engine.cursors.get(_key(evaluator, name))
    return cursor is not None and is_open(evaluator.engine, cursor)


def _portal(evaluator: Evaluator, frame: Frame, name: str) -> str:
    variable = _variable(frame, name)
    word = variable.value.word
    if word == NULL:
        error = DataError(f'cursor variable "{name}" is null')
        error.sqlstate = "22004"
        raise error
    portal = evaluator.dictionary.get(word)
    if not _is_open(evaluator, portal):
        raise ProgrammingError(f'cursor "{portal or name}" does not exist')
    return portal


def _open(evaluator: Evaluator, frame: Frame, statement: ast.OpenCursor) -> None:
    name = _named(evaluator, _variable(frame, statement.cursor))
    if statement.query is None:
        _declared(evaluator, frame, name, statement.cursor, statement.arguments)
    else:
        evaluator.opened(frame, name, statement.query)


def _named(evaluator: Evaluator, variable: Variable) -> str:
    """The name of a cursor that is to be opened by a variable."""
    if variable.value.word == NULL:
        evaluator.portals += 1
        variable.value = evaluator.of_text(f"<unnamed portal {evaluator.portals}>")
    name = evaluator.dictionary.get(variable.value.word)
    if _is_open(evaluator, name):
        error = ProgrammingError(f'cursor "{name}" already in use')
        error.sqlstate = "42P03"
        raise error
    return name


def _declared(
    evaluator: Evaluator, frame: Frame, portal: str, name: str, arguments: tuple[tuple[str, str], ...]
) -> "Cursor":
    cursor = frame.cursors.get(name.lower())
    if cursor is None:
        raise ProgrammingError(f'cursor "{name}" has no query', hint="write OPEN ... FOR")
    known = [one.lower() for one, _ in cursor.arguments]
    if len(arguments) != len(known):
        raise ProgrammingError(f'cursor "{name}" takes {len(known)} arguments')
    depth = frame.depth
    values = [evaluator.value(frame, text) for _, text in arguments]
    frame.enter("")
    try:
        for place, ((given, _), value) in enumerate(zip(arguments, values, strict=True)):
            position = known.index(given.lower()) if given else place
            argument, type_text = cursor.arguments[position]
            variable = assigning.made(evaluator, frame, argument, type_text)
            assigning.put(evaluator, variable, (), value)
            frame.declare(argument, variable)
        return evaluator.opened(frame, portal, ast.Dynamic(cursor.default))
    finally:
        frame.leave_to(depth)


def of_loop(evaluator: Evaluator, frame: Frame, query: ast.Dynamic) -> "Cursor | None":
    """The cursor of FOR ... IN cursor, which is open then; None if it is no cursor."""
    from kpg.compiler.sql.blocks.cursor import Cursor as Words
    from kpg.compiler.sql.blocks.simple import arguments

    if query.using is not None or not frame.cursors:
        return None
    name = query.text.partition("(")[0].strip().lower()
    if name not in frame.cursors:
        return None
    words = Words(query.text)
    words.place = 1
    portal = _named(evaluator, _variable(frame, name))
    return _declared(evaluator, frame, portal, name, arguments(words))


def closed(evaluator: Evaluator, cursor: "Cursor") -> None:
    """The loop over a cursor is over."""
    evaluator.engine.cursors.pop(_key(evaluator, cursor.name), None)


def _fetch(evaluator: Evaluator, frame: Frame, statement: ast.FetchCursor) -> int:
    from kpg.statements.cursors import fetched

    portal = _portal(evaluator, frame, statement.cursor)
    direction, count = _direction(evaluator, frame, statement.direction)
    found = fetched(evaluator.engine.cursors[_key(evaluator, portal)], direction, count)
    given = evaluator.given(found)
    rows = given.words.shape[1]
    if statement.targets:
        assigning.fill(evaluator, frame, statement.targets, given, 0 if rows else None)
        return min(rows, 1)
    return rows


def _direction(evaluator: Evaluator, frame: Frame, text: str) -> tuple[str, int]:
    words = text.split()
    match words:
        case [] | ["NEXT"] | ["FORWARD"]:
            return "FORWARD", 1
        case ["PRIOR"] | ["BACKWARD"]:
            return "FORWARD", -1
        case ["FIRST"]:
            return "ABSOLUTE", 1
        case ["LAST"]:
            return "ABSOLUTE", -1
        case [*_, "ALL"]:
            return "FORWARD", -(1 << 40) if words[0] == "BACKWARD" else 1 << 40
        case ["ABSOLUTE" | "RELATIVE" as how, *rest]:
            return how, assigning.number(evaluator.value(frame, " ".join(rest)), "a count")
        case ["FORWARD" | "BACKWARD" as way, *rest]:
            count = assigning.number(evaluator.value(frame, " ".join(rest)), "a count")
            return "FORWARD", -count if way == "BACKWARD" else count
        case _:
            return "FORWARD", assigning.number(evaluator.value(frame, text), "a count")


def column(word: int) -> NDArray[np.int64]:
    """One row of one value."""
    return np.array([[word]], np.int64)


def elements(evaluator: Evaluator, value: Value, slices: int) -> list[Value]:
    """The elements of an array, or its slices of so many dimensions."""
    from kpg.runtime.values.arrays import Array

    if value.type.kind is not Kind.ARRAY:
        raise ProgrammingError(f"FOREACH needs an array, not {value.type}")
    if value.word == NULL:
        raise DataError("FOREACH expression must not be null")
    found = plain_of(value, evaluator.dictionary)
    assert isinstance(found, Array)
    type_: Type = value.type.parts[0]
    if not slices:
        return [Value(type_, word_of(item, type_, evaluator.dictionary)) for item in found.items]
    if slices > len(found.shape):
        raise DataError(f"slice dimension {slices} is out of the valid range 0..{len(found.shape)}")
    shape = found.shape[len(found.shape) - slices :]
    size = 1
    for length in shape:
        size *= length
    lows = found.lows[len(found.shape) - slices :]
    parts = [Array(found.items[at : at + size], shape, lows) for at in range(0, len(found.items), size)]
    whole = array(type_)
    return [Value(whole, word_of(part, whole, evaluator.dictionary)) for part in parts]


__all__ = ["TEXT", "closed", "column", "elements", "of_loop", "run"]
