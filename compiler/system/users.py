"""The catalogs of what users have made: functions and types."""

from collections.abc import Iterator
from typing import Final

from kpg.compiler.catalog import PUBLIC, Catalog
from kpg.compiler.constraints import Check, Domain
from kpg.compiler.routines import Aggregate, Routine
from kpg.compiler.system.naming import (
    ROUTINE_TYPES,
    array_number,
    modifier,
    number_of,
    role_number,
    schema_number,
    split,
    type_facts,
)
from kpg.compiler.system.ownership import array_of
from kpg.compiler.system.relations import Row
from kpg.compiler.system.words import quoted, shown_name
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
