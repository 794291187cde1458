"""Tables that inherit others: made, and changed together with these."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog import Entry
from kpg.compiler.constraints import Check
from kpg.compiler.sql import definitions as ddl
from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.definitions import Action
from kpg.compiler.triggers import Heir, heirs
from kpg.ddl.defining import definition
from kpg.ddl.rereading import check_rereadable, reread
from kpg.dml.changing import Changes, Returned
from kpg.engine.engine import Engine
from kpg.inheritance.beside import prepared_beside
from kpg.result import Affected, Result
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.types import Schema

if TYPE_CHECKING:
    from kpg.blocks.actions import Actions

Words = NDArray[np.int64]
INCLUDING = frozenset({"DEFAULTS", "CONSTRAINTS", "GENERATED"})
"""What a column is inherited with."""


def create_inherited(engine: Engine, statement: ast.CreateTable, name: str) -> bool:
    """A table that inherits others, or is a partition of one; False if it is made as others are."""
    from kpg.inheritance.partitions import create_partition, note_partitioned

    if statement.parents:
        create_heir(engine, statement, name)
        return True
    if statement.partition is not None:
        create_partition(engine, statement, name)
        return True
    note_partitioned(engine, statement, name)
    return False


def create_heir(engine: Engine, statement: ast.CreateTable, name: str) -> None:
    """CREATE TABLE ... INHERITS: the parents' columns and CHECKs first; columns of one name are one."""
    catalog = engine.catalog
    parents = [catalog.table(parent, statement.span) for parent in statement.parents]
    for parent in parents:
        check_rereadable(engine, parent, statement.span)
    seen: set[str] = set()
    checks = statement.constraints.checks
    made = replace(statement, parents=(), schema=Schema(()), constraints=ast.NOTHING)
    columns, rules = [], []
    for parent in parents:
        like = ast.Like(parent.name, 0, INCLUDING)
        entry, _ = definition(replace(made, likes=(like,), sequences=()), name, catalog)
        for place, column in enumerate(entry.schema.columns):
            if column.name.lower() not in seen:
                seen.add(column.name.lower())
                columns.append(column)
                rules.append(entry.constraints.rule(place))
        known = {one.name.lower() for one in checks}
        checks = (*checks, *(one for one in entry.constraints.checks if one.name.lower() not in known))
    for place, column in enumerate(statement.schema.columns):
        rule = statement.constraints.rule(place)
        if column.name.lower() in seen:
            at = [one.name.lower() for one in columns].index(column.name.lower())
            if columns[at].type != column.type:
                message = f'column "{column.name}" has another type than the one that is inherited'
                raise ProgrammingError(message, span=statement.span)
            columns[at] = replace(columns[at], nullable=columns[at].nullable and column.nullable)
            rules[at] = rule if rule.default or rule.generated or rule.sequence else rules[at]
        else:
            columns.append(column)
            rules.append(rule)
    names = [one.name.lower() for one in columns]
    key = tuple(names.index(statement.schema.names[place].lower()) for place in statement.schema.primary_key)
    constraints = replace(statement.constraints, rules=tuple(rules), checks=checks)
    whole = replace(statement, parents=(), schema=Schema(tuple(columns), key), constraints=constraints)
    entry, sequences = definition(whole, name, catalog)
    engine.create_table(name, entry.schema, entry.constraints, sequences)
    for parent in parents:
        catalog.others["inherits", parent.name.lower(), name.lower()] = Heir(parent.name, name)
        reread(engine, parent)


def together(engine: Engine, statement: ast.Change) -> "Several | None":
    """What changes of a table and of those that inherit it do; None if there is only one."""
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
    from kpg.blocks.triggers import actions_of
    from kpg.inheritance.routing import is_partitioned, moved

    event = "DELETE" if isinstance(statement, ast.Delete) else "UPDATE"
    around = actions_of(engine, statement)
    if around is not None:
        around.before_statement(event)
    parts: list[Changes] = []
    moves = 0
    for name in (entry.name, *heirs_):
        one = replace(statement, table=name, alone=True)
        if not isinstance(one, ast.Update) or not is_partitioned(engine, entry.name):
            parts.append(prepared_beside(engine, one, whole=False))
            continue
        changes = prepared_beside(engine, replace(one, whole=entry.name), whole=False)
        found, count = moved(engine, entry.name, changes)
        parts += found
        moves += count
    return Several(parts, around, event, moves)


def _chosen(returned: Returned, names: Sequence[str]) -> Words:
    """The columns of these names, which may stand in another order; all of them where names do not tell."""
    known = [name.lower() for name in returned.names]
    if len(known) == len(names) and (sorted(known) != sorted(names) or len(set(known)) < len(known)):
        return returned.words
    return np.ascontiguousarray(returned.words[[known.index(name) for name in names]])


def dropped_together(engine: Engine, names: list[str], statement: ast.Drop) -> list[str]:
    """Tables to drop, with those that inherit them; ProgrammingError unless these may go too."""
    found = list(names)
    for name in names:
        for heir in heirs(engine.catalog.others, name):
            if heir in found:
                continue
            if not statement.cascade and not _is_partition(engine, heir):
                message = f'"{name}" cannot be dropped: table "{heir}" inherits it'
                raise ProgrammingError(
                    message, span=statement.span, hint="drop that table first, or use CASCADE"
                )
            found.append(heir)
    return found


def _is_partition(engine: Engine, name: str) -> bool:
    """Whether a table goes with the one whose partition it is."""
    others = engine.catalog.others
    return any(
        one.told is not None for key, one in others.items() if key[0] == "inherits" and key[2] == name.lower()
    )


def altered_together(engine: Engine, name: str, action: Action, span: Span) -> tuple[str, ...]:
    """The tables that an action is for: those that inherit the columns too, which must not change alone."""
    others = engine.catalog.others
    lower = name.lower()
    mine = heirs(others, name)
    inherits = any(key[0] == "inherits" and key[2] == lower for key in others)
    if (mine or inherits) and isinstance(action, ddl.RenameTo | ddl.SetSchema):
        raise NotSupportedError("another name for a table of an inheritance is not supported", span=span)
    columns = ddl.DropColumn | ddl.RenameColumn | ddl.AlterType
    if inherits and isinstance(action, columns):
        message = "a change of a column of a table that inherits others is not supported"
        raise NotSupportedError(message, span=span, hint="change the table that it inherits")
    if isinstance(action, ddl.AddColumn) and _is_partition(engine, name):
        error = ProgrammingError("cannot add column to a partition", span=span)
        error.sqlstate = "42809"
        raise error
    whole = ("partitioned", lower, "") in others
    is_check = isinstance(action, ddl.AddConstraint) and (whole or isinstance(action.constraint, Check))
    is_default = isinstance(action, ddl.SetRule) and action.part == "default"
    if isinstance(action, columns | ddl.AddColumn | ddl.SetNotNull | ddl.DropConstraint) or (
        is_check or is_default
    ):
        return (name, *mine)
    return (name,)


class Several:
    """Changes of several tables by one statement."""

    updated = None
    deleted = None
    inserted = None

    def __init__(
        self, parts: Sequence[Changes], around: "Actions | None" = None, event: str = "", moves: int = 0
    ) -> None:
        """``around`` is what is done before and after a statement of an event; ``moves`` count once."""
        self._moves = moves
        self.parts = parts
        self.table = parts[0].table
        self._around = around
        self._event = event

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
        if self._around is not None:
            self._around.after_statement(self._event)

    def result(self) -> Result:
        """What the statement gives."""
        if self.returned is None:
            return Affected(self.count)
        result = Changes(self.table, returned=self.returned).result()
        result.affected = self.count
        return result
