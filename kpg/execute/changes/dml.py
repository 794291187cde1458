"""INSERT, UPDATE, DELETE and MERGE: compute the ``Changes`` of a statement, then apply them.

Nothing changes before the application, so all parts of a statement see the tables as of its start. Volatile
values (random functions, sequence numbers) are evaluated and put into the statement before it runs.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar, assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.api.result import Result, row_count
from kpg.compiler.catalog.entries import Catalog, TableEntry
from kpg.compiler.sql.bind.volatile_calls import (
    MENTIONS,
    Tree,
    assigned_for_rows,
    for_rows,
    has_calls,
    once_by_chance,
    replaced,
)
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.rewrite.changes import check_insertion, lower_returning, through_view
from kpg.compiler.sql.rewrite.column_defaults import given_insert, insert_places, with_sequences
from kpg.execute.changes.table_writes import checked, distinct
from kpg.execute.queries.query_plan import (
    Planned,
    bind,
    constant_words,
    plan,
    plan_bound,
    widening,
)
from kpg.execute.queries.result_rows import Decoded, expand, permutation
from kpg.gc_pause import LazyModule
from kpg.runtime.errors import DataError, IntegrityError, NotSupportedError, SerializationError
from kpg.runtime.plan import Mfp
from kpg.runtime.records import dataclass
from kpg.runtime.types import Schema, Type
from kpg.session.base_table import Table
from kpg.session.engine import Engine

if TYPE_CHECKING:
    from kpg.compiler.sql.bind import eager_subexpressions
    from kpg.compiler.sql.rewrite import upsert as merge_rewrite
    from kpg.execute.changes import defaults, upsert
    from kpg.postgres import row_security
else:
    eager_subexpressions = LazyModule("kpg.compiler.sql.bind.eager_subexpressions")
    merge_rewrite = LazyModule("kpg.compiler.sql.rewrite.upsert")
    defaults = LazyModule("kpg.execute.changes.defaults")
    upsert = LazyModule("kpg.execute.changes.upsert")
    row_security = LazyModule("kpg.postgres.row_security")

T = TypeVar("T")


def settle_numbers(engine: Engine) -> None:
    """What a statement has given rows of sequences is taken, if there are any."""
    if engine.used_sequences is not None:
        engine.sequences.settle()


def settling(engine: Engine, compute: Callable[[], T]) -> T:
    """What a statement computes; the numbers that it has given rows are taken, if it fails too."""
    try:
        return widening(compute)
    finally:
        settle_numbers(engine)


def evaluated(engine: Engine, statement: ast.Select, *, sleeps: bool = True) -> ast.Select:
    """A query that is asked once, with constants in the place of calls that have another value each time.

    Without ``sleeps`` pg_sleep stays where it can be called by ``calls``.
    """
    place = statement.span
    if not MENTIONS.search(place.source, place.start, place.end):
        return statement
    tree = once_by_chance(statement.query, sleeps=sleeps)
    if has_calls(tree):
        tree = replaced(numbered_rows(engine, tree), engine.catalog, engine.sequences.call)
        engine.keep()
    return replace(statement, query=tree)


def numbered_insert(engine: Engine, statement: ast.Insert) -> ast.Insert:
    """The statement with numbers in the place of calls of nextval and its like."""
    place = statement.span
    rules = engine.catalog.table(statement.table).constraints.rules
    if not rules and not MENTIONS.search(place.source, place.start, place.end):
        return statement
    tree = once_by_chance(statement.query.query)
    if tree is not statement.query.query:
        statement = replace(statement, query=replace(statement.query, query=tree))
    if not has_calls(tree):
        return statement
    query = replaced(numbered_rows(engine, tree), engine.catalog, engine.sequences.call)
    return replace(statement, query=replace(statement.query, query=query))


def numbered_update(engine: Engine, statement: ast.Update) -> ast.Update:
    """The statement with what takes a number for each row in the place of nextval."""
    entry = engine.catalog.table(statement.table)
    if any(rule.sequence for rule in entry.constraints.rules):
        statement = replace(statement, assignments=with_sequences(statement.assignments, entry))
    elif not MENTIONS.search(statement.span.source, statement.span.start, statement.span.end):
        return statement
    found = assigned_for_rows(statement.assignments, partial(numbered_rows, engine))
    return replace(statement, assignments=found)


def numbered_rows(engine: Engine, tree: Tree) -> Tree:
    """A statement whose calls of nextval for each row of a query have numbers of their own."""
    found = for_rows(tree, engine.catalog, engine.sequences.begin)
    if found is not tree and engine.workers is not None:
        settle_numbers(engine)
        raise NotSupportedError("nextval for each row of a query is not supported with many workers")
    return found


Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Returned:
    """What RETURNING gives."""

    names: tuple[str, ...]
    types: tuple[Type, ...]
    words: Words


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows of a table to delete, to put in the place of others, and to insert."""

    table: Table
    deleted: Words | None = None
    updated: tuple[Words, Words] | None = None
    inserted: Words | None = None
    returned: Returned | None = None

    @property
    def count(self) -> int:
        """How many rows change."""
        deleted = 0 if self.deleted is None else self.deleted.shape[0]
        updated = 0 if self.updated is None else self.updated[0].shape[0]
        return int(deleted + updated + (0 if self.inserted is None else self.inserted.shape[1]))

    @property
    def rowids(self) -> Words:
        """The rows that are there and change."""
        updated = None if self.updated is None else self.updated[0]
        there = [one for one in (self.deleted, updated) if one is not None]
        return np.concatenate(there) if there else np.empty(0, np.int64)

    def apply(self) -> None:
        """Make the changes."""
        if self.deleted is not None:
            self.table.delete(self.deleted)
        if self.updated is not None:
            self.table.update(*self.updated)
        if self.inserted is not None:
            self.table.insert(self.inserted)

    def result(self) -> Result:
        """What the statement gives: what it returns, or how many rows it changed."""
        if self.returned is None:
            return row_count(self.count)
        names, types = self.returned.names, self.returned.types
        result = Result(names, types, Decoded(names, types, self.returned.words, self.table.dictionary))
        result.affected = self.count
        return result


def check_there(engine: Engine, changes: Changes) -> None:
    """SerializationError if rows that were found in an older snapshot are no more."""
    for rowids in (changes.deleted, None if changes.updated is None else changes.updated[0]):
        if engine.seen is None or rowids is None:
            continue
        if engine.executor.live(changes.table.name, rowids).size < rowids.size:
            what = f'a row of table "{changes.table.name}"'
            raise SerializationError(f"could not serialize access due to concurrent update of {what}")


def into_table(engine: Engine, statement: ast.Change) -> ast.Change:
    """The statement, of the table that a view which it names is of."""
    if isinstance(engine.catalog.find(statement.table), TableEntry):
        return statement

    return through_view(statement, engine.catalog)


def prepared_alone(engine: Engine, statement: ast.Change) -> Changes:
    """What a statement is going to change of one table."""
    statement = into_table(engine, statement)
    table = engine.table(statement.table)
    match statement:
        case ast.Insert():
            return _insert(engine, table, statement)
        case ast.Delete():
            planned, data = found_rows(engine, statement)
            return deletion(table, statement, planned, data)
        case ast.Update():
            planned, data = found_rows(engine, statement)
            return updating(engine, table, statement, planned, data)
        case ast.Merge():
            return merge_changes(engine, table, statement)
        case _:
            assert_never(statement)


def _insert(engine: Engine, table: Table, statement: ast.Insert) -> Changes:
    statement, words = given_words(engine, table, statement)
    return insertion(engine, table, statement, words)


def given_words(engine: Engine, table: Table, statement: ast.Insert) -> tuple[ast.Insert, Words]:
    """The rows that an INSERT gives, numbers of sequences still to be filled in, and the INSERT of these.

    It names the columns that got their DEFAULT already.
    """
    catalog = engine.reading_catalog
    numbered = numbered_insert(engine, given_insert(statement, catalog))
    return numbered, settling(engine, lambda: _given_rows(engine, table, numbered, catalog))


def _given_rows(engine: Engine, table: Table, statement: ast.Insert, catalog: Catalog) -> Words:
    """The rows that an INSERT gives."""
    bound = bind(statement, catalog)
    words = constant_words(bound.rel, table.dictionary)
    if words is not None:
        return words
    planned = plan_bound(bound, catalog, engine.statistics)
    words = expand(*engine.run(planned))
    if planned.order:
        words = words[:, permutation(words, planned.order, planned.types, table.dictionary)]
        words = words[: len(table.schema.columns)]
    return words


def found_rows(engine: Engine, statement: ast.Delete | ast.Update) -> tuple[Planned, Words]:
    """What an UPDATE or a DELETE finds, with its plan."""

    def found() -> tuple[Planned, Words]:
        planned = plan(asked, engine.reading_catalog, engine.statistics)
        return planned, engine.run(planned)[0]

    asked = numbered_update(engine, statement) if isinstance(statement, ast.Update) else statement
    return settling(engine, found)


def _with_defaults(engine: Engine, statement: ast.Insert, entry: TableEntry, words: Words) -> Words:
    """Rows with what their columns have that were not given."""
    given = set(insert_places(statement, entry.schema))
    places = [place for place in range(len(entry.schema.columns)) if place not in given]
    make = partial(defaults.numbered, entry, engine.reading_catalog, places)
    found = engine.remembered.made(("numbered", *places), entry, engine.catalog, make)
    return defaults.filled(engine.executor, engine.sequences, found, words)


def insertion(
    engine: Engine,
    table: Table,
    statement: ast.Insert,
    words: Words,
    *,
    fitted: bool = True,
) -> Changes:
    """What inserting rows changes, numbers of sequences still to be filled in.

    They are ``fitted`` if they are rows of this table, not of a partition of it.
    """
    catalog = engine.catalog
    entry = catalog.table(statement.table, statement.span)
    if catalog.is_limited and not statement.moves:
        check_insertion(statement, entry, catalog)
    if entry.constraints.rules and len(statement.columns):
        words = _with_defaults(engine, statement, entry, words)
    if not fitted:
        return Changes(table, inserted=words)
    words = checked(words, table)
    if table.guard is not None:
        words = table.guard.fitting(words)
    _check_shown(engine, statement, words, "INSERT")
    updated: tuple[Words, Words] | None = None
    if statement.conflict is not None:
        words, updated = upsert.settled(engine, table, statement, words)
        if updated is not None:
            if table.guard is not None:
                updated = updated[0], table.guard.fitting(updated[1])
            if catalog.others:
                row_security.check_replaced(engine, table, statement, updated[0])
            _check_shown(engine, statement, updated[1], "UPDATE")
    changes = Changes(table, updated=updated, inserted=words)
    if not statement.returning:
        return changes
    rows = words if updated is None else np.concatenate((updated[1], words), axis=1)
    return replace(changes, returned=_returned(engine, table, statement, np.ascontiguousarray(rows)))


def _check_shown(engine: Engine, statement: ast.Insert | ast.Update, words: Words, command: str) -> None:
    """IntegrityError if a view WITH CHECK OPTION would not show a row that is written through it.

    PrivilegeError if policies do not let it be written.
    """
    if engine.catalog.others:
        row_security.check_written(engine, statement, words, command)
    if statement.through is None or not words.shape[1]:
        return
    for view, predicates in statement.through.checked:
        results, _ = engine.executor.evaluate(Mfp((), predicates), np.ascontiguousarray(words))
        if predicates and (results != 1).any():
            raise IntegrityError(
                f'a new row fails the CHECK OPTION of view "{view}"',
                span=statement.span,
                hint="the view would not show it; nothing was changed",
            )


def _returned(engine: Engine, table: Table, statement: ast.Insert, rows: Words) -> Returned:
    what = ("returning", engine.executor.has_pending)
    mfp, names, types = engine.remembered.made(
        what, statement, engine.catalog, lambda: lower_returning(statement, engine.reading_catalog)
    )
    if not rows.shape[1]:
        return Returned(names, types, np.empty((len(names), 0), np.int64))
    if mfp is not None:
        words, _ = engine.executor.evaluate(mfp, rows)
        return Returned(names, types, words)
    if statement.through is not None:
        raise NotSupportedError(
            "a subquery in RETURNING of an INSERT into a view is not supported", span=statement.span
        )
    return returned_by_query(engine, table, statement, rows)


def deletion(table: Table, statement: ast.Delete, planned: Planned, data: Words) -> Changes:
    """What deleting changes, given the rows of its plan."""
    if not statement.returning:
        return Changes(table, deleted=data[0])
    rowids, first = np.unique(data[0], return_index=True)
    names, types = planned.schema.names[1:], planned.schema.types[1:]
    return Changes(table, deleted=rowids, returned=Returned(names, types, data[1:, first]))


def updating(engine: Engine, table: Table, statement: ast.Update, planned: Planned, data: Words) -> Changes:
    """What updating changes, given rowids, all columns of the new rows, and then what is returned."""
    width = 1 + len(table.schema.columns)
    returned: Returned | None = None
    if statement.returning:
        _, first = np.unique(data[:width], axis=1, return_index=True)
        data = data[:, first]
        names, types = planned.schema.names[width:], planned.schema.types[width:]
        returned = Returned(names, types, np.ascontiguousarray(data[width:]))
    if distinct(data[0]).shape[0] < data.shape[1]:
        raise DataError(
            f"UPDATE would change a row of table {table.name} twice, to different values",
            span=statement.span,
            hint="each row must meet one row of FROM, or rows that give the same values",
        )
    words = checked(np.ascontiguousarray(data[1:width]), table)
    _check_shown(engine, statement, words, "UPDATE")
    return Changes(table, updated=(np.ascontiguousarray(data[0]), words), returned=returned)


def merge_changes(engine: Engine, table: Table, statement: ast.Merge) -> Changes:
    """What a MERGE is going to change."""
    catalog = engine.reading_catalog
    entry = catalog.table(statement.table, statement.span)
    data = expand(*engine.run(plan(statement, catalog, engine.statistics)))
    rowids, actions, rows = data[0], data[1], np.ascontiguousarray(data[2:])
    updating = [index for index, when in enumerate(statement.whens) if when.assignments]
    deleting = [index for index, when in enumerate(statement.whens) if when.deletes]
    updates, deletes = np.isin(actions, updating), np.isin(actions, deleting)
    touched = rowids[updates | deletes]
    if distinct(touched).shape[0] < touched.shape[0]:
        raise DataError(
            f"MERGE would change a row of table {table.name} twice",
            span=statement.span,
            hint="each row must meet one row of the source",
        )
    inserted = [np.empty((rows.shape[0], 0), np.int64)]
    for index, when in enumerate(statement.whens):
        if when.values is not None:
            words = np.ascontiguousarray(rows[:, actions == index])
            places = list(merge_rewrite.missing_of(when, entry, statement.span.source))
            made_by = defaults.numbered(entry, catalog, places)
            inserted.append(defaults.filled(engine.executor, engine.sequences, made_by, words))
    made = np.ascontiguousarray(np.concatenate(inserted, axis=1))
    changed = checked(np.ascontiguousarray(rows[:, updates]), table)
    if engine.catalog.others:
        row_security.check_merged(engine, table, statement, (rowids[updates], changed), rowids[deletes], made)
    return Changes(
        table,
        deleted=np.ascontiguousarray(rowids[deletes]) if deleting else None,
        updated=(np.ascontiguousarray(rowids[updates]), changed) if updating else None,
        inserted=checked(made, table) if len(inserted) > 1 else None,
    )


def returned_by_query(engine: Engine, table: Table, statement: ast.Insert, rows: Words) -> Returned:
    """What RETURNING gives if it asks a query."""
    schema = Schema(tuple(replace(column, nullable=True) for column in table.schema.columns))
    attached = engine.tables.attach(eager_subexpressions.named_rows("inserted"), schema)
    engine.table(attached).insert(np.ascontiguousarray(rows))
    query = eager_subexpressions.returning_query(statement, attached)
    planned = plan(query, engine.reading_catalog, engine.statistics)
    words = expand(*engine.run(planned))[: len(planned.schema.columns)]
    return Returned(planned.schema.names, planned.schema.types, words)
