"""Bit strings, and types that are called as functions."""

from typing import Final

from sqlglot import exp

from kpg.compiler.sql.bind.scope import Binding
from kpg.runtime.functions import is_function
from kpg.runtime.scalar import Literal, Scalar
from kpg.runtime.types import Kind, Type

CASTING: Final = frozenset(
    (
        *("text", "float4", "float8", "int2", "int4", "int8", "numeric", "varchar", "name", "bpchar", "bool"),
        *("money", "inet", "cidr", "macaddr", "macaddr8", "jsonb", "timestamptz", "varbit"),
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


def bind_bits(binding: Binding, node: exp.BitString | exp.HexString) -> Scalar:
    """A bit string, ``B'101'`` or ``X'1F'``."""
    from kpg.runtime.values.bitstrings import read

    sign = "b" if isinstance(node, exp.BitString) else "x"
    try:
        return Literal(read(sign + str(node.this)), Type(Kind.BIT))
    except ValueError as error:
        binding.wrong(str(error), node)
