"""The aggregates of the dialect, and what their records in ``runtime.functions`` mean for its types."""

import enum

from kpg.compiler.datalog.syntax.heads import head_aggregate as head_aggregate
from kpg.compiler.datalog.typing.types import FLOAT, NUMBER, SYMBOL, UNSIGNED
from kpg.compiler.rules.core import Domain
from kpg.runtime.functions import aggregate_named
from kpg.runtime.scalar import Named
from kpg.runtime.types import BIGINT


class Result(enum.Enum):
    """What kind of value an aggregate gives."""

    WHOLE = "a whole number, number or unsigned"
    FLOAT = "a float, of operands as floats"
    OPERAND = "of the kind of its operand"


def takes_value(function: str) -> bool:
    """Whether it is of a value, else of bindings."""
    return not aggregate_named(function).takes_rows


def result_of(function: str) -> Result:
    """What it gives."""
    if not takes_value(function):
        return Result.WHOLE
    if isinstance(function, Named):
        return Result.OPERAND
    signature = aggregate_named(function).rule((BIGINT,))
    return Result.OPERAND if signature is not None and signature.result == BIGINT else Result.FLOAT


def operand_domains(function: str) -> frozenset[Domain]:
    """The domains of operands that it takes; SQL's types are told apart later."""
    if isinstance(function, Named):
        return frozenset(Domain)
    rule = aggregate_named(function).rule
    plain = {kind.domain for kind in (NUMBER, UNSIGNED, FLOAT, SYMBOL) if rule((kind.type,)) is not None}
    return frozenset(plain | {Domain.SQL} if result_of(function) is Result.OPERAND else plain)


def selects(function: str) -> bool:
    """Whether what it gives is one of its operands."""
    return aggregate_named(function).selects
