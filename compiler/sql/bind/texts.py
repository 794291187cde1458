"""Values of other types beside texts: the operands of ``||`` and of CONCAT."""

from typing import Final

from sqlglot import exp

from kpg.compiler.sql.bind.calls import call, coerce, settled
from kpg.compiler.sql.bind.scope import Binding, Scope
from kpg.runtime.functions import castable
from kpg.runtime.functions.text import shown
from kpg.runtime.scalar import Literal, Scalar
from kpg.runtime.types import TEXT, UNKNOWN, Kind

OWN: Final = frozenset({Kind.BYTEA, Kind.JSONB, Kind.VARBIT, Kind.BIT})
"""Types that ``||`` joins to a quoted constant as one of their own values."""


def as_texts(args: list[Scalar]) -> list[Scalar]:
    """The operands of ``||``: beside a text or a quoted constant, a value of another type as text."""
    if not any(arg.type.is_text or arg.type == UNKNOWN for arg in args):
        return args
    if any(arg.type.kind in OWN for arg in args) and not any(arg.type.is_text for arg in args):
        return args
    return [coerce(arg, TEXT) if castable(arg.type, TEXT) else arg for arg in args]


def concatenated(binding: Binding, scope: Scope, node: exp.Concat) -> Scalar:
    """CONCAT: the arguments as text, one after the other, NULLs left out."""
    empty = Literal("", TEXT)
    texts: list[Scalar] = []
    for part in node.expressions:
        value = shown(settled(binding.expression(scope, part)))
        if not value.type.is_text and not castable(value.type, TEXT):
            binding.wrong(f"cannot cast {value.type} to {TEXT}", part)
        texts.append(call(binding, "coalesce", [coerce(value, TEXT), empty], node))
    result = texts[0]
    for text in texts[1:]:
        result = call(binding, "concat", [result, text], node)
    return result
