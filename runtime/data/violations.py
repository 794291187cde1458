"""What is wrong with rows that a table does not take, for whoever gave them."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.convert.values import show
from kpg.runtime.data.unique import UniqueIndex
from kpg.runtime.errors import IntegrityError

if TYPE_CHECKING:
    from kpg.runtime.data.table import Table

Words = NDArray[np.int64]


def null_error(table: "Table", words: Words, column: int, row: int) -> IntegrityError:
    """A NULL where none may be."""
    name = table.schema.columns[column].name
    key = " of the primary key" if column in table.schema.primary_key else ""
    values = _describe(table, words, tuple(range(len(table.schema.columns))), row)
    return IntegrityError(
        f"NULL in column {name}{key} of table {table.name}: row {values}",
        hint=f"{name} is NOT NULL: give it a value",
    )


def duplicate_error(table: "Table", words: Words, row: int, exists: bool | None = None) -> IntegrityError:
    """A primary key that is there already, or is given twice: which of them is looked for if not told."""
    key = table.schema.primary_key
    names = ", ".join(table.schema.columns[i].name for i in key)
    if exists is None:
        given = np.ascontiguousarray(words[list(key), row : row + 1])
        exists = table.find(given)[0] >= 0
    where = "exists already" if exists else "is given twice"
    return IntegrityError(
        f"duplicate key in table {table.name}: ({names}) = {_describe(table, words, key, row)} {where}",
        hint="delete the old row first, or say ON CONFLICT (upsert in Python)"
        if exists
        else "give each key once",
    )


def unique_error(
    table: "Table", index: UniqueIndex, words: Words, row: int, exists: bool | None = None
) -> IntegrityError:
    """The same, of other columns that the table is unique in."""
    names = ", ".join(table.schema.columns[i].name for i in index.columns)
    if exists is None:
        given = np.ascontiguousarray(words[list(index.columns), row : row + 1])
        exists = index.find(given)[0] >= 0 and bool(table.is_live(index.find(given))[0])
    where = "exists already" if exists else "is given twice"
    return IntegrityError(
        f"duplicate key in table {table.name}: ({names}) = {_describe(table, words, index.columns, row)} "
        f"{where}, against constraint {index.name}",
        hint=f"of the row {_describe(table, words, tuple(range(len(table.schema.columns))), row)}",
    )


def _describe(table: "Table", words: Words, columns: tuple[int, ...], row: int) -> str:
    shown = (show(int(words[i, row]), table.schema.columns[i].type, table.dictionary) for i in columns)
    return f"({', '.join(shown)})"
