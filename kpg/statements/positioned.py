"""UPDATE and DELETE of the row at which a cursor stands."""

from dataclasses import replace
from typing import NoReturn

import numpy as np

from kpg.compiler.catalog.entries import TableEntry
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.rewrite.row_locks import at_row
from kpg.dml.changing import Changes, prepared
from kpg.engine.engine import Engine
from kpg.engine.transaction import State
from kpg.queries.reading import literal_of
from kpg.runtime.errors import ProgrammingError, Span
from kpg.statements.cursors import Cursor, Words, is_open, key_of


def positioned(engine: Engine, statement: ast.Update | ast.Delete) -> Changes:
    """What the statement is going to change: one row at most."""
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
    found = prepared(engine, at_row(statement, entry, row))
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
