"""Dependencies on functions and types: refuses to drop what a definition uses, or drops it too with CASCADE.

A view's plan lists the functions that it calls. Other definitions are text with qualified function names
(:mod:`kpg.compiler.sql.rewrite.name_qualification`).
"""

from collections.abc import Callable, Iterator

from kpg.compiler.catalog.access_control import Policy
from kpg.compiler.catalog.constraints import Domain, Partitioned, UniqueIndex
from kpg.compiler.catalog.entries import PUBLIC, TableEntry, ViewEntry
from kpg.compiler.catalog.routines import Aggregate, Routine
from kpg.compiler.qualified_names import beside
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.parse import statements
from kpg.compiler.sql.rewrite.column_expressions import check_rules
from kpg.compiler.sql.rewrite.name_qualification import calls, casts
from kpg.runtime.errors import Error, NotSupportedError, Span
from kpg.runtime.records import dataclass
from kpg.session.engine import Engine

Calls = Callable[[str], bool]
Removal = ast.Alter | ast.AlterDomain | ast.DropOther | statements.Drop | ast.DropAggregate | tuple[str, ...]
"""A statement, or the key among the catalog's ``others`` of what no statement drops."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A definition that calls a function: how errors name it, and the statement that takes it away."""

    what: str
    removal: Removal


def refuse_callers(engine: Engine, routine: Routine, what: str, span: Span) -> None:
    """NotSupportedError if something but views calls a function that is to have another name."""
    caller = next(callers(engine, routine, span), None)
    if caller is not None:
        message = f"{what} function {routine.name} is not supported while {caller.what} calls it"
        raise NotSupportedError(message, span=span, hint="drop that first, and make it again afterwards")


def refuse_named_type(engine: Engine, name: str, span: Span) -> None:
    """NotSupportedError if a definition names a type that is to go."""
    found = next(_naming(engine, lambda text: casts(text, name), span), None)
    if found is None:
        views = (one for one in engine.catalog if isinstance(one, ViewEntry) and casts(one.text, name))
        found = next((Caller(f"view {one.name}", ()) for one in views), None)
    if found is not None:
        message = f"dropping type {name} is not supported while {found.what} names it"
        raise NotSupportedError(message, span=span, hint="drop that first, and make it again afterwards")


def callers(engine: Engine, routine: Routine, span: Span) -> Iterator[Caller]:
    """All definitions but views that call a function."""

    def called(text: str) -> bool:
        return calls(text, routine.name)

    alone = len(engine.catalog.routines.get(routine.name, ())) == 1
    free = frozenset[str]()
    if not alone:
        tables = (one for one in engine.catalog if isinstance(one, TableEntry))
        free = frozenset(one.name for one in tables if _can_do_without(engine, one, routine))
    yield from _naming(engine, called, span, free)


def _naming(engine: Engine, names: Calls, span: Span, free: frozenset[str] = frozenset()) -> Iterator[Caller]:
    """The definitions with a text that names something; those of the ``free`` tables are left out."""
    catalog = engine.catalog
    for entry in list(catalog):
        if isinstance(entry, TableEntry) and entry.name not in free:
            yield from _of_table(engine, entry, names, span)
    for key, one in list(catalog.others.items()):
        if any(map(names, _texts(one))):
            yield Caller(f'{key[0]} "{key[2] or key[1]}" of {key[1]}', _without(key, one, span))
    for name, type_ in list(catalog.types.items()):
        if isinstance(type_, Domain):
            yield from _of_domain(engine, name, type_, names, span)


def _can_do_without(engine: Engine, entry: TableEntry, routine: Routine) -> bool:
    """Whether the rules of a table mean something by the other functions of that name."""
    catalog = engine.catalog.copy()
    others = tuple(one for one in catalog.routines[routine.name] if one is not routine)
    catalog.routines[routine.name] = others
    try:
        check_rules(entry, catalog)
    except Error:
        return False
    return True


def _of_table(engine: Engine, entry: TableEntry, names: Calls, span: Span) -> Iterator[Caller]:
    def altered(action: ast.Action) -> ast.Alter:
        return ast.Alter("TABLE", entry.name, False, (action,), span)

    for column, rule in zip(entry.schema.names, entry.constraints.rules, strict=False):
        if names(rule.generated):
            yield Caller(
                f"column {column} of table {entry.name}", altered(ast.DropColumn(column, True, True))
            )
        elif names(rule.default):
            what = f"the DEFAULT of column {column} of table {entry.name}"
            yield Caller(what, altered(ast.SetRule(column, "default", "")))
    for check in entry.constraints.checks:
        if names(check.text):
            what = f"constraint {check.name} of table {entry.name}"
            yield Caller(what, altered(ast.DropConstraint(check.name, True, True)))


def _of_domain(engine: Engine, name: str, domain: Domain, names: Calls, span: Span) -> Iterator[Caller]:
    def altered(action: ast.Action) -> ast.AlterDomain:
        return ast.AlterDomain(name, action, span)

    if names(domain.default):
        yield Caller(f"the DEFAULT of domain {name}", altered(ast.SetRule("", "default", "")))
    for check in domain.checks:
        if names(check.text):
            what = f"constraint {check.name} of domain {name}"
            yield Caller(what, altered(ast.DropConstraint(check.name, True, True)))


def _texts(one: object) -> tuple[str, ...]:
    """The texts of a policy or the like that may call functions."""
    match one:
        case Policy():
            return (one.using, one.check)
        case UniqueIndex():
            return (*one.elements, one.where)
        case Partitioned():
            return one.keys
        case tuple():
            folds = (each for each in one if isinstance(each, Aggregate))
            names = (name for each in folds for name in (each.step, each.final) if name)
            return tuple(f"{name if '.' in name else f'{PUBLIC}.{name}'}()" for name in names)
        case _:
            return ()


def _without(key: tuple[str, ...], one: object, span: Span) -> Removal:
    """What takes away a definition that is kept by its kind, relation and name."""
    match one:
        case UniqueIndex():
            name = beside(one.table, one.name)
            return ast.DropOther("INDEX", (name,), True, True, span)
        case Partitioned():
            return statements.Drop("TABLE", (one.table,), True, True, span)
        case tuple():
            names = tuple((key[1], each.types) for each in one)
            return ast.DropAggregate(names, True, True, span)
        case _:
            return key
