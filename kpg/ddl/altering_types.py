"""ALTER TYPE: other labels of an ENUM, other fields of a row, another name; columns of the type follow."""

from dataclasses import replace
from typing import TYPE_CHECKING

from kpg.compiler.catalog.constraints import Domain
from kpg.compiler.catalog.qualified_names import beside, written
from kpg.compiler.sql.parse import definitions as ast
from kpg.listeners.notices import say_skipped
from kpg.runtime.errors import NotSupportedError, ProgrammingError
from kpg.runtime.types import Kind, Type

if TYPE_CHECKING:
    from kpg.engine.engine import Engine


def alter_type(engine: "Engine", statement: ast.AlterUserType) -> None:
    """Change the type, then all columns of it."""
    from kpg.ddl.altering import alter
    from kpg.ddl.renaming import rename_type

    types = engine.catalog.types
    old = engine.catalog.find_type(statement.name)
    if old is None or isinstance(old, Domain):
        raise ProgrammingError(f'type "{statement.name}" does not exist', span=statement.span)
    if statement.what == "RENAME TO":
        rename_type(engine, old, _free(engine, beside(old.name, statement.new), statement), statement.span)
        return
    new = (_enum if old.kind is Kind.ENUM else _row)(engine, old, statement)
    if new == old:
        return
    changed = _columns(engine, old, statement)
    del types[old.name.lower()]
    types[new.name.lower()] = new
    try:
        for table, column in changed:
            action = ast.AlterType(column, new, _moved(column, old, new, statement))
            alter(engine, ast.Alter("TABLE", table, False, (action,), statement.span))
    except BaseException:
        del types[new.name.lower()]
        types[old.name.lower()] = old
        raise


def _columns(engine: "Engine", type_: Type, statement: ast.AlterUserType) -> list[tuple[str, str]]:
    """The tables and columns of a type; NotSupportedError where it is a part of another type."""
    found = []
    for entry in engine.catalog:
        for column in entry.schema.columns:
            if column.type.name == type_.name and entry.name.lower() in engine.catalog.entries:
                found.append((entry.name, column.name))
            elif any(part.name == type_.name for part in column.type.parts):
                raise NotSupportedError(
                    f"ALTER TYPE of {type_.name}: column {column.name} of {entry.name} is made of it",
                    span=statement.span,
                )
    return found


def _free(engine: "Engine", name: str, statement: ast.AlterUserType) -> str:
    if name.lower() in engine.catalog.types:
        error = ProgrammingError(f'type "{name}" already exists', span=statement.span)
        error.sqlstate = "42710"
        raise error
    return name


def _enum(engine: "Engine", old: Type, statement: ast.AlterUserType) -> Type:
    labels = list(old.labels)
    for needed in filter(None, (statement.old, statement.before, statement.after)):
        if needed not in labels:
            raise ProgrammingError(f'"{needed}" is not an existing enum label', span=statement.span)
    if statement.new in labels:
        fact = f'enum label "{statement.new}" already exists'
        if not statement.lenient:
            raise ProgrammingError(fact, span=statement.span)
        say_skipped(engine, fact, "42710")
        return old
    if statement.what == "ADD VALUE":
        place = labels.index(statement.before) if statement.before else len(labels)
        place = labels.index(statement.after) + 1 if statement.after else place
        labels.insert(place, statement.new)
    elif statement.what == "RENAME VALUE":
        labels[labels.index(statement.old)] = statement.new
    else:
        raise ProgrammingError(f"{old.name} is not a composite type", span=statement.span)
    return replace(old, labels=tuple(labels))


def _row(engine: "Engine", old: Type, statement: ast.AlterUserType) -> Type:
    names, types = list(old.labels), list(old.parts)
    known = [name.lower() for name in names]
    if statement.what.endswith("VALUE"):
        raise ProgrammingError(f"{old.name} is not an enum", span=statement.span)
    if statement.old and statement.old.lower() not in known:
        fact = f'column "{statement.old}" of relation "{old.name}" does not exist'
        if not statement.lenient:
            raise ProgrammingError(fact, span=statement.span)
        say_skipped(engine, fact)
        return old
    if statement.new and statement.new.lower() in known:
        message = f'column "{statement.new}" of relation "{old.name}" already exists'
        raise ProgrammingError(message, span=statement.span)
    place = known.index(statement.old.lower()) if statement.old else len(names)
    match statement.what:
        case "ADD ATTRIBUTE":
            names.append(statement.new)
            types.append(statement.type)
        case "DROP ATTRIBUTE":
            del names[place], types[place]
        case "RENAME ATTRIBUTE":
            names[place] = statement.new
        case _:
            types[place] = statement.type
    return replace(old, labels=tuple(names), parts=tuple(types))


def _moved(column: str, old: Type, new: Type, statement: ast.AlterUserType) -> str:
    """An expression of the old values that gives the new ones."""
    name, target = _quoted(column), written(new.name)
    if old.kind is Kind.ENUM:
        text = f"{name}::text"
        if statement.what == "RENAME VALUE":
            renamed = f"WHEN {_string(statement.old)} THEN {_string(statement.new)}"
            text = f"(CASE {text} {renamed} ELSE {text} END)"
        return f"{text}::{target}"
    was = dict(zip(new.labels, new.labels, strict=True))
    if statement.what == "RENAME ATTRIBUTE":
        was[statement.new] = statement.old
    known = [label.lower() for label in old.labels]
    fields = (
        f"({name}).{_quoted(was[label])}" if was[label].lower() in known else "NULL" for label in new.labels
    )
    return f"CASE WHEN {name} IS NULL THEN NULL ELSE ROW({', '.join(fields)})::{target} END"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _string(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
