"""SQL functions and aggregates: CREATE, ALTER and DROP.

An aggregate is implemented by a function over the array of its inputs.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Final, assert_never

from kpg.compiler.catalog.entries import AGGREGATES, POLICIES, ROUTINES, Catalog
from kpg.compiler.catalog.privileges import Policy
from kpg.compiler.catalog.routines import POLYMORPHIC, Aggregate, ArrayFold, Routine
from kpg.compiler.qualified_names import sibling_name
from kpg.compiler.sql.bind.query import new_binding
from kpg.compiler.sql.bind.routines import check_body
from kpg.compiler.sql.bind.user_aggregates import (
    FOLD_PREFIX,
    build_fold,
    call_text,
    is_polymorphic,
    is_strict,
    type_text,
)
from kpg.compiler.sql.bind.volatile_calls import has_sequence_calls, is_volatile_call
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.parse import statements
from kpg.compiler.sql.parse.features import NO_FEATURES, statement_span
from kpg.compiler.sql.parse.parser import parse_query
from kpg.compiler.sql.parse.reader import parse_body
from kpg.compiler.sql.parse.routines import FROM_CURRENT
from kpg.compiler.sql.parse.statements import Drop
from kpg.compiler.sql.parse.tokenizer import tokenize
from kpg.compiler.sql.rewrite.deparse import FUNCTION
from kpg.compiler.sql.rewrite.name_qualification import called_functions, qualify_body
from kpg.compiler.system.oids import type_facts
from kpg.compiler.system.user_objects import display_type
from kpg.execute.definitions.alter_table import alter
from kpg.execute.definitions.callers import Removal, find_callers, refuse_callers
from kpg.execute.definitions.domains import alter_domain
from kpg.execute.definitions.drop import describe, drop_relations, drop_users
from kpg.execute.definitions.indexes import drop_index
from kpg.execute.definitions.rename import rewrite_references
from kpg.execute.definitions.views import replan_views_calling
from kpg.execute.queries.query_plan import plan
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.types import INTEGER, Kind, Type, record
from kpg.session.engine import Engine
from kpg.session.notices import notice_cascade, notice_skipped

PSEUDO_TYPES = frozenset((*POLYMORPHIC, "void", "record"))
KEYWORD_TYPES: Final = (
    *("bit", "bool", "bpchar", "float4", "float8", "int2", "int4", "int8", "interval", "numeric"),
    *("time", "timestamp", "timestamptz", "timetz", "varbit", "varchar"),
)
"""Types with a keyword, which Postgres' grammar turns into names in pg_catalog."""


def run_routine(engine: Engine, statement: ast.CreateFunction | ast.DropFunction | ast.AlterFunction) -> None:
    """Run CREATE, DROP or ALTER FUNCTION."""
    match statement:
        case ast.CreateFunction():
            _create_routine(engine, statement)
        case ast.DropFunction():
            for name, types in statement.names:
                _drop_routine(engine, statement, name, types)
        case ast.AlterFunction():
            _alter_routine(engine, statement)
        case _:
            assert_never(statement)


def _create_routine(engine: Engine, statement: ast.CreateFunction) -> None:
    catalog = engine.catalog
    name = catalog.qualify_new_name(statement.name, span=statement.span).lower()
    routine = _make_routine(engine, statement, name)
    known = list(catalog.routines.get(name, ()))
    types = [item.type for item in routine.parameters]
    old = next((item for item in known if item.has_argument_types(types)), None)
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
            engine.views.replace_plans(replan_views_calling(engine, old, tuple(known), statement.span))
    else:
        known.append(routine)
    catalog.apply(ROUTINES.put(name, tuple(known)))


def _make_routine(engine: Engine, statement: ast.CreateFunction, name: str) -> Routine:
    catalog, span = engine.catalog, statement.span
    parameters = tuple(
        replace(parameter, type=resolve_type(catalog, parameter.type, span))
        for parameter in statement.parameters
    )
    result, columns = resolve_type(catalog, statement.result, span), statement.columns
    whole = statement.result.kind is Kind.ENUM and result.kind is Kind.RECORD
    if whole and not columns:
        columns = result.labels
    outs = tuple(
        (parameter, resolve_type(catalog, type_, span)) for parameter, type_ in statement.out_parameters
    )
    made = Routine(
        name,
        parameters,
        result,
        columns,
        statement.returns_set,
        qualify_body(statement.body, catalog) if statement.is_sql_body else statement.body,
        statement.strict,
        outs,
        definer=statement.security_definer,
        declared=_resolve_options(statement.attributes, catalog),
    )
    _check_volatility(made, span)
    if any(_is_polymorphic(parameter.type) for parameter in parameters):
        return made
    return _check_body(catalog, made, span)


def _resolve_options(options: tuple[tuple[str, str], ...], catalog: Catalog) -> tuple[tuple[str, str], ...]:
    """Return the SET options of a function; ``FROM CURRENT`` takes the present search path."""
    path = catalog.settings.get("search_path", '"$user", public')
    return tuple((name, path if value == FROM_CURRENT else value) for name, value in options)


def _check_volatility(routine: Routine, span: Span) -> None:
    """Raise NotSupportedError for a volatile or recursive body."""
    tree = parse_body(routine.body)
    if has_sequence_calls(tree) or any(map(is_volatile_call, tree.walk())):
        raise NotSupportedError(
            f"function {routine.name}, which is volatile, is not supported",
            span=span,
            hint="Call random() and nextval() in the statement itself.",
        )
    if routine.name.rpartition(".")[2] in called_functions(tree):
        message = f"function {routine.name}, which calls itself, is not supported"
        raise NotSupportedError(message, span=span, hint="Write WITH RECURSIVE.")


def _check_body(catalog: Catalog, routine: Routine, span: Span) -> Routine:
    """Bind the body and return the function; for ``record`` results, with the columns of the body."""
    tokens = tokenize(routine.body)
    features = statement_span(tokens, routine.body).features if tokens else NO_FEATURES
    binding = new_binding(span.source, catalog, features)
    try:
        names, types = check_body(binding, routine)
    except ProgrammingError as error:
        raise ProgrammingError(error.message, span=error.span or span, hint=error.hint) from None
    if routine.result.name == "record":
        result = record(list(types), list(names)) if len(types) > 1 else types[0]
        return replace(routine, result=result, columns=names)
    width = len(routine.result.parts) if routine.columns and routine.result.kind is Kind.RECORD else 1
    single = len(types) == 1 or routine.result.name == "void"
    if len(types) != width and not single and routine.result.kind is not Kind.RECORD:
        message = f"function {routine.name} gives {len(types)} columns, {width} are declared"
        raise ProgrammingError(message, span=span)
    return routine


def _is_polymorphic(type_: Type) -> bool:
    return type_.name in POLYMORPHIC or any(map(_is_polymorphic, type_.parts))


def resolve_type(catalog: Catalog, type_: Type, span: Span) -> Type:
    """Return the type of a name: a user-defined type, a column's type, or a relation's row type."""
    if type_.name.endswith("%type"):
        relation, _, field = type_.name.removesuffix("%type").strip().lower().rpartition(".")
        schema = catalog.get(relation, span).schema
        known = [column.lower() for column in schema.names]
        if field not in known:
            raise ProgrammingError(f'column "{field}" of "{relation}" does not exist', span=span)
        return schema.types[known.index(field)]
    if type_.parts:
        return replace(type_, parts=tuple(resolve_type(catalog, part, span) for part in type_.parts))
    if type_.kind is not Kind.ENUM or type_.labels or type_.name.lower() in PSEUDO_TYPES:
        return replace(type_, name=type_.name.lower()) if type_.name.lower() in PSEUDO_TYPES else type_
    entry = catalog.find(type_.name) if catalog.find_type(type_.name) is None else None
    if entry is not None:
        return record(list(entry.schema.types), list(entry.schema.names))
    return catalog.resolve_type(type_, span)


def _find_routine(engine: Engine, name: str, types: Sequence[Type] | None, span: Span) -> Routine | None:
    """Return the function with a name and, if given, argument types; None if there is none."""
    schema, _, rest = name.lower().rpartition(".")
    known = engine.catalog.find_routines(rest, schema)
    if types is not None:
        argument_types = [resolve_type(engine.catalog, one, span) for one in types]
        return next((one for one in known if one.has_argument_types(argument_types)), None)
    if len(known) > 1:
        message = f"there are several functions {name}"
        raise ProgrammingError(message, span=span, hint="name the types of the arguments")
    return known[0] if known else None


def _drop_routine(
    engine: Engine, statement: ast.DropFunction, name: str, types: Sequence[Type] | None
) -> None:
    try:
        routine = _find_routine(engine, name, types, statement.span)
    except ProgrammingError as error:
        if statement.if_exists and error.sqlstate == "42704":
            notice_skipped(engine, error.message)
            return
        raise
    if routine is None and statement.if_exists:
        notice_skipped(
            engine, f"{statement.kind} {signature(engine.catalog, name, types or ())} does not exist"
        )
        return
    if routine is None:
        raise ProgrammingError(f'{statement.kind} "{name}" does not exist', span=statement.span)
    drop_routine(engine, routine, statement.span, cascade=statement.cascade)


def signature(catalog: Catalog, name: str, types: Sequence[Type]) -> str:
    """Return a function's name and argument types, as in Postgres' notices."""
    return f"{name.lower()}({','.join(_grammar_name(catalog, type_) for type_ in types)})"


def _grammar_name(catalog: Catalog, type_: Type) -> str:
    """Return the type name that Postgres' grammar derives from a keyword; other types keep their name."""
    if type_.kind is Kind.ARRAY:
        return f"{_grammar_name(catalog, type_.parts[0])}[]"
    short = type_facts(type_)[1]
    return f"pg_catalog.{short}" if short in KEYWORD_TYPES else display_type(catalog, type_)


def drop_routine(engine: Engine, routine: Routine, span: Span, *, cascade: bool) -> None:
    """Drop a function, with ``cascade`` also its callers; ProgrammingError if it is in use."""
    if cascade:
        users = engine.views.dependents(routine.key)
        notice_cascade(engine, [describe(engine, user) for user in users])
        drop_users(engine, users)
    _check_routine_unused(engine, routine, "dropped", span)
    _drop_callers(engine, routine, span, cascade=cascade)
    _remove(engine.catalog, routine)


def _alter_routine(engine: Engine, statement: ast.AlterFunction) -> None:
    routine = _find_routine(engine, statement.name, statement.types, statement.span)
    if routine is None:
        raise ProgrammingError(f'function "{statement.name}" does not exist', span=statement.span)
    declared = tuple(
        sorted(
            (dict(routine.declared) | dict(_resolve_options(statement.attributes, engine.catalog))).items()
        )
    )
    if statement.rename or statement.strict is not None or statement.security_definer is not None:
        _check_routine_unused(engine, routine, "altered", statement.span)
    if statement.rename and len(engine.catalog.routines[routine.name]) > 1:
        # Stored texts name functions without argument types.
        refuse_callers(engine, routine, "renaming", statement.span)
    name = sibling_name(routine.name, statement.rename.lower()) if statement.rename else routine.name
    types = [item.type for item in routine.parameters]
    if statement.rename and any(
        item.has_argument_types(types) for item in engine.catalog.routines.get(name, ())
    ):
        message = f"function {name} with these arguments already exists"
        raise ProgrammingError(message, span=statement.span)
    _remove(engine.catalog, routine)
    if routine.name not in engine.catalog.routines:
        rights = engine.catalog.privileges
        keys = ("FUNCTION", routine.name.lower()), ("FUNCTION", name.lower())
        engine.catalog.apply(*rights.ops_to_rename(*keys))
    strict = routine.strict if statement.strict is None else statement.strict
    definer = routine.definer if statement.security_definer is None else statement.security_definer
    new = replace(routine, name=name, strict=strict, definer=definer, declared=declared)
    engine.catalog.apply(ROUTINES.put(name, (*engine.catalog.routines.get(name, ()), new)))
    if statement.rename and routine.name not in engine.catalog.routines:
        rewrite_references(engine, {(FUNCTION, routine.name.lower()): name})


def _remove(catalog: Catalog, old: Routine) -> None:
    rest = tuple(overload for overload in catalog.routines[old.name] if overload is not old)
    catalog.apply(ROUTINES.put(old.name, rest) if rest else ROUTINES.remove(old.name))


def _check_routine_unused(engine: Engine, routine: Routine, action: str, span: Span) -> None:
    users = engine.views.users(routine.key)
    if users:
        raise ProgrammingError(
            f'function {routine.name} cannot be {action}: view "{users[0]}" uses it',
            span=span,
            hint="drop the view first",
        )


TYPE_SEPARATOR: Final = re.compile(r", (?![^(]*\))")
"""A comma outside of parentheses."""


def run_aggregate(engine: Engine, statement: ast.CreateAggregate | ast.DropAggregate) -> None:
    """Run CREATE or DROP AGGREGATE."""
    match statement:
        case ast.CreateAggregate():
            _create_aggregate(engine, statement)
        case ast.DropAggregate():
            for name, types in statement.names:
                _drop_aggregate(engine, statement, name, types)
        case _:
            assert_never(statement)


def _create_aggregate(engine: Engine, statement: ast.CreateAggregate) -> None:
    catalog, span = engine.catalog, statement.span
    name = catalog.qualify_new_name(statement.name, span=span).rpartition(".")[2].lower()
    types = tuple(resolve_type(catalog, type_, span) for type_ in statement.types)
    state = resolve_type(catalog, statement.state, span)
    if state.name == "internal":
        raise NotSupportedError("an aggregate with an internal state is not supported", span=span)
    known = list(catalog.aggregates.get(name, ()))
    old = next((one for one in known if one.types == types), None)
    if old is not None:
        if not statement.or_replace:
            message = f'function "{name}" already exists with same argument types'
            raise ProgrammingError(message, span=span)
        _check_aggregate_unused(engine, old, "replaced", statement)
        known.remove(old)
    fold = old.fold if old is not None else _free_fold_name(catalog, name)
    aggregate = Aggregate(name, types, statement.step, state, statement.init, statement.final, fold)
    _check_state(catalog, aggregate, span)
    if is_polymorphic(state) or any(map(is_polymorphic, types)):
        aggregate = replace(aggregate, result=_result_type(engine, aggregate))
    else:
        try:
            aggregate = replace(
                aggregate, result=build_fold(catalog, aggregate, types or (INTEGER,), new_binding).result
            )
        except ProgrammingError as error:
            raise ProgrammingError(error.message, span=span, hint=error.hint) from None
    catalog.apply(AGGREGATES.put(name, (*known, aggregate)))


def _free_fold_name(catalog: Catalog, name: str) -> str:
    """Return an unused name for the fold of a new aggregate."""
    used_names = {aggregate.fold for group in catalog.aggregates.values() for aggregate in group}
    return next(made for number in count() if (made := f"{FOLD_PREFIX}{name}_{number}") not in used_names)


def _check_state(catalog: Catalog, aggregate: Aggregate, span: Span) -> None:
    """Raise ProgrammingError if a strict step function cannot take the first element as its state."""
    fits = not aggregate.types or aggregate.types[0] == aggregate.state or is_polymorphic(aggregate.types[0])
    if aggregate.init is None and not fits and is_strict(catalog, aggregate):
        raise ProgrammingError(
            "must not omit initial value when transition function is strict and transition type is not "
            "compatible with input type",
            span=span,
        )


def _result_type(engine: Engine, aggregate: Aggregate) -> Type:
    """Return the result type of a polymorphic aggregate."""
    if not aggregate.final:
        return aggregate.state
    plain = aggregate.final.lower().removeprefix("pg_catalog.")
    schema, _, name = plain.rpartition(".")
    routines = [each for each in engine.catalog.find_routines(name, schema) if len(each.parameters) == 1]
    exact = [each for each in routines if each.parameters[0].type == aggregate.state]
    if routines:
        return (exact or routines)[0].result
    text = f"SELECT {call_text(aggregate.final, (f'CAST(NULL AS {type_text(aggregate.state)})',))}"
    return plan(parse_query(text), engine.catalog, engine.statistics).schema.types[0]


def _drop_aggregate(engine: Engine, statement: ast.DropAggregate, name: str, types: tuple[Type, ...]) -> None:
    catalog = engine.catalog
    plain = name.rpartition(".")[2].lower()
    argument_types = tuple(resolve_type(catalog, type_, statement.span) for type_ in types)
    known = catalog.aggregates.get(plain, ())
    old = next((item for item in known if item.types == argument_types), None)
    if old is None:
        if any(item.has_argument_types(list(argument_types)) for item in catalog.find_routines(plain)):
            shown = ", ".join(display_type(catalog, type_) for type_ in argument_types)
            error = ProgrammingError(f"function {name}({shown}) is not an aggregate", span=statement.span)
            error.sqlstate = "42809"
            raise error
        if statement.if_exists:
            notice_skipped(engine, f"aggregate {signature(catalog, name, argument_types)} does not exist")
            return
        shown = ", ".join(str(type_) for type_ in argument_types) or "*"
        raise ProgrammingError(f"aggregate {name}({shown}) does not exist", span=statement.span)
    if statement.cascade:
        for user in reversed(engine.views.dependents(f"function {old.fold}")):
            if user in catalog:
                drop_relations(engine, statements.Drop("VIEW", (user,), True, True, statement.span))
    _check_aggregate_unused(engine, old, "dropped", statement)
    rest = tuple(item for item in known if item is not old)
    catalog.apply(AGGREGATES.put(plain, rest) if rest else AGGREGATES.remove(plain))


def _check_aggregate_unused(
    engine: Engine, aggregate: Aggregate, action: str, statement: ast.CreateAggregate | ast.DropAggregate
) -> None:
    users = engine.views.users(f"function {aggregate.fold}")
    if users:
        message = f'aggregate {aggregate.name} cannot be {action}: view "{users[0]}" uses it'
        raise ProgrammingError(message, span=statement.span, hint="drop the view first")


def fold_by_label(engine: Engine, label: str) -> ArrayFold | None:
    """Return the fold with a label in plans; None if there is none."""
    name, _, rest = label.partition("(")
    plain = name.rpartition(".")[2]
    known = (one for group in engine.catalog.aggregates.values() for one in group)
    aggregate = next((each for each in known if each.fold == plain), None)
    if aggregate is None:
        return None
    query = ", ".join(f"CAST(NULL AS {part})" for part in TYPE_SEPARATOR.split(rest.removesuffix(")")))
    types = plan(parse_query(f"SELECT {query}"), engine.catalog, engine.statistics).schema.types
    return build_fold(engine.catalog, aggregate, tuple(type_.parts[0] for type_ in types), new_binding)


def _drop_callers(engine: Engine, routine: Routine, span: Span, *, cascade: bool) -> None:
    """Drop the callers of a function; ProgrammingError without ``cascade``."""
    for caller in list(find_callers(engine, routine, span)):
        if not cascade:
            raise ProgrammingError(
                f'function "{routine.name}" cannot be dropped: {caller.description} calls it',
                span=span,
                hint="drop that first, or use CASCADE",
            )
        notice_cascade(engine, [caller.description])
        _drop_caller(engine, caller.removal)


def _drop_caller(engine: Engine, removal: Removal) -> None:
    """Run the statement that drops a caller."""
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
            run_aggregate(engine, removal)
        case Policy():
            engine.catalog.apply(POLICIES.remove((removal.table.lower(), removal.name.lower())))
        case _:
            assert_never(removal)
