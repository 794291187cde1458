"""Dependencies on functions and types: refuses to drop what a definition uses, or drops it too with CASCADE.

A view's plan lists the functions that it calls. Other definitions are text with qualified function names
(:mod:`kpg.compiler.sql.rewrite.name_qualification`).
"""

from collections.abc import Callable, Iterator

from kpg.compiler.catalog.constraints import Domain
from kpg.compiler.catalog.entries import PUBLIC, ROUTINES, TableEntry, ViewEntry
from kpg.compiler.catalog.privileges import Policy
from kpg.compiler.catalog.routines import Routine
from kpg.compiler.qualified_names import sibling_name
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.parse import statements
from kpg.compiler.sql.rewrite.column_expressions import check_rules
from kpg.compiler.sql.rewrite.name_qualification import calls_function, uses_type
from kpg.runtime.errors import Error, NotSupportedError, Span
from kpg.runtime.records import dataclass
from kpg.session.engine import Engine

Mentions = Callable[[str], bool]
Removal = ast.Alter | ast.AlterDomain | ast.DropOther | statements.Drop | ast.DropAggregate | Policy
"""The statement that drops a definition, or the policy to remove."""


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
    callers = find_mentions(engine, lambda text: uses_type(text, name), span)
    views = (one for one in engine.catalog if isinstance(one, ViewEntry) and uses_type(one.text, name))
    found = (*(one.description for one in callers), *(f"view {one.name}" for one in views))
    if found:
        message = f"dropping type {name} is not supported while {found[0]} names it"
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
    yield from find_mentions(engine, mentions, span, unaffected)


def find_mentions(
    engine: Engine, mentions: Mentions, span: Span, excluded: frozenset[str] = frozenset()
) -> Iterator[Caller]:
    """Yield the definitions whose text satisfies ``mentions``, except those of ``excluded`` tables."""
    catalog = engine.catalog
    for entry in catalog:
        if isinstance(entry, TableEntry) and entry.name not in excluded:
            yield from _table_callers(engine, entry, mentions, span)
    yield from _object_callers(engine, mentions, span)
    for name, type_ in catalog.types.items():
        if isinstance(type_, Domain):
            yield from _domain_callers(engine, name, type_, mentions, span)


def _object_callers(engine: Engine, mentions: Mentions, span: Span) -> Iterator[Caller]:
    """Yield the policies, unique indexes, partitioned tables and aggregates that satisfy ``mentions``."""
    catalog = engine.catalog
    for policy in catalog.policies.values():
        if mentions(policy.using) or mentions(policy.check):
            yield Caller(f'policy "{policy.name}" of {policy.table}', policy)
    for index in catalog.unique_indexes.values():
        if any(map(mentions, (*index.elements, index.where))):
            names = (sibling_name(index.table, index.name),)
            removal = ast.DropOther("INDEX", names, True, True, span)
            yield Caller(f'unique index "{index.name}" of {index.table}', removal)
    for one in catalog.partitioned.values():
        if any(map(mentions, one.keys)):
            drop = statements.Drop("TABLE", (one.table,), True, True, span)
            yield Caller(f'partitioned table "{one.table}"', drop)
    for name, aggregates in catalog.aggregates.items():
        functions = (each for one in aggregates for each in (one.step, one.final) if each)
        if any(mentions(f"{each if '.' in each else f'{PUBLIC}.{each}'}()") for each in functions):
            overloads = tuple((name, one.types) for one in aggregates)
            yield Caller(f'aggregate "{name}"', ast.DropAggregate(overloads, True, True, span))


def _resolves_without(engine: Engine, entry: TableEntry, routine: Routine) -> bool:
    """Whether the rules of a table still bind without one overload of a function."""
    catalog = engine.catalog.copy()
    others = tuple(overload for overload in catalog.routines[routine.name] if overload is not routine)
    catalog.apply(ROUTINES.put(routine.name, others))
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
