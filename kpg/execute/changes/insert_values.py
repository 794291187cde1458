"""INSERT ... VALUES of constants: converts the cells of the text to words, column by column.

The statement around the rows is parsed once and cached. If a cell or a column needs more than a conversion,
the statement is parsed and run like any other.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.api.result import Result
from kpg.compiler.catalog.constraints import Rule
from kpg.compiler.catalog.entries import Catalog, TableEntry
from kpg.compiler.sql.parameterize.value_lists import Rows, Stored, among_others, around, column_values, read
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parameters import Beyond
from kpg.compiler.sql.parse.parser import parse
from kpg.compiler.sql.rewrite.column_defaults import insert_places
from kpg.execute.changes.dml import Changes, insertion
from kpg.execute.changes.pipeline import prepared
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import Error
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal
from kpg.runtime.types import NULL, Type
from kpg.runtime.values.styles import BINDING
from kpg.session.engine import CacheKind, Engine, changes_alone

Words = NDArray[np.int64]
Parameters = Sequence[Any] | Mapping[str, Any] | None
INSERT: Final = "insert"


@dataclass(frozen=True, slots=True)
class Inserting:
    """One INSERT of a script: the statement around the rows, and their cells by columns."""

    text: str
    statement: ast.Insert
    columns: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """Where the cells of a statement go: the table as it was, and values of the columns that have none."""

    entry: TableEntry
    statement: ast.Insert
    places: tuple[int, ...]
    given: tuple[int, ...]
    missing: tuple[tuple[int, Stored], ...]


SHAPES: Final = CacheKind[tuple[str, tuple[int, ...]], Shape]()


def inserts(engine: Engine, text: str, parameters: Parameters) -> list[Inserting] | None:
    """The statements of a script that consists of such INSERTs; None if it does not."""
    if not engine.remembers:
        return None
    found = read(text, parameters)
    if found is None:
        return None
    made = [inserting(engine, rows) for rows in found]
    known = [one for one in made if one is not None]
    return known if len(known) == len(made) else None


def inserting(engine: Engine, rows: Rows) -> Inserting | None:
    """A statement with its cells; None if it is more than an INSERT of VALUES."""
    statement = _statement(engine, rows)
    if statement is None or not changes_alone(engine, statement.table):
        return None
    return Inserting(rows.text, statement, rows.columns)


def mixed(engine: Engine, text: str) -> list[Inserting | ast.Statement] | None:
    """The statements of a script of which some are such INSERTs; None if none is, or that is not certain."""
    regions = among_others(text)
    if not regions:
        return None

    others = around(text, regions)
    made = [inserting(engine, one.rows) for one in regions]
    if others is None:
        return None
    placed: list[tuple[int, Inserting | ast.Statement]] = [(one.span.start, one) for one in others]
    for region, one in zip(regions, made, strict=True):
        if one is None:
            return None
        placed.append((region.start, one))
    return [one for _, one in sorted(placed, key=itemgetter(0))]


def _statement(engine: Engine, rows: Rows) -> ast.Insert | None:
    known = engine.remembered.inserts.get(rows.text)
    if known is None:
        try:
            parsed = parse(rows.text)
        except Error:
            return None
        if len(parsed) != 1 or not isinstance(parsed[0], ast.Insert):
            return None
        if parsed[0].common is not None or parsed[0].alternative:
            return None
        known = parsed[0]
        engine.remembered.inserts.put(rows.text, known)
    return known


def insert(engine: Engine, rows: Inserting, otherwise: Callable[[], ast.Statement]) -> Result:
    """Run one of the statements; ``otherwise`` gives it as the parser reads it."""
    engine.begin_statement()
    with engine.transactions.statement(changes=True):
        changes = _changes(engine, rows)
        if changes is None:
            statement = otherwise()
            assert isinstance(statement, ast.Insert)
            changes = prepared(engine, statement)
        changes.apply()
        return changes.result()


def _changes(engine: Engine, rows: Inserting) -> Changes | None:
    """What a statement changes; None if finding that out takes more, or is an error with a place."""
    BINDING.set(engine.catalog.style)  # another session's statement may have left its own
    try:
        shape = shape_of(engine, rows)
        if shape is None:
            return None
        table = engine.table(rows.statement.table)
        words = _words(rows, shape, table.dictionary)
    except (Beyond, Error):
        return None
    try:
        return insertion(engine, table, shape.statement, words)
    except Error as error:
        if error.span is None:
            raise
        return None


def alone(engine: Engine, text: str, parameters: Parameters) -> Changes | None:
    """The rows that a text inserts, if that is all that it does; None if it does more, or is wrong."""
    found = inserts(engine, text, parameters)
    if found is None or len(found) != 1 or found[0].statement.conflict is not None:
        return None
    changes = _changes(engine, found[0])
    if (
        changes is None
        or changes.table.name in engine.at_commit
        or changes.table.guard is not None
        or changes.updated is not None
    ):
        return None
    return changes


def shape_of(engine: Engine, rows: Inserting) -> Shape | None:
    """Where the cells of a statement go; None if a column takes more than a constant."""
    catalog = engine.catalog
    entry = catalog.table(rows.statement.table)
    absent = tuple(place for place, cells in enumerate(rows.columns) if _is_default(cells))
    key = (rows.text, absent)
    known = engine.remembered.kind(SHAPES).get(key)
    if known is not None and known.entry is entry:
        return known
    before = catalog.consulted.times
    known = _made(rows.statement, len(rows.columns), absent, entry, catalog)
    if known is not None and catalog.consulted.times == before:
        engine.remembered.kind(SHAPES).put(key, known)
    return known


def _is_default(cells: tuple[str, ...]) -> bool:
    return cells[0][0] in "dD" and all(cell.lower() == "default" for cell in cells)


def _made(
    statement: ast.Insert, width: int, absent: tuple[int, ...], entry: TableEntry, catalog: Catalog
) -> Shape | None:
    """Where cells go; None if a column that is given takes none, or another needs more than a constant."""
    columns = entry.schema.columns
    places = insert_places(statement, entry.schema)
    if not statement.columns and width < len(places):
        places = places[:width]
    if len(places) != width or len(absent) == width:
        return None
    cells = tuple(cell for cell in range(width) if cell not in absent)
    given = tuple(places[cell] for cell in cells)
    if not all(_takes(entry.constraints.rule(place), statement) for place in given):
        return None
    rest = [place for place in range(len(columns)) if place not in given]
    missing: dict[int, Stored] = dict.fromkeys(rest)
    if entry.constraints.rules and rest:
        from kpg.compiler.sql.rewrite.column_expressions import defaults  # lazy: the start does without it

        found = defaults(entry, rest, catalog)
        if absent and sum(len(one.sequences) for one in found.values()) > 1:
            return None
        for place, default in found.items():
            if not default.sequences and not isinstance(default.scalar, Literal):
                return None
            if not default.sequences and isinstance(default.scalar, Literal):
                missing[place] = default.scalar.value
    if rest:
        statement = replace(statement, columns=tuple(columns[place].name for place in given))
    return Shape(entry, statement, cells, given, tuple(missing.items()))


def _takes(rule: Rule, statement: ast.Insert) -> bool:
    if rule.generated or (rule.identity and statement.overriding == "USER"):
        return False
    return rule.identity != "ALWAYS" or statement.overriding == "SYSTEM"


def _words(rows: Inserting, shape: Shape, dictionary: Dictionary) -> Words:
    types = shape.entry.schema.types
    count = len(rows.columns[0])
    words = np.empty((len(types), count), np.int64)
    for cell, place in zip(shape.places, shape.given, strict=True):
        words[place] = _column(column_values(rows.columns[cell], types[place]), types[place], dictionary)
    for place, value in shape.missing:
        words[place] = _column([value], types[place], dictionary)[0]
    return words


def _column(values: list[Stored], type_: Type, dictionary: Dictionary) -> "list[int] | Words":
    if type_.is_interned:
        if len(values) == 1 and isinstance(values[0], str):
            return [dictionary.code(values[0])]
        return dictionary.intern([None if value is None else str(value) for value in values])
    return [NULL if value is None else int(value) for value in values]
