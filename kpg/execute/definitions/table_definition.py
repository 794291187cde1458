"""Definition of a table by the catalog: constraint names, references, LIKE and sequences."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, TypeVar, assert_never

from kpg.compiler.catalog.constraints import (
    NO_RULE,
    Check,
    Constraint,
    Constraints,
    ForeignKey,
    Rule,
    Sequence,
    Unique,
)
from kpg.compiler.catalog.entries import Catalog, TableEntry, did_you_mean
from kpg.compiler.qualified_names import QualifiedName
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.rewrite.name_qualification import nextval_call
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.types import ColumnDef, Schema, have_same_words

MAX_NAME_LENGTH: Final = 63
"""Characters of a generated name."""
Key = TypeVar("Key", Unique, ForeignKey)


def definition(
    statement: ast.CreateTable, name: str, catalog: Catalog
) -> tuple[TableEntry, tuple[Sequence, ...]]:
    """Return the table that a statement defines under its qualified name, and its sequences."""
    columns, constraints = _with_likes(statement, catalog)
    used_names = {sequence_name.lower() for sequence_name in catalog.sequences}
    sequences: list[Sequence] = []
    rules = list(constraints.rules or (NO_RULE,) * len(columns))
    known = [column.name.lower() for column in columns]
    for column, numbers in statement.sequences:
        place = known.index(column.lower())
        sequence = _own_sequence(numbers, name, column, used_names, statement.span)
        sequences.append(sequence)
        if rules[place].default:
            raise ProgrammingError(f'column "{column}" has two defaults', span=statement.span)
        default = nextval_call(sequence.name)
        rules[place] = replace(rules[place], default=default, sequence=sequence.name)
    for column_, rule in zip(columns, rules, strict=True):
        if rule.default and rule.generated:
            raise ProgrammingError(
                f'column "{column_.name}" has a default and is generated', span=statement.span
            )
    constraints = replace(constraints, rules=tuple(rules) if any(rule != NO_RULE for rule in rules) else ())
    entry = TableEntry(name, Schema(columns), Constraints(rules=constraints.rules))
    for constraint in constraints:
        entry = with_constraint(entry, constraint, catalog, statement.span)
    return entry, tuple(sequences)


def _own_sequence(numbers: Sequence, table: str, column: str, used_names: set[str], span: Span) -> Sequence:
    schema, _, plain = table.rpartition(".")
    name = numbers.name or free_name(
        f"{plain}_{column}_seq", {used.rpartition(".")[2] for used in used_names}
    )
    name = QualifiedName(f"{schema}.{name}" if schema and "." not in name else name)
    if name.lower() in used_names:
        raise ProgrammingError(f'sequence "{name}" already exists', span=span)
    used_names.add(name.lower())
    return replace(numbers, name=name, owner=(table, column))


def _with_likes(statement: ast.CreateTable, catalog: Catalog) -> tuple[tuple[ColumnDef, ...], Constraints]:
    """Return the columns and constraints of a statement, with those of its LIKE clauses."""
    columns = list(statement.schema.columns)
    rules = list(statement.constraints.rules or (NO_RULE,) * len(columns))
    given = statement.constraints
    offset = 0
    for like in statement.likes:
        entry = catalog.get(like.relation, statement.span)
        old = entry.constraints if isinstance(entry, TableEntry) else Constraints()
        at = like.position + offset
        for place, column in enumerate(entry.schema.columns):
            if column.name.lower() in (one.name.lower() for one in columns):
                raise ProgrammingError(f'column "{column.name}" is defined twice', span=statement.span)
            columns.insert(at + place, column)
            rules.insert(at + place, _copy_rule(old.rule(place), like.including))
        offset += len(entry.schema.columns)
        if "CONSTRAINTS" in like.including:
            given = replace(given, checks=(*given.checks, *old.checks))
        if "INDEXES" in like.including:
            given = replace(given, uniques=(*given.uniques, *(replace(one, name="") for one in old.uniques)))
    return tuple(columns), replace(given, rules=tuple(rules))


def _copy_rule(rule: Rule, including: frozenset[str]) -> Rule:
    default = rule.default if "DEFAULTS" in including and not rule.identity else ""
    generated = rule.generated if "GENERATED" in including else ""
    return Rule(default, generated, domain=rule.domain, digits=rule.digits)


def with_constraint(entry: TableEntry, constraint: Constraint, catalog: Catalog, span: Span) -> TableEntry:
    """Return a table with one more constraint, which gets a generated name if it has none."""
    used_names = {existing.name.lower() for existing in entry.constraints}
    if constraint.name and constraint.name.lower() in used_names:
        raise ProgrammingError(f'constraint "{constraint.name}" of "{entry.name}" exists already', span=span)
    old = entry.constraints
    match constraint:
        case Check():
            named = replace(constraint, name=constraint.name or _check_name(entry, constraint, used_names))
            return replace(entry, constraints=replace(old, checks=(*old.checks, named)))
        case Unique():
            return _with_key(entry, constraint, used_names, span)
        case ForeignKey():
            found = _resolve_foreign_key(entry, constraint, catalog, span)
            name = found.name or _constraint_name(entry, found.columns, "fkey", used_names)
            keys = (*old.foreign_keys, replace(found, name=name))
            return replace(entry, constraints=replace(old, foreign_keys=keys))
        case _:
            assert_never(constraint)


def _with_key(entry: TableEntry, key: Unique, used_names: set[str], span: Span) -> TableEntry:
    old, schema = entry.constraints, entry.schema
    columns = _column_names(entry, key.columns, span)
    if key.primary:
        if schema.primary_key or any(unique.late for unique in old.uniques):
            raise ProgrammingError("a table has one primary key only", span=span)
        positions = tuple(schema.names.index(name) for name in columns)
        schema = Schema(
            tuple(
                replace(column, nullable=column.nullable and place not in positions)
                for place, column in enumerate(schema.columns)
            ),
            positions,
        )
    generated_name = _constraint_name(
        entry, () if key.primary else columns, "pkey" if key.primary else "key", used_names
    )
    named = replace(key, name=key.name or generated_name, columns=columns)
    return replace(entry, schema=schema, constraints=replace(old, uniques=(*old.uniques, named)))


def _column_names(entry: TableEntry, names: Iterable[str], span: Span) -> tuple[str, ...]:
    """Return column names as the table spells them."""
    known = {name.lower(): name for name in entry.schema.names}
    found = []
    for name in names:
        if name.lower() not in known:
            hint = did_you_mean(name, entry.schema.names)
            raise ProgrammingError(
                f'key column "{name}" of "{entry.name}" does not exist', span=span, hint=hint
            )
        found.append(known[name.lower()])
    return tuple(found)


def _resolve_foreign_key(entry: TableEntry, key: ForeignKey, catalog: Catalog, span: Span) -> ForeignKey:
    """Return a foreign key with the qualified name and the key columns of its target."""
    plain = entry.name.rpartition(".")[2]
    itself = key.target.lower() in (entry.name.lower(), plain.lower())
    target = entry if itself else catalog.table(key.target, span)
    columns = _column_names(entry, key.columns, span)
    wanted = key.target_columns or tuple(target.schema.names[i] for i in target.primary_key)
    if not wanted:
        raise ProgrammingError(
            f'"{target.name}" has no primary key to refer to', span=span, hint="name its columns"
        )
    targets = _column_names(target, wanted, span)
    if len(targets) != len(columns):
        raise ProgrammingError(f"a foreign key of {len(columns)} columns refers to {len(targets)}", span=span)
    keys = [tuple(name.lower() for name in one.columns) for one in target.constraints.uniques]
    order = next((one for one in keys if set(one) == {name.lower() for name in targets}), None)
    if order is None:
        raise ProgrammingError(
            f'({", ".join(targets)}) of "{target.name}" is not unique', span=span, hint="make it a key there"
        )
    pairs = sorted(zip(columns, targets, strict=True), key=lambda pair: order.index(pair[1].lower()))
    for name, other in pairs:
        one = entry.schema.types[entry.schema.names.index(name)]
        two = target.schema.types[target.schema.names.index(other)]
        if not have_same_words(one, two):
            raise NotSupportedError(
                f"a foreign key of {one} to {two} is not supported: {name} refers to {other}", span=span
            )
    return replace(
        key,
        columns=tuple(name for name, _ in pairs),
        target=target.name,
        target_columns=tuple(name for _, name in pairs),
        set_columns=_column_names(entry, key.set_columns, span),
    )


def _check_name(entry: TableEntry, check: Check, used_names: set[str]) -> str:
    column = check.column
    if not column:
        words = set(check.text.lower().replace("(", " ").replace(")", " ").split())
        used = [name for name in entry.schema.names if name.lower() in words]
        column = used[0] if len(used) == 1 else ""
    return _constraint_name(entry, (column,) if column else (), "check", used_names)


def _constraint_name(entry: TableEntry, columns: Iterable[str], kind: str, used_names: set[str]) -> str:
    plain = entry.name.rpartition(".")[2]
    return free_name("_".join((plain, *columns, kind)), used_names)


def free_name(name: str, used_names: Iterable[str]) -> str:
    """Return the name, with a number appended if it is taken."""
    lower_names = {used.lower() for used in used_names}
    name = name[:MAX_NAME_LENGTH]
    found, number = name, 0
    while found.lower() in lower_names:
        number += 1
        found = f"{name}{number}"
    return found
