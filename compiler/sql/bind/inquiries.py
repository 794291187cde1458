"""has_table_privilege and its like: who may do what, of constants and of columns."""

from collections.abc import Callable, Iterable
from typing import Final

from sqlglot import exp

from kpg.compiler.catalog import Catalog, ViewEntry
from kpg.compiler.permitted import need_schema
from kpg.compiler.rights import ALL, DATABASE, LETTERS, PUBLIC, Key
from kpg.compiler.security import is_secured
from kpg.compiler.sql.bind.calls import call
from kpg.compiler.sql.bind.scope import Binding
from kpg.compiler.system import naming, objects
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.scalar import If, Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, TEXT

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
                yield naming.number_of("relation", entry.name), entry.name, ("RELATION", entry.name.lower())
            for one in catalog.sequences.values():
                yield naming.number_of("relation", one.name), one.name, ("SEQUENCE", one.name.lower())
        case "schema":
            for name in naming.schemas(catalog):
                yield naming.schema_number(name), name, ("SCHEMA", name)
        case "database":
            yield 1, DATABASE, ("DATABASE", DATABASE)
        case "type":
            for name in catalog.types:
                yield naming.number_of("type", name), name, ("TYPE", name)
        case _:
            for name in catalog.routines:
                yield naming.number_of("function", name), name, ("FUNCTION", name)


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
        return None if key is None and int(name) >= naming.FIRST else int(key is None or answer(key))
    if kind in ("table", "any_column", "column", "sequence"):
        entry, sequence = catalog.find(name), catalog.find_sequence(name)
        if "." in name:
            need_schema(catalog, name if entry is None else entry.name, "U")
        if entry is not None:
            return int(answer(("RELATION", entry.name.lower())))
        if sequence is not None:
            return int(answer(("SEQUENCE", sequence.name.lower())))
        if objects.find(name) is None:
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
        every = {str(naming.role_number(one.name)): one.name for one in rights.every()}
        name = PUBLIC if text == "public" else every.get(text, text)
        if name != PUBLIC and rights.find(name) is None:
            raise ProgrammingError(f'role "{text}" does not exist')
        return scalar, {"": name}
    if scalar.type.is_text:
        return scalar, {one.name: one.name for one in rights.every()}
    return scalar, {str(naming.role_number(one.name)): one.name for one in rights.every()}


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
