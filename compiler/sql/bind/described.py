"""What the system tells of functions that users have made, and of constraints."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from sqlglot import exp

from kpg.compiler.catalog import Catalog
from kpg.compiler.routines import Aggregate, Routine
from kpg.compiler.sql.bind.calls import call, coerce
from kpg.compiler.sql.bind.choices import choice, chosen, kept_choice, kept_texts
from kpg.compiler.sql.bind.scope import Binding
from kpg.compiler.system import indexes, keys, kin, naming, objects, tables, users
from kpg.compiler.system.words import is_visible, quoted
from kpg.runtime.scalar import If, Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, OID, TEXT

WHOLE: Final = "pg_get_functiondef"


def of_routine(binding: Binding, node: exp.Anonymous, name: str, number: Scalar) -> Scalar:
    """What a function takes or gives, or all of it."""
    catalog = binding.catalog
    tells: dict[str, Callable[[Routine | Aggregate], str | None]] = {
        "pg_get_function_arguments": partial(users.arguments, catalog),
        "pg_get_function_identity_arguments": partial(users.identity, catalog),
        "pg_get_function_result": partial(users.result, catalog),
        WHOLE: partial(users.definition, catalog),
    }
    tell = tells[name]
    if isinstance(number, Literal) and isinstance(number.value, str):
        number = Literal(routine_number(binding, number.value, node), OID)
    asked = int(number.value) if isinstance(number, Literal) and number.value is not None else None
    found = (
        (one, tell(routine))
        for one, routine in users.routines(catalog)
        if asked == one or (asked is None and (name != WHOLE or isinstance(routine, Routine)))
    )
    text = choice(binding, node, number, ((one, shown) for one, shown in found if shown is not None))
    return call(binding, "coalesce", [text, Literal("", TEXT)], node) if "arguments" in name else text


def routine_number(binding: Binding, name: str, node: exp.Expr) -> int:
    """The number of the function of a name."""
    found = users.named(binding.catalog, name.removeprefix("pg_catalog."))
    if len(found) > 1:
        binding.wrong(f'more than one function named "{name}"', node)
    if not found:
        plain = name.partition("(")[0].removeprefix("pg_catalog.").lower()
        if objects.is_function(plain):
            return naming.number_of("function", plain)
        binding.wrong(f'function "{name}" does not exist', node)
    return found[0]


def routine_names(binding: Binding, operand: Scalar, node: exp.Cast, kind: str) -> Scalar:
    """A cast to regprocedure or regoperator: of a number the name, if there is one."""
    if kind == "regprocedure" and isinstance(operand, Literal) and isinstance(operand.value, str):
        routine_number(binding, operand.value, node)
        return Literal(operand.value, TEXT)
    routines = users.routines(binding.catalog) if kind == "regprocedure" else ()
    return choice(binding, node, operand, ((number, one.name) for number, one in routines))


def routine_named(binding: Binding, number: Scalar, node: exp.Expr) -> Scalar:
    """The name of the routine of a number, of those that nobody has made, too."""
    return choice(binding, node, number, objects.every_routine(binding.catalog))


def definition_text(binding: Binding, node: exp.Anonymous, name: str, args: list[Scalar]) -> Scalar:
    """The text by which something was made, or a part of it; ``pretty`` for people, if they say so."""
    from kpg.compiler.sql.bind.system import as_number

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
            return objects.of_views(catalog)
        case "pg_get_triggerdef":
            return ()
        case "pg_get_constraintdef":
            return keys.texts(catalog, pretty=pretty)
        case "pg_get_ruledef":
            return ()  # of rules there are those that views are
        case "pg_get_partkeydef":
            return kin.partition_keys(catalog)
        case _:
            return kin.bound_conditions(catalog)


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
    for _, entry, place in tables.defaults(catalog):
        plain = tables.default_text(catalog, entry, place, pretty=False)
        shorter[plain] = tables.default_text(catalog, entry, place, pretty=True)
    for index in indexes.indexes(catalog):
        plain = indexes.expressions_text(catalog, index, pretty=False)
        shorter[plain] = indexes.expressions_text(catalog, index, pretty=True)
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
            known = indexes.indexes(catalog)
            return ((one.number, indexes.definition(catalog, one, pretty)) for one in known)

        return kept_choice(binding, number, ("indexes", pretty), texts)

    def columns() -> Iterable[tuple[int, str]]:
        for one in indexes.indexes(catalog):
            for place, part in enumerate((*one.parts, *indexes.included_parts(one)), 1):
                yield one.number << 8 | place, indexes.part_text(catalog, one, part, pretty)

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
            names += [one.name for one in indexes.indexes(catalog)]
            whole = [(naming.number_of("relation", one), one) for one in names]
        case "type":
            whole = [
                (naming.number_of("type", one.name or key), one.name or key)
                for key, one in catalog.types.items()
            ]
        case _:
            whole = [(one, routine.name) for one, routine in users.routines(catalog)]
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
    roles = [(naming.role_number(one.name), quoted(one.name)) for one in binding.catalog.rights.every()]
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
