"""Catalog functions: privilege inquiries such as ``has_table_privilege``, and lookups by OID or name.

Over a column, a function is a lookup in a map of the catalog's present state. The functions cover types,
user-defined routines, relations, constraints and visibility.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from sqlglot import exp

from kpg.compiler.catalog.access_control import is_secured, need_schema
from kpg.compiler.catalog.cache import noting, viewpoint
from kpg.compiler.catalog.entries import Catalog, ViewEntry
from kpg.compiler.catalog.privileges import ALL, DATABASE, LETTERS, PUBLIC, Key
from kpg.compiler.catalog.routines import Aggregate, Routine
from kpg.compiler.sql.bind.calls import call, coerce
from kpg.compiler.sql.bind.scope import Binding
from kpg.compiler.sql.parse.syntax import span_of
from kpg.compiler.system import oids, pg_catalog, pg_class, pg_index, user_objects
from kpg.compiler.system.oids import is_visible, quoted
from kpg.compiler.system.pg_index import indexes
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.functions.user_functions import Declared, scalar_function
from kpg.runtime.scalar import Call, If, Literal, Named, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, OID, TEXT, Type
from kpg.runtime.unsupported_features import unsupported_type
from kpg.runtime.values.words import BLANKS

T = TypeVar("T", bound=Mapping[Any, str])
Known = Mapping[int, str] | Mapping[str, str]


def choice(binding: Binding, node: exp.Expr, number: Scalar, known: Iterable[tuple[int, str]]) -> Scalar:
    """The text of a number, NULL if it has none."""
    return chosen(binding, number, dict(known))


def kept_choice(
    binding: Binding, number: Scalar, key: Hashable, known: Callable[[], Iterable[tuple[int, str]]]
) -> Scalar:
    """As :func:`choice`, of what is the same until the catalog is another; by ``key``, whose it is."""
    return chosen(binding, number, kept_texts(binding, key, lambda: dict(known())))


def kept_texts(binding: Binding, key: Hashable, make: Callable[[], T]) -> T:
    """Texts that are the same until the catalog is another."""
    catalog = binding.catalog.told or binding.catalog
    whole = (key, viewpoint(catalog))
    found: T | None = catalog.consulted.kept.get(catalog, whole)
    if found is None:
        with noting(catalog) as told:
            found = make()
        catalog.consulted.kept.put(catalog, whole, found, told)
    return found


def chosen(binding: Binding, value: Scalar, known: Known) -> Scalar:
    """The text of a number, or of a text, NULL if it has none: looked up by a function of this plan's own.

    What is kept has to be made again when the database is opened, so it has no such function.
    """
    found: Mapping[Any, str] = known
    if isinstance(value, Literal):
        if value.value is None:
            return Literal(None, TEXT)
        return Literal(found.get(int(value.value) if value.type.is_numeric else value.value), TEXT)
    if not known:
        return Literal(None, TEXT)
    type_ = TEXT if value.type.is_text else BIGINT
    if binding.kept:
        return _searched(binding, coerce(value, type_), sorted(found.items()))
    return Call(_looked_up(binding, found, type_), (coerce(value, type_),), TEXT)


def _searched(binding: Binding, value: Scalar, known: Sequence[tuple[Any, str]]) -> Scalar:
    """As nested CASEs by halves, since what walks a scalar is recursive."""
    if not known:
        return Literal(None, TEXT)
    middle = len(known) // 2
    key, text = known[middle]
    at = Literal(key, value.type)
    below, above = (_searched(binding, value, part) for part in (known[:middle], known[middle + 1 :]))
    otherwise = below if below == above else If(_is(binding, "lt", value, at), below, above, TEXT)
    return If(_is(binding, "eq", value, at), Literal(text, TEXT), otherwise, TEXT)


def _is(binding: Binding, name: str, value: Scalar, key: Scalar) -> Scalar:
    return call(binding, name, [value, key], exp.Null())


def _looked_up(binding: Binding, known: Mapping[Any, str], type_: Type) -> "Named[Any]":

    consulted = binding.catalog.consulted
    consulted.times, consulted.steady = consulted.times + 1, consulted.steady + 1
    declared = Declared("looked up", consulted.times, (type_,), "what the catalogs say of it")
    return scalar_function(declared, known.get, TEXT, columns=False, nulls=False)


def formatted(binding: Binding, node: exp.Anonymous, args: list[Scalar]) -> Scalar:
    """The name of a type by its number; what columns have of a length, or precision and scale, in it."""
    plain = type_names(binding, args[0], node)
    if len(args) < 2 or isinstance(args[1], Literal):
        modified = oids.modified(*(one.value for one in args if isinstance(one, Literal)))
        return plain if modified is None else Literal(modified, TEXT)
    whole = kept_texts(binding, "modifiers", lambda: dict(_modified(binding)))
    if not whole:
        return plain
    shifted = call(binding, "mul", [coerce(args[0], BIGINT), Literal(1 << 32, BIGINT)], node)
    key = call(binding, "add", [shifted, coerce(args[1], BIGINT)], node)
    return call(binding, "coalesce", [chosen(binding, key, whole), plain], node)


def _modified(binding: Binding) -> Iterator[tuple[int, str]]:
    """The names of types with lengths and digits, by numbers that both are in."""
    for number, place in pg_class.modifiers(binding.catalog):
        shown = oids.modified(number, place)
        if shown is not None:
            yield number << 32 | place, shown


def reg_type(binding: Binding, operand: Scalar, node: exp.Cast) -> Scalar:
    """Of a name the type's number, of a number its name."""
    if isinstance(operand, Literal) and isinstance(operand.value, str):
        number = type_number(binding, operand)
        if number is None:
            if (refusal := unsupported_type(operand.value, span_of(node, binding.source))) is not None:
                raise refusal
            binding.wrong(f'type "{operand.value}" does not exist', node)
        return Literal(number, OID)
    return operand if operand.type.is_text else type_names(binding, operand, node)


def type_number(binding: Binding, name: Scalar) -> int | None:
    """The number of the type of that name, None if there is none, or it is no constant."""
    if not isinstance(name, Literal) or name.value is None:
        return None
    text = str(name.value)
    return (
        int(text)
        if text.isdigit()
        else oids.type_number(text) or user_objects.named_type(binding.catalog, text)
    )


def type_names(binding: Binding, number: Scalar, node: exp.Expr) -> Scalar:
    """The name of the type of a number."""

    def names() -> Iterable[tuple[int, str]]:
        given = {0: "-"} | {one: name for one, (name, _) in oids.every_type().items()}
        return (given | user_objects.type_names(binding.catalog)).items()

    return kept_choice(binding, number, "types", names)


WHOLE: Final = "pg_get_functiondef"


def of_routine(binding: Binding, node: exp.Anonymous, name: str, number: Scalar) -> Scalar:
    """What a function takes or gives, or all of it."""
    catalog = binding.catalog
    tells: dict[str, Callable[[Routine | Aggregate], str | None]] = {
        "pg_get_function_arguments": partial(user_objects.arguments, catalog),
        "pg_get_function_identity_arguments": partial(user_objects.identity, catalog),
        "pg_get_function_result": partial(user_objects.result, catalog),
        WHOLE: partial(user_objects.definition, catalog),
    }
    tell = tells[name]
    if isinstance(number, Literal) and isinstance(number.value, str):
        number = Literal(routine_number(binding, number.value, node), OID)
    asked = int(number.value) if isinstance(number, Literal) and number.value is not None else None
    found = (
        (one, tell(routine))
        for one, routine in user_objects.routines(catalog)
        if asked == one or (asked is None and (name != WHOLE or isinstance(routine, Routine)))
    )
    text = choice(binding, node, number, ((one, shown) for one, shown in found if shown is not None))
    return call(binding, "coalesce", [text, Literal("", TEXT)], node) if "arguments" in name else text


def routine_number(binding: Binding, name: str, node: exp.Expr) -> int:
    """The number of the function of a name."""
    found = user_objects.named(binding.catalog, name.removeprefix("pg_catalog."))
    if len(found) > 1:
        binding.wrong(f'more than one function named "{name}"', node)
    if not found:
        plain = name.partition("(")[0].removeprefix("pg_catalog.").lower()
        if pg_catalog.is_function(plain):
            return oids.number_of("function", plain)
        binding.wrong(f'function "{name}" does not exist', node)
    return found[0]


def routine_names(binding: Binding, operand: Scalar, node: exp.Cast, kind: str) -> Scalar:
    """A cast to regprocedure or regoperator: of a number the name, if there is one."""
    if kind == "regprocedure" and isinstance(operand, Literal) and isinstance(operand.value, str):
        routine_number(binding, operand.value, node)
        return Literal(operand.value, TEXT)
    routines = user_objects.routines(binding.catalog) if kind == "regprocedure" else ()
    return choice(binding, node, operand, ((number, one.name) for number, one in routines))


def routine_named(binding: Binding, number: Scalar, node: exp.Expr) -> Scalar:
    """The name of the routine of a number, of those that nobody has made, too."""
    return choice(binding, node, number, pg_catalog.every_routine(binding.catalog))


def as_number(binding: Binding, scalar: Scalar) -> Scalar:
    """A relation's number, by its name if that is given."""
    if isinstance(scalar, Literal) and isinstance(scalar.value, str):
        return Literal(relation_number(binding, scalar.value), BIGINT)
    return scalar


def relation_number(binding: Binding, text: str) -> int | None:
    """The number of a relation, sequence or index by its name; None if there is none."""
    name = re.sub(r"(?a)\s*\.\s*", ".", text.replace('"', "").strip(BLANKS))
    if name.isdigit():
        return int(name)
    entry = binding.catalog.find(name)
    if entry is not None:
        return oids.number_of("relation", entry.name)
    sequence = binding.catalog.find_sequence(name)
    if sequence is not None:
        return oids.number_of("relation", sequence.name)
    plain = name.lower().removeprefix("public.")
    whole = {plain, *(f"{schema}.{plain}" for schema in binding.catalog.path)}
    index = next((one for one in indexes(binding.catalog) if one.name.lower() in whole), None)
    if index is not None:
        return index.number
    plain = name.lower().removeprefix("pg_catalog.")
    return oids.system_number(plain) if pg_catalog.find(plain) is not None else None


def definition_text(binding: Binding, node: exp.Anonymous, name: str, args: list[Scalar]) -> Scalar:
    """The text by which something was made, or a part of it; ``pretty`` for people, if they say so."""

    catalog = binding.catalog
    last = args[-1] if len(args) > 1 else None
    pretty = isinstance(last, Literal) and last.type == BOOLEAN and bool(last.value)
    if name == "pg_get_expr":
        return _expression_text(binding, node, args[0], pretty)
    number = as_number(binding, args[0])
    if name == "pg_get_indexdef":
        return _index_text(binding, node, number, args, pretty)
    return kept_choice(binding, number, (name, pretty), partial(_texts, catalog, name, pretty))


def _texts(catalog: Catalog, name: str, pretty: bool) -> Iterable[tuple[int, str]]:
    """The texts of all things of a kind by their numbers."""
    match name:
        case "pg_get_viewdef":
            return pg_catalog.of_views(catalog)
        case "pg_get_triggerdef":
            return ()
        case "pg_get_constraintdef":
            return pg_index.texts(catalog, pretty=pretty)
        case "pg_get_ruledef":
            return ()  # of rules there are those that views are
        case "pg_get_partkeydef":
            return pg_index.partition_keys(catalog)
        case _:
            return pg_index.bound_conditions(catalog)


def _expression_text(binding: Binding, node: exp.Anonymous, text: Scalar, pretty: bool) -> Scalar:
    """What catalogs have as the text of an expression: for people with fewer parentheses."""
    catalog = binding.catalog
    if isinstance(text, Literal):
        return replace(text, type=TEXT)
    if not pretty:
        return coerce(text, TEXT)
    others = kept_texts(binding, "shorter", partial(_shorter, catalog))
    return call(binding, "coalesce", [chosen(binding, text, others), text], node) if others else text


def _shorter(catalog: Catalog) -> Mapping[str, str]:
    """The texts of expressions that are shorter for people, by those that are not."""
    shorter: dict[str, str] = {}
    for _, entry, place in pg_class.defaults(catalog):
        plain = pg_class.default_text(catalog, entry, place, pretty=False)
        shorter[plain] = pg_class.default_text(catalog, entry, place, pretty=True)
    for index in pg_index.indexes(catalog):
        plain = pg_index.expressions_text(catalog, index, pretty=False)
        shorter[plain] = pg_index.expressions_text(catalog, index, pretty=True)
        if index.where:
            spell = catalog.consulted.spelling.expression
            plain = spell(catalog, index.entry, index.where)
            shorter[plain] = spell(catalog, index.entry, index.where, True)
    return {plain: short for plain, short in shorter.items() if plain != short}


def _index_text(
    binding: Binding, node: exp.Anonymous, number: Scalar, args: list[Scalar], pretty: bool
) -> Scalar:
    """The text of an index, or one of its columns."""
    catalog = binding.catalog
    if len(args) < 2 or (isinstance(args[1], Literal) and args[1].value == 0):

        def texts() -> Iterable[tuple[int, str]]:
            known = pg_index.indexes(catalog)
            return ((one.number, pg_index.definition(catalog, one, pretty)) for one in known)

        return kept_choice(binding, number, ("indexes", pretty), texts)

    def columns() -> Iterable[tuple[int, str]]:
        for one in pg_index.indexes(catalog):
            for place, part in enumerate((*one.parts, *pg_index.included_parts(one)), 1):
                yield one.number << 8 | place, pg_index.part_text(catalog, one, part, pretty)

    shifted = call(binding, "mul", [coerce(number, BIGINT), Literal(1 << 8, BIGINT)], node)
    key = call(binding, "add", [shifted, coerce(args[1], BIGINT)], node)
    return kept_choice(binding, key, ("columns of indexes", pretty), columns)


def visible(binding: Binding, node: exp.Anonymous, kind: str, number: Scalar) -> Scalar:
    """Whether a name without its schema means the relation, type or function of a number."""
    catalog = binding.catalog
    whole: list[tuple[int, str]] = []
    match kind:
        case "relation":
            names = [one.name for one in catalog] + [one.name for one in catalog.sequences.values()]
            names += [one.name for one in pg_index.indexes(catalog)]
            whole = [(oids.number_of("relation", one), one) for one in names]
        case "type":
            whole = [
                (oids.number_of("type", one.name or key), one.name or key)
                for key, one in catalog.types.items()
            ]
        case _:
            whole = [(one, routine.name) for one, routine in user_objects.routines(catalog)]
    hidden = [(one, "hidden") for one, name in whole if not is_visible(catalog, name, kind)]
    if not hidden:
        return Literal(1, BOOLEAN)
    found = choice(binding, node, number, hidden)
    return call(binding, "is_null", [found], node)


GIVEN: Final = {
    "r": "{0}=arwdDxt/{0}",
    "c": "",
    "s": "{0}=rwU/{0}",
    "d": "=Tc/{0},{0}=CTc/{0}",
    "f": "=X/{0},{0}=X/{0}",
    "l": "=U/{0},{0}=U/{0}",
    "L": "{0}=rw/{0}",
    "n": "{0}=UC/{0}",
    "t": "{0}=C/{0}",
    "F": "{0}=U/{0}",
    "S": "{0}=U/{0}",
    "T": "=U/{0},{0}=U/{0}",
    "p": "{0}=sA/{0}",
}
"""Who may do what with a thing of a kind while nothing was granted, by its owner."""


def given_privileges(binding: Binding, node: exp.Anonymous, kind: Scalar, owner: Scalar) -> Scalar:
    """The privileges that something of a kind comes with."""
    roles = [(oids.role_number(one.name), quoted(one.name)) for one in binding.catalog.rights.every()]
    letters = [str(kind.value)] if isinstance(kind, Literal) else list(GIVEN)
    result: Scalar = Literal(None, TEXT)
    for letter in letters:
        known = [(number, "{" + GIVEN[letter].format(name) + "}") for number, name in roles]
        text = choice(binding, node, owner, known)
        if isinstance(kind, Literal):
            return text
        same = call(binding, "eq", [kind, Literal(letter, TEXT)], node)
        result = If(same, text, result, TEXT)
    return result


Answer = Callable[[str, Key], bool | None]
KINDS: Final = {
    "table": "TABLE",
    "any_column": "COLUMN",
    "column": "COLUMN",
    "sequence": "SEQUENCE",
    "schema": "SCHEMA",
    "database": "DATABASE",
    "function": "FUNCTION",
    "type": "TYPE",
}


def bind_inquiry(binding: Binding, node: exp.Anonymous, name: str, args: list[Scalar]) -> Scalar:
    """Whether a role, the present one if none is named, may do something."""
    if name == "row_security_active":
        secured = binding.catalog
        user = secured.asker.user
        if len(args) != 1:
            binding.wrong(f"{name} does not take {len(args)} arguments", node)
        return _over_things(binding, node, args[0], "table", lambda key: is_secured(secured, key[1], user))
    if name == "pg_has_role":
        return _has_role(binding, node, args)
    kind = name.removeprefix("has_").removesuffix("_privilege")
    least = 3 if kind == "column" else 2
    if len(args) not in (least, least + 1):
        binding.wrong(f"{name} does not take {len(args)} arguments", node)
    users = _roles(binding, node, args.pop(0)) if len(args) > least else None
    wanted = args.pop()
    if kind not in KINDS or not isinstance(wanted, Literal):
        return Literal(1, BOOLEAN)
    catalog = binding.catalog
    parts = _privileges(str(wanted.value), KINDS[kind])
    if kind == "column":
        return _column(binding, node, users, args, parts)
    whom = users or (Literal(1, BOOLEAN), {"": catalog.asker.user})

    def of(user: str) -> Scalar:
        def answer(key: Key) -> bool:
            return any(_may(catalog, user, key, letter, option, kind) for letter, option in parts)

        return _over_things(binding, node, args[0], kind, answer)

    return _over_users(binding, node, whom, of)


def _may(catalog: Catalog, user: str, key: Key, letter: str, option: bool, kind: str) -> bool:
    rights = catalog.rights
    keys = [key]
    if kind in ("any_column", "column") and key[0] == "RELATION":
        columns = [one for one in rights.lists if one[0] == "COLUMN" and one[1] == key[1]]
        keys += columns if kind == "any_column" else []
    if user == PUBLIC:
        return any(
            one.grantee == PUBLIC and letter in (one.options if option else one.letters)
            for each in keys
            for one in rights.items(each)
        )
    if option:
        return any(rights.may_pass_on(user, each, letter) for each in keys)
    return any(rights.has(user, each, letter) for each in keys)


def _privileges(text: str, kind: str) -> list[tuple[str, bool]]:
    """Letters of a list of privileges, and whether each is WITH GRANT OPTION."""
    found = []
    for part in text.upper().split(","):
        words = part.split()
        option = words[-3:] == ["WITH", "GRANT", "OPTION"]
        word = " ".join(words[:-3] if option else words)
        letter = LETTERS.get(word, "")
        if not letter or letter not in ALL[kind]:
            raise ProgrammingError(f'unrecognized privilege type: "{part.strip()}"')
        found.append((letter, option))
    return found


def _things(catalog: Catalog, kind: str) -> Iterable[tuple[int, str, Key]]:
    """The numbers, the names and the keys of what an inquiry may be about."""
    match kind:
        case "table" | "any_column" | "column" | "sequence":
            for entry in catalog:
                yield oids.number_of("relation", entry.name), entry.name, ("RELATION", entry.name.lower())
            for one in catalog.sequences.values():
                yield oids.number_of("relation", one.name), one.name, ("SEQUENCE", one.name.lower())
        case "schema":
            for name in oids.schemas(catalog):
                yield oids.schema_number(name), name, ("SCHEMA", name)
        case "database":
            yield 1, DATABASE, ("DATABASE", DATABASE)
        case "type":
            for name in catalog.types:
                yield oids.number_of("type", name), name, ("TYPE", name)
        case _:
            for name in catalog.routines:
                yield oids.number_of("function", name), name, ("FUNCTION", name)


def _over_things(
    binding: Binding, node: exp.Expr, thing: Scalar, kind: str, answer: Callable[[Key], bool]
) -> Scalar:
    """An answer about a constant, or about each of what there is."""
    catalog = binding.catalog
    if isinstance(thing, Literal):
        if thing.value is None:
            return Literal(None, BOOLEAN)
        return Literal(_constant(catalog, str(thing.value), kind, answer), BOOLEAN)
    result: Scalar = Literal(1, BOOLEAN)  # of the system's own
    for number, name, key in _things(catalog, kind):
        value = Literal(name, TEXT) if thing.type.is_text else Literal(number, BIGINT)
        same = call(binding, "eq", [thing, value], node)
        if not answer(key):
            result = If(same, Literal(0, BOOLEAN), result, BOOLEAN)
    return result


def _constant(catalog: Catalog, text: str, kind: str, answer: Callable[[Key], bool]) -> int | None:
    name = text.replace('"', "")
    known = list(_things(catalog, kind))
    if name.isdigit():
        key = next((one for number, _, one in known if number == int(name)), None)
        return None if key is None and int(name) >= oids.FIRST else int(key is None or answer(key))
    if kind in ("table", "any_column", "column", "sequence"):
        entry, sequence = catalog.find(name), catalog.find_sequence(name)
        if "." in name:
            need_schema(catalog, name if entry is None else entry.name, "U")
        if entry is not None:
            return int(answer(("RELATION", entry.name.lower())))
        if sequence is not None:
            return int(answer(("SEQUENCE", sequence.name.lower())))
        if pg_catalog.find(name) is None:
            raise ProgrammingError(f'relation "{name}" does not exist')
        return 1
    name = name.lower().partition("(")[0].removeprefix("public.")
    key = next((one for _, each, one in known if each.lower() == name), None)
    if key is None and kind in ("schema", "database"):
        raise ProgrammingError(f'{kind} "{name}" does not exist')
    return int(key is None or answer(key))


def _roles(binding: Binding, node: exp.Expr, scalar: Scalar) -> tuple[Scalar, dict[str, str]]:
    """The roles that an argument may mean: one, under "", or each under its name or number."""
    rights = binding.catalog.rights
    if isinstance(scalar, Literal):
        text = str(scalar.value)
        every = {str(oids.role_number(one.name)): one.name for one in rights.every()}
        name = PUBLIC if text == "public" else every.get(text, text)
        if name != PUBLIC and rights.find(name) is None:
            raise ProgrammingError(f'role "{text}" does not exist')
        return scalar, {"": name}
    if scalar.type.is_text:
        return scalar, {one.name: one.name for one in rights.every()}
    return scalar, {str(oids.role_number(one.name)): one.name for one in rights.every()}


def _over_users(
    binding: Binding, node: exp.Expr, whom: tuple[Scalar, dict[str, str]], of: Callable[[str], Scalar]
) -> Scalar:
    scalar, users = whom
    if "" in users:
        return of(users[""])
    result: Scalar = Literal(None, BOOLEAN)
    for shown, user in users.items():
        value = Literal(shown, TEXT) if scalar.type.is_text else Literal(int(shown), BIGINT)
        result = If(call(binding, "eq", [scalar, value], node), of(user), result, BOOLEAN)
    return result


def _column(
    binding: Binding,
    node: exp.Expr,
    users: tuple[Scalar, dict[str, str]] | None,
    args: list[Scalar],
    parts: list[tuple[str, bool]],
) -> Scalar:
    """has_column_privilege: the column by its name or number."""
    catalog = binding.catalog
    whom = users or (Literal(1, BOOLEAN), {"": catalog.asker.user})
    wanted = args[1].value if isinstance(args[1], Literal) else None

    def of(user: str) -> Scalar:
        def answer(key: Key) -> bool:
            entry = catalog.entries.get(key[1])
            if entry is None or wanted is None:
                return all(_may(catalog, user, key, letter, option, "table") for letter, option in parts)
            names = [name.lower() for name in entry.schema.names]
            name = names[int(wanted) - 1] if isinstance(wanted, int) else str(wanted).lower()
            if name not in names:
                what = "view" if isinstance(entry, ViewEntry) else "relation"
                raise ProgrammingError(f'column "{wanted}" of {what} "{entry.name}" does not exist')
            keys = (key, ("COLUMN", key[1], name))
            return any(
                _may(catalog, user, each, letter, option, "") for each in keys for letter, option in parts
            )

        return _over_things(binding, node, args[0], "column", answer)

    return _over_users(binding, node, whom, of)


def _has_role(binding: Binding, node: exp.Anonymous, args: list[Scalar]) -> Scalar:
    """pg_has_role([user,] role, USAGE or MEMBER or SET)."""
    rights = binding.catalog.rights
    if len(args) not in (2, 3):
        binding.wrong(f"pg_has_role does not take {len(args)} arguments", node)
    users = _roles(binding, node, args[0]) if len(args) == 3 else (args[0], {"": binding.catalog.asker.user})
    role, wanted = args[-2], args[-1]
    if not isinstance(wanted, Literal):
        return Literal(1, BOOLEAN)
    ways = {"USAGE": "inherits", "MEMBER": "any", "SET": "sets"}
    words = [part.strip().upper() for part in str(wanted.value).split(",")]
    for word in words:
        if word.removesuffix(" WITH ADMIN OPTION").removesuffix(" WITH GRANT OPTION") not in ways:
            raise ProgrammingError(f'unrecognized privilege type: "{word}"')

    def answer(user: str, one: str) -> bool:
        if rights.is_superuser(user):
            return True
        for word in words:
            plain, _, option = word.partition(" WITH ")
            if option and rights.administers(user, one):
                return True
            if not option and one in rights.acts_as(user, by=ways[plain]):
                return True
        return False

    def of(user: str) -> Scalar:
        return _over_users(
            binding, node, _roles(binding, node, role), lambda one: Literal(int(answer(user, one)), BOOLEAN)
        )

    return _over_users(binding, node, users, of)
