"""INSERT ... VALUES of constants: converts the cells of the text to words, column by column.

The statement around the rows is parsed once and cached. If a cell or a column needs more than a conversion,
the statement is parsed and run like any other.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.api.result import Result
from kpg.compiler.catalog.constraints import Rule
from kpg.compiler.catalog.entries import TableEntry
from kpg.compiler.catalog.privileges import Asker
from kpg.compiler.sql.parameterize.value_lists import (
    InsertValues,
    StoredValue,
    find_inserts,
    parse_around,
    read_column,
    read_inserts,
)
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parameters import NotConstantError
from kpg.compiler.sql.parse.parser import parse
from kpg.compiler.sql.rewrite.column_defaults import insert_positions
from kpg.execute.changes.dml import insert_changes, prepare_changes
from kpg.execute.changes.table_pipeline import pipeline_of
from kpg.runtime.errors import Error
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal
from kpg.runtime.types import BIT_KINDS, NULL, Type
from kpg.runtime.values.styles import CURRENT_STYLE, DEFAULT_STYLE
from kpg.session.base_table import Changes, Table
from kpg.session.engine import CacheKind, Engine, is_unpartitioned

if TYPE_CHECKING:
    from kpg.compiler.sql.rewrite import column_expressions
else:
    column_expressions = LazyModule("kpg.compiler.sql.rewrite.column_expressions")

Words = NDArray[np.int64]
Parameters = Sequence[Any] | Mapping[str, Any] | None
INSERT: Final = "insert"


@dataclass(frozen=True, slots=True)
class ConstantInsert:
    """An INSERT of constants: the statement around the rows, and the cells by column."""

    text: str
    statement: ast.Insert
    columns: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class InsertLayout:
    """Where the cells of an INSERT go.

    ``cells`` are the cells in use: the cell, its column, the column's type, and whether it is interned.
    ``constants`` are the constant values of other columns. It is valid for a version of the catalog, a search
    path and a role.
    """

    entry: TableEntry
    table: Table
    statement: ast.Insert
    cells: tuple[tuple[int, int, Type, bool], ...]
    constants: tuple[tuple[int, StoredValue], ...]
    is_direct: bool
    """Whether the words are the changes: the statement has no clauses, and its table no stages."""
    version: int
    search_path: tuple[str, ...]
    asker: Asker


LAYOUTS: Final = CacheKind[tuple[str, tuple[int, ...]], InsertLayout]()


def parse_inserts(engine: Engine, text: str, parameters: Parameters) -> list[ConstantInsert] | None:
    """Return the statements of a script that has only constant INSERTs; None otherwise."""
    if not engine.can_use_cache:
        return None
    parsed = read_inserts(text, parameters)
    if parsed is None:
        return None
    statements = [as_constant_insert(engine, rows) for rows in parsed]
    complete = [statement for statement in statements if statement is not None]
    return complete if len(complete) == len(statements) else None


def as_constant_insert(engine: Engine, rows: InsertValues) -> ConstantInsert | None:
    """Return a statement with its cells; None if it is not a plain INSERT of constants."""
    statement = _statement(engine, rows)
    if statement is None or not is_unpartitioned(engine, statement.table):
        return None
    return ConstantInsert(rows.text, statement, rows.columns)


def parse_mixed(engine: Engine, text: str) -> list[ConstantInsert | ast.Statement] | None:
    """Return the statements of a script with constant INSERTs; None without any, or in doubt."""
    regions = find_inserts(text)
    if not regions:
        return None

    others = parse_around(text, regions)
    statements = [as_constant_insert(engine, one.rows) for one in regions]
    if others is None:
        return None
    positioned_statements: list[tuple[int, ConstantInsert | ast.Statement]] = [
        (one.span.start, one) for one in others
    ]
    for region, one in zip(regions, statements, strict=True):
        if one is None:
            return None
        positioned_statements.append((region.start, one))
    return [one for _, one in sorted(positioned_statements, key=itemgetter(0))]


def _statement(engine: Engine, rows: InsertValues) -> ast.Insert | None:
    cached = engine.plan_cache.inserts.get(rows.text)
    if cached is None:
        try:
            parsed = parse(rows.text)
        except Error:
            return None
        if len(parsed) != 1 or not isinstance(parsed[0], ast.Insert):
            return None
        if parsed[0].common is not None or parsed[0].alternative:
            return None
        cached = parsed[0]
        engine.plan_cache.inserts.put(rows.text, cached)
    return cached


def run_insert(
    engine: Engine, rows: ConstantInsert, parse: Callable[[int], ast.Statement], place: int
) -> Result:
    """Run a constant INSERT; ``parse(place)`` parses it if the fast path does not apply."""
    engine.begin_statement()
    with engine.transactions.statement(changes=True):
        changes = _changes(engine, rows)
        if changes is None:
            statement = parse(place)
            assert isinstance(statement, ast.Insert)
            changes = prepare_changes(engine, statement)
        changes.apply()
    return changes.result()


def _changes(engine: Engine, rows: ConstantInsert) -> Changes | None:
    """Return the changes of a statement; None if the fast path does not apply or an error has a position."""
    catalog = engine.catalog
    # The style of another session's statement may be set.
    CURRENT_STYLE.set(catalog.style if catalog.settings else DEFAULT_STYLE)
    try:
        layout = layout_of(engine, rows)
        if layout is None:
            return None
        words = _words(rows, layout)
    except (NotConstantError, Error):
        return None
    if layout.is_direct:
        return Changes(layout.table, inserted=words)
    try:
        return insert_changes(engine, layout.table, layout.statement, words)
    except Error as error:
        if error.span is None:
            raise
        return None


def prepare_single_insert(engine: Engine, text: str, parameters: Parameters) -> Changes | None:
    """Return the changes of a text that is one constant INSERT; None otherwise."""
    found = parse_inserts(engine, text, parameters)
    if found is None or len(found) != 1 or found[0].statement.conflict is not None:
        return None
    changes = _changes(engine, found[0])
    if (
        changes is None
        or changes.table.name in engine.on_commit_actions
        or changes.table.guard is not None
        or changes.updated is not None
    ):
        return None
    return changes


def layout_of(engine: Engine, rows: ConstantInsert) -> InsertLayout | None:
    """Return the layout of a statement; None if a column needs more than a constant."""
    catalog = engine.catalog
    absent = tuple(
        [place for place, cells in enumerate(rows.columns) if cells[0][0] in "dD" and _is_default(cells)]
    )
    key = (rows.text, absent)
    layout = engine.plan_cache.of_kind(LAYOUTS).get(key)
    if (
        layout is not None
        and layout.version == catalog.version
        and layout.search_path is catalog.search_path
        and layout.asker is catalog.asker
    ):
        return layout
    before = catalog.system_reads.count
    entry = catalog.table(rows.statement.table)
    layout = _make_layout(engine, rows.statement, len(rows.columns), absent, entry)
    if layout is not None and catalog.system_reads.count == before:
        engine.plan_cache.of_kind(LAYOUTS).put(key, layout)
    return layout


def _is_default(cells: tuple[str, ...]) -> bool:
    return all(cell.lower() == "default" for cell in cells)


def _make_layout(
    engine: Engine, statement: ast.Insert, width: int, absent: tuple[int, ...], entry: TableEntry
) -> InsertLayout | None:
    """Return the layout; None if a listed column accepts no value or another needs more than a constant."""
    catalog = engine.catalog
    columns = entry.schema.columns
    places = insert_positions(statement, entry.schema)
    if not statement.columns and width < len(places):
        places = places[:width]
    if len(places) != width or len(absent) == width:
        return None
    cells = tuple(cell for cell in range(width) if cell not in absent)
    filled_columns = tuple(places[cell] for cell in cells)
    if not all(_accepts_value(entry.constraints.rule(place), statement) for place in filled_columns):
        return None
    filled_types = [columns[place].type for place in filled_columns]
    if any(type_.kind in BIT_KINDS and type_.precision for type_ in filled_types):
        return None  # their lengths are checked where constants are bound
    rest = [place for place in range(len(columns)) if place not in filled_columns]
    missing: dict[int, StoredValue] = dict.fromkeys(rest)
    if entry.constraints.rules and rest:
        column_defaults = column_expressions.bind_defaults(entry, rest, catalog)
        if absent and sum(len(column_default.sequences) for column_default in column_defaults.values()) > 1:
            return None
        for place, default in column_defaults.items():
            if not default.sequences and not isinstance(default.scalar, Literal):
                return None
            if not default.sequences and isinstance(default.scalar, Literal):
                missing[place] = default.scalar.value
    if rest:
        statement = replace(statement, columns=tuple(columns[place].name for place in filled_columns))
    table = engine.table(entry.name)
    has_clauses = statement.conflict or statement.returning or statement.updatable_view
    draws_numbers = entry.constraints.rules and statement.columns
    checks = pipeline_of(engine, table).stages or catalog.checks_privileges
    types = entry.schema.types
    return InsertLayout(
        entry,
        table,
        statement,
        tuple(
            (cell, place, types[place], types[place].is_interned)
            for cell, place in zip(cells, filled_columns, strict=True)
        ),
        tuple(missing.items()),
        not (has_clauses or draws_numbers or checks),
        catalog.version,
        catalog.search_path,
        catalog.asker,
    )


def _accepts_value(rule: Rule, statement: ast.Insert) -> bool:
    if rule.generated or (rule.identity and statement.overriding == "USER"):
        return False
    return rule.identity != "ALWAYS" or statement.overriding == "SYSTEM"


def _words(rows: ConstantInsert, layout: InsertLayout) -> Words:
    dictionary = layout.table.dictionary
    words = np.empty((len(layout.entry.schema.columns), len(rows.columns[0])), np.int64)
    for cell, place, type_, is_interned in layout.cells:
        values = read_column(rows.columns[cell], type_)
        if not is_interned:
            words[place] = [NULL if value is None else int(value) for value in values]
        elif len(values) == 1 and isinstance(values[0], str):
            words[place] = dictionary.code(values[0])
        else:
            words[place] = dictionary.intern([None if value is None else str(value) for value in values])
    for place, value in layout.constants:
        words[place] = (
            NULL if value is None else dictionary.code(value) if isinstance(value, str) else int(value)
        )
    return words
