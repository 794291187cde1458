"""CREATE and DROP AGGREGATE: an aggregate, and the function that computes it of arrays."""

import re
from dataclasses import replace
from itertools import count
from typing import Final, assert_never

from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.catalog.routines import Aggregate, ArrayFold
from kpg.compiler.sql.bind.user_aggregates import PREFIX, called, fold_of, is_polymorphic, is_strict, shown
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.parse import statements
from kpg.compiler.sql.parse.parser import parse_query
from kpg.compiler.system.user_objects import type_name
from kpg.ddl.routines import known_type, signature
from kpg.engine.engine import Engine
from kpg.listeners.notices import say_skipped
from kpg.queries.planning import plan
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.types import INTEGER, Type

TYPES_APART: Final = re.compile(r", (?![^(]*\))")
"""Commas between types, but none within parentheses."""


def define_aggregate(engine: Engine, statement: ast.CreateAggregate | ast.DropAggregate) -> None:
    """Run one statement."""
    match statement:
        case ast.CreateAggregate():
            _create(engine, statement)
        case ast.DropAggregate():
            for name, types in statement.names:
                _drop(engine, statement, name, types)
        case _:
            assert_never(statement)


def _create(engine: Engine, statement: ast.CreateAggregate) -> None:
    catalog, span = engine.catalog, statement.span
    name = catalog.created(statement.name, span=span).rpartition(".")[2].lower()
    types = tuple(known_type(catalog, type_, span) for type_ in statement.types)
    state = known_type(catalog, statement.state, span)
    if state.name == "internal":
        raise NotSupportedError("an aggregate with an internal state is not supported", span=span)
    known = list(catalog.aggregates.get(name, ()))
    old = next((one for one in known if one.types == types), None)
    if old is not None:
        if not statement.or_replace:
            message = f'function "{name}" already exists with same argument types'
            raise ProgrammingError(message, span=span)
        _refuse_used(engine, old, "replaced", statement)
        known.remove(old)
    fold = old.fold if old is not None else _free_name(catalog, name)
    one = Aggregate(name, types, statement.step, state, statement.init, statement.final, fold)
    _check_state(catalog, one, span)
    if is_polymorphic(state) or any(map(is_polymorphic, types)):
        one = replace(one, result=_result(engine, one))
    else:
        try:
            one = replace(one, result=fold_of(catalog, one, types or (INTEGER,)).result)
        except ProgrammingError as error:
            raise ProgrammingError(error.message, span=span, hint=error.hint) from None
    catalog.others["aggregate", name, ""] = (*known, one)


def _free_name(catalog: Catalog, name: str) -> str:
    """A name for the fold of a new aggregate."""
    taken = {one.fold for group in catalog.aggregates.values() for one in group}
    return next(made for number in count() if (made := f"{PREFIX}{name}_{number}") not in taken)


def _check_state(catalog: Catalog, one: Aggregate, span: Span) -> None:
    """ProgrammingError if the first element cannot be the state that a strict step needs."""
    fits = not one.types or one.types[0] == one.state or is_polymorphic(one.types[0])
    if one.init is None and not fits and is_strict(catalog, one):
        raise ProgrammingError(
            "must not omit initial value when transition function is strict and transition type is not "
            "compatible with input type",
            span=span,
        )


def _result(engine: Engine, one: Aggregate) -> Type:
    """The type of what a polymorphic aggregate gives."""
    if not one.final:
        return one.state
    plain = one.final.lower().removeprefix("pg_catalog.")
    schema, _, name = plain.rpartition(".")
    routines = [each for each in engine.catalog.find_routines(name, schema) if len(each.parameters) == 1]
    exact = [each for each in routines if each.parameters[0].type == one.state]
    if routines:
        return (exact or routines)[0].result
    text = f"SELECT {called(one.final, (f'CAST(NULL AS {shown(one.state)})',))}"
    return plan(parse_query(text), engine.catalog, engine.statistics).schema.types[0]


def _drop(engine: Engine, statement: ast.DropAggregate, name: str, types: tuple[Type, ...]) -> None:
    catalog = engine.catalog
    plain = name.rpartition(".")[2].lower()
    wanted = tuple(known_type(catalog, type_, statement.span) for type_ in types)
    known = catalog.aggregates.get(plain, ())
    old = next((one for one in known if one.types == wanted), None)
    if old is None:
        if any(one.same_arguments(list(wanted)) for one in catalog.find_routines(plain)):
            shown = ", ".join(type_name(catalog, type_) for type_ in wanted)
            error = ProgrammingError(f"function {name}({shown}) is not an aggregate", span=statement.span)
            error.sqlstate = "42809"
            raise error
        if statement.if_exists:
            say_skipped(engine, f"aggregate {signature(catalog, name, wanted)} does not exist")
            return
        shown = ", ".join(str(type_) for type_ in wanted) or "*"
        raise ProgrammingError(f"aggregate {name}({shown}) does not exist", span=statement.span)
    if statement.cascade:
        from kpg.ddl.dropping import drop_relations

        for user in reversed(engine.dependents(f"function {old.fold}")):
            if user in catalog:
                drop_relations(engine, statements.Drop("VIEW", (user,), True, True, statement.span))
    _refuse_used(engine, old, "dropped", statement)
    rest = tuple(one for one in known if one is not old)
    if rest:
        catalog.others["aggregate", plain, ""] = rest
    else:
        del catalog.others["aggregate", plain, ""]


def _refuse_used(
    engine: Engine, one: Aggregate, what: str, statement: ast.CreateAggregate | ast.DropAggregate
) -> None:
    users = engine.users(f"function {one.fold}")
    if users:
        message = f'aggregate {one.name} cannot be {what}: view "{users[0]}" uses it'
        raise ProgrammingError(message, span=statement.span, hint="drop the view first")


def labelled_fold(engine: Engine, label: str) -> ArrayFold | None:
    """The fold that plans name so; None if there is none."""
    name, _, rest = label.partition("(")
    plain = name.rpartition(".")[2]
    known = (one for group in engine.catalog.aggregates.values() for one in group)
    one = next((each for each in known if each.fold == plain), None)
    if one is None:
        return None
    query = ", ".join(f"CAST(NULL AS {part})" for part in TYPES_APART.split(rest.removesuffix(")")))
    types = plan(parse_query(f"SELECT {query}"), engine.catalog, engine.statistics).schema.types
    return fold_of(engine.catalog, one, tuple(type_.parts[0] for type_ in types))
