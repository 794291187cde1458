"""CREATE and DROP AGGREGATE: an aggregate, and the function that computes it of arrays."""

from typing import assert_never

from kpg.compiler.routines import Aggregate, Parameter
from kpg.compiler.sql import definitions as ast
from kpg.compiler.sql import statements
from kpg.compiler.sql.folds import LENIENT, PREFIX, body_of, called, is_polymorphic
from kpg.compiler.system.users import type_name
from kpg.ddl.routines import known_type, run_routine, signature
from kpg.engine.engine import Engine
from kpg.listeners.notices import say_skipped
from kpg.runtime.errors import NotSupportedError, ProgrammingError
from kpg.runtime.types import TEXT, Kind, Type, array


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
    fold = old.fold if old is not None else f"{PREFIX}{name}_{len(known)}"
    one = Aggregate(name, types, statement.step, state, statement.init, statement.final, fold)
    strict = _check_step(engine, one, statement)
    _make_fold(engine, one, statement, strict=strict)
    catalog.others["aggregate", name, ""] = (*known, one)


def _check_step(engine: Engine, one: Aggregate, statement: ast.CreateAggregate) -> bool:
    """Whether the function for a step takes no NULLs; ProgrammingError if there is none."""
    plain = one.step.lower().removeprefix("pg_catalog.")
    schema, _, name = plain.rpartition(".")
    routines = [
        each
        for each in engine.catalog.find_routines(name, schema)
        if len(each.parameters) == 1 + len(one.types) or any(part.variadic for part in each.parameters)
    ]
    strict = routines[0].strict if routines else plain not in LENIENT
    fits = not one.types or one.types[0] == one.state or is_polymorphic(one.types[0])
    if strict and one.init is None and not fits:
        raise ProgrammingError(
            "must not omit initial value when transition function is strict and transition type is not "
            "compatible with input type",
            span=statement.span,
        )
    return strict


def _make_fold(engine: Engine, one: Aggregate, statement: ast.CreateAggregate, *, strict: bool) -> None:
    """The function of the arrays of what is aggregated."""
    gathered = one.types or (Type(Kind.INTEGER),)
    parameters = tuple(Parameter(f"x{place}", _gathered(type_)) for place, type_ in enumerate(gathered))
    made = ast.CreateFunction(
        one.fold,
        parameters,
        _result(engine, one),
        (),
        False,
        body_of(one, strict=strict),
        False,
        True,
        statement.span,
        "plpgsql",
    )
    run_routine(engine, made)


def _gathered(type_: Type) -> Type:
    """The type of the array of what is of a type; arrays are gathered as texts."""
    if is_polymorphic(type_):
        return Type(Kind.ENUM, name="anyarray")
    return array(TEXT) if type_.kind is Kind.ARRAY else array(type_)


def _result(engine: Engine, one: Aggregate) -> Type:
    """The type of what an aggregate gives."""
    if not one.final:
        return one.state
    plain = one.final.lower().removeprefix("pg_catalog.")
    schema, _, name = plain.rpartition(".")
    routines = [each for each in engine.catalog.find_routines(name, schema) if len(each.parameters) == 1]
    exact = [each for each in routines if each.parameters[0].type == one.state]
    if routines:
        return (exact or routines)[0].result
    from kpg.compiler.sql.folds import shown
    from kpg.compiler.sql.parse import parse_query
    from kpg.queries.planning import plan

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
    catalog.routines.pop(old.fold, None)


def _refuse_used(
    engine: Engine, one: Aggregate, what: str, statement: ast.CreateAggregate | ast.DropAggregate
) -> None:
    users = engine.users(f"function {one.fold}")
    if users:
        message = f'aggregate {one.name} cannot be {what}: view "{users[0]}" uses it'
        raise ProgrammingError(message, span=statement.span, hint="drop the view first")
