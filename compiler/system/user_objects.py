"""Rows of ``pg_catalog`` and ``information_schema`` about user-defined functions and types."""

from collections.abc import Iterator
from typing import Final

from kpg.compiler.catalog.constraints import Check, Domain
from kpg.compiler.catalog.entries import PUBLIC, Catalog
from kpg.compiler.catalog.routines import Aggregate, Routine
from kpg.compiler.qualified_names import DATABASE
from kpg.compiler.system.oids import (
    ROUTINE_TYPES,
    array_oid,
    display_name,
    oid_of,
    quote_identifier,
    role_oid,
    schema_oid,
    split_name,
    type_facts,
    type_modifier,
)
from kpg.compiler.system.relations import (
    Row,
    SystemRelation,
    acl_array,
    columns,
    expand_privileges,
    for_enabled_roles,
    listed_entries,
    yes_or_no,
)
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.types import Kind, Type

LANGUAGES: Final = {"internal": 12, "c": 13, "sql": 14}
"""OIDs of the languages of functions."""


def listed_routines(catalog: Catalog) -> Iterator[tuple[int, Routine | Aggregate]]:
    """Yield the user-defined functions and aggregates with their OIDs."""
    for routines_ in catalog.routines.values():
        for one in routines_:
            yield oid_of("function", one.label), one
    for group in catalog.aggregates.values():
        for aggregate in group:
            listed = ", ".join(map(str, aggregate.types))
            yield oid_of("function", f"{aggregate.name}({listed})"), aggregate


def find_routine_oids(catalog: Catalog, name: str) -> list[int]:
    """Return the OIDs of the functions of a name, with or without argument types."""
    plain, _, arguments = name.replace('"', "").lower().partition("(")
    schema, _, rest = plain.strip().rpartition(".")
    wanted = [word.strip() for word in arguments.rstrip(") ").split(",")] if arguments.strip(") ") else []
    found = []
    for number, one in listed_routines(catalog):
        its, short = split_name(catalog, one.name)
        if short.lower() != rest or schema not in ("", its):
            continue
        given = [display_type(catalog, type_).lower() for type_ in _argument_types(one)]
        if "(" not in name or given == [_full_type_name(word) for word in wanted]:
            found.append(number)
    return found


def _full_type_name(word: str) -> str:
    return {"int": "integer", "text": "text", "varchar": "character varying", "bool": "boolean"}.get(
        word, word
    )


def user_function_rows(catalog: Catalog) -> Iterator[Row]:
    """Yield the rows of ``pg_proc`` for user-defined functions and aggregates."""
    for number, one in listed_routines(catalog):
        schema, name = split_name(catalog, one.name)
        owner = role_oid(catalog.privileges.owner(("FUNCTION", one.name.lower())))
        kind, language, body, strict, rows = "a", "internal", "aggregate_dummy", 0, 0
        if isinstance(one, Routine):
            kind, language, body, strict, rows = "f", "sql", one.body, int(one.strict), int(one.rows)
        definer = int(isinstance(one, Routine) and one.definer)
        gives = 0 if one.result is None else type_oid(one.result)
        facts = (gives, len(_argument_types(one)), body)
        language_number = LANGUAGES[language]
        head = (number, name, schema_oid(schema), owner, kind, *facts, language_number, strict, rows)
        path = dict(one.declared).get("search_path") if isinstance(one, Routine) else None
        config = None if path is None else '{"search_path=' + path.replace('"', '\\"') + '"}'
        yield *head, definer, *_routine_attributes(catalog, one), *_argument_columns(one), config


def _routine_attributes(catalog: Catalog, routine: Routine | Aggregate) -> Row:
    """Return volatility, parallel safety, leakproofness, cost, rows and ACL."""
    said = dict(routine.declared) if isinstance(routine, Routine) else {}
    volatility = said.get("volatility", "VOLATILE" if isinstance(routine, Routine) else "IMMUTABLE")
    parallel = said.get("parallel", "PARALLEL UNSAFE").rpartition(" ")[2]
    leaks = int(said.get("leaks") == "LEAKPROOF")
    given = 1 if isinstance(routine, Aggregate) else 100
    cost = int(float(said.get("cost", f"COST {given}").split()[1]))
    rows = said.get(
        "rows", "ROWS 1000" if isinstance(routine, Routine) and routine.rows else "ROWS 0"
    ).split()[1]
    items = catalog.privileges.acls.get(("FUNCTION", routine.name.lower()))
    listed = None if items is None else acl_array(items)
    return volatility[0].lower(), parallel[0].lower(), leaks, cost, int(float(rows)), listed


def _argument_columns(routine: Routine | Aggregate) -> Row:
    """Return argument types, number of DEFAULTs, all types, modes, names and DEFAULTs."""
    types = " ".join(str(type_oid(type_)) for type_ in _argument_types(routine))
    if isinstance(routine, Aggregate):
        return types, 0, None, None, None, None
    parameters, table = routine.parameters, routine.rows and len(routine.outs) > 1
    modes = ["v" if part.variadic else "i" for part in parameters] + ["t" if table else "o"] * len(
        routine.outs
    )
    every = [*(part.type for part in parameters), *(type_ for _, type_ in routine.outs)]
    names = [*(part.name for part in parameters), *(name for name, _ in routine.outs)]
    defaults = [part.default for part in parameters if part.default]
    plain = set(modes) <= {"i"}
    return (
        types,
        len(defaults),
        None if plain else "{" + ",".join(str(type_oid(type_)) for type_ in every) + "}",
        None if plain else "{" + ",".join(modes) + "}",
        "{" + ",".join(f'"{name}"' for name in names) + "}" if any(names) else None,
        ", ".join(defaults) or None,
    )


def _argument_types(routine: Routine | Aggregate) -> list[Type]:
    return (
        list(routine.types) if isinstance(routine, Aggregate) else [part.type for part in routine.parameters]
    )


def display_type(catalog: Catalog, type_: Type) -> str:
    """Return a type's name as psql shows it."""
    if type_.kind.value == "ARRAY":
        return f"{display_type(catalog, type_.parts[0])}[]"
    if type_.name and type_.name.lower() in catalog.types:
        return display_name(catalog, type_.name, "type")
    return type_.name or type_facts(type_)[0]


def type_oid(type_: Type) -> int:
    """Return the OID of a type, built-in or user-defined."""
    if type_.name:
        return ROUTINE_TYPES.get(type_.name.lower()) or oid_of("type", type_.name)
    return type_facts(type_)[2]


def argument_text(catalog: Catalog, routine: Routine | Aggregate, *, defaults: bool = True) -> str:
    """Return the parameters of a function as SQL."""
    if isinstance(routine, Aggregate):
        return ", ".join(display_type(catalog, type_) for type_ in routine.types)
    parts = []
    for part in routine.parameters:
        words = ["VARIADIC"] if part.variadic else []
        words += [quote_identifier(part.name)] if part.name else []
        words.append(display_type(catalog, part.type))
        if part.default and defaults:
            spelling = catalog.system_reads.deparser
            words += ["DEFAULT", spelling.expression(catalog, None, part.default, default_type=part.type)]
        parts.append(" ".join(words))
    if not routine.rows or len(routine.outs) < 2:
        parts += [
            f"OUT {quote_identifier(name)} {display_type(catalog, type_)}" for name, type_ in routine.outs
        ]
    return ", ".join(parts)


def identity_argument_text(catalog: Catalog, routine: Routine | Aggregate) -> str:
    """Return the parameters of a function without DEFAULTs."""
    return argument_text(catalog, routine, defaults=False)


def result_text(catalog: Catalog, routine: Routine | Aggregate) -> str | None:
    """Return the result of a function as SQL; None if it is not known."""
    if isinstance(routine, Aggregate):
        return None if routine.result is None else display_type(catalog, routine.result)
    if routine.rows and len(routine.outs) > 1:
        listed = (f"{quote_identifier(name)} {display_type(catalog, type_)}" for name, type_ in routine.outs)
        return f"TABLE({', '.join(listed)})"
    return (
        f"SETOF {display_type(catalog, routine.result)}"
        if routine.rows
        else display_type(catalog, routine.result)
    )


def function_definition(catalog: Catalog, routine: Routine | Aggregate) -> str | None:
    """Return the CREATE OR REPLACE FUNCTION statement of a function.

    Raises:
        ProgrammingError: It is an aggregate, as in Postgres.
    """
    if isinstance(routine, Aggregate):
        raise ProgrammingError(f'"{split_name(catalog, routine.name)[1]}" is an aggregate function')
    schema, name = split_name(catalog, routine.name)
    head = f"{quote_identifier(schema)}.{quote_identifier(name)}({argument_text(catalog, routine)})"
    lines = [
        f"CREATE OR REPLACE FUNCTION {head}",
        f" RETURNS {result_text(catalog, routine)}",
        " LANGUAGE sql",
    ]
    said = dict(routine.declared)
    words = [said.get("window", ""), said.get("volatility", "").replace("VOLATILE", "")]
    words.append(said.get("parallel", "").replace("PARALLEL UNSAFE", ""))
    words += ["STRICT" if routine.strict else "", "SECURITY DEFINER" if routine.definer else ""]
    words.append(said.get("leaks", "").replace("NOT LEAKPROOF", ""))
    words += [said.get("cost", "").replace("COST 100", ""), said.get("rows", "").replace("ROWS 1000", "")]
    lines += [f" {' '.join(word for word in words if word)}"] if any(words) else []
    if routine.path is not None:
        lines.append(f" SET search_path TO {', '.join(map(_in_quotes, said['search_path'].split(',')))}")
    return "\n".join(lines) + f"\nAS $function${routine.body}$function$\n"


def _in_quotes(schema: str) -> str:
    name = schema.strip().strip('"').replace("'", "''")
    return f"'{name}'"


def user_type_rows(catalog: Catalog) -> Iterator[Row]:
    """Yield columns of ``pg_type`` for pseudo-types and user-defined types.

    They are OID, name, schema, kind, category, base type, modifier, NOT NULL and default.
    """
    for name, number in ROUTINE_TYPES.items():
        yield number, name, 11, "p", "P", 0, -1, 0, None
    for key, one in catalog.types.items():
        whole = one.name or key
        schema, name = split_name(catalog, whole)
        head = (oid_of("type", whole), name, schema_oid(schema))
        if isinstance(one, Domain):
            base = type_oid(one.type)
            spell = catalog.system_reads.deparser.expression
            given = spell(catalog, None, one.default, default_type=one.type) if one.default else None
            yield *head, "d", "U", base, type_modifier(one.type), int(one.required), given
        else:
            kind, category = {Kind.ENUM: ("e", "E"), Kind.EXTENSION: ("b", "U")}.get(one.kind, ("c", "C"))
            yield *head, kind, category, 0, -1, 0, None


def composite_types(catalog: Catalog) -> Iterator[tuple[str, Type]]:
    """Yield the names and types of the user-defined composite types."""
    for key, one in catalog.types.items():
        if isinstance(one, Type) and one.kind is Kind.RECORD:
            yield one.name or key, one


def user_type_oid(catalog: Catalog, text: str) -> int | None:
    """Return the OID of a user-defined type or of its array type; None if there is none of that name."""
    parts = [part.strip('"') if part.startswith('"') else part.lower() for part in text.split(".")]
    listed = parts[-1].endswith("[]") or parts[-1][:1] == "_"
    parts[-1] = parts[-1].removesuffix("[]").removeprefix("_").strip('"') if listed else parts[-1]
    plain = ".".join(parts[1:] if parts[0] == PUBLIC else parts)
    for key, one in catalog.types.items():
        whole = one.name or key
        schema, name = split_name(catalog, whole)
        if plain.lower() in (whole.lower(), name.lower() if schema in catalog.path else whole.lower()):
            number = oid_of("type", whole)
            return array_oid(number) if listed else number
    return None


def pg_enum_rows(catalog: Catalog) -> Iterator[Row]:
    """Yield the rows of ``pg_enum``."""
    for key, one in catalog.types.items():
        if isinstance(one, Type) and one.kind is Kind.ENUM:
            whole = one.name or key
            for place, label in enumerate(one.labels, 1):
                yield oid_of("label", f"{whole} {label}"), oid_of("type", whole), place, label


def user_type_names(catalog: Catalog) -> dict[int, str]:
    """Return the names of pseudo-types and user-defined types by OID."""
    names = {number: name for name, number in ROUTINE_TYPES.items()}
    for key, one in catalog.types.items():
        whole = one.name or key
        shown = display_name(catalog, whole, "type")
        names[oid_of("type", whole)] = shown
        names[array_oid(oid_of("type", whole))] = f"{shown}[]"
    return names


def domain_checks(catalog: Catalog) -> Iterator[tuple[int, Check, int, int]]:
    """Yield the OID of each CHECK of a domain, the CHECK, and the OIDs of the schema and the domain."""
    for key, one in catalog.types.items():
        if isinstance(one, Domain):
            whole = one.name or key
            schema = schema_oid(split_name(catalog, whole)[0])
            for check in one.checks:
                yield (
                    oid_of("constraint", f"{whole} {check.name}"),
                    check,
                    schema,
                    oid_of("type", whole),
                )


BITS: Final = {"int2": 16, "int4": 32, "int8": 64, "float4": 24, "float8": 53}
MAX_TEXT_BYTES: Final = 2**30
"""Maximum length of a text without a declared length, in bytes."""
MAX_CHARACTER_BYTES: Final = 4
"""Length of the longest character in UTF-8."""
DEFAULT_SECOND_DIGITS: Final = 6
"""Fractional digits of a second if a type does not declare them."""
FRACTIONAL_TYPES: Final = ("time", "timetz", "timestamp", "timestamptz", "interval")
TYPE_COLUMNS: Final = (
    "data_type:h character_maximum_length:i character_octet_length:i numeric_precision:i "
    "numeric_precision_radix:i numeric_scale:i datetime_precision:i"
)
"""The columns of :func:`type_columns`."""


def is_user_defined(type_: Type) -> bool:
    """Return whether a type is user-defined."""
    return bool(type_.name) and type_.kind in (Kind.ENUM, Kind.EXTENSION, Kind.RECORD)


def standard_type_name(type_: Type) -> str:
    """Return the name of a type in the SQL standard."""
    if type_.kind.value == "ARRAY":
        return "ARRAY"
    return "USER-DEFINED" if is_user_defined(type_) else type_facts(type_)[0]


def type_columns(type_: Type, digits: int = -1) -> Row:
    """Return the name, lengths and digits of a type; ``digits`` are those of a second, -1 if undeclared."""
    short = type_facts(type_)[1]
    length = type_.precision or None
    is_text = short in ("text", "varchar", "bpchar")
    most = (length if is_text or short in ("bit", "varbit") else None) if short != "text" else None
    octets = (MAX_TEXT_BYTES if most is None else most * MAX_CHARACTER_BYTES) if is_text else None
    bits = BITS.get(short)
    scale: int | None = None
    if short.startswith("int") and bits is not None:
        scale = 0
    elif short == "numeric" and length is not None:
        scale = type_.scale
    precision = bits or (length if short == "numeric" else None)
    radix = 2 if bits is not None else 10 if short == "numeric" else None
    moment = 0 if short == "date" else None
    if short in FRACTIONAL_TYPES:
        moment = digits if digits >= 0 else DEFAULT_SECOND_DIGITS
    return standard_type_name(type_), most, octets, precision, radix, scale, moment


def udt_name(catalog: Catalog, type_: Type) -> Row:
    """Return the database, the schema and the short name of a type."""
    if type_.kind.value == "ARRAY" and not type_.name:
        _, schema, name = udt_name(catalog, type_.parts[0])
        return DATABASE, schema, f"_{name}"
    if is_user_defined(type_):
        return DATABASE, *split_name(catalog, type_.name)
    return DATABASE, "pg_catalog", type_facts(type_)[1]


PARAMETER_MODES: Final = {"i": "IN", "o": "OUT", "b": "INOUT", "v": "IN", "t": "OUT"}


def specific_name(catalog: Catalog, oid: int, name: str) -> str:
    """Return the specific name of a routine, which is unique among overloads."""
    return f"{split_name(catalog, name)[1]}_{oid}"


def _standard_routines(catalog: Catalog) -> Iterator[tuple[str, str, Routine]]:
    """Yield schema, specific name and routine. The SQL standard has no aggregates among routines."""
    for number, one in listed_routines(catalog):
        if isinstance(one, Routine):
            yield split_name(catalog, one.name)[0], specific_name(catalog, number, one.name), one


def parameters_of(routine: Routine) -> list[tuple[str, str, Type, str]]:
    """Return mode, name, type and DEFAULT of the parameters and result columns of a routine."""
    found = [
        ("v" if part.variadic else "i", part.name, part.type, part.default) for part in routine.parameters
    ]
    table = routine.rows and len(routine.outs) > 1
    return found + [("t" if table else "o", name, type_, "") for name, type_ in routine.outs]


def routine_types(catalog: Catalog) -> Iterator[tuple[str, str, str, Type]]:
    """Yield schema, specific name, identifier and type of each parameter and result; the result is ``0``."""
    for schema, specific, one in _standard_routines(catalog):
        for place, (_, _, type_, _) in enumerate(parameters_of(one), 1):
            yield schema, specific, str(place), type_
        yield schema, specific, "0", one.result


def _parameters_rows(catalog: Catalog) -> Iterator[Row]:
    spell = catalog.system_reads.deparser.expression
    for schema, specific, one in _standard_routines(catalog):
        for place, (mode, name, type_, default) in enumerate(parameters_of(one), 1):
            head = (DATABASE, schema, specific, place, PARAMETER_MODES[mode], "NO", "NO", name or None)
            given = spell(catalog, None, default, default_type=type_) if default else None
            yield *head, standard_type_name(type_), *udt_name(catalog, type_), str(place), given


def _routines_rows(catalog: Catalog) -> Iterator[Row]:
    for schema, specific, one in _standard_routines(catalog):
        told = dict(one.declared)
        own = catalog.privileges.effective_roles(catalog.asker.user)
        shown = (
            not catalog.checks_privileges or catalog.privileges.owner(("FUNCTION", one.name.lower())) in own
        )
        yield (
            *(DATABASE, schema, specific, DATABASE, schema, split_name(catalog, one.name)[1]),
            *("FUNCTION", standard_type_name(one.result), *udt_name(catalog, one.result), "0"),
            "SQL",
            one.body if shown else None,
            *("SQL", "GENERAL", yes_or_no(told.get("volatility") == "IMMUTABLE"), "MODIFIES"),
            *(yes_or_no(one.strict), "YES", 0),
            *("DEFINER" if one.definer else "INVOKER", "NO", "NO"),
        )


def _routine_privileges_rows(catalog: Catalog) -> Iterator[Row]:
    for number, one in listed_routines(catalog):
        schema, plain = split_name(catalog, one.name)
        specific = specific_name(catalog, number, one.name)
        for grantor, grantee, word, passing in expand_privileges(catalog, ("FUNCTION", one.name.lower())):
            where = (DATABASE, schema, specific, DATABASE, schema, plain)
            yield grantor, grantee, *where, word, yes_or_no(passing)


def _udt_privileges_rows(catalog: Catalog) -> Iterator[Row]:
    """Yield the privileges on composite types, including the row types of relations."""
    found = [(split_name(catalog, whole), ("TYPE", whole.lower())) for whole, _ in composite_types(catalog)]
    for (schema, name), key in found:
        for grantor, grantee, _, passing in expand_privileges(catalog, key, letters="U"):
            yield grantor, grantee, DATABASE, schema, name, "TYPE USAGE", yes_or_no(passing)
    for schema, name, entry in listed_entries(catalog):
        owner = catalog.privileges.owner(("RELATION", entry.name.lower()))
        for grantee in (owner, "PUBLIC"):
            yield owner, grantee, DATABASE, schema, name, "TYPE USAGE", yes_or_no(grantee == owner)


ROUTINE_PRIVILEGE_COLUMNS: Final = (
    "grantor grantee specific_catalog specific_schema specific_name routine_catalog routine_schema "
    "routine_name privilege_type is_grantable"
)
TYPE_PRIVILEGE_COLUMNS: Final = "grantor grantee udt_catalog udt_schema udt_name privilege_type is_grantable"
INFORMATION: Final = {
    "routines": SystemRelation(
        columns(
            "specific_catalog specific_schema specific_name routine_catalog routine_schema routine_name "
            "routine_type data_type type_udt_catalog type_udt_schema type_udt_name dtd_identifier "
            "routine_body routine_definition external_language parameter_style is_deterministic "
            "sql_data_access is_null_call schema_level_routine max_dynamic_result_sets:i security_type "
            "as_locator is_udt_dependent"
        ),
        _routines_rows,
    ),
    "parameters": SystemRelation(
        columns(
            "specific_catalog specific_schema specific_name ordinal_position:i parameter_mode is_result "
            "as_locator parameter_name data_type udt_catalog udt_schema udt_name dtd_identifier "
            "parameter_default"
        ),
        _parameters_rows,
    ),
    "routine_privileges": SystemRelation(columns(ROUTINE_PRIVILEGE_COLUMNS), _routine_privileges_rows),
    "role_routine_grants": SystemRelation(
        columns(ROUTINE_PRIVILEGE_COLUMNS), for_enabled_roles(_routine_privileges_rows)
    ),
    "udt_privileges": SystemRelation(columns(TYPE_PRIVILEGE_COLUMNS), _udt_privileges_rows),
    "role_udt_grants": SystemRelation(
        columns(TYPE_PRIVILEGE_COLUMNS), for_enabled_roles(_udt_privileges_rows)
    ),
}
