"""Partitioned tables: changed together with their partitions."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.constraints import heirs
from kpg.compiler.catalog.entries import Entry
from kpg.compiler.sql.parse import definitions as ddl
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.definitions import Action
from kpg.dml.changing import Changes, Returned
from kpg.engine.engine import Engine
from kpg.inheritance.beside import prepared_beside
from kpg.result import Affected, Result
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span

Words = NDArray[np.int64]


def together(engine: Engine, statement: ast.Change) -> "Several | None":
    """What changes of a table and of its partitions do; None if there is only one."""
    if not isinstance(statement, ast.Update | ast.Delete) or statement.alone:
        return None
    entry = engine.catalog.find(statement.table)
    heirs_ = () if entry is None else heirs(engine.catalog.others, entry.name)
    if entry is None or not heirs_:
        return None
    with parts_of(engine, entry):
        return _together(engine, statement, entry, heirs_)


@contextmanager
def parts_of(engine: Engine, entry: Entry) -> Iterator[None]:
    """Within the block the tables below one are changed by who may change that one."""
    catalog = engine.catalog
    before, whole = catalog.parts, catalog.parts.get(entry.name.lower(), entry.name)
    catalog.parts = before | {name.lower(): whole for name in heirs(catalog.others, entry.name)}
    try:
        yield
    finally:
        catalog.parts = before


def _together(
    engine: Engine, statement: ast.Update | ast.Delete, entry: Entry, heirs_: Sequence[str]
) -> "Several":
    from kpg.inheritance.routing import moved

    parts: list[Changes] = []
    moves = 0
    for name in (entry.name, *heirs_):
        one = replace(statement, table=name, alone=True)
        if not isinstance(one, ast.Update):
            parts.append(prepared_beside(engine, one))
            continue
        changes = prepared_beside(engine, one)
        found, count = moved(engine, entry.name, changes)
        parts += found
        moves += count
    return Several(parts, moves)


def _chosen(returned: Returned, names: Sequence[str]) -> Words:
    """The columns of these names, which may stand in another order; all of them where names do not tell."""
    known = [name.lower() for name in returned.names]
    if len(known) == len(names) and (sorted(known) != sorted(names) or len(set(known)) < len(known)):
        return returned.words
    return np.ascontiguousarray(returned.words[[known.index(name) for name in names]])


def dropped_together(engine: Engine, names: list[str]) -> list[str]:
    """Tables to drop, with their partitions."""
    found = list(names)
    for name in names:
        found += [one for one in heirs(engine.catalog.others, name) if one not in found]
    return found


def altered_together(engine: Engine, name: str, action: Action, span: Span) -> tuple[str, ...]:
    """The tables that an action is for: the partitions too, whose columns must not change alone."""
    others = engine.catalog.others
    lower = name.lower()
    mine = heirs(others, name)
    is_partition = any(key[0] == "inherits" and key[2] == lower for key in others)
    if (mine or is_partition) and isinstance(action, ddl.RenameTo | ddl.SetSchema):
        message = "another name for a table with partitions, or for a partition, is not supported"
        raise NotSupportedError(message, span=span)
    columns = ddl.DropColumn | ddl.RenameColumn | ddl.AlterType
    if is_partition and isinstance(action, columns):
        message = "a change of a column of a partition is not supported"
        raise NotSupportedError(message, span=span, hint="change the table whose partition it is")
    if is_partition and isinstance(action, ddl.AddColumn):
        error = ProgrammingError("cannot add column to a partition", span=span)
        error.sqlstate = "42809"
        raise error
    is_default = isinstance(action, ddl.SetRule) and action.part == "default"
    followed = columns | ddl.AddColumn | ddl.SetNotNull | ddl.DropConstraint | ddl.AddConstraint
    return (name, *mine) if is_default or isinstance(action, followed) else (name,)


class Several:
    """Changes of several tables by one statement."""

    updated = None
    deleted = None
    inserted = None

    def __init__(self, parts: Sequence[Changes], moves: int = 0) -> None:
        """``moves`` of the changes are counted twice: rows that go from one table to another."""
        self._moves = moves
        self.parts = parts
        self.table = parts[0].table

    @property
    def count(self) -> int:
        """How many rows change."""
        return sum(part.count for part in self.parts) - self._moves

    @property
    def returned(self) -> Returned | None:
        """What all of them return."""
        first = self.parts[0].returned
        if first is None:
            return None
        names = [name.lower() for name in first.names]
        words = [_chosen(part.returned, names) for part in self.parts if part.returned is not None]
        return replace(first, words=np.concatenate(words, axis=1))

    def apply(self) -> None:
        """Make the changes."""
        for part in self.parts:
            part.apply()

    def result(self) -> Result:
        """What the statement gives."""
        if self.returned is None:
            return Affected(self.count)
        result = Changes(self.table, returned=self.returned).result()
        result.affected = self.count
        return result
