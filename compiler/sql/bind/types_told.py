"""What the system tells of types: their numbers by name, and their names by number."""

from collections.abc import Iterable, Iterator

from sqlglot import exp

from kpg.compiler.sql.bind.calls import call, coerce
from kpg.compiler.sql.bind.choices import chosen, kept_choice, kept_texts
from kpg.compiler.sql.bind.scope import Binding
from kpg.compiler.sql.syntax import span_of
from kpg.compiler.system import naming, tables, users
from kpg.runtime.scalar import Literal, Scalar
from kpg.runtime.types import BIGINT, OID, TEXT
from kpg.runtime.unsupported_features import unsupported_type


def formatted(binding: Binding, node: exp.Anonymous, args: list[Scalar]) -> Scalar:
    """The name of a type by its number; what columns have of a length, or precision and scale, in it."""
    plain = type_names(binding, args[0], node)
    if len(args) < 2 or isinstance(args[1], Literal):
        modified = naming.modified(*(one.value for one in args if isinstance(one, Literal)))
        return plain if modified is None else Literal(modified, TEXT)
    whole = kept_texts(binding, "modifiers", lambda: dict(_modified(binding)))
    if not whole:
        return plain
    shifted = call(binding, "mul", [coerce(args[0], BIGINT), Literal(1 << 32, BIGINT)], node)
    key = call(binding, "add", [shifted, coerce(args[1], BIGINT)], node)
    return call(binding, "coalesce", [chosen(binding, key, whole), plain], node)


def _modified(binding: Binding) -> Iterator[tuple[int, str]]:
    """The names of types with lengths and digits, by numbers that both are in."""
    for number, place in tables.modifiers(binding.catalog):
        shown = naming.modified(number, place)
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
        int(text) if text.isdigit() else naming.type_number(text) or users.named_type(binding.catalog, text)
    )


def type_names(binding: Binding, number: Scalar, node: exp.Expr) -> Scalar:
    """The name of the type of a number."""

    def names() -> Iterable[tuple[int, str]]:
        given = {0: "-"} | {one: name for one, (name, _) in naming.every_type().items()}
        return (given | users.type_names(binding.catalog)).items()

    return kept_choice(binding, number, "types", names)
