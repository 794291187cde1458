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

from kpg.compiler.catalog.access_control import has_row_security, require_schema_privilege
from kpg.compiler.catalog.entries import Catalog, ViewEntry, record_session_rows, session_context
from kpg.compiler.catalog.privileges import ALL_LETTERS, DATABASE, LETTERS, PUBLIC, Key
from kpg.compiler.catalog.routines import Aggregate, Routine
from kpg.compiler.sql.bind.calls import call, coerce
from kpg.compiler.sql.bind.scope import Binding
from kpg.compiler.sql.parse.syntax import span_of
from kpg.compiler.system import oids, pg_catalog, pg_class, pg_index, user_objects
from kpg.compiler.system.oids import is_visible, quote_identifier
from kpg.compiler.system.pg_index import indexes
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.functions.user_functions import FunctionDeclaration, scalar_function
from kpg.runtime.scalar import Call, If, Literal, Scalar, UserFunctionName
from kpg.runtime.types import BIGINT, BOOLEAN, OID, TEXT, Type
from kpg.runtime.unsupported_features import unsupported_type_error
from kpg.runtime.values.words import BLANKS

T = TypeVar("T", bound=Mapping[Any, str])
TextByKey = Mapping[int, str] | Mapping[str, str]


def lookup_text(binding: Binding, node: exp.Expr, oid: Scalar, texts: Iterable[tuple[int, str]]) -> Scalar:
    """Return the text of an OID; NULL if it has none."""
    return lookup(binding, oid, dict(texts))


def lookup_cached_text(
    binding: Binding, oid: Scalar, key: Hashable, texts: Callable[[], Iterable[tuple[int, str]]]
) -> Scalar:
    """Return the text of an OID, with the texts cached under ``key`` while the catalog does not change."""
    return lookup(binding, oid, cached_texts(binding, key, lambda: dict(texts())))


def cached_texts(binding: Binding, key: Hashable, build: Callable[[], T]) -> T:
    """Return texts from the catalog query cache, or build and cache them."""
    catalog = binding.catalog.user_catalog or binding.catalog
    whole = (key, session_context(catalog))
    found: T | None = catalog.system_reads.cache.get(catalog, whole)
    if found is None:
        with record_session_rows(catalog) as told:
            found = build()
        catalog.system_reads.cache.put(catalog, whole, found, told)
    return found


def lookup(binding: Binding, value: Scalar, texts: TextByKey) -> Scalar:
    """Return the text of a number or text; NULL if it has none.

    A one-time query calls a function of its own plan. A view outlives the process, so it uses nested
    CASEs.
    """
    found: Mapping[Any, str] = texts
    if isinstance(value, Literal):
        if value.value is None:
            return Literal(None, TEXT)
        return Literal(found.get(int(value.value) if value.type.is_numeric else value.value), TEXT)
    if not texts:
        return Literal(None, TEXT)
    type_ = TEXT if value.type.is_text else BIGINT
    if binding.is_view:
        return _search_tree(binding, coerce(value, type_), sorted(found.items()))
    return Call(_lookup_function(binding, found, type_), (coerce(value, type_),), TEXT)


def _search_tree(binding: Binding, value: Scalar, texts: Sequence[tuple[Any, str]]) -> Scalar:
    """Return nested CASEs that search by halves, since everything that walks a scalar is recursive."""
    if not texts:
        return Literal(None, TEXT)
    middle = len(texts) // 2
    key, text = texts[middle]
    at = Literal(key, value.type)
    below, above = (_search_tree(binding, value, part) for part in (texts[:middle], texts[middle + 1 :]))
    otherwise = below if below == above else If(_compare(binding, "lt", value, at), below, above, TEXT)
    return If(_compare(binding, "eq", value, at), Literal(text, TEXT), otherwise, TEXT)


def _compare(binding: Binding, name: str, value: Scalar, key: Scalar) -> Scalar:
    return call(binding, name, [value, key], exp.Null())


def _lookup_function(binding: Binding, texts: Mapping[Any, str], type_: Type) -> "UserFunctionName[Any]":

    consulted = binding.catalog.system_reads
    consulted.count, consulted.cacheable_count = consulted.count + 1, consulted.cacheable_count + 1
    declared = FunctionDeclaration("looked up", consulted.count, (type_,), "what the catalogs say of it")
    return scalar_function(declared, texts.get, TEXT, columns=False, nulls=False)


def bind_format_type(binding: Binding, node: exp.Anonymous, args: list[Scalar]) -> Scalar:
    """Bind ``format_type``: the name of a type by its OID, with its type modifier."""
    plain = bind_type_name(binding, args[0], node)
    if len(args) < 2 or isinstance(args[1], Literal):
        modified = oids.modified_type_name(*(one.value for one in args if isinstance(one, Literal)))
        return plain if modified is None else Literal(modified, TEXT)
    whole = cached_texts(binding, "modifiers", lambda: dict(_modified_type_names(binding)))
    if not whole:
        return plain
    shifted = call(binding, "mul", [coerce(args[0], BIGINT), Literal(1 << 32, BIGINT)], node)
    key = call(binding, "add", [shifted, coerce(args[1], BIGINT)], node)
    return call(binding, "coalesce", [lookup(binding, key, whole), plain], node)


def _modified_type_names(binding: Binding) -> Iterator[tuple[int, str]]:
    """Yield the names of types with modifiers, by OID and modifier packed into one integer."""
    for number, place in pg_class.used_modifiers(binding.catalog):
        shown = oids.modified_type_name(number, place)
        if shown is not None:
            yield number << 32 | place, shown


def bind_regtype(binding: Binding, operand: Scalar, node: exp.Cast) -> Scalar:
    """Return the OID of a type name, or the name of an OID."""
    if isinstance(operand, Literal) and isinstance(operand.value, str):
        number = type_oid(binding, operand)
        if number is None:
            if (refusal := unsupported_type_error(operand.value, span_of(node, binding.source))) is not None:
                raise refusal
            binding.fail(f'type "{operand.value}" does not exist', node, sqlstate="42704")
        return Literal(number, OID)
    return operand if operand.type.is_text else bind_type_name(binding, operand, node)


def type_oid(binding: Binding, name: Scalar) -> int | None:
    """Return the OID of a constant type name; None if there is none, or the name is not constant."""
    if not isinstance(name, Literal) or name.value is None:
        return None
    text = str(name.value)
    return (
        int(text)
        if text.isdigit()
        else oids.built_in_type_oid(text) or user_objects.user_type_oid(binding.catalog, text)
    )


def bind_type_name(binding: Binding, oid: Scalar, node: exp.Expr) -> Scalar:
    """Return the name of the type with an OID."""

    def names() -> Iterable[tuple[int, str]]:
        given = {0: "-"} | {one: name for one, (name, _) in oids.built_in_type_names().items()}
        return (given | user_objects.user_type_names(binding.catalog)).items()

    return lookup_cached_text(binding, oid, "types", names)


FUNCTION_DEFINITION: Final = "pg_get_functiondef"


def bind_function_text(binding: Binding, node: exp.Anonymous, name: str, number: Scalar) -> Scalar:
    """Bind ``pg_get_function_arguments``, ``pg_get_function_result`` and their variants."""
    catalog = binding.catalog
    tells: dict[str, Callable[[Routine | Aggregate], str | None]] = {
        "pg_get_function_arguments": partial(user_objects.argument_text, catalog),
        "pg_get_function_identity_arguments": partial(user_objects.identity_argument_text, catalog),
        "pg_get_function_result": partial(user_objects.result_text, catalog),
        FUNCTION_DEFINITION: partial(user_objects.function_definition, catalog),
    }
    tell = tells[name]
    if isinstance(number, Literal) and isinstance(number.value, str):
        number = Literal(routine_oid(binding, number.value, node), OID)
    asked = int(number.value) if isinstance(number, Literal) and number.value is not None else None
    found = (
        (one, tell(routine))
        for one, routine in user_objects.listed_routines(catalog)
        if asked == one or (asked is None and (name != FUNCTION_DEFINITION or isinstance(routine, Routine)))
    )
    text = lookup_text(binding, node, number, ((one, shown) for one, shown in found if shown is not None))
    return call(binding, "coalesce", [text, Literal("", TEXT)], node) if "arguments" in name else text


def routine_oid(binding: Binding, name: str, node: exp.Expr) -> int:
    """Return the OID of the only function with a name."""
    found = user_objects.find_routine_oids(binding.catalog, name.removeprefix("pg_catalog."))
    if len(found) > 1:
        binding.fail(f'more than one function named "{name}"', node)
    if not found:
        plain = name.partition("(")[0].removeprefix("pg_catalog.").lower()
        if pg_catalog.is_built_in_function(plain):
            return oids.oid_of("function", plain)
        binding.fail(f'function "{name}" does not exist', node)
    return found[0]


def bind_regprocedure(binding: Binding, operand: Scalar, node: exp.Cast, kind: str) -> Scalar:
    """Bind a cast to regprocedure or regoperator: the name of an OID, if there is one."""
    if kind == "regprocedure" and isinstance(operand, Literal) and isinstance(operand.value, str):
        routine_oid(binding, operand.value, node)
        return Literal(operand.value, TEXT)
    routines = user_objects.listed_routines(binding.catalog) if kind == "regprocedure" else ()
    return lookup_text(binding, node, operand, ((number, one.name) for number, one in routines))


def bind_routine_name(binding: Binding, oid: Scalar, node: exp.Expr) -> Scalar:
    """Return the name of the routine with an OID, built-in or user-defined."""
    return lookup_text(binding, node, oid, pg_catalog.all_routines(binding.catalog))


def as_relation_oid(binding: Binding, scalar: Scalar) -> Scalar:
    """Return the OID of a relation that is given by constant name or by OID."""
    if isinstance(scalar, Literal) and isinstance(scalar.value, str):
        return Literal(relation_oid(binding, scalar.value), BIGINT)
    return scalar


def relation_oid(binding: Binding, text: str) -> int | None:
    """Return the OID of a relation, sequence or index; None if there is none of that name."""
    name = re.sub(r"(?a)\s*\.\s*", ".", text.replace('"', "").strip(BLANKS))
    if name.isdigit():
        return int(name)
    entry = binding.catalog.find(name)
    if entry is not None:
        return oids.oid_of("relation", entry.name)
    sequence = binding.catalog.find_sequence(name)
    if sequence is not None:
        return oids.oid_of("relation", sequence.name)
    plain = name.lower().removeprefix("public.")
    whole = {plain, *(f"{schema}.{plain}" for schema in binding.catalog.path)}
    index = next((one for one in indexes(binding.catalog) if one.name.lower() in whole), None)
    if index is not None:
        return index.oid
    plain = name.lower().removeprefix("pg_catalog.")
    return oids.system_relation_oid(plain) if pg_catalog.find_system_relation(plain) is not None else None


def bind_definition(binding: Binding, node: exp.Anonymous, name: str, args: list[Scalar]) -> Scalar:
    """Bind a ``pg_get_...def`` function, such as ``pg_get_viewdef`` or ``pg_get_expr``."""

    catalog = binding.catalog
    last = args[-1] if len(args) > 1 else None
    pretty = isinstance(last, Literal) and last.type == BOOLEAN and bool(last.value)
    if name == "pg_get_expr":
        return _bind_expression_text(binding, node, args[0], pretty)
    number = as_relation_oid(binding, args[0])
    if name == "pg_get_indexdef":
        return _bind_index_definition(binding, node, number, args, pretty)
    return lookup_cached_text(binding, number, (name, pretty), partial(_definitions, catalog, name, pretty))


def _definitions(catalog: Catalog, name: str, pretty: bool) -> Iterable[tuple[int, str]]:
    """Return the definitions of all objects of a kind by OID."""
    match name:
        case "pg_get_viewdef":
            return pg_catalog.view_definitions(catalog)
        case "pg_get_triggerdef":
            return ()
        case "pg_get_constraintdef":
            return pg_index.constraint_definitions(catalog, pretty=pretty)
        case "pg_get_ruledef":
            return ()  # the only rules are those of views
        case "pg_get_partkeydef":
            return pg_index.partition_keys(catalog)
        case _:
            return pg_index.partition_conditions(catalog)


def _bind_expression_text(binding: Binding, node: exp.Anonymous, text: Scalar, pretty: bool) -> Scalar:
    """Bind ``pg_get_expr``. The pretty form has fewer parentheses."""
    catalog = binding.catalog
    if isinstance(text, Literal):
        return replace(text, type=TEXT)
    if not pretty:
        return coerce(text, TEXT)
    others = cached_texts(binding, "shorter", partial(_pretty_expressions, catalog))
    return call(binding, "coalesce", [lookup(binding, text, others), text], node) if others else text


def _pretty_expressions(catalog: Catalog) -> Mapping[str, str]:
    """Return the pretty forms of catalog expressions by their plain forms, where they differ."""
    shorter: dict[str, str] = {}
    for _, entry, place in pg_class.column_defaults(catalog):
        plain = pg_class.default_text(catalog, entry, place, pretty=False)
        shorter[plain] = pg_class.default_text(catalog, entry, place, pretty=True)
    for index in pg_index.indexes(catalog):
        plain = pg_index.expressions_text(catalog, index, pretty=False)
        shorter[plain] = pg_index.expressions_text(catalog, index, pretty=True)
        if index.where:
            spell = catalog.system_reads.deparser.expression
            plain = spell(catalog, index.entry, index.where)
            shorter[plain] = spell(catalog, index.entry, index.where, True)
    return {plain: short for plain, short in shorter.items() if plain != short}


def _bind_index_definition(
    binding: Binding, node: exp.Anonymous, oid: Scalar, args: list[Scalar], pretty: bool
) -> Scalar:
    """Bind ``pg_get_indexdef`` of an index or of one of its columns."""
    catalog = binding.catalog
    if len(args) < 2 or (isinstance(args[1], Literal) and args[1].value == 0):

        def texts() -> Iterable[tuple[int, str]]:
            known = pg_index.indexes(catalog)
            return ((one.oid, pg_index.index_definition(catalog, one, pretty)) for one in known)

        return lookup_cached_text(binding, oid, ("indexes", pretty), texts)

    def columns() -> Iterable[tuple[int, str]]:
        for one in pg_index.indexes(catalog):
            for place, part in enumerate((*one.parts, *pg_index.included_elements(one)), 1):
                yield one.oid << 8 | place, pg_index.element_text(catalog, one, part, pretty)

    shifted = call(binding, "mul", [coerce(oid, BIGINT), Literal(1 << 8, BIGINT)], node)
    key = call(binding, "add", [shifted, coerce(args[1], BIGINT)], node)
    return lookup_cached_text(binding, key, ("columns of indexes", pretty), columns)


def bind_visibility(binding: Binding, node: exp.Anonymous, kind: str, oid: Scalar) -> Scalar:
    """Bind ``pg_table_is_visible`` and its variants: whether the unqualified name finds the object."""
    catalog = binding.catalog
    whole: list[tuple[int, str]] = []
    match kind:
        case "relation":
            names = [one.name for one in catalog] + [one.name for one in catalog.sequences.values()]
            names += [one.name for one in pg_index.indexes(catalog)]
            whole = [(oids.oid_of("relation", one), one) for one in names]
        case "type":
            whole = [
                (oids.oid_of("type", one.name or key), one.name or key) for key, one in catalog.types.items()
            ]
        case _:
            whole = [(one, routine.name) for one, routine in user_objects.listed_routines(catalog)]
    hidden = [(one, "hidden") for one, name in whole if not is_visible(catalog, name, kind)]
    if not hidden:
        return Literal(1, BOOLEAN)
    found = lookup_text(binding, node, oid, hidden)
    return call(binding, "is_null", [found], node)


DEFAULT_ACLS: Final = {
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
"""Default access control list by kind of object; ``{0}`` is the owner."""


def bind_acldefault(binding: Binding, node: exp.Anonymous, kind: Scalar, owner: Scalar) -> Scalar:
    """Bind ``acldefault``."""
    roles = [
        (oids.role_oid(one.name), quote_identifier(one.name))
        for one in binding.catalog.privileges.all_roles()
    ]
    letters = [str(kind.value)] if isinstance(kind, Literal) else list(DEFAULT_ACLS)
    result: Scalar = Literal(None, TEXT)
    for letter in letters:
        known = [(number, "{" + DEFAULT_ACLS[letter].format(name) + "}") for number, name in roles]
        text = lookup_text(binding, node, owner, known)
        if isinstance(kind, Literal):
            return text
        same = call(binding, "eq", [kind, Literal(letter, TEXT)], node)
        result = If(same, text, result, TEXT)
    return result


PRIVILEGE_KINDS: Final = {
    "table": "TABLE",
    "any_column": "COLUMN",
    "column": "COLUMN",
    "sequence": "SEQUENCE",
    "schema": "SCHEMA",
    "database": "DATABASE",
    "function": "FUNCTION",
    "type": "TYPE",
}


def bind_privilege_inquiry(binding: Binding, node: exp.Anonymous, name: str, args: list[Scalar]) -> Scalar:
    """Bind a privilege inquiry function, about the current user unless it names a role."""
    if name == "row_security_active":
        secured = binding.catalog
        user = secured.asker.user
        if len(args) != 1:
            binding.fail(f"{name} does not take {len(args)} arguments", node)
        return _test_objects(
            binding, node, args[0], "table", lambda key: has_row_security(secured, key[1], user)
        )
    if name == "pg_has_role":
        return _bind_role_inquiry(binding, node, args)
    kind = name.removeprefix("has_").removesuffix("_privilege")
    least = 3 if kind == "column" else 2
    if len(args) not in (least, least + 1):
        binding.fail(f"{name} does not take {len(args)} arguments", node)
    users = _roles_of_argument(binding, node, args.pop(0)) if len(args) > least else None
    wanted = args.pop()
    if kind not in PRIVILEGE_KINDS or not isinstance(wanted, Literal):
        return Literal(1, BOOLEAN)
    catalog = binding.catalog
    parts = _parse_privileges(str(wanted.value), PRIVILEGE_KINDS[kind])
    if kind == "column":
        return _bind_column_inquiry(binding, node, users, args, parts)
    whom = users or (Literal(1, BOOLEAN), {"": catalog.asker.user})

    def of(user: str) -> Scalar:
        def answer(key: Key) -> bool:
            return any(_has_privilege(catalog, user, key, letter, option, kind) for letter, option in parts)

        return _test_objects(binding, node, args[0], kind, answer)

    return _test_roles(binding, node, whom, of)


def _has_privilege(catalog: Catalog, user: str, key: Key, letter: str, option: bool, kind: str) -> bool:
    rights = catalog.privileges
    keys = [key]
    if kind in ("any_column", "column") and key[0] == "RELATION":
        columns = [one for one in rights.acls if one[0] == "COLUMN" and one[1] == key[1]]
        keys += columns if kind == "any_column" else []
    if user == PUBLIC:
        return any(
            one.grantee == PUBLIC and letter in (one.options if option else one.letters)
            for each in keys
            for one in rights.acl(each)
        )
    if option:
        return any(rights.has_grant_option(user, each, letter) for each in keys)
    return any(rights.has_privileges(user, each, letter) for each in keys)


def _parse_privileges(text: str, kind: str) -> list[tuple[str, bool]]:
    """Return the privilege letters of a list, each with whether it is WITH GRANT OPTION."""
    found = []
    for part in text.upper().split(","):
        words = part.split()
        option = words[-3:] == ["WITH", "GRANT", "OPTION"]
        word = " ".join(words[:-3] if option else words)
        letter = LETTERS.get(word, "")
        if not letter or letter not in ALL_LETTERS[kind]:
            raise ProgrammingError(f'unrecognized privilege type: "{part.strip()}"')
        found.append((letter, option))
    return found


def _grantable_objects(catalog: Catalog, kind: str) -> Iterable[tuple[int, str, Key]]:
    """Yield OID, name and privilege key of the objects of a kind."""
    match kind:
        case "table" | "any_column" | "column" | "sequence":
            for entry in catalog:
                yield oids.oid_of("relation", entry.name), entry.name, ("RELATION", entry.name.lower())
            for one in catalog.sequences.values():
                yield oids.oid_of("relation", one.name), one.name, ("SEQUENCE", one.name.lower())
        case "schema":
            for name in oids.listed_schemas(catalog):
                yield oids.schema_oid(name), name, ("SCHEMA", name)
        case "database":
            yield 1, DATABASE, ("DATABASE", DATABASE)
        case "type":
            for name in catalog.types:
                yield oids.oid_of("type", name), name, ("TYPE", name)
        case _:
            for name in catalog.routines:
                yield oids.oid_of("function", name), name, ("FUNCTION", name)


def _test_objects(
    binding: Binding, node: exp.Expr, target: Scalar, kind: str, test: Callable[[Key], bool]
) -> Scalar:
    """Return the test of a constant object, or a CASE with the tests of all objects."""
    catalog = binding.catalog
    if isinstance(target, Literal):
        if target.value is None:
            return Literal(None, BOOLEAN)
        return Literal(_test_constant(catalog, str(target.value), kind, test), BOOLEAN)
    result: Scalar = Literal(1, BOOLEAN)  # system objects
    for number, name, key in _grantable_objects(catalog, kind):
        value = Literal(name, TEXT) if target.type.is_text else Literal(number, BIGINT)
        same = call(binding, "eq", [target, value], node)
        if not test(key):
            result = If(same, Literal(0, BOOLEAN), result, BOOLEAN)
    return result


def _test_constant(catalog: Catalog, text: str, kind: str, test: Callable[[Key], bool]) -> int | None:
    name = text.replace('"', "")
    known = list(_grantable_objects(catalog, kind))
    if name.isdigit():
        key = next((one for number, _, one in known if number == int(name)), None)
        return None if key is None and int(name) >= oids.FIRST_USER_OID else int(key is None or test(key))
    if kind in ("table", "any_column", "column", "sequence"):
        entry, sequence = catalog.find(name), catalog.find_sequence(name)
        if "." in name:
            require_schema_privilege(catalog, name if entry is None else entry.name, "U")
        if entry is not None:
            return int(test(("RELATION", entry.name.lower())))
        if sequence is not None:
            return int(test(("SEQUENCE", sequence.name.lower())))
        if pg_catalog.find_system_relation(name) is None:
            raise ProgrammingError(f'relation "{name}" does not exist')
        return 1
    name = name.lower().partition("(")[0].removeprefix("public.")
    key = next((one for _, each, one in known if each.lower() == name), None)
    if key is None and kind in ("schema", "database"):
        raise ProgrammingError(f'{kind} "{name}" does not exist')
    return int(key is None or test(key))


def _roles_of_argument(binding: Binding, node: exp.Expr, scalar: Scalar) -> tuple[Scalar, dict[str, str]]:
    """Return the argument with its possible roles: one constant under "", or all by name or OID."""
    rights = binding.catalog.privileges
    if isinstance(scalar, Literal):
        text = str(scalar.value)
        every = {str(oids.role_oid(one.name)): one.name for one in rights.all_roles()}
        name = PUBLIC if text == "public" else every.get(text, text)
        if name != PUBLIC and rights.find_role(name) is None:
            raise ProgrammingError(f'role "{text}" does not exist', sqlstate="42704")
        return scalar, {"": name}
    if scalar.type.is_text:
        return scalar, {one.name: one.name for one in rights.all_roles()}
    return scalar, {str(oids.role_oid(one.name)): one.name for one in rights.all_roles()}


def _test_roles(
    binding: Binding, node: exp.Expr, roles: tuple[Scalar, dict[str, str]], bind_for: Callable[[str], Scalar]
) -> Scalar:
    scalar, users = roles
    if "" in users:
        return bind_for(users[""])
    result: Scalar = Literal(None, BOOLEAN)
    for shown, user in users.items():
        value = Literal(shown, TEXT) if scalar.type.is_text else Literal(int(shown), BIGINT)
        result = If(call(binding, "eq", [scalar, value], node), bind_for(user), result, BOOLEAN)
    return result


def _bind_column_inquiry(
    binding: Binding,
    node: exp.Expr,
    users: tuple[Scalar, dict[str, str]] | None,
    args: list[Scalar],
    parts: list[tuple[str, bool]],
) -> Scalar:
    """Bind ``has_column_privilege`` of a column by name or number."""
    catalog = binding.catalog
    whom = users or (Literal(1, BOOLEAN), {"": catalog.asker.user})
    wanted = args[1].value if isinstance(args[1], Literal) else None

    def of(user: str) -> Scalar:
        def answer(key: Key) -> bool:
            entry = catalog.entries.get(key[1])
            if entry is None or wanted is None:
                return all(
                    _has_privilege(catalog, user, key, letter, option, "table") for letter, option in parts
                )
            names = [name.lower() for name in entry.schema.names]
            name = names[int(wanted) - 1] if isinstance(wanted, int) else str(wanted).lower()
            if name not in names:
                what = "view" if isinstance(entry, ViewEntry) else "relation"
                raise ProgrammingError(f'column "{wanted}" of {what} "{entry.name}" does not exist')
            keys = (key, ("COLUMN", key[1], name))
            return any(
                _has_privilege(catalog, user, each, letter, option, "")
                for each in keys
                for letter, option in parts
            )

        return _test_objects(binding, node, args[0], "column", answer)

    return _test_roles(binding, node, whom, of)


def _bind_role_inquiry(binding: Binding, node: exp.Anonymous, args: list[Scalar]) -> Scalar:
    """Bind ``pg_has_role([user,] role, privilege)``."""
    rights = binding.catalog.privileges
    if len(args) not in (2, 3):
        binding.fail(f"pg_has_role does not take {len(args)} arguments", node)
    users = (
        _roles_of_argument(binding, node, args[0])
        if len(args) == 3
        else (args[0], {"": binding.catalog.asker.user})
    )
    role, wanted = args[-2], args[-1]
    if not isinstance(wanted, Literal):
        return Literal(1, BOOLEAN)
    ways = {"USAGE": "inherits", "MEMBER": "any", "SET": "sets"}
    words = [part.strip().upper() for part in str(wanted.value).split(",")]
    for word in words:
        if word.removesuffix(" WITH ADMIN OPTION").removesuffix(" WITH GRANT OPTION") not in ways:
            raise ProgrammingError(f'unrecognized privilege type: "{word}"')

    def answer(user: str, role_name: str) -> bool:
        if rights.is_superuser(user):
            return True
        for word in words:
            plain, _, option = word.partition(" WITH ")
            if option and rights.has_admin_option(user, role_name):
                return True
            if not option and role_name in rights.effective_roles(user, by=ways[plain]):
                return True
        return False

    def of(user: str) -> Scalar:
        return _test_roles(
            binding,
            node,
            _roles_of_argument(binding, node, role),
            lambda one: Literal(int(answer(user, one)), BOOLEAN),
        )

    return _test_roles(binding, node, users, of)
