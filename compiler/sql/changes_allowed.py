"""Whether who asks may change what a statement changes: what it names, and the table below a view."""

from typing import assert_never

from kpg.compiler.catalog import Catalog, ViewEntry
from kpg.compiler.permitted import denied, key_of, may_columns, may_refuse, need_columns, whose
from kpg.compiler.sql import statements as ast
from kpg.compiler.views import Through

Needs = tuple[tuple[str, frozenset[str] | None], ...]
"""Letters of privileges, each of some columns or of all of the relation."""


def check_change(statement: ast.Change, catalog: Catalog) -> None:
    """PrivilegeError unless the statement may change its relation, and a view's owner what is below."""
    if not may_refuse(catalog):
        return
    needs = _needs(statement, catalog)
    found = None if isinstance(statement, ast.Merge) else statement.through
    if found is None:
        name = catalog.table(statement.table).name
        name = catalog.parts.get(name.lower(), name)
        for letter, columns in needs:
            need_columns(catalog, name, letter, columns, None)
        return
    for letter, columns in needs:
        shown = None if columns is None else _shown(found, columns)
        need_columns(catalog, found.view, letter, shown, None)
    _check_below(catalog, found, needs)


def _check_below(catalog: Catalog, found: Through, needs: Needs) -> None:
    """The views below, and then the table, are changed with the rights of the owner of the view above."""
    name = found.view
    while True:
        entry = catalog.entries.get(name.lower())
        owner = whose(catalog, entry) if isinstance(entry, ViewEntry) else catalog.asker.user
        below = getattr(entry, "below", "") or found.entry.name
        for letter, columns in needs:
            if not may_columns(catalog, owner, below, letter, columns):
                raise denied(catalog, key_of(below))
        if below == found.entry.name:
            return
        name = below


def _shown(found: Through, columns: frozenset[str]) -> frozenset[str]:
    """The view's names of a table's columns."""
    names = {}
    for name in found.names:
        below = found.name_of(name, lambda message: KeyError(message)) if _is_plain(found, name) else ""
        names[below.lower()] = name
    return frozenset(names[one.lower()] for one in columns if one.lower() in names)


def _is_plain(found: Through, name: str) -> bool:
    from kpg.runtime.scalar import Column

    return isinstance(found.columns[found.names.index(name)], Column)


def _needs(statement: ast.Change, catalog: Catalog) -> Needs:
    match statement:
        case ast.Insert(conflict=conflict):
            columns = statement.columns or catalog.table(statement.table).schema.names
            needs: Needs = (("a", frozenset(columns)),)
            if conflict is not None and conflict.columns:
                needs += (("r", frozenset(conflict.columns)),)
            if conflict is not None and conflict.assignments:
                needs += (("w", frozenset(target.name for target, _ in conflict.assignments)),)
            return needs
        case ast.Update():
            return (("w", frozenset(target.name for target, _ in statement.assignments)),)
        case ast.Delete():
            return (("d", None),)
        case ast.Merge():
            return tuple(
                _of_when(when, catalog.table(statement.table).schema.names) for when in _acting(statement)
            )
        case _:
            assert_never(statement)


def _acting(statement: ast.Merge) -> list[ast.When]:
    return [when for when in statement.whens if when.assignments or when.deletes or when.values is not None]


def _of_when(when: ast.When, names: tuple[str, ...]) -> tuple[str, frozenset[str] | None]:
    if when.assignments:
        return "w", frozenset(target.name for target, _ in when.assignments)
    return ("d", None) if when.deletes else ("a", frozenset(when.columns or names))
