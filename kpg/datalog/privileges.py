"""Privilege checks for Datalog programs: to install, query, update and drop them.

A program's relations belong to the role that installs it. Reading a relation requires SELECT. An
update requires INSERT or DELETE. Changing or dropping the program requires ownership. File names
require the same role as ``COPY``; functors and pragmas require a superuser. Errors show a
program's
text to its owner only.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from kpg.compiler.catalog.access_control import (
    owned_objects,
    relation_key,
    require_file_access,
    require_owner,
    require_privileges,
    require_schema_privilege,
    update_ownership,
)
from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.datalog.check import CheckedProgram
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.types.declarations import io_kind
from kpg.compiler.rules import core
from kpg.compiler.rules.strata import dependencies
from kpg.compiler.sql.bind.row_security import check_no_policies
from kpg.compiler.sql.frontend import check_relation
from kpg.runtime.errors import DatalogError, PrivilegeError, Span
from kpg.session.engine import Engine

KINDS_WITHOUT_PATH: Final = ("file", "command")
"""Kinds of inputs that name no file. Facts of ``file`` come from the facts folder, if there is one."""


def check_program(
    catalog: Catalog, checked: CheckedProgram, before: CheckedProgram | None, *, loads: bool
) -> None:
    """Raise PrivilegeError unless the current role may install a program.

    With ``before``, the program extends that one, and only the additions are checked. ``loads`` says
    whether files are read for inputs.
    """
    if not catalog.checks_privileges:
        return
    program = checked.program
    checked_transfers = () if before is None else before.program.transfers
    for transfer in program.transfers:
        if transfer not in checked_transfers:
            _check_transfer(catalog, transfer, loads=loads)
    for statement in checked.statements[0 if before is None else len(before.statements) :]:
        if isinstance(statement, ast.Functor | ast.Pragma):
            directive = ".functor" if isinstance(statement, ast.Functor) else ".pragma"
            raise PrivilegeError(f"permission denied: {directive} requires a superuser", span=statement.span)
    require_schema_privilege(catalog, "public", "C")
    for name in sorted(external_relations(program)):
        check_relation(catalog, name)
    check_updates(catalog, program)


def _check_transfer(catalog: Catalog, transfer: core.Transfer, *, loads: bool) -> None:
    directive, options = f".{transfer.direction.value}", transfer.options
    kind = io_kind(options)
    if transfer.direction is not core.TransferKind.INPUT:
        require_file_access(catalog, "to", transfer.span, directive)
    elif (loads and kind != "command") or kind not in KINDS_WITHOUT_PATH or options.keys() - {"IO"}:
        require_file_access(catalog, "from", transfer.span, directive)


def check_updates(catalog: Catalog, program: core.Program) -> None:
    """Raise PrivilegeError unless the current role may run the updates of a text."""
    if not catalog.checks_privileges:
        return
    for update in program.updates:
        entry = catalog.find(update.relation)
        if entry is not None:
            require_schema_privilege(catalog, entry.name, "U")
            require_privileges(
                catalog, relation_key(entry.name), "a" if update.diff > 0 else "d", update.span
            )
            check_no_policies(catalog, entry)


def check_read(catalog: Catalog, program: core.Program, relation: str, *, recursive: bool = False) -> None:
    """Raise PrivilegeError unless the current role may read a relation of a program.

    A relation that is not a table or view, such as that of a goal, requires privileges on the relations
    it reads. With ``recursive``, so does every relation it is derived from.
    """
    if not catalog.checks_privileges:
        return
    visited, pending = set[str](), [relation]
    reads: dict[str, set[str]] = {}
    for edge in dependencies(program.rules):
        reads.setdefault(edge.head, set()).add(edge.body)
    while pending:
        name = pending.pop()
        if name in visited:
            continue
        visited.add(name)
        is_stored = name in catalog
        if is_stored:
            check_relation(catalog, name)
        if recursive or not is_stored:
            pending += reads.get(name, ())


def check_owner(catalog: Catalog, relations: Iterable[str]) -> None:
    """Raise PrivilegeError unless the current role owns the relations of a program."""
    for name in relations:
        if name in catalog:
            require_owner(catalog, relation_key(name))


def external_relations(program: core.Program) -> list[str]:
    """Return the relations that a program reads and does not declare."""
    return [relation.name for relation in program.relations.values() if relation.kind is core.Kind.EXTERNAL]


def may_see_text(catalog: Catalog, program: core.Program) -> bool:
    """Return whether the current role may see the text of an installed program."""
    if not catalog.checks_privileges:
        return True
    declared = (
        relation.name for relation in program.relations.values() if relation.kind is not core.Kind.EXTERNAL
    )
    return all(
        catalog.privileges.owns(catalog.asker.user, relation_key(name))
        for name in declared
        if name in catalog
    )


def hide_other_texts(error: DatalogError, text: str) -> DatalogError:
    """Return the error without positions in other texts than this one."""

    def visible_span(span: Span | None) -> Span | None:
        return span if span is not None and span.source == text else None

    return DatalogError(
        tuple(
            replace(
                diagnostic,
                span=visible_span(diagnostic.span),
                notes=tuple((note, visible_span(span)) for note, span in diagnostic.notes),
            )
            for diagnostic in error.diagnostics
        )
    )


@contextmanager
def assign_ownership(engine: Engine, owner: str | None = None) -> Iterator[None]:
    """Make ``owner``, by default the current role, the owner of relations that the block creates.

    Privileges on relations that the block drops are removed.
    """
    rights = engine.catalog.privileges
    if not engine.catalog.checks_privileges and not (rights.owners or rights.acls or rights.default_acls):
        yield
        return
    known = frozenset(owned_objects(engine.catalog))
    yield
    update_ownership(engine.catalog, known, owner, altered=None)


def owner_of(catalog: Catalog, relations: Iterable[str]) -> str | None:
    """Return the role that owns a program with these relations; None if they do not exist."""
    return next((catalog.privileges.owner(relation_key(name)) for name in relations if name in catalog), None)
