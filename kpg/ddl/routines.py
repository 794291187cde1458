"""Functions in SQL: made, replaced, renamed and dropped."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, assert_never

from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.catalog.qualified_names import beside
from kpg.compiler.catalog.routines import POLYMORPHIC, Routine
from kpg.compiler.sql.bind.query import new_binding
from kpg.compiler.sql.bind.routines import check_body
from kpg.compiler.sql.bind.volatile_calls import has_calls, is_chance
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.parse.routines import CURRENT
from kpg.compiler.sql.rewrite.name_qualification import body_of, names_called, whole_body
from kpg.compiler.system.oids import type_facts
from kpg.compiler.system.user_objects import type_name
from kpg.engine.engine import Engine
from kpg.listeners.notices import say_cascade, say_skipped
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.types import Kind, Type, record

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
            _create(engine, statement)
        case ast.DropFunction():
            for name, types in statement.names:
                _drop(engine, statement, name, types)
        case ast.AlterFunction():
            _alter(engine, statement)
        case _:
            assert_never(statement)


def _create(engine: Engine, statement: ast.CreateFunction) -> None:
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
        if engine.users(old.key):
            from kpg.ddl.replacing import views_calling

            engine.plan_again(views_calling(engine, old, tuple(known), statement.span))
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


def _drop(engine: Engine, statement: ast.DropFunction, name: str, types: Sequence[Type] | None) -> None:
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
        from kpg.ddl.dropping import described, drop_users

        users = engine.dependents(routine.key)
        say_cascade(engine, [described(engine, user) for user in users])
        drop_users(engine, users)
    _refuse_used(engine, routine, "dropped", span)
    from kpg.ddl.callers import leave

    leave(engine, routine, span, cascade=cascade)
    _remove(engine.catalog, routine)


def _alter(engine: Engine, statement: ast.AlterFunction) -> None:
    routine = _found(engine, statement.name, statement.types, statement.span)
    if routine is None:
        raise ProgrammingError(f'function "{statement.name}" does not exist', span=statement.span)
    declared = tuple(
        sorted((dict(routine.declared) | dict(_declared(statement.declared, engine.catalog))).items())
    )
    if statement.rename or statement.strict is not None or statement.definer is not None:
        _refuse_used(engine, routine, "altered", statement.span)
    if statement.rename:
        from kpg.ddl.callers import refuse_callers

        if len(engine.catalog.routines[routine.name]) > 1:  # texts name them without their arguments
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
    if statement.rename:
        from kpg.compiler.sql.rewrite.deparse import FUNCTION
        from kpg.ddl.renaming import follow

        if routine.name not in engine.catalog.routines:
            follow(engine, {(FUNCTION, routine.name.lower()): name})


def _remove(catalog: Catalog, old: Routine) -> None:
    rest = tuple(one for one in catalog.routines[old.name] if one is not old)
    if rest:
        catalog.routines[old.name] = rest
    else:
        del catalog.routines[old.name]


def _refuse_used(engine: Engine, routine: Routine, what: str, span: Span) -> None:
    users = engine.users(routine.key)
    if users:
        raise ProgrammingError(
            f'function {routine.name} cannot be {what}: view "{users[0]}" uses it',
            span=span,
            hint="drop the view first",
        )
