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
from kpg.compiler.system.relations import Row
from kpg.runtime.types import Kind, Type

LANGUAGES: Final = {"internal": 12, "c": 13, "sql": 14, "plpgsql": 13500}


def routines(catalog: Catalog) -> Iterator[tuple[int, Routine | Aggregate]]:
    """The functions, procedures and aggregates, by their numbers."""
    for group in catalog.routines.values():
        for one in group:
            yield number_of("function", one.label), one
    for key, one in catalog.others.items():
        if key[0] == "AGGREGATE" and isinstance(one, Aggregate):
            listed = ", ".join(map(str, one.types))
            yield number_of("function", f"{one.name}({listed})"), one


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
        given = [type_name(type_).lower() for type_ in _types(one)]
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
        kind, language, body, strict, rows, result = "a", "internal", "aggregate_dummy", 0, 0, None
        if isinstance(one, Routine):
            kind = "p" if one.kind == "procedure" else "f"
            language, body, strict, rows = one.language, one.body, int(one.strict), int(one.rows)
            result = one.result
        definer = int(isinstance(one, Routine) and one.definer)
        facts = (0 if result is None else type_number_of(result), len(_types(one)), body)
        language_number = LANGUAGES.get(language.lower(), 14)
        yield (
            number,
            name,
            schema_number(schema),
            owner,
            kind,
            *facts,
            language_number,
            strict,
            rows,
            "v",
            definer,
        )


def _types(one: Routine | Aggregate) -> list[Type]:
    return list(one.types) if isinstance(one, Aggregate) else [part.type for part in one.parameters]


def type_name(type_: Type) -> str:
    """A type as psql shows it."""
    if type_.name:
        return type_.name
    return type_facts(type_)[0]


def type_number_of(type_: Type) -> int:
    """The number of a type, of those that users have made too."""
    if type_.name:
        return ROUTINE_TYPES.get(type_.name.lower()) or number_of("type", type_.name)
    return type_facts(type_)[2]


def arguments(one: Routine | Aggregate, *, defaults: bool = True) -> str:
    """What a function takes."""
    if isinstance(one, Aggregate):
        return ", ".join(map(type_name, one.types))
    parts = []
    for part in one.parameters:
        words = ["VARIADIC"] if part.variadic else []
        words += [part.name] if part.name else []
        words.append(type_name(part.type))
        words += ["DEFAULT", part.default] if part.default and defaults else []
        parts.append(" ".join(words))
    if not one.rows or len(one.outs) < 2:
        parts += [f"OUT {name} {type_name(type_)}" for name, type_ in one.outs]
    return ", ".join(parts)


def identity(one: Routine | Aggregate) -> str:
    """What it takes, without defaults."""
    return arguments(one, defaults=False)


def result(one: Routine | Aggregate) -> str | None:
    """What a function gives; None for a procedure."""
    if isinstance(one, Aggregate):
        return None
    if one.kind == "procedure":
        return None
    if one.rows and len(one.outs) > 1:
        return f"TABLE({', '.join(f'{name} {type_name(type_)}' for name, type_ in one.outs)})"
    return f"SETOF {type_name(one.result)}" if one.rows else type_name(one.result)


def definition(catalog: Catalog, one: Routine | Aggregate) -> str | None:
    """The CREATE OR REPLACE FUNCTION of a function."""
    if isinstance(one, Aggregate):
        return None
    schema, name = split(catalog, one.name)
    given = result(one)
    lines = [f"CREATE OR REPLACE {one.kind.upper()} {schema}.{name}({arguments(one)})"]
    lines += [] if given is None else [f" RETURNS {given}"]
    lines.append(f" LANGUAGE {one.language.lower()}{' STRICT' if one.strict else ''}")
    mark = "$function$" if one.kind == "function" else "$procedure$"
    return "\n".join(lines) + f"\nAS {mark}{one.body}{mark}\n"


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
            yield *head, "d", "U", base, modifier(one.type), int(one.required), one.default or None
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
        schema, name = split(catalog, whole)
        shown = name if schema in catalog.path else f"{schema}.{name}"
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
