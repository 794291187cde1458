"""Bit strings, types that are called as functions, and domains."""

from typing import Final

from sqlglot import exp

from kpg.compiler.constraints import Domain
from kpg.compiler.sql.bind.scope import Binding
from kpg.compiler.sql.type_names import FRACTIONAL, last_field, second_digits, user_name
from kpg.runtime.functions import is_function
from kpg.runtime.scalar import Call, Literal, Scalar
from kpg.runtime.types import INTEGER, TEXT, Kind, Type

CASTING: Final = frozenset(
    (
        *("text", "float4", "float8", "int2", "int4", "int8", "numeric", "varchar", "name", "bpchar", "bool"),
        *("inet", "cidr", "macaddr", "macaddr8", "jsonb", "timestamptz", "varbit"),
    )
)
"""Names of types that are called as functions: ``float8(x)`` is ``x::float8``."""


def as_cast(node: exp.Expr) -> exp.Cast | None:
    """The cast that a call by the name of a type is; None for all else."""
    if not isinstance(node, exp.Anonymous) or len(node.expressions) != 1:
        return None
    name = str(node.this).lower()
    if name not in CASTING or is_function(name):
        return None
    return exp.Cast(this=node.expressions[0], to=exp.DataType.build(name, dialect="postgres", udt=True))


def otherwise(node: exp.Expr) -> exp.Expr | None:
    """A call that is another expression: a cast by its type's name, by the name of an operator's function, or
    with VARIADIC; None for all else."""
    if (cast := as_cast(node)) is not None:
        return cast
    if isinstance(node, exp.Anonymous) and not is_function(str(node.this).lower()):
        from kpg.compiler.sql.bind.renamed import by_another_name

        return by_another_name(node)
    if node.args.get("expressions") and isinstance(node.expressions[-1], exp.Variadic):
        from kpg.compiler.sql.bind.renamed import spread

        return spread(node)
    return None


def bind_bits(binding: Binding, node: exp.BitString | exp.HexString) -> Scalar:
    """A bit string, ``B'101'`` or ``X'1F'``."""
    from kpg.runtime.values.byte_strings import read

    sign = "b" if isinstance(node, exp.BitString) else "x"
    try:
        return Literal(read(sign + str(node.this)), Type(Kind.BIT))
    except ValueError as error:
        binding.wrong(str(error), node)


def bounded(binding: Binding, value: Scalar, to: exp.Expr) -> Scalar:
    """What is cast to a domain, held to its conditions; to a moment, with as many digits of a second."""
    last = last_field(to)
    if last and value.type.kind is Kind.INTERVAL:
        return Call("$to_field", (value, Literal(last, TEXT)), value.type)
    digits = second_digits(to)
    if digits is not None and value.type.kind in FRACTIONAL:
        return Call("$to_digits", (value, Literal(digits, INTEGER)), value.type)
    kind = to.args.get("kind") if isinstance(to, exp.DataType) else None
    if kind is None:
        return value
    domain = binding.catalog.find_type(name) if (name := user_name(kind)) else None
    if not isinstance(domain, Domain):
        return value
    from kpg.compiler.sql.bind.domains import in_domain

    return in_domain(binding, value, domain)
