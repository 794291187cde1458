"""Rows of ``information_schema`` about columns, domains, composite types and their uses."""

from collections.abc import Iterator
from typing import Final

from kpg.compiler.catalog.constraints import Check, Domain, ForeignKey, Unique
from kpg.compiler.catalog.entries import Catalog, Entry, TableEntry, ViewEntry
from kpg.compiler.qualified_names import DATABASE
from kpg.compiler.system.oids import column_domain, column_rule, split_name
from kpg.compiler.system.pg_class import default_text
from kpg.compiler.system.pg_index import check_clause, referenced_columns
from kpg.compiler.system.relations import (
    Row,
    SystemRelation,
    accessible_entries,
    columns,
    listed_constraints,
    not_null_constraints,
    referenced_position,
    updatable_names,
    yes_or_no,
)
from kpg.compiler.system.user_objects import (
    TYPE_COLUMNS,
    composite_types,
    routine_types,
    standard_type_name,
    type_columns,
    udt_name,
)
from kpg.runtime.types import Type


def standard_columns(catalog: Catalog) -> Iterator[tuple[str, str, Entry, int]]:
    """Yield schema, relation, entry and position of each column. Materialized views are left out."""
    for schema, name, entry in accessible_entries(catalog):
        if isinstance(entry, TableEntry) or not entry.materialized:
            for place in range(len(entry.schema.columns)):
                yield schema, name, entry, place


def _columns_rows(catalog: Catalog) -> Iterator[Row]:
    for schema, name, entry, place in standard_columns(catalog):
        column, rule = entry.schema.columns[place], column_rule(entry, place)
        domain = column_domain(catalog, entry, place)
        text = default_text(catalog, entry, place, pretty=False) or None
        yield (
            *(DATABASE, schema, name, column.name, place + 1),
            None if rule.generated else text,
            yes_or_no(column.nullable or isinstance(entry, ViewEntry)),
            *type_columns(column.type, rule.digits),
            *((None, None, None) if domain is None else (DATABASE, *split_name(catalog, domain.name))),
            *udt_name(catalog, column.type),
            *(str(place + 1), "NO"),
            *_identity_columns(catalog, entry, place),
            "ALWAYS" if rule.generated else "NEVER",
            text if rule.generated else None,
            yes_or_no(column.name in updatable_names(catalog, entry)),
        )


def _identity_columns(catalog: Catalog, entry: Entry, position: int) -> Row:
    """Return the identity columns of a column: whether, how, and the bounds of its sequence."""
    rule = column_rule(entry, position)
    if not rule.identity:
        return "NO", None, None, None, None, None, "NO"
    one = catalog.sequences.get(rule.sequence.lower()) or catalog.find_sequence(rule.sequence)
    if one is None:
        return "YES", rule.identity, None, None, None, None, "NO"
    bounds = (str(one.start), str(one.increment), str(one.most), str(one.least))
    return "YES", rule.identity, *bounds, yes_or_no(one.cycle)


def _domains_rows(catalog: Catalog) -> Iterator[Row]:
    for one in user_domains(catalog):
        schema, name = split_name(catalog, one.name)
        spell = catalog.system_reads.deparser.expression
        default = spell(catalog, None, one.default, default_type=one.type) if one.default else None
        head = (DATABASE, schema, name, *type_columns(one.type), default)
        yield *head, *udt_name(catalog, one.type), "1"


def user_domains(catalog: Catalog) -> Iterator[Domain]:
    """Return the user-defined domains."""
    return (one for one in catalog.types.values() if isinstance(one, Domain))


def _domain_constraints_rows(catalog: Catalog) -> Iterator[Row]:
    for one in user_domains(catalog):
        schema, name = split_name(catalog, one.name)
        for check in one.checks:
            yield DATABASE, schema, check.name, DATABASE, schema, name, "NO", "NO"


def _domain_udt_usage_rows(catalog: Catalog) -> Iterator[Row]:
    for one in user_domains(catalog):
        yield *udt_name(catalog, one.type), DATABASE, *split_name(catalog, one.name)


def _column_domain_usage_rows(catalog: Catalog) -> Iterator[Row]:
    for schema, name, entry, place in standard_columns(catalog):
        domain = column_domain(catalog, entry, place)
        if domain is not None:
            whole = (DATABASE, *split_name(catalog, domain.name))
            yield *whole, DATABASE, schema, name, entry.schema.names[place]


def _column_udt_usage_rows(catalog: Catalog) -> Iterator[Row]:
    for schema, name, entry, place in standard_columns(catalog):
        its = udt_name(catalog, entry.schema.types[place])
        yield *its, DATABASE, schema, name, entry.schema.names[place]


def _attributes_rows(catalog: Catalog) -> Iterator[Row]:
    for whole, type_ in composite_types(catalog):
        schema, plain = split_name(catalog, whole)
        for place, (name, part) in enumerate(zip(type_.labels, type_.parts, strict=True), 1):
            head = (DATABASE, schema, plain, name, place, "YES", *type_columns(part))
            yield *head, *udt_name(catalog, part), str(place), "NO"


def _user_defined_types_rows(catalog: Catalog) -> Iterator[Row]:
    for whole, _ in composite_types(catalog):
        schema, name = split_name(catalog, whole)
        yield DATABASE, schema, name, "STRUCTURED", "YES"


def _element_types_rows(catalog: Catalog) -> Iterator[Row]:
    """Yield the element types of arrays."""
    for kind, schema, name, identifier, type_ in typed_objects(catalog):
        if type_.kind.value == "ARRAY":
            part = type_.parts[0]
            head = (DATABASE, schema, name, kind, identifier, standard_type_name(part))
            yield *head, *udt_name(catalog, part), f"a{identifier}"


def typed_objects(catalog: Catalog) -> Iterator[tuple[str, str, str, str, Type]]:
    """Yield kind, schema, name, type identifier and type for each type that an object uses."""

    for schema, name, entry, place in standard_columns(catalog):
        kind = "VIEW" if isinstance(entry, ViewEntry) else "TABLE"
        yield kind, schema, name, str(place + 1), entry.schema.types[place]
    for one in user_domains(catalog):
        yield "DOMAIN", *split_name(catalog, one.name), "1", one.type
    for whole, type_ in composite_types(catalog):
        for place, part in enumerate(type_.parts, 1):
            yield "USER-DEFINED TYPE", *split_name(catalog, whole), str(place), part
    for schema, specific, identifier, type_ in routine_types(catalog):
        yield "ROUTINE", schema, specific, identifier, type_


def _data_type_privileges_rows(catalog: Catalog) -> Iterator[Row]:
    for kind, schema, name, identifier, _ in typed_objects(catalog):
        shown = "TABLE" if kind == "VIEW" else kind
        yield DATABASE, schema, name, shown, identifier


def _column_column_usage_rows(catalog: Catalog) -> Iterator[Row]:
    """Yield the columns that generated columns read."""
    for schema, name, entry, place in standard_columns(catalog):
        if column_rule(entry, place).generated:
            for used in referenced_columns(entry, column_rule(entry, place).generated):
                yield DATABASE, schema, name, used, entry.schema.names[place]


def _check_constraints_rows(catalog: Catalog) -> Iterator[Row]:
    for schema, entry, one in listed_constraints(catalog):
        if isinstance(one, Check):
            yield DATABASE, schema, one.name, check_clause(catalog, entry, one)
    for domain in user_domains(catalog):
        for check in domain.checks:
            yield (
                DATABASE,
                split_name(catalog, domain.name)[0],
                check.name,
                check_clause(catalog, None, check),
            )
    for schema, _, label, column in not_null_constraints(catalog):
        yield DATABASE, schema, label, f"{column} IS NOT NULL"


def _constraint_column_usage_rows(catalog: Catalog) -> Iterator[Row]:
    for schema, entry, one in listed_constraints(catalog):
        names: tuple[str, ...]
        if isinstance(one, ForeignKey):
            whole, names = one.target, one.target_columns
        else:
            whole = entry.name
            names = one.columns if isinstance(one, Unique) else referenced_columns(entry, one.text)
        for column in names:
            yield DATABASE, *split_name(catalog, whole), column, DATABASE, schema, one.name


def _constraint_table_usage_rows(catalog: Catalog) -> Iterator[Row]:
    for schema, entry, one in listed_constraints(catalog):
        if isinstance(one, Unique | ForeignKey):
            whole = one.target if isinstance(one, ForeignKey) else entry.name
            yield DATABASE, *split_name(catalog, whole), DATABASE, schema, one.name


def _key_column_usage_rows(catalog: Catalog) -> Iterator[Row]:
    for schema, entry, one in listed_constraints(catalog):
        if isinstance(one, Unique | ForeignKey):
            name = split_name(catalog, entry.name)[1]
            for place, column in enumerate(one.columns):
                target = referenced_position(catalog, one, place) if isinstance(one, ForeignKey) else None
                yield DATABASE, schema, one.name, DATABASE, schema, name, column, place + 1, target


def _view_table_usage_rows(catalog: Catalog) -> Iterator[Row]:
    yield from dict.fromkeys(row[:6] for row in _view_column_usage_rows(catalog))


def _view_column_usage_rows(catalog: Catalog) -> Iterator[Row]:
    """Yield the columns that views use, as far as the text of their queries names them."""
    for view, used in catalog.system_reads.session_rows("uses"):
        entry, source = catalog.find(str(view)), catalog.find(str(used))
        if isinstance(entry, ViewEntry) and not entry.materialized and source is not None:
            where = (DATABASE, *split_name(catalog, entry.name), DATABASE, *split_name(catalog, source.name))
            names = list(source.schema.names) if "*" in entry.sql else referenced_columns(source, entry.sql)
            for name in names:
                yield *where, name


def _catalog_name_rows(_catalog: Catalog) -> Iterator[Row]:
    yield (DATABASE,)


def _character_sets_rows(_catalog: Catalog) -> Iterator[Row]:
    yield "UTF8", "UCS", "UTF8", DATABASE


UDT_COLUMNS: Final = "udt_catalog udt_schema udt_name"
TABLE_COLUMNS: Final = "table_catalog table_schema table_name"
CONSTRAINT_COLUMNS: Final = "constraint_catalog constraint_schema constraint_name"
INFORMATION_RELATIONS: Final = {
    "information_schema_catalog_name": SystemRelation(columns("catalog_name"), _catalog_name_rows),
    "character_sets": SystemRelation(
        columns("character_set_name character_repertoire form_of_use default_collate_catalog"),
        _character_sets_rows,
    ),
    "columns": SystemRelation(
        columns(
            f"{TABLE_COLUMNS} column_name ordinal_position:i column_default is_nullable {TYPE_COLUMNS} "
            f"domain_catalog domain_schema domain_name {UDT_COLUMNS} dtd_identifier is_self_referencing "
            "is_identity identity_generation identity_start identity_increment identity_maximum "
            "identity_minimum identity_cycle is_generated generation_expression is_updatable"
        ),
        _columns_rows,
    ),
    "domains": SystemRelation(
        columns(
            f"domain_catalog domain_schema domain_name {TYPE_COLUMNS} domain_default {UDT_COLUMNS} "
            "dtd_identifier"
        ),
        _domains_rows,
    ),
    "domain_constraints": SystemRelation(
        columns(
            f"{CONSTRAINT_COLUMNS} domain_catalog domain_schema domain_name is_deferrable initially_deferred"
        ),
        _domain_constraints_rows,
    ),
    "domain_udt_usage": SystemRelation(
        columns(f"{UDT_COLUMNS} domain_catalog domain_schema domain_name"), _domain_udt_usage_rows
    ),
    "column_domain_usage": SystemRelation(
        columns(f"domain_catalog domain_schema domain_name {TABLE_COLUMNS} column_name"),
        _column_domain_usage_rows,
    ),
    "column_udt_usage": SystemRelation(
        columns(f"{UDT_COLUMNS} {TABLE_COLUMNS} column_name"), _column_udt_usage_rows
    ),
    "column_column_usage": SystemRelation(
        columns(f"{TABLE_COLUMNS} column_name dependent_column"), _column_column_usage_rows
    ),
    "attributes": SystemRelation(
        columns(
            f"{UDT_COLUMNS} attribute_name ordinal_position:i is_nullable {TYPE_COLUMNS} "
            "attribute_udt_catalog attribute_udt_schema attribute_udt_name dtd_identifier "
            "is_derived_reference_attribute"
        ),
        _attributes_rows,
    ),
    "user_defined_types": SystemRelation(
        columns(
            "user_defined_type_catalog user_defined_type_schema user_defined_type_name "
            "user_defined_type_category is_instantiable"
        ),
        _user_defined_types_rows,
    ),
    "element_types": SystemRelation(
        columns(
            "object_catalog object_schema object_name object_type collection_type_identifier data_type "
            f"{UDT_COLUMNS} dtd_identifier"
        ),
        _element_types_rows,
    ),
    "data_type_privileges": SystemRelation(
        columns("object_catalog object_schema object_name object_type dtd_identifier"),
        _data_type_privileges_rows,
    ),
    "check_constraints": SystemRelation(
        columns(f"{CONSTRAINT_COLUMNS} check_clause"), _check_constraints_rows
    ),
    "constraint_column_usage": SystemRelation(
        columns(f"{TABLE_COLUMNS} column_name {CONSTRAINT_COLUMNS}"), _constraint_column_usage_rows
    ),
    "constraint_table_usage": SystemRelation(
        columns(f"{TABLE_COLUMNS} {CONSTRAINT_COLUMNS}"), _constraint_table_usage_rows
    ),
    "key_column_usage": SystemRelation(
        columns(
            f"{CONSTRAINT_COLUMNS} {TABLE_COLUMNS} column_name ordinal_position:i "
            "position_in_unique_constraint:i"
        ),
        _key_column_usage_rows,
    ),
    "view_table_usage": SystemRelation(
        columns(f"view_catalog view_schema view_name {TABLE_COLUMNS}"), _view_table_usage_rows
    ),
    "view_column_usage": SystemRelation(
        columns(f"view_catalog view_schema view_name {TABLE_COLUMNS} column_name"), _view_column_usage_rows
    ),
}
