"""Privilege checks for Datalog programs: to install, query, update and drop them.

A program's relations belong to the role that installs it. Reading a relation requires SELECT, an update
requires INSERT or DELETE, and changing or dropping the program requires ownership. File names require the
same role as ``COPY``; functors and pragmas require a superuser. Errors show a program's text to its owner
only.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from kpg.compiler.catalog.access_control import key_of, need, need_file, need_owner, need_schema
from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.datalog.check import Checked
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.types.declarations import kind_of
from kpg.compiler.rules import core
from kpg.compiler.rules.strata import dependencies
from kpg.compiler.sql.bind.row_security import refuse_secured
from kpg.compiler.sql.frontend import check_relation
from kpg.postgres.grants import settle, things
from kpg.runtime.errors import DatalogError, PrivilegeError, Span
from kpg.session.engine import Engine

PLAIN: Final = ("file", "command")
"""Kinds of inputs that name no file by themselves: facts of the first come from a folder, if there is one."""


def check_program(catalog: Catalog, checked: Checked, before: Checked | None, *, loads: bool) -> None:
    """PrivilegeError unless the role may install a program, or extend the one ``before`` to it.

    ``loads``: whether files are read for inputs.
    """
    if not catalog.is_limited:
        return
    program = checked.program
    known = () if before is None else before.program.transfers
    for transfer in program.transfers:
        if transfer not in known:
            _check_transfer(catalog, transfer, loads=loads)
    for one in checked.statements[0 if before is None else len(before.statements) :]:
        if isinstance(one, ast.Functor | ast.Pragma):
            word = ".functor" if isinstance(one, ast.Functor) else ".pragma"
            raise PrivilegeError(f"permission denied: {word} takes a superuser", span=one.span)
    need_schema(catalog, "public", "C")
    for name in sorted(external(program)):
        check_relation(catalog, name)
    check_updates(catalog, program)


def _check_transfer(catalog: Catalog, transfer: core.Transfer, *, loads: bool) -> None:
    what, options = f".{transfer.direction.value}", transfer.options
    kind = kind_of(options)
    if transfer.direction is not core.Direction.INPUT:
        need_file(catalog, "to", transfer.span, what)
    elif (loads and kind != "command") or kind not in PLAIN or options.keys() - {"IO"}:
        need_file(catalog, "from", transfer.span, what)


def check_updates(catalog: Catalog, program: core.Program) -> None:
    """PrivilegeError unless the role may insert and delete what the updates of a text say."""
    if not catalog.is_limited:
        return
    for update in program.updates:
        entry = catalog.find(update.relation)
        if entry is not None:
            need_schema(catalog, entry.name, "U")
            need(catalog, key_of(entry.name), "a" if update.diff > 0 else "d", update.span)
            refuse_secured(catalog, entry)


def check_read(catalog: Catalog, program: core.Program, relation: str, *, wholly: bool = False) -> None:
    """PrivilegeError unless the role may read a relation of a program.

    Of a relation that is no table or view, such as that of a goal, what it is made of. ``wholly``: with all
    that it is derived from.
    """
    if not catalog.is_limited:
        return
    found, waiting = set[str](), [relation]
    reads: dict[str, set[str]] = {}
    for edge in dependencies(program.rules):
        reads.setdefault(edge.head, set()).add(edge.body)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        there = name in catalog
        if there:
            check_relation(catalog, name)
        if wholly or not there:
            waiting += reads.get(name, ())


def check_owner(catalog: Catalog, relations: Iterable[str]) -> None:
    """PrivilegeError unless the role owns relations of a program."""
    for name in relations:
        if name in catalog:
            need_owner(catalog, key_of(name))


def external(program: core.Program) -> list[str]:
    """The relations that a program does not declare."""
    return [one.name for one in program.relations.values() if one.kind is core.Kind.EXTERNAL]


def shows_text(catalog: Catalog, program: core.Program) -> bool:
    """Whether the role may see the text of a program that is installed."""
    if not catalog.is_limited:
        return True
    own = (one.name for one in program.relations.values() if one.kind is not core.Kind.EXTERNAL)
    return all(catalog.rights.owns(catalog.asker.user, key_of(name)) for name in own if name in catalog)


def without_texts(error: DatalogError, text: str) -> DatalogError:
    """The error without places of any other text than this one."""

    def kept(span: Span | None) -> Span | None:
        return span if span is not None and span.source == text else None

    return DatalogError(
        tuple(
            replace(one, span=kept(one.span), notes=tuple((note, kept(span)) for note, span in one.notes))
            for one in error.diagnostics
        )
    )


@contextmanager
def owning(engine: Engine, owner: str | None = None) -> Iterator[None]:
    """Relations that the block makes belong to ``owner``, or to the role that asks; privileges of those that
    it drops are gone.
    """
    rights = engine.catalog.rights
    if not engine.catalog.is_limited and not (rights.owners or rights.lists or rights.defaults):
        yield
        return
    before = frozenset(things(engine.catalog))
    yield
    settle(engine, before, owner, altered=None)


def owner_of(catalog: Catalog, relations: Iterable[str]) -> str | None:
    """The role that owns a program with these relations; None if it has none."""
    return next((catalog.rights.owner(key_of(name)) for name in relations if name in catalog), None)
