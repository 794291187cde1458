"""Rows of ``information_schema`` about columns, domains, composite types and their uses."""

from collections.abc import Iterator
from typing import Final

from kpg.compiler.catalog.constraints import Check, Domain, ForeignKey, Unique
from kpg.compiler.catalog.entries import Catalog, Entry, TableEntry, ViewEntry
from kpg.compiler.qualified_names import DATABASE
from kpg.compiler.system.oids import domain_at, rule_of, split
from kpg.compiler.system.pg_class import default_text
from kpg.compiler.system.pg_index import check_clause, named_in
from kpg.compiler.system.relations import (
    Row,
    System,
    allowed,
    columns,
    constraints,
    place_of_key,
    required,
    written_names,
    yes,
)
from kpg.compiler.system.user_objects import FACTS, composites, facts, identified, kind_of, typed_routines
from kpg.runtime.types import Type


def places(catalog: Catalog) -> Iterator[tuple[str, str, Entry, int]]:
    """Schema, relation, its entry and the place of each column that the standard has."""
    for schema, name, entry in allowed(catalog):
        if isinstance(entry, TableEntry) or not entry.materialized:
            for place in range(len(entry.schema.columns)):
                yield schema, name, entry, place


def _columns(catalog: Catalog) -> Iterator[Row]:
    for schema, name, entry, place in places(catalog):
        column, rule = entry.schema.columns[place], rule_of(entry, place)
        domain = domain_at(catalog, entry, place)
        text = default_text(catalog, entry, place, pretty=False) or None
        yield (
            *(DATABASE, schema, name, column.name, place + 1),
            None if rule.generated else text,
            yes(column.nullable or isinstance(entry, ViewEntry)),
            *facts(column.type, rule.digits),
            *((None, None, None) if domain is None else (DATABASE, *split(catalog, domain.name))),
            *identified(catalog, column.type),
            *(str(place + 1), "NO"),
            *_identity(catalog, entry, place),
            "ALWAYS" if rule.generated else "NEVER",
            text if rule.generated else None,
            yes(column.name in written_names(catalog, entry)),
        )


def _identity(catalog: Catalog, entry: Entry, place: int) -> Row:
    """Whether a column numbers itself, how, and by what sequence."""
    rule = rule_of(entry, place)
    if not rule.identity:
        return "NO", None, None, None, None, None, "NO"
    one = catalog.sequences.get(rule.sequence.lower()) or catalog.find_sequence(rule.sequence)
    if one is None:
        return "YES", rule.identity, None, None, None, None, "NO"
    bounds = (str(one.start), str(one.increment), str(one.most), str(one.least))
    return "YES", rule.identity, *bounds, yes(one.cycle)


def _domains(catalog: Catalog) -> Iterator[Row]:
    for one in domains(catalog):
        schema, name = split(catalog, one.name)
        spell = catalog.consulted.spelling.expression
        default = spell(catalog, None, one.default, given=one.type) if one.default else None
        head = (DATABASE, schema, name, *facts(one.type), default)
        yield *head, *identified(catalog, one.type), "1"


def domains(catalog: Catalog) -> Iterator[Domain]:
    """The domains that users have made."""
    return (one for one in catalog.types.values() if isinstance(one, Domain))


def _domain_constraints(catalog: Catalog) -> Iterator[Row]:
    for one in domains(catalog):
        schema, name = split(catalog, one.name)
        for check in one.checks:
            yield DATABASE, schema, check.name, DATABASE, schema, name, "NO", "NO"


def _domain_types(catalog: Catalog) -> Iterator[Row]:
    for one in domains(catalog):
        yield *identified(catalog, one.type), DATABASE, *split(catalog, one.name)


def _domain_columns(catalog: Catalog) -> Iterator[Row]:
    for schema, name, entry, place in places(catalog):
        domain = domain_at(catalog, entry, place)
        if domain is not None:
            whole = (DATABASE, *split(catalog, domain.name))
            yield *whole, DATABASE, schema, name, entry.schema.names[place]


def _type_columns(catalog: Catalog) -> Iterator[Row]:
    for schema, name, entry, place in places(catalog):
        its = identified(catalog, entry.schema.types[place])
        yield *its, DATABASE, schema, name, entry.schema.names[place]


def _attributes(catalog: Catalog) -> Iterator[Row]:
    for whole, type_ in composites(catalog):
        schema, plain = split(catalog, whole)
        for place, (name, part) in enumerate(zip(type_.labels, type_.parts, strict=True), 1):
            head = (DATABASE, schema, plain, name, place, "YES", *facts(part))
            yield *head, *identified(catalog, part), str(place), "NO"


def _composites(catalog: Catalog) -> Iterator[Row]:
    for whole, _ in composites(catalog):
        schema, name = split(catalog, whole)
        yield DATABASE, schema, name, "STRUCTURED", "YES"


def _elements(catalog: Catalog) -> Iterator[Row]:
    """The types of what is in arrays."""
    for kind, schema, name, identifier, type_ in typed(catalog):
        if type_.kind.value == "ARRAY":
            part = type_.parts[0]
            head = (DATABASE, schema, name, kind, identifier, kind_of(part))
            yield *head, *identified(catalog, part), f"a{identifier}"


def typed(catalog: Catalog) -> Iterator[tuple[str, str, str, str, Type]]:
    """The kind, the schema and the name of what has a type, the type's identifier there, and the type."""

    for schema, name, entry, place in places(catalog):
        kind = "VIEW" if isinstance(entry, ViewEntry) else "TABLE"
        yield kind, schema, name, str(place + 1), entry.schema.types[place]
    for one in domains(catalog):
        yield "DOMAIN", *split(catalog, one.name), "1", one.type
    for whole, type_ in composites(catalog):
        for place, part in enumerate(type_.parts, 1):
            yield "USER-DEFINED TYPE", *split(catalog, whole), str(place), part
    for schema, specific, identifier, type_ in typed_routines(catalog):
        yield "ROUTINE", schema, specific, identifier, type_


def _typed(catalog: Catalog) -> Iterator[Row]:
    for kind, schema, name, identifier, _ in typed(catalog):
        shown = "TABLE" if kind == "VIEW" else kind
        yield DATABASE, schema, name, shown, identifier


def _generating(catalog: Catalog) -> Iterator[Row]:
    """Which columns are computed from which."""
    for schema, name, entry, place in places(catalog):
        if rule_of(entry, place).generated:
            for used in named_in(entry, rule_of(entry, place).generated):
                yield DATABASE, schema, name, used, entry.schema.names[place]


def _checks(catalog: Catalog) -> Iterator[Row]:
    for schema, entry, one in constraints(catalog):
        if isinstance(one, Check):
            yield DATABASE, schema, one.name, check_clause(catalog, entry, one)
    for domain in domains(catalog):
        for check in domain.checks:
            yield DATABASE, split(catalog, domain.name)[0], check.name, check_clause(catalog, None, check)
    for schema, _, label, column in required(catalog):
        yield DATABASE, schema, label, f"{column} IS NOT NULL"


def _constraint_columns(catalog: Catalog) -> Iterator[Row]:
    for schema, entry, one in constraints(catalog):
        names: tuple[str, ...]
        if isinstance(one, ForeignKey):
            whole, names = one.target, one.target_columns
        else:
            whole = entry.name
            names = one.columns if isinstance(one, Unique) else named_in(entry, one.text)
        for column in names:
            yield DATABASE, *split(catalog, whole), column, DATABASE, schema, one.name


def _constraint_tables(catalog: Catalog) -> Iterator[Row]:
    for schema, entry, one in constraints(catalog):
        if isinstance(one, Unique | ForeignKey):
            whole = one.target if isinstance(one, ForeignKey) else entry.name
            yield DATABASE, *split(catalog, whole), DATABASE, schema, one.name


def _key_columns(catalog: Catalog) -> Iterator[Row]:
    for schema, entry, one in constraints(catalog):
        if isinstance(one, Unique | ForeignKey):
            name = split(catalog, entry.name)[1]
            for place, column in enumerate(one.columns):
                target = place_of_key(catalog, one, place) if isinstance(one, ForeignKey) else None
                yield DATABASE, schema, one.name, DATABASE, schema, name, column, place + 1, target


def _view_tables(catalog: Catalog) -> Iterator[Row]:
    yield from dict.fromkeys(row[:6] for row in _view_columns(catalog))


def _view_columns(catalog: Catalog) -> Iterator[Row]:
    """The columns of relations that views use, as far as their texts name them."""
    for view, used in catalog.consulted.session("uses"):
        entry, source = catalog.find(str(view)), catalog.find(str(used))
        if isinstance(entry, ViewEntry) and not entry.materialized and source is not None:
            where = (DATABASE, *split(catalog, entry.name), DATABASE, *split(catalog, source.name))
            names = list(source.schema.names) if "*" in entry.sql else named_in(source, entry.sql)
            for name in names:
                yield *where, name


def _database(_catalog: Catalog) -> Iterator[Row]:
    yield (DATABASE,)


def _character_sets(_catalog: Catalog) -> Iterator[Row]:
    yield "UTF8", "UCS", "UTF8", DATABASE


UDT: Final = "udt_catalog udt_schema udt_name"
WHERE: Final = "table_catalog table_schema table_name"
NAMED: Final = "constraint_catalog constraint_schema constraint_name"
INFORMATION: Final = {
    "information_schema_catalog_name": System(columns("catalog_name"), _database),
    "character_sets": System(
        columns("character_set_name character_repertoire form_of_use default_collate_catalog"),
        _character_sets,
    ),
    "columns": System(
        columns(
            f"{WHERE} column_name ordinal_position:i column_default is_nullable {FACTS} domain_catalog "
            f"domain_schema domain_name {UDT} dtd_identifier is_self_referencing is_identity "
            "identity_generation identity_start identity_increment identity_maximum identity_minimum "
            "identity_cycle is_generated generation_expression is_updatable"
        ),
        _columns,
    ),
    "domains": System(
        columns(f"domain_catalog domain_schema domain_name {FACTS} domain_default {UDT} dtd_identifier"),
        _domains,
    ),
    "domain_constraints": System(
        columns(f"{NAMED} domain_catalog domain_schema domain_name is_deferrable initially_deferred"),
        _domain_constraints,
    ),
    "domain_udt_usage": System(columns(f"{UDT} domain_catalog domain_schema domain_name"), _domain_types),
    "column_domain_usage": System(
        columns(f"domain_catalog domain_schema domain_name {WHERE} column_name"), _domain_columns
    ),
    "column_udt_usage": System(columns(f"{UDT} {WHERE} column_name"), _type_columns),
    "column_column_usage": System(columns(f"{WHERE} column_name dependent_column"), _generating),
    "attributes": System(
        columns(
            f"{UDT} attribute_name ordinal_position:i is_nullable {FACTS} attribute_udt_catalog "
            "attribute_udt_schema attribute_udt_name dtd_identifier is_derived_reference_attribute"
        ),
        _attributes,
    ),
    "user_defined_types": System(
        columns(
            "user_defined_type_catalog user_defined_type_schema user_defined_type_name "
            "user_defined_type_category is_instantiable"
        ),
        _composites,
    ),
    "element_types": System(
        columns(
            "object_catalog object_schema object_name object_type collection_type_identifier data_type "
            f"{UDT} dtd_identifier"
        ),
        _elements,
    ),
    "data_type_privileges": System(
        columns("object_catalog object_schema object_name object_type dtd_identifier"), _typed
    ),
    "check_constraints": System(columns(f"{NAMED} check_clause"), _checks),
    "constraint_column_usage": System(columns(f"{WHERE} column_name {NAMED}"), _constraint_columns),
    "constraint_table_usage": System(columns(f"{WHERE} {NAMED}"), _constraint_tables),
    "key_column_usage": System(
        columns(f"{NAMED} {WHERE} column_name ordinal_position:i position_in_unique_constraint:i"),
        _key_columns,
    ),
    "view_table_usage": System(columns(f"view_catalog view_schema view_name {WHERE}"), _view_tables),
    "view_column_usage": System(
        columns(f"view_catalog view_schema view_name {WHERE} column_name"), _view_columns
    ),
}
