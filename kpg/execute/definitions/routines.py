"""SQL functions and aggregates: CREATE, ALTER and DROP.

An aggregate is implemented by a function over the array of its inputs.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Final, assert_never

from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.catalog.routines import POLYMORPHIC, Aggregate, ArrayFold, Routine
from kpg.compiler.qualified_names import beside
from kpg.compiler.sql.bind.query import new_binding
from kpg.compiler.sql.bind.routines import check_body
from kpg.compiler.sql.bind.user_aggregates import PREFIX, called, fold_of, is_polymorphic, is_strict, shown
from kpg.compiler.sql.bind.volatile_calls import has_calls, is_chance
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.parse import statements
from kpg.compiler.sql.parse.parser import parse_query
from kpg.compiler.sql.parse.reader import body_of
from kpg.compiler.sql.parse.routines import CURRENT
from kpg.compiler.sql.parse.statements import Drop
from kpg.compiler.sql.rewrite.deparse import FUNCTION
from kpg.compiler.sql.rewrite.name_qualification import names_called, whole_body
from kpg.compiler.system.oids import type_facts
from kpg.compiler.system.user_objects import type_name
from kpg.execute.definitions.alter_table import alter
from kpg.execute.definitions.callers import Removal, callers, refuse_callers
from kpg.execute.definitions.domains import alter_domain
from kpg.execute.definitions.drop import described, drop_relations, drop_users
from kpg.execute.definitions.indexes import drop_index
from kpg.execute.definitions.rename import follow
from kpg.execute.definitions.views import views_calling
from kpg.execute.queries.query_plan import plan
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.types import INTEGER, Kind, Type, record
from kpg.session.engine import Engine
from kpg.session.notices import say_cascade, say_skipped

AS_THEY_ARE = frozenset((*POLYMORPHIC, "void", "record"))
KEYWORD_TYPES: Final = (
    *("bit", "bool", "bpchar", "float4", "float8", "int2", "int4", "int8", "interval", "numeric"),
    *("time", "timestamp", "timestamptz", "timetz", "varbit", "varchar"),
)
"""Types of whose keywords Postgres' grammar makes names in pg_catalog."""


def run_routine(engine: Engine, statement: ast.CreateFunction | ast.DropFunction | ast.AlterFunction) -> None:
    """Run one statement."""
    match statement:
        case ast.CreateFunction():
            _create_routine(engine, statement)
        case ast.DropFunction():
            for name, types in statement.names:
                _drop_routine(engine, statement, name, types)
        case ast.AlterFunction():
            _alter(engine, statement)
        case _:
            assert_never(statement)


def _create_routine(engine: Engine, statement: ast.CreateFunction) -> None:
    catalog = engine.catalog
    name = catalog.created(statement.name, span=statement.span).lower()
    routine = _routine(engine, statement, name)
    known = list(catalog.routines.get(name, ()))
    types = [one.type for one in routine.parameters]
    old = next((one for one in known if one.same_arguments(types)), None)
    if old is not None:
        if not statement.or_replace:
            raise ProgrammingError(
                f"function {name} with these arguments already exists", span=statement.span
            )
        if old.result != routine.result or old.columns != routine.columns or old.rows != routine.rows:
            message = f"function {name} cannot be replaced by one that gives something else"
            raise ProgrammingError(message, span=statement.span, hint="drop it first")
        known[known.index(old)] = routine
        if engine.views.users(old.key):
            engine.views.plan_again(views_calling(engine, old, tuple(known), statement.span))
    else:
        known.append(routine)
    catalog.routines[name] = tuple(known)


def _routine(engine: Engine, statement: ast.CreateFunction, name: str) -> Routine:
    catalog, span = engine.catalog, statement.span
    parameters = tuple(replace(one, type=known_type(catalog, one.type, span)) for one in statement.parameters)
    result, columns = known_type(catalog, statement.result, span), statement.columns
    whole = statement.result.kind is Kind.ENUM and result.kind is Kind.RECORD
    if whole and not columns:
        columns = result.labels
    outs = tuple((one, known_type(catalog, type_, span)) for one, type_ in statement.outs)
    made = Routine(
        name,
        parameters,
        result,
        columns,
        statement.rows,
        whole_body(statement.body, catalog) if statement.parsed else statement.body,
        statement.strict,
        outs,
        definer=statement.definer,
        declared=_declared(statement.declared, catalog),
    )
    _check_volatility(made, span)
    if any(_is_polymorphic(one.type) for one in parameters):
        return made
    return _checked(catalog, made, span)


def _declared(said: tuple[tuple[str, str], ...], catalog: Catalog) -> tuple[tuple[str, str], ...]:
    """What a function is said to be, where the search path of now is one that has names."""
    path = catalog.settings.get("search_path", '"$user", public')
    return tuple((name, path if value == CURRENT else value) for name, value in said)


def _check_volatility(made: Routine, span: Span) -> None:
    """NotSupportedError for a body that has another value at each call, or that calls itself."""
    tree = body_of(made.body)
    if has_calls(tree) or any(map(is_chance, tree.walk())):
        raise NotSupportedError(
            f"function {made.name}, which is volatile, is not supported",
            span=span,
            hint="Call random() and nextval() in the statement itself.",
        )
    if made.name.rpartition(".")[2] in names_called(tree):
        message = f"function {made.name}, which calls itself, is not supported"
        raise NotSupportedError(message, span=span, hint="Write WITH RECURSIVE.")


def _checked(catalog: Catalog, made: Routine, span: Span) -> Routine:
    """The function, whose body has been bound; one that gives records gives those of its body."""
    binding = new_binding(span.source, catalog)
    try:
        names, types = check_body(binding, made)
    except ProgrammingError as error:
        raise ProgrammingError(error.message, span=error.span or span, hint=error.hint) from None
    if made.result.name == "record":
        result = record(list(types), list(names)) if len(types) > 1 else types[0]
        return replace(made, result=result, columns=names)
    width = len(made.result.parts) if made.columns and made.result.kind is Kind.RECORD else 1
    single = len(types) == 1 or made.result.name == "void"
    if len(types) != width and not single and made.result.kind is not Kind.RECORD:
        message = f"function {made.name} gives {len(types)} columns, {width} are declared"
        raise ProgrammingError(message, span=span)
    return made


def _is_polymorphic(type_: Type) -> bool:
    return type_.name in POLYMORPHIC or any(map(_is_polymorphic, type_.parts))


def known_type(catalog: Catalog, type_: Type, span: Span) -> Type:
    """A type with what its name stands for: a user's type, or the rows of a relation."""
    if type_.name.endswith("%type"):
        relation, _, field = type_.name.removesuffix("%type").strip().lower().rpartition(".")
        schema = catalog.get(relation, span).schema
        known = [one.lower() for one in schema.names]
        if field not in known:
            raise ProgrammingError(f'column "{field}" of "{relation}" does not exist', span=span)
        return schema.types[known.index(field)]
    if type_.parts:
        return replace(type_, parts=tuple(known_type(catalog, part, span) for part in type_.parts))
    if type_.kind is not Kind.ENUM or type_.labels or type_.name.lower() in AS_THEY_ARE:
        return replace(type_, name=type_.name.lower()) if type_.name.lower() in AS_THEY_ARE else type_
    entry = catalog.find(type_.name) if catalog.find_type(type_.name) is None else None
    if entry is not None:
        return record(list(entry.schema.types), list(entry.schema.names))
    return catalog.known_type(type_, span)


def _found(engine: Engine, name: str, types: Sequence[Type] | None, span: Span) -> Routine | None:
    """The function of a name, and of these types if they are told; None if there is none."""
    schema, _, rest = name.lower().rpartition(".")
    known = engine.catalog.find_routines(rest, schema)
    if types is not None:
        wanted = [known_type(engine.catalog, one, span) for one in types]
        return next((one for one in known if one.same_arguments(wanted)), None)
    if len(known) > 1:
        message = f"there are several functions {name}"
        raise ProgrammingError(message, span=span, hint="name the types of the arguments")
    return known[0] if known else None


def _drop_routine(
    engine: Engine, statement: ast.DropFunction, name: str, types: Sequence[Type] | None
) -> None:
    try:
        routine = _found(engine, name, types, statement.span)
    except ProgrammingError as error:
        if statement.if_exists and error.sqlstate == "42704":
            say_skipped(engine, error.message)
            return
        raise
    if routine is None and statement.if_exists:
        say_skipped(engine, f"{statement.kind} {signature(engine.catalog, name, types or ())} does not exist")
        return
    if routine is None:
        raise ProgrammingError(f'{statement.kind} "{name}" does not exist', span=statement.span)
    drop_routine(engine, routine, statement.span, cascade=statement.cascade)


def signature(catalog: Catalog, name: str, types: Sequence[Type]) -> str:
    """A function's name with its arguments, as notices of Postgres name one that does not exist."""
    return f"{name.lower()}({','.join(_parsed_name(catalog, type_) for type_ in types)})"


def _parsed_name(catalog: Catalog, type_: Type) -> str:
    """The name that Postgres' grammar makes of a type's keyword; that of any other type."""
    if type_.kind is Kind.ARRAY:
        return f"{_parsed_name(catalog, type_.parts[0])}[]"
    short = type_facts(type_)[1]
    return f"pg_catalog.{short}" if short in KEYWORD_TYPES else type_name(catalog, type_)


def drop_routine(engine: Engine, routine: Routine, span: Span, *, cascade: bool) -> None:
    """Take a function away, and with ``cascade`` what calls it; ProgrammingError if something does."""
    if cascade:
        users = engine.views.dependents(routine.key)
        say_cascade(engine, [described(engine, user) for user in users])
        drop_users(engine, users)
    _refuse_used_routine(engine, routine, "dropped", span)
    _drop_callers(engine, routine, span, cascade=cascade)
    _remove(engine.catalog, routine)


def _alter(engine: Engine, statement: ast.AlterFunction) -> None:
    routine = _found(engine, statement.name, statement.types, statement.span)
    if routine is None:
        raise ProgrammingError(f'function "{statement.name}" does not exist', span=statement.span)
    declared = tuple(
        sorted((dict(routine.declared) | dict(_declared(statement.declared, engine.catalog))).items())
    )
    if statement.rename or statement.strict is not None or statement.definer is not None:
        _refuse_used_routine(engine, routine, "altered", statement.span)
    if statement.rename and len(engine.catalog.routines[routine.name]) > 1:
        # Texts name them without their arguments.
        refuse_callers(engine, routine, "renaming", statement.span)
    name = beside(routine.name, statement.rename.lower()) if statement.rename else routine.name
    types = [one.type for one in routine.parameters]
    if statement.rename and any(one.same_arguments(types) for one in engine.catalog.routines.get(name, ())):
        message = f"function {name} with these arguments already exists"
        raise ProgrammingError(message, span=statement.span)
    _remove(engine.catalog, routine)
    if routine.name not in engine.catalog.routines:
        engine.catalog.rights.rename(("FUNCTION", routine.name.lower()), ("FUNCTION", name.lower()))
    strict = routine.strict if statement.strict is None else statement.strict
    definer = routine.definer if statement.definer is None else statement.definer
    new = replace(routine, name=name, strict=strict, definer=definer, declared=declared)
    engine.catalog.routines[name] = (*engine.catalog.routines.get(name, ()), new)
    if statement.rename and routine.name not in engine.catalog.routines:
        follow(engine, {(FUNCTION, routine.name.lower()): name})


def _remove(catalog: Catalog, old: Routine) -> None:
    rest = tuple(one for one in catalog.routines[old.name] if one is not old)
    if rest:
        catalog.routines[old.name] = rest
    else:
        del catalog.routines[old.name]


def _refuse_used_routine(engine: Engine, routine: Routine, what: str, span: Span) -> None:
    users = engine.views.users(routine.key)
    if users:
        raise ProgrammingError(
            f'function {routine.name} cannot be {what}: view "{users[0]}" uses it',
            span=span,
            hint="drop the view first",
        )


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
            one = replace(one, result=fold_of(catalog, one, types or (INTEGER,), new_binding).result)
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
        for user in reversed(engine.views.dependents(f"function {old.fold}")):
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
    users = engine.views.users(f"function {one.fold}")
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
    return fold_of(engine.catalog, one, tuple(type_.parts[0] for type_ in types), new_binding)


def _drop_callers(engine: Engine, routine: Routine, span: Span, *, cascade: bool) -> None:
    """Have nothing but views call a function; ProgrammingError if something does, without ``cascade``."""
    for caller in list(callers(engine, routine, span)):
        if not cascade:
            raise ProgrammingError(
                f'function "{routine.name}" cannot be dropped: {caller.what} calls it',
                span=span,
                hint="drop that first, or use CASCADE",
            )
        say_cascade(engine, [caller.what])
        _drop_caller(engine, caller.removal)


def _forget(engine: Engine, key: tuple[str, ...]) -> None:
    engine.catalog.others.pop(key, None)
    engine.catalog.version += 1


def _drop_caller(engine: Engine, removal: Removal) -> None:
    """Run the statement that takes a caller away."""
    match removal:
        case ast.Alter():
            alter(engine, removal)
        case ast.AlterDomain():
            alter_domain(engine, removal)
        case ast.DropOther():
            drop_index(engine, removal, removal.names[0])
        case Drop():
            drop_relations(engine, removal)
        case ast.DropAggregate():
            define_aggregate(engine, removal)
        case tuple():
            _forget(engine, removal)
        case _:
            assert_never(removal)
