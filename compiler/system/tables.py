"""Rows of ``pg_class``, ``pg_attribute`` and ``pg_attrdef``: relations, their columns and their DEFAULTs."""

from collections.abc import Iterator
from typing import Final

from kpg.compiler.catalog import Catalog, Entry, TableEntry, ViewEntry
from kpg.compiler.constraints import Check, Domain, ForeignKey
from kpg.compiler.security import security_of
from kpg.compiler.system import ownership, type_rows
from kpg.compiler.system.indexes import IndexFacts, included_parts, indexes, label_of
from kpg.compiler.system.kin import bound_text, inherited, is_partition, is_partitioned
from kpg.compiler.system.naming import modifier, number_of, schema_number, split, type_facts
from kpg.compiler.system.relations import Row, System, columns, constraints, entries
from kpg.compiler.system.stored import domain_at, modifier_at, physical, rule_of, type_at
from kpg.compiler.triggers import Heir
from kpg.runtime.types import Type
from kpg.runtime.values.words import BLOCK

HEAP, BTREE = 2, 403
"""Numbers of access methods."""


def _classes(catalog: Catalog) -> Iterator[Row]:
    known = list(indexes(catalog))
    yield from _relations(catalog, {one.entry.name for one in known})
    for one in catalog.sequences.values():
        schema, name = split(catalog, one.name)
        key = ("SEQUENCE", one.name.lower())
        number, owner = number_of("relation", one.name), ownership.number_of_owner(catalog, key)
        facts = (number, name, schema_number(schema), "S", 3, owner, "p")
        yield *facts, 1, 0, 0, 0, 0, ownership.listed(catalog, key), 0, 0, 0, 0, 0, None, "n", 1, 0
    for index in known:
        yield _index_class(catalog, index)
    for row in type_rows.classes(catalog):
        yield *row[:-1], 0, 0, 0, None, "n", 0, row[-1]


def _relations(catalog: Catalog, indexed: set[str]) -> Iterator[Row]:
    """Tables and views; ``indexed`` are those with indexes."""
    others = catalog.others.values()
    keys = [(entry.name, one.target) for _, entry, one in constraints(catalog) if isinstance(one, ForeignKey)]
    # Postgres keeps foreign keys by triggers on both sides, and psql looks for keys where there are some.
    linked = {name.lower() for pair in keys for name in pair}
    parents = {one.parent.lower() for one in others if isinstance(one, Heir)}
    counts = {str(name): int(str(rows)) for name, rows in catalog.consulted.session("rows")}
    checked = [entry.name for _, entry, one in constraints(catalog) if isinstance(one, Check)]
    for schema, name, entry in entries(catalog):
        lower = entry.name.lower()
        kind = _kind(catalog, entry)
        key = ("RELATION", lower)
        owner = ownership.number_of_owner(catalog, key)
        secured = security_of(catalog, entry.name)
        number, width = number_of("relation", entry.name), len(entry.schema.columns)
        tuples = counts.get(entry.name) or -1
        yield (
            *(number, name, schema_number(schema), kind, width),
            *(owner, "t" if schema.startswith("pg_temp") else "p", tuples, int(entry.name in indexed)),
            checked.count(entry.name),
            *(0 if kind in "vp" else HEAP, int(lower in linked), ownership.listed(catalog, key)),
            *(int(secured.enabled), int(secured.forced), int(kind in "vm")),
            *(int(lower in parents), int(is_partition(catalog, entry.name)), bound_text(catalog, entry.name)),
            "n" if kind == "v" else "d",
            -(-counts.get(entry.name, 0) // BLOCK),
            0,
        )


def _kind(catalog: Catalog, entry: Entry) -> str:
    if isinstance(entry, ViewEntry):
        return "m" if entry.materialized else "v"
    return "p" if is_partitioned(catalog, entry.name) else "r"


def _index_class(catalog: Catalog, index: IndexFacts) -> Row:
    schema, plain = split(catalog, index.name)
    owner = ownership.number_of_owner(catalog, ("RELATION", index.entry.name.lower()))
    kind = "I" if is_partitioned(catalog, index.entry.name) else "i"
    part = int(kind == "i" and is_partition(catalog, index.entry.name))
    kept = "t" if index.entry.name.startswith("pg_temp") else "p"
    width, below = len(index.parts) + len(included_parts(index)), int(kind == "I")
    head = (index.number, plain, schema_number(schema), kind, width, owner, kept, 0, 0, 0)
    return *head, BTREE, 0, None, 0, 0, 0, below, part, None, "n", 0, 0


Plain = tuple[int, str, Type, int]
"""The relation's number, the column's name, its type and its place."""


def _plain_column(number: int, name: str, type_: Type, place: int, its: int) -> Row:
    facts = type_facts(type_)
    head = (number, name, facts[2], facts[3], place, its)
    return *head, 0, 0, "", "", 0, None, *physical(facts[1], facts[3]), _dimensions(type_), 1, 0


def modifiers(catalog: Catalog) -> set[tuple[int, int]]:
    """The numbers of the types with the modifiers that columns, fields and domains have."""
    found = {
        (type_at(catalog, entry, place)[0], modifier_at(catalog, entry, place))
        for _, _, entry in entries(catalog)
        for place in range(len(entry.schema.columns))
    }
    parts = [type_ for _, _, type_, _ in type_rows.fields(catalog)]
    parts += [one.type for one in catalog.types.values() if isinstance(one, Domain)]
    found |= {(type_facts(type_)[2], modifier(type_)) for type_ in parts}
    return {one for one in found if one[1] >= 0}


def _dimensions(type_: Type) -> int:
    return int(type_.kind.value == "ARRAY")


def _attributes(catalog: Catalog) -> Iterator[Row]:
    for index in indexes(catalog):
        for place, part in enumerate((*index.parts, *included_parts(index)), 1):
            name = part.text if part.place else label_of(part)
            its = modifier_at(catalog, index.entry, part.place - 1) if part.place else -1
            yield _plain_column(index.number, name, part.type, place, its)
    for number, name, type_, place in type_rows.fields(catalog):
        yield _plain_column(number, name, type_, place, modifier(type_))
    for _, _, entry in entries(catalog):
        theirs = inherited(catalog, entry.name)
        for place, column in enumerate(entry.schema.columns):
            facts, rule = type_facts(column.type), rule_of(entry, place)
            number, length = type_at(catalog, entry, place)
            domain = domain_at(catalog, entry, place)
            required = not column.nullable and isinstance(entry, TableEntry)
            granted = ownership.listed(catalog, ("COLUMN", entry.name.lower(), column.name.lower()))
            from_others = column.name.lower() in theirs
            yield (
                *(number_of("relation", entry.name), column.name, number, length, place + 1),
                modifier_at(catalog, entry, place),
                int(required and not (domain is not None and domain.required)),
                int(bool(_default(catalog, entry, place))),
                {"ALWAYS": "a", "BY DEFAULT": "d"}.get(rule.identity, ""),
                "s" if rule.generated else "",
                *(0, granted, *physical(facts[1], length), _dimensions(column.type)),
                *(int(not from_others), int(from_others)),
            )


def _default(catalog: Catalog, entry: Entry, place: int) -> str:
    """What a column is given, or computed by; but for what its domain gives."""
    rule, domain = rule_of(entry, place), domain_at(catalog, entry, place)
    if rule.identity or (domain is not None and rule.default == domain.default and not rule.generated):
        return ""
    return rule.generated or rule.default


def default_text(catalog: Catalog, entry: Entry, place: int, *, pretty: bool) -> str:
    """The same in Postgres' words; empty without one."""
    text, rule = _default(catalog, entry, place), rule_of(entry, place)
    if not text:
        return ""
    given = None if rule.generated else entry.schema.types[place]
    return catalog.consulted.spelling.expression(catalog, entry, text, pretty, given)


def defaults(catalog: Catalog) -> Iterator[tuple[int, Entry, int]]:
    """The number, the relation and the place of each column with a DEFAULT."""
    for _, _, entry in entries(catalog):
        for place in range(len(entry.schema.columns)):
            if _default(catalog, entry, place):
                yield number_of("default", f"{entry.name} {place}"), entry, place


def _default_rows(catalog: Catalog) -> Iterator[Row]:
    for number, entry, place in defaults(catalog):
        text = default_text(catalog, entry, place, pretty=False)
        yield number, number_of("relation", entry.name), place + 1, text


POSTGRES: Final = {
    "pg_class": System(
        columns(
            "oid:o relname relnamespace:o relkind relnatts:i relowner:o relpersistence reltuples:i "
            "relhasindex:b relchecks:i relam:o relhastriggers:b relacl relrowsecurity:b "
            "relforcerowsecurity:b relhasrules:b relhassubclass:b relispartition:b relpartbound relreplident "
            "relpages:i reltype:o"
        ),
        _classes,
    ),
    "pg_attribute": System(
        columns(
            "attrelid:o attname atttypid:o attlen:i attnum:i atttypmod:i attnotnull:b atthasdef:b "
            "attidentity attgenerated attisdropped:b attacl attbyval:b attalign attstorage attcollation:o "
            "attndims:i attislocal:b attinhcount:i"
        ),
        _attributes,
    ),
    "pg_attrdef": System(columns("oid:o adrelid:o adnum:i adbin"), _default_rows),
}
