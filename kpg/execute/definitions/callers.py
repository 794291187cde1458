"""Dependencies on functions and types: refuses to drop what a definition uses, or drops it too with CASCADE.

A view's plan lists the functions that it calls. Other definitions are text with qualified function names
(:mod:`kpg.compiler.sql.rewrite.name_qualification`).
"""

from collections.abc import Callable, Iterator

from kpg.compiler.catalog.access_control import Policy
from kpg.compiler.catalog.constraints import Domain, Partitioned, UniqueIndex
from kpg.compiler.catalog.entries import PUBLIC, TableEntry, ViewEntry
from kpg.compiler.catalog.routines import Aggregate, Routine
from kpg.compiler.qualified_names import sibling_name
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.parse import statements
from kpg.compiler.sql.rewrite.column_expressions import check_rules
from kpg.compiler.sql.rewrite.name_qualification import calls_function, uses_type
from kpg.runtime.errors import Error, NotSupportedError, Span
from kpg.runtime.records import dataclass
from kpg.session.engine import Engine

Mentions = Callable[[str], bool]
Removal = ast.Alter | ast.AlterDomain | ast.DropOther | statements.Drop | ast.DropAggregate | tuple[str, ...]
"""A statement, or the key in the catalog's ``others`` of an object without a DROP statement."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A definition that calls a function: its description for errors, and the statement that removes it."""

    description: str
    removal: Removal


def refuse_callers(engine: Engine, routine: Routine, action: str, span: Span) -> None:
    """Raise NotSupportedError if a definition other than a view calls a function that is renamed."""
    caller = next(find_callers(engine, routine, span), None)
    if caller is not None:
        message = f"{action} function {routine.name} is not supported while {caller.description} calls it"
        raise NotSupportedError(message, span=span, hint="drop that first, and make it again afterwards")


def refuse_named_type(engine: Engine, name: str, span: Span) -> None:
    """Raise NotSupportedError if a definition names a type that is dropped."""
    found = next(_find_mentions(engine, lambda text: uses_type(text, name), span), None)
    if found is None:
        views = (one for one in engine.catalog if isinstance(one, ViewEntry) and uses_type(one.text, name))
        found = next((Caller(f"view {one.name}", ()) for one in views), None)
    if found is not None:
        message = f"dropping type {name} is not supported while {found.description} names it"
        raise NotSupportedError(message, span=span, hint="drop that first, and make it again afterwards")


def find_callers(engine: Engine, routine: Routine, span: Span) -> Iterator[Caller]:
    """Yield all definitions except views that call a function."""

    def mentions(text: str) -> bool:
        return calls_function(text, routine.name)

    is_only_overload = len(engine.catalog.routines.get(routine.name, ())) == 1
    unaffected = frozenset[str]()
    if not is_only_overload:
        tables = (table for table in engine.catalog if isinstance(table, TableEntry))
        unaffected = frozenset(table.name for table in tables if _resolves_without(engine, table, routine))
    yield from _find_mentions(engine, mentions, span, unaffected)


def _find_mentions(
    engine: Engine, mentions: Mentions, span: Span, excluded: frozenset[str] = frozenset()
) -> Iterator[Caller]:
    """Yield the definitions whose text satisfies ``mentions``, except those of ``excluded`` tables."""
    catalog = engine.catalog
    for entry in list(catalog):
        if isinstance(entry, TableEntry) and entry.name not in excluded:
            yield from _table_callers(engine, entry, mentions, span)
    for key, one in list(catalog.others.items()):
        if any(map(mentions, _definition_texts(one))):
            yield Caller(f'{key[0]} "{key[2] or key[1]}" of {key[1]}', _removal_of(key, one, span))
    for name, type_ in list(catalog.types.items()):
        if isinstance(type_, Domain):
            yield from _domain_callers(engine, name, type_, mentions, span)


def _resolves_without(engine: Engine, entry: TableEntry, routine: Routine) -> bool:
    """Whether the rules of a table still bind without one overload of a function."""
    catalog = engine.catalog.copy()
    others = tuple(overload for overload in catalog.routines[routine.name] if overload is not routine)
    catalog.routines[routine.name] = others
    try:
        check_rules(entry, catalog)
    except Error:
        return False
    return True


def _table_callers(engine: Engine, entry: TableEntry, mentions: Mentions, span: Span) -> Iterator[Caller]:
    def alter_table(action: ast.Action) -> ast.Alter:
        return ast.Alter("TABLE", entry.name, False, (action,), span)

    for column, rule in zip(entry.schema.names, entry.constraints.rules, strict=False):
        if mentions(rule.generated):
            yield Caller(
                f"column {column} of table {entry.name}", alter_table(ast.DropColumn(column, True, True))
            )
        elif mentions(rule.default):
            what = f"the DEFAULT of column {column} of table {entry.name}"
            yield Caller(what, alter_table(ast.SetRule(column, "default", "")))
    for check in entry.constraints.checks:
        if mentions(check.text):
            what = f"constraint {check.name} of table {entry.name}"
            yield Caller(what, alter_table(ast.DropConstraint(check.name, True, True)))


def _domain_callers(
    engine: Engine, name: str, domain: Domain, mentions: Mentions, span: Span
) -> Iterator[Caller]:
    def alter_domain(action: ast.Action) -> ast.AlterDomain:
        return ast.AlterDomain(name, action, span)

    if mentions(domain.default):
        yield Caller(f"the DEFAULT of domain {name}", alter_domain(ast.SetRule("", "default", "")))
    for check in domain.checks:
        if mentions(check.text):
            what = f"constraint {check.name} of domain {name}"
            yield Caller(what, alter_domain(ast.DropConstraint(check.name, True, True)))


def _definition_texts(definition: object) -> tuple[str, ...]:
    """Return the texts of a policy, index, partitioning or aggregate that may call functions."""
    match definition:
        case Policy():
            return (definition.using, definition.check)
        case UniqueIndex():
            return (*definition.elements, definition.where)
        case Partitioned():
            return definition.keys
        case tuple():
            folds = (each for each in definition if isinstance(each, Aggregate))
            names = (name for each in folds for name in (each.step, each.final) if name)
            return tuple(f"{name if '.' in name else f'{PUBLIC}.{name}'}()" for name in names)
        case _:
            return ()


def _removal_of(key: tuple[str, ...], definition: object, span: Span) -> Removal:
    """Return the removal of an object that the catalog keeps by kind, relation and name."""
    match definition:
        case UniqueIndex():
            name = sibling_name(definition.table, definition.name)
            return ast.DropOther("INDEX", (name,), True, True, span)
        case Partitioned():
            return statements.Drop("TABLE", (definition.table,), True, True, span)
        case tuple():
            names = tuple((key[1], each.types) for each in definition)
            return ast.DropAggregate(names, True, True, span)
        case _:
            return key
