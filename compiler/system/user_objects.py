"""Rows of ``pg_catalog`` and ``information_schema`` about user-defined functions and types."""

from collections.abc import Iterator
from typing import Final

from kpg.compiler.catalog.constraints import Check, Domain
from kpg.compiler.catalog.entries import PUBLIC, Catalog
from kpg.compiler.catalog.routines import Aggregate, Routine
from kpg.compiler.qualified_names import DATABASE
from kpg.compiler.system.oids import (
    ROUTINE_TYPES,
    array_number,
    modifier,
    number_of,
    quoted,
    role_number,
    schema_number,
    shown_name,
    split,
    type_facts,
)
from kpg.compiler.system.relations import (
    Row,
    System,
    array_of,
    columns,
    entries,
    expanded_privileges,
    only_own_privileges,
    yes,
)
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.types import Kind, Type

LANGUAGES: Final = {"internal": 12, "c": 13, "sql": 14}


def routines(catalog: Catalog) -> Iterator[tuple[int, Routine | Aggregate]]:
    """The functions and aggregates, by their numbers."""
    for routines_ in catalog.routines.values():
        for one in routines_:
            yield number_of("function", one.label), one
    for group in catalog.aggregates.values():
        for aggregate in group:
            listed = ", ".join(map(str, aggregate.types))
            yield number_of("function", f"{aggregate.name}({listed})"), aggregate


def named(catalog: Catalog, name: str) -> list[int]:
    """The numbers of the functions of a name, with or without the types of the arguments."""
    plain, _, arguments = name.replace('"', "").lower().partition("(")
    schema, _, rest = plain.strip().rpartition(".")
    wanted = [word.strip() for word in arguments.rstrip(") ").split(",")] if arguments.strip(") ") else []
    found = []
    for number, one in routines(catalog):
        its, short = split(catalog, one.name)
        if short.lower() != rest or schema not in ("", its):
            continue
        given = [type_name(catalog, type_).lower() for type_ in _types(one)]
        if "(" not in name or given == [_whole(word) for word in wanted]:
            found.append(number)
    return found


def _whole(word: str) -> str:
    return {"int": "integer", "text": "text", "varchar": "character varying", "bool": "boolean"}.get(
        word, word
    )


def function_rows(catalog: Catalog) -> Iterator[Row]:
    """Rows of pg_proc."""
    for number, one in routines(catalog):
        schema, name = split(catalog, one.name)
        owner = role_number(catalog.rights.owner(("FUNCTION", one.name.lower())))
        kind, language, body, strict, rows = "a", "internal", "aggregate_dummy", 0, 0
        if isinstance(one, Routine):
            kind, language, body, strict, rows = "f", "sql", one.body, int(one.strict), int(one.rows)
        definer = int(isinstance(one, Routine) and one.definer)
        gives = 0 if one.result is None else type_number_of(one.result)
        facts = (gives, len(_types(one)), body)
        language_number = LANGUAGES[language]
        head = (number, name, schema_number(schema), owner, kind, *facts, language_number, strict, rows)
        path = dict(one.declared).get("search_path") if isinstance(one, Routine) else None
        config = None if path is None else '{"search_path=' + path.replace('"', '\\"') + '"}'
        yield *head, definer, *_declared(catalog, one), *_argument_facts(one), config


def _declared(catalog: Catalog, one: Routine | Aggregate) -> Row:
    """What a function was said to be: volatility, leaks, parallel, cost, rows; and who may call it."""
    said = dict(one.declared) if isinstance(one, Routine) else {}
    volatility = said.get("volatility", "VOLATILE" if isinstance(one, Routine) else "IMMUTABLE")
    parallel = said.get("parallel", "PARALLEL UNSAFE").rpartition(" ")[2]
    leaks = int(said.get("leaks") == "LEAKPROOF")
    given = 1 if isinstance(one, Aggregate) else 100
    cost = int(float(said.get("cost", f"COST {given}").split()[1]))
    rows = said.get("rows", "ROWS 1000" if isinstance(one, Routine) and one.rows else "ROWS 0").split()[1]
    items = catalog.rights.lists.get(("FUNCTION", one.name.lower()))
    listed = None if items is None else array_of(items)
    return volatility[0].lower(), parallel[0].lower(), leaks, cost, int(float(rows)), listed


def _argument_facts(one: Routine | Aggregate) -> Row:
    """Of the arguments: types, how many have a DEFAULT, all types, modes, names, and the DEFAULTs."""
    types = " ".join(str(type_number_of(type_)) for type_ in _types(one))
    if isinstance(one, Aggregate):
        return types, 0, None, None, None, None
    parameters, table = one.parameters, one.rows and len(one.outs) > 1
    modes = ["v" if part.variadic else "i" for part in parameters] + ["t" if table else "o"] * len(one.outs)
    every = [*(part.type for part in parameters), *(type_ for _, type_ in one.outs)]
    names = [*(part.name for part in parameters), *(name for name, _ in one.outs)]
    defaults = [part.default for part in parameters if part.default]
    plain = set(modes) <= {"i"}
    return (
        types,
        len(defaults),
        None if plain else "{" + ",".join(str(type_number_of(type_)) for type_ in every) + "}",
        None if plain else "{" + ",".join(modes) + "}",
        "{" + ",".join(f'"{name}"' for name in names) + "}" if any(names) else None,
        ", ".join(defaults) or None,
    )


def _types(one: Routine | Aggregate) -> list[Type]:
    return list(one.types) if isinstance(one, Aggregate) else [part.type for part in one.parameters]


def type_name(catalog: Catalog, type_: Type) -> str:
    """A type as psql shows it."""
    if type_.kind.value == "ARRAY":
        return f"{type_name(catalog, type_.parts[0])}[]"
    if type_.name and type_.name.lower() in catalog.types:
        return shown_name(catalog, type_.name, "type")
    return type_.name or type_facts(type_)[0]


def type_number_of(type_: Type) -> int:
    """The number of a type, of those that users have made too."""
    if type_.name:
        return ROUTINE_TYPES.get(type_.name.lower()) or number_of("type", type_.name)
    return type_facts(type_)[2]


def arguments(catalog: Catalog, one: Routine | Aggregate, *, defaults: bool = True) -> str:
    """What a function takes."""
    if isinstance(one, Aggregate):
        return ", ".join(type_name(catalog, type_) for type_ in one.types)
    parts = []
    for part in one.parameters:
        words = ["VARIADIC"] if part.variadic else []
        words += [quoted(part.name)] if part.name else []
        words.append(type_name(catalog, part.type))
        if part.default and defaults:
            spelling = catalog.consulted.spelling
            words += ["DEFAULT", spelling.expression(catalog, None, part.default, given=part.type)]
        parts.append(" ".join(words))
    if not one.rows or len(one.outs) < 2:
        parts += [f"OUT {quoted(name)} {type_name(catalog, type_)}" for name, type_ in one.outs]
    return ", ".join(parts)


def identity(catalog: Catalog, one: Routine | Aggregate) -> str:
    """What it takes, without defaults."""
    return arguments(catalog, one, defaults=False)


def result(catalog: Catalog, one: Routine | Aggregate) -> str | None:
    """What a function gives."""
    if isinstance(one, Aggregate):
        return None if one.result is None else type_name(catalog, one.result)
    if one.rows and len(one.outs) > 1:
        listed = (f"{quoted(name)} {type_name(catalog, type_)}" for name, type_ in one.outs)
        return f"TABLE({', '.join(listed)})"
    return f"SETOF {type_name(catalog, one.result)}" if one.rows else type_name(catalog, one.result)


def definition(catalog: Catalog, one: Routine | Aggregate) -> str | None:
    """The CREATE OR REPLACE FUNCTION of a function; ProgrammingError for an aggregate, as in Postgres."""
    if isinstance(one, Aggregate):
        raise ProgrammingError(f'"{split(catalog, one.name)[1]}" is an aggregate function')
    schema, name = split(catalog, one.name)
    head = f"{quoted(schema)}.{quoted(name)}({arguments(catalog, one)})"
    lines = [f"CREATE OR REPLACE FUNCTION {head}", f" RETURNS {result(catalog, one)}", " LANGUAGE sql"]
    said = dict(one.declared)
    words = [said.get("window", ""), said.get("volatility", "").replace("VOLATILE", "")]
    words.append(said.get("parallel", "").replace("PARALLEL UNSAFE", ""))
    words += ["STRICT" if one.strict else "", "SECURITY DEFINER" if one.definer else ""]
    words.append(said.get("leaks", "").replace("NOT LEAKPROOF", ""))
    words += [said.get("cost", "").replace("COST 100", ""), said.get("rows", "").replace("ROWS 1000", "")]
    lines += [f" {' '.join(word for word in words if word)}"] if any(words) else []
    if one.path is not None:
        lines.append(f" SET search_path TO {', '.join(map(_in_quotes, said['search_path'].split(',')))}")
    return "\n".join(lines) + f"\nAS $function${one.body}$function$\n"


def _in_quotes(schema: str) -> str:
    name = schema.strip().strip('"').replace("'", "''")
    return f"'{name}'"


def type_rows(catalog: Catalog) -> Iterator[Row]:
    """Of pg_type the number, name, schema, kind, category, base type, its modifier, NOT NULL and default."""
    for name, number in ROUTINE_TYPES.items():
        yield number, name, 11, "p", "P", 0, -1, 0, None
    for key, one in catalog.types.items():
        whole = one.name or key
        schema, name = split(catalog, whole)
        head = (number_of("type", whole), name, schema_number(schema))
        if isinstance(one, Domain):
            base = type_number_of(one.type)
            spell = catalog.consulted.spelling.expression
            given = spell(catalog, None, one.default, given=one.type) if one.default else None
            yield *head, "d", "U", base, modifier(one.type), int(one.required), given
        else:
            kind = "e" if one.kind is Kind.ENUM else "c"
            yield *head, kind, "E" if kind == "e" else "C", 0, -1, 0, None


def composites(catalog: Catalog) -> Iterator[tuple[str, Type]]:
    """The types of rows that users have made, with their names."""
    for key, one in catalog.types.items():
        if isinstance(one, Type) and one.kind is Kind.RECORD:
            yield one.name or key, one


def named_type(catalog: Catalog, text: str) -> int | None:
    """The number of the type of a user's that a name stands for, or of arrays of it."""
    parts = [part.strip('"') if part.startswith('"') else part.lower() for part in text.split(".")]
    listed = parts[-1].endswith("[]") or parts[-1][:1] == "_"
    parts[-1] = parts[-1].removesuffix("[]").removeprefix("_").strip('"') if listed else parts[-1]
    plain = ".".join(parts[1:] if parts[0] == PUBLIC else parts)
    for key, one in catalog.types.items():
        whole = one.name or key
        schema, name = split(catalog, whole)
        if plain.lower() in (whole.lower(), name.lower() if schema in catalog.path else whole.lower()):
            number = number_of("type", whole)
            return array_number(number) if listed else number
    return None


def enum_rows(catalog: Catalog) -> Iterator[Row]:
    """Rows of pg_enum."""
    for key, one in catalog.types.items():
        if isinstance(one, Type) and one.kind is Kind.ENUM:
            whole = one.name or key
            for place, label in enumerate(one.labels, 1):
                yield number_of("label", f"{whole} {label}"), number_of("type", whole), place, label


def type_names(catalog: Catalog) -> dict[int, str]:
    """The names of the types that users have made, by their numbers."""
    names = {number: name for name, number in ROUTINE_TYPES.items()}
    for key, one in catalog.types.items():
        whole = one.name or key
        shown = shown_name(catalog, whole, "type")
        names[number_of("type", whole)] = shown
        names[array_number(number_of("type", whole))] = f"{shown}[]"
    return names


def domain_checks(catalog: Catalog) -> Iterator[tuple[int, Check, int, int]]:
    """The CHECKs of domains: its number, it, and the numbers of the schema and of the domain."""
    for key, one in catalog.types.items():
        if isinstance(one, Domain):
            whole = one.name or key
            schema = schema_number(split(catalog, whole)[0])
            for check in one.checks:
                yield (
                    number_of("constraint", f"{whole} {check.name}"),
                    check,
                    schema,
                    number_of("type", whole),
                )


BITS: Final = {"int2": 16, "int4": 32, "int8": 64, "float4": 24, "float8": 53}
MOST_BYTES: Final = 2**30
"""Of a text without a length."""
BYTES: Final = 4
"""Of the longest character."""
DIGITS: Final = 6
"""Of a second, where a type does not say how many."""
MOMENTS: Final = ("time", "timetz", "timestamp", "timestamptz", "interval")
FACTS: Final = (
    "data_type:h character_maximum_length:i character_octet_length:i numeric_precision:i "
    "numeric_precision_radix:i numeric_scale:i datetime_precision:i"
)
"""The columns that :func:`facts` gives."""


def is_users(type_: Type) -> bool:
    """Whether users have made the type."""
    return bool(type_.name) and type_.kind in (Kind.ENUM, Kind.RECORD)


def kind_of(type_: Type) -> str:
    """The name of a type as the standard has it."""
    if type_.kind.value == "ARRAY":
        return "ARRAY"
    return "USER-DEFINED" if is_users(type_) else type_facts(type_)[0]


def facts(type_: Type, digits: int = -1) -> Row:
    """The name of a type, its lengths and its digits; ``digits`` are those of a second, -1 unless told."""
    short = type_facts(type_)[1]
    length = type_.precision or None
    is_text = short in ("text", "varchar", "bpchar")
    most = (length if is_text or short in ("bit", "varbit") else None) if short != "text" else None
    octets = (MOST_BYTES if most is None else most * BYTES) if is_text else None
    bits = BITS.get(short)
    scale: int | None = None
    if short.startswith("int") and bits is not None:
        scale = 0
    elif short == "numeric" and length is not None:
        scale = type_.scale
    precision = bits or (length if short == "numeric" else None)
    radix = 2 if bits is not None else 10 if short == "numeric" else None
    moment = 0 if short == "date" else None
    if short in MOMENTS:
        moment = digits if digits >= 0 else DIGITS
    return kind_of(type_), most, octets, precision, radix, scale, moment


def identified(catalog: Catalog, type_: Type) -> Row:
    """The database, the schema and the short name of a type."""
    if type_.kind.value == "ARRAY" and not type_.name:
        _, schema, name = identified(catalog, type_.parts[0])
        return DATABASE, schema, f"_{name}"
    if is_users(type_):
        return DATABASE, *split(catalog, type_.name)
    return DATABASE, "pg_catalog", type_facts(type_)[1]


MODES: Final = {"i": "IN", "o": "OUT", "b": "INOUT", "v": "IN", "t": "OUT"}


def specific_name(catalog: Catalog, number: int, name: str) -> str:
    """By what a routine is told from others of its name."""
    return f"{split(catalog, name)[1]}_{number}"


def _known(catalog: Catalog) -> Iterator[tuple[str, str, Routine]]:
    """Schema, specific name and routine; aggregates are none to the standard."""
    for number, one in routines(catalog):
        if isinstance(one, Routine):
            yield split(catalog, one.name)[0], specific_name(catalog, number, one.name), one


def taken(one: Routine) -> list[tuple[str, str, Type, str]]:
    """The arguments and what else a routine gives: mode, name, type and the text of the DEFAULT."""
    found = [("v" if part.variadic else "i", part.name, part.type, part.default) for part in one.parameters]
    table = one.rows and len(one.outs) > 1
    return found + [("t" if table else "o", name, type_, "") for name, type_ in one.outs]


def typed_routines(catalog: Catalog) -> Iterator[tuple[str, str, str, Type]]:
    """Schema and specific name of each routine and the places and types of what it takes; 0 is the result."""
    for schema, specific, one in _known(catalog):
        for place, (_, _, type_, _) in enumerate(taken(one), 1):
            yield schema, specific, str(place), type_
        yield schema, specific, "0", one.result


def _parameters(catalog: Catalog) -> Iterator[Row]:
    spell = catalog.consulted.spelling.expression
    for schema, specific, one in _known(catalog):
        for place, (mode, name, type_, default) in enumerate(taken(one), 1):
            head = (DATABASE, schema, specific, place, MODES[mode], "NO", "NO", name or None)
            given = spell(catalog, None, default, given=type_) if default else None
            yield *head, kind_of(type_), *identified(catalog, type_), str(place), given


def _routines(catalog: Catalog) -> Iterator[Row]:
    for schema, specific, one in _known(catalog):
        told = dict(one.declared)
        own = catalog.rights.acts_as(catalog.asker.user)
        shown = not catalog.is_limited or catalog.rights.owner(("FUNCTION", one.name.lower())) in own
        yield (
            *(DATABASE, schema, specific, DATABASE, schema, split(catalog, one.name)[1]),
            *("FUNCTION", kind_of(one.result), *identified(catalog, one.result), "0"),
            "SQL",
            one.body if shown else None,
            *("SQL", "GENERAL", yes(told.get("volatility") == "IMMUTABLE"), "MODIFIES"),
            *(yes(one.strict), "YES", 0),
            *("DEFINER" if one.definer else "INVOKER", "NO", "NO"),
        )


def _routine_privileges(catalog: Catalog) -> Iterator[Row]:
    for number, one in routines(catalog):
        schema, plain = split(catalog, one.name)
        specific = specific_name(catalog, number, one.name)
        for grantor, grantee, word, passing in expanded_privileges(catalog, ("FUNCTION", one.name.lower())):
            where = (DATABASE, schema, specific, DATABASE, schema, plain)
            yield grantor, grantee, *where, word, yes(passing)


def _type_privileges(catalog: Catalog) -> Iterator[Row]:
    """Of types of rows, which relations have, too."""
    found = [(split(catalog, whole), ("TYPE", whole.lower())) for whole, _ in composites(catalog)]
    for (schema, name), key in found:
        for grantor, grantee, _, passing in expanded_privileges(catalog, key, letters="U"):
            yield grantor, grantee, DATABASE, schema, name, "TYPE USAGE", yes(passing)
    for schema, name, entry in entries(catalog):
        owner = catalog.rights.owner(("RELATION", entry.name.lower()))
        for grantee in (owner, "PUBLIC"):
            yield owner, grantee, DATABASE, schema, name, "TYPE USAGE", yes(grantee == owner)


ROUTINE: Final = (
    "grantor grantee specific_catalog specific_schema specific_name routine_catalog routine_schema "
    "routine_name privilege_type is_grantable"
)
TYPE: Final = "grantor grantee udt_catalog udt_schema udt_name privilege_type is_grantable"
INFORMATION: Final = {
    "routines": System(
        columns(
            "specific_catalog specific_schema specific_name routine_catalog routine_schema routine_name "
            "routine_type data_type type_udt_catalog type_udt_schema type_udt_name dtd_identifier "
            "routine_body routine_definition external_language parameter_style is_deterministic "
            "sql_data_access is_null_call schema_level_routine max_dynamic_result_sets:i security_type "
            "as_locator is_udt_dependent"
        ),
        _routines,
    ),
    "parameters": System(
        columns(
            "specific_catalog specific_schema specific_name ordinal_position:i parameter_mode is_result "
            "as_locator parameter_name data_type udt_catalog udt_schema udt_name dtd_identifier "
            "parameter_default"
        ),
        _parameters,
    ),
    "routine_privileges": System(columns(ROUTINE), _routine_privileges),
    "role_routine_grants": System(columns(ROUTINE), only_own_privileges(_routine_privileges)),
    "udt_privileges": System(columns(TYPE), _type_privileges),
    "role_udt_grants": System(columns(TYPE), only_own_privileges(_type_privileges)),
}
