"""Definition of a table by the catalog: constraint names, references, LIKE and sequences."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar, assert_never

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
from kpg.compiler.qualified_names import Resolved
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.rewrite.name_qualification import sequence_call
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.types import ColumnDef, Schema, same_words

if TYPE_CHECKING:
    pass

LONGEST: Final = 63
"""Characters of a name that is made."""
Key = TypeVar("Key", Unique, ForeignKey)


def definition(
    statement: ast.CreateTable, name: str, catalog: Catalog
) -> tuple[TableEntry, tuple[Sequence, ...]]:
    """The table that a statement defines under its whole name, and the sequences that come with it."""
    columns, constraints = _with_likes(statement, catalog)
    taken = {one.lower() for one in catalog.sequences}
    sequences: list[Sequence] = []
    rules = list(constraints.rules or (NO_RULE,) * len(columns))
    known = [column.name.lower() for column in columns]
    for column, numbers in statement.sequences:
        place = known.index(column.lower())
        sequence = _owned(numbers, name, column, taken, statement.span)
        sequences.append(sequence)
        if rules[place].default:
            raise ProgrammingError(f'column "{column}" has two defaults', span=statement.span)
        default = sequence_call(sequence.name)
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


def _owned(numbers: Sequence, table: str, column: str, taken: set[str], span: Span) -> Sequence:
    schema, _, plain = table.rpartition(".")
    name = numbers.name or free_name(f"{plain}_{column}_seq", {one.rpartition(".")[2] for one in taken})
    name = Resolved(f"{schema}.{name}" if schema and "." not in name else name)
    if name.lower() in taken:
        raise ProgrammingError(f'sequence "{name}" already exists', span=span)
    taken.add(name.lower())
    return replace(numbers, name=name, owner=(table, column))


def _with_likes(statement: ast.CreateTable, catalog: Catalog) -> tuple[tuple[ColumnDef, ...], Constraints]:
    """The columns and constraints of a statement with those of the tables that it is to be like."""
    written = list(statement.schema.columns)
    rules = list(statement.constraints.rules or (NO_RULE,) * len(written))
    given = statement.constraints
    offset = 0
    for like in statement.likes:
        entry = catalog.get(like.relation, statement.span)
        old = entry.constraints if isinstance(entry, TableEntry) else Constraints()
        at = like.place + offset
        for place, column in enumerate(entry.schema.columns):
            if column.name.lower() in (one.name.lower() for one in written):
                raise ProgrammingError(f'column "{column.name}" is defined twice', span=statement.span)
            keyed = place in entry.schema.primary_key
            written.insert(at + place, column)
            rules.insert(at + place, _liked(old.rule(place), like.including))
            del keyed
        offset += len(entry.schema.columns)
        if "CONSTRAINTS" in like.including:
            given = replace(given, checks=(*given.checks, *old.checks))
        if "INDEXES" in like.including:
            given = replace(given, uniques=(*given.uniques, *(replace(one, name="") for one in old.uniques)))
    return tuple(written), replace(given, rules=tuple(rules))


def _liked(rule: Rule, including: frozenset[str]) -> Rule:
    default = rule.default if "DEFAULTS" in including and not rule.identity else ""
    generated = rule.generated if "GENERATED" in including else ""
    return Rule(default, generated, domain=rule.domain, digits=rule.digits)


def with_constraint(entry: TableEntry, constraint: Constraint, catalog: Catalog, span: Span) -> TableEntry:
    """A table with one constraint more, which gets a name if it has none."""
    taken = {one.name.lower() for one in entry.constraints}
    if constraint.name and constraint.name.lower() in taken:
        raise ProgrammingError(f'constraint "{constraint.name}" of "{entry.name}" exists already', span=span)
    old = entry.constraints
    match constraint:
        case Check():
            named = replace(constraint, name=constraint.name or _check_name(entry, constraint, taken))
            return replace(entry, constraints=replace(old, checks=(*old.checks, named)))
        case Unique():
            return _with_key(entry, constraint, taken, span)
        case ForeignKey():
            found = _settled_key(entry, constraint, catalog, span)
            name = found.name or _made(entry, found.columns, "fkey", taken)
            keys = (*old.foreign_keys, replace(found, name=name))
            return replace(entry, constraints=replace(old, foreign_keys=keys))
        case _:
            assert_never(constraint)


def _with_key(entry: TableEntry, key: Unique, taken: set[str], span: Span) -> TableEntry:
    old, schema = entry.constraints, entry.schema
    columns = _known(entry, key.columns, span)
    if key.primary:
        if schema.primary_key or any(one.late for one in old.uniques):
            raise ProgrammingError("a table has one primary key only", span=span)
        positions = tuple(schema.names.index(name) for name in columns)
        schema = Schema(
            tuple(
                replace(column, nullable=column.nullable and place not in positions)
                for place, column in enumerate(schema.columns)
            ),
            positions,
        )
    made = _made(entry, () if key.primary else columns, "pkey" if key.primary else "key", taken)
    named = replace(key, name=key.name or made, columns=columns)
    return replace(entry, schema=schema, constraints=replace(old, uniques=(*old.uniques, named)))


def _known(entry: TableEntry, names: Iterable[str], span: Span) -> tuple[str, ...]:
    """Names of columns as the table spells them."""
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


def _settled_key(entry: TableEntry, key: ForeignKey, catalog: Catalog, span: Span) -> ForeignKey:
    """A foreign key with the whole name of its target and the columns there."""
    plain = entry.name.rpartition(".")[2]
    itself = key.target.lower() in (entry.name.lower(), plain.lower())
    target = entry if itself else catalog.table(key.target, span)
    columns = _known(entry, key.columns, span)
    wanted = key.target_columns or tuple(target.schema.names[i] for i in target.schema.primary_key)
    if not wanted:
        raise ProgrammingError(
            f'"{target.name}" has no primary key to refer to', span=span, hint="name its columns"
        )
    targets = _known(target, wanted, span)
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
        if not same_words(one, two):
            raise NotSupportedError(
                f"a foreign key of {one} to {two} is not supported: {name} refers to {other}", span=span
            )
    return replace(
        key,
        columns=tuple(name for name, _ in pairs),
        target=target.name,
        target_columns=tuple(name for _, name in pairs),
        set_columns=_known(entry, key.set_columns, span),
    )


def _check_name(entry: TableEntry, check: Check, taken: set[str]) -> str:
    column = check.column
    if not column:
        words = set(check.text.lower().replace("(", " ").replace(")", " ").split())
        used = [name for name in entry.schema.names if name.lower() in words]
        column = used[0] if len(used) == 1 else ""
    return _made(entry, (column,) if column else (), "check", taken)


def _made(entry: TableEntry, columns: Iterable[str], kind: str, taken: set[str]) -> str:
    plain = entry.name.rpartition(".")[2]
    return free_name("_".join((plain, *columns, kind)), taken)


def free_name(name: str, taken: Iterable[str]) -> str:
    """The name, with a number behind it if it is taken."""
    known = {one.lower() for one in taken}
    name = name[:LONGEST]
    found, number = name, 0
    while found.lower() in known:
        number += 1
        found = f"{name}{number}"
    return found
