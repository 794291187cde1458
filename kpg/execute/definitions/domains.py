"""Domains, and ALTER TYPE.

A domain column is a column of the base type with the domain's default, NOT NULL and CHECKs as its own. ALTER
TYPE changes the labels of an ENUM, the fields of a composite type, or a name. Columns of the type follow.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from kpg.compiler.catalog.constraints import NO_RULE, Check, Domain, Rule
from kpg.compiler.catalog.entries import TYPES, Catalog, TableEntry
from kpg.compiler.qualified_names import quote_name, quote_qualified_name, sibling_name
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.parse.definitions import Definition
from kpg.compiler.sql.parse.schema_objects import check_of_column
from kpg.compiler.sql.parse.statements import Drop
from kpg.compiler.sql.rewrite.deparse import TYPE
from kpg.execute.definitions.alter_table import alter
from kpg.execute.definitions.callers import refuse_named_type
from kpg.execute.definitions.drop import describe, drop_relations
from kpg.execute.definitions.rename import columns_of, rename_in_columns, rename_type, rewrite_references
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.types import ColumnDef, Kind, Type
from kpg.session.notices import notice_cascade, notice_missing_type, notice_skipped

if TYPE_CHECKING:
    from kpg.session.engine import Engine


T = TypeVar("T")


def domain_of(type_: Type, catalog: Catalog) -> Domain | None:
    """Return the domain that an unresolved type names, if any."""
    if type_.kind is not Kind.ENUM or type_.labels:
        return None
    found = catalog.find_type(type_.name)
    return found if isinstance(found, Domain) else None


def with_domains(statement: T, catalog: Catalog) -> T:
    """Return a definition whose domain columns have the domain's default, NOT NULL and checks."""
    match statement:
        case ast.Alter():
            actions = tuple(_apply_to_action(action, catalog) for action in statement.actions)
            return replace(statement, actions=actions)
        case Definition():
            return statement
    schema: Any = getattr(statement, "schema", None)
    if schema is None or not any(domain_of(column.type, catalog) for column in schema.columns):
        return statement
    constraints = statement.constraints  # type: ignore[attr-defined]
    rules = list(constraints.rules) or [NO_RULE] * len(schema.columns)
    columns, checks = list(schema.columns), list(constraints.checks)
    for place, column in enumerate(columns):
        columns[place], rules[place], more = _apply_domain(column, rules[place], catalog)
        checks += more
    constraints = replace(constraints, rules=tuple(rules), checks=tuple(checks))
    new_schema = replace(schema, columns=tuple(columns))
    return replace(statement, schema=new_schema, constraints=constraints)  # type: ignore[type-var]


def _apply_domain(column: ColumnDef, rule: Rule, catalog: Catalog) -> tuple[ColumnDef, Rule, list[Check]]:
    """Return a column with the default, NOT NULL and checks of its domain."""
    domain = domain_of(column.type, catalog)
    if domain is None:
        return column, rule, []
    checks = [replace(check_of_column(check, column.name), name="") for check in domain.checks]
    rule = replace(rule, domain=domain.name, default=rule.default or domain.default)
    return replace(column, nullable=column.nullable and not domain.required), rule, checks


def _apply_to_action(action: ast.Action, catalog: Catalog) -> ast.Action:
    if isinstance(action, ast.AddColumn):
        column, rule, checks = _apply_domain(action.column, action.rule, catalog)
        return replace(action, column=column, rule=rule, constraints=(*action.constraints, *checks))
    return action


def create_domain(engine: "Engine", statement: ast.CreateDomain) -> None:
    """Run CREATE DOMAIN."""
    catalog, domain = engine.catalog, statement.domain
    domain = replace(domain, name=catalog.qualify_new_name(domain.name, span=statement.span))
    if domain.name.lower() in catalog.types:
        raise ProgrammingError(f'type "{domain.name}" already exists', span=statement.span)
    base = domain_of(domain.type, catalog)
    if base is not None:
        domain = replace(
            domain,
            default=domain.default or base.default,
            required=domain.required or base.required,
            checks=(*base.checks, *domain.checks),
        )
    type_ = catalog.resolve_type(domain.type, statement.span)
    named = _name_checks(domain.name, domain.checks)
    catalog.apply(TYPES.put(domain.name.lower(), replace(domain, type=type_, checks=named)))


def _name_checks(domain: str, checks: tuple[Check, ...]) -> tuple[Check, ...]:
    domain = domain.rpartition(".")[2]
    taken: list[str] = [check.name for check in checks if check.name]
    found = []
    for check in checks:
        name = check.name
        if not name:
            numbers = ["", *map(str, range(1, len(checks) + len(taken) + 1))]
            name = next(
                candidate
                for candidate in (f"{domain}_check{number}" for number in numbers)
                if candidate not in taken
            )
            taken.append(name)
        found.append(replace(check, name=name))
    return tuple(found)


def alter_domain(engine: "Engine", statement: ast.AlterDomain) -> None:
    """Run ALTER DOMAIN, also for all columns of the domain."""
    domain = engine.catalog.find_type(statement.name)
    if not isinstance(domain, Domain):
        raise ProgrammingError(
            f'domain "{statement.name}" does not exist', span=statement.span, sqlstate="42704"
        )
    match statement.action:
        case ast.AddConstraint(constraint=Check() as check):
            changed = replace(domain, checks=_name_checks(domain.name, (*domain.checks, check)))
        case ast.DropConstraint(name=name, if_exists=if_exists):
            remaining = tuple(
                constraint for constraint in domain.checks if constraint.name.lower() != name.lower()
            )
            if len(remaining) == len(domain.checks):
                fact = f'constraint "{name}" of domain "{domain.name}" does not exist'
                if not if_exists:
                    raise ProgrammingError(fact, span=statement.span, sqlstate="42704")
                notice_skipped(engine, fact)
            changed = replace(domain, checks=remaining)
        case ast.RenameConstraint(old=old, new=new):
            if old.lower() not in (constraint.name.lower() for constraint in domain.checks):
                raise ProgrammingError(
                    f'constraint "{old}" of domain "{domain.name}" does not exist',
                    span=statement.span,
                    sqlstate="42704",
                )
            checks = (replace(c, name=new) if c.name.lower() == old.lower() else c for c in domain.checks)
            changed = replace(domain, checks=tuple(checks))
        case ast.SetNotNull(not_null=required):
            changed = replace(domain, required=required)
        case ast.SetRule(text=text):
            changed = replace(domain, default=text)
        case ast.RenameTo(name=name):
            rename_domain(engine, domain, sibling_name(domain.name, name), statement.span)
            return
        case _:
            raise AssertionError(statement.action)
    for table, column in columns_of(engine.catalog, domain.name):
        actions = _column_actions(engine.catalog.table(table), column, statement.action, domain)
        alter(engine, ast.Alter("TABLE", table, False, actions, statement.span))
    engine.catalog.apply(TYPES.put(changed.name.lower(), changed))


def _column_actions(
    entry: TableEntry, column: str, action: ast.Action, domain: Domain
) -> tuple[ast.Action, ...]:
    """Return the actions by which a column follows a change of its domain."""
    match action:
        case ast.AddConstraint(constraint=Check() as check):
            return (ast.AddConstraint(replace(check_of_column(check, column), name=""), action.validates),)
        case ast.DropConstraint(name=name):
            dropped_texts = [
                check_of_column(constraint, column).text
                for constraint in domain.checks
                if constraint.name.lower() == name.lower()
            ]
            own = [
                constraint
                for constraint in entry.constraints.checks
                if constraint.column == column and constraint.text in dropped_texts
            ]
            return tuple(ast.DropConstraint(constraint.name, False, False) for constraint in own[:1])
        case ast.SetNotNull(not_null=required):
            return (ast.SetNotNull(column, required),)
        case ast.SetRule(text=text):
            return (ast.SetRule(column, "default", text),)
        case _:
            return ()


def rename_domain(engine: "Engine", domain: Domain, name: str, span: Span) -> None:
    """Rename a domain in all columns and definitions."""
    catalog, old = engine.catalog, domain.name
    if name.lower() in catalog.types:
        error = ProgrammingError(f'type "{name}" already exists', span=span)
        error.sqlstate = "42710"
        raise error
    catalog.apply(
        TYPES.remove(old.lower()),
        TYPES.put(name.lower(), replace(domain, name=name)),
        *catalog.privileges.ops_to_rename((TYPE, old.lower()), (TYPE, name.lower())),
    )
    rename_in_columns(engine, old, name)
    rewrite_references(engine, {(TYPE, old.lower()): name})


def drop_domain(engine: "Engine", statement: ast.DropOther, name: str) -> None:
    """Run DROP DOMAIN."""
    found = engine.catalog.find_type(name)
    if not isinstance(found, Domain):
        if found is not None:
            error = ProgrammingError(f'"{name}" is not a domain', span=statement.span)
            error.sqlstate = "42809"
            raise error
        if statement.if_exists:
            notice_missing_type(engine, name)
            return
        raise ProgrammingError(f'domain "{name}" does not exist', span=statement.span, sqlstate="42704")
    drop_columns(engine, statement, columns_of(engine.catalog, found.name), f'domain "{found.name}"')
    refuse_named_type(engine, found.name, statement.span)
    engine.catalog.apply(TYPES.remove(found.name.lower()))


def drop_columns(
    engine: "Engine", statement: ast.DropOther, used: Iterable[tuple[str, str]], subject: str
) -> None:
    """Drop the columns of a dropped type, by relation; ProgrammingError without CASCADE."""
    for relation, column in used:
        if not statement.cascade:
            raise ProgrammingError(
                f"{subject} cannot be dropped: column {column} of {relation} is of it",
                span=statement.span,
                hint=f"drop {relation} first, or use CASCADE",
            )
        entry = engine.catalog.find(relation)
        if isinstance(entry, TableEntry):
            notice_cascade(engine, [f"column {column} of table {engine.catalog.unqualified_name(relation)}"])
            drop_column = ast.DropColumn(column, True, True)
            alter(engine, ast.Alter("TABLE", relation, False, (drop_column,), statement.span))
        elif entry is not None:  # a view that reads none of those columns
            notice_cascade(engine, [describe(engine, relation)])
            drop_relations(engine, Drop("VIEW", (relation,), True, True, statement.span))


def alter_type(engine: "Engine", statement: ast.AlterUserType) -> None:
    """Run ALTER TYPE, also for all columns of the type."""
    catalog = engine.catalog
    old = engine.catalog.find_type(statement.name)
    if old is None or isinstance(old, Domain):
        raise ProgrammingError(
            f'type "{statement.name}" does not exist', span=statement.span, sqlstate="42704"
        )
    if statement.action == "RENAME TO":
        rename_type(
            engine,
            old,
            _check_name_free(engine, sibling_name(old.name, statement.new), statement),
            statement.span,
        )
        return
    new = (_alter_enum if old.kind is Kind.ENUM else _alter_composite)(engine, old, statement)
    if new == old:
        return
    changed = _columns_of_type(engine, old, statement)
    catalog.apply(TYPES.remove(old.name.lower()), TYPES.put(new.name.lower(), new))
    for table, column in changed:
        action = ast.AlterType(column, new, _conversion(column, old, new, statement))
        alter(engine, ast.Alter("TABLE", table, False, (action,), statement.span))


def _columns_of_type(engine: "Engine", type_: Type, statement: ast.AlterUserType) -> list[tuple[str, str]]:
    """Return the tables and columns of a type; NotSupportedError if it is part of another type."""
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


def _check_name_free(engine: "Engine", name: str, statement: ast.AlterUserType) -> str:
    if name.lower() in engine.catalog.types:
        error = ProgrammingError(f'type "{name}" already exists', span=statement.span)
        error.sqlstate = "42710"
        raise error
    return name


def _alter_enum(engine: "Engine", old: Type, statement: ast.AlterUserType) -> Type:
    labels = list(old.labels)
    for needed in filter(None, (statement.old, statement.before, statement.after)):
        if needed not in labels:
            raise ProgrammingError(f'"{needed}" is not an existing enum label', span=statement.span)
    if statement.new in labels:
        fact = f'enum label "{statement.new}" already exists'
        if not statement.has_if_exists:
            raise ProgrammingError(fact, span=statement.span)
        notice_skipped(engine, fact, "42710")
        return old
    if statement.action == "ADD VALUE":
        place = labels.index(statement.before) if statement.before else len(labels)
        place = labels.index(statement.after) + 1 if statement.after else place
        labels.insert(place, statement.new)
    elif statement.action == "RENAME VALUE":
        labels[labels.index(statement.old)] = statement.new
    else:
        raise ProgrammingError(f"{old.name} is not a composite type", span=statement.span)
    return replace(old, labels=tuple(labels))


def _alter_composite(engine: "Engine", old: Type, statement: ast.AlterUserType) -> Type:
    names, types = list(old.labels), list(old.parts)
    known = [name.lower() for name in names]
    if statement.action.endswith("VALUE"):
        raise ProgrammingError(f"{old.name} is not an enum", span=statement.span)
    if statement.old and statement.old.lower() not in known:
        fact = f'column "{statement.old}" of relation "{old.name}" does not exist'
        if not statement.has_if_exists:
            raise ProgrammingError(fact, span=statement.span)
        notice_skipped(engine, fact)
        return old
    if statement.new and statement.new.lower() in known:
        message = f'column "{statement.new}" of relation "{old.name}" already exists'
        raise ProgrammingError(message, span=statement.span)
    place = known.index(statement.old.lower()) if statement.old else len(names)
    match statement.action:
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


def _conversion(column: str, old: Type, new: Type, statement: ast.AlterUserType) -> str:
    """Return an expression that converts old values to the new type."""
    name, target = quote_name(column), quote_qualified_name(new.name)
    if old.kind is Kind.ENUM:
        text = f"{name}::text"
        if statement.action == "RENAME VALUE":
            renamed = f"WHEN {_string(statement.old)} THEN {_string(statement.new)}"
            text = f"(CASE {text} {renamed} ELSE {text} END)"
        return f"{text}::{target}"
    was = dict(zip(new.labels, new.labels, strict=True))
    if statement.action == "RENAME ATTRIBUTE":
        was[statement.new] = statement.old
    known = [label.lower() for label in old.labels]
    fields = (
        f"({name}).{quote_name(was[label])}" if was[label].lower() in known else "NULL"
        for label in new.labels
    )
    return f"CASE WHEN {name} IS NULL THEN NULL ELSE ROW({', '.join(fields)})::{target} END"


def _string(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
