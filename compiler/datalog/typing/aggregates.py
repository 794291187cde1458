"""The aggregates of the dialect, and what their records in ``runtime.functions`` mean for its types."""

import enum
from typing import Final

from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.typing.types import FLOAT, NUMBER, SYMBOL, UNSIGNED
from kpg.compiler.rules.core import Domain
from kpg.runtime.functions import aggregate_named
from kpg.runtime.types import BIGINT

IN_HEADS: Final = {
    **{name: name for name in ("min", "max", "sum", "count", "mean")},
    **{name: name.lower() for name in ("MIN", "MAX", "SUM", "COUNT")},
    **dict.fromkeys(("avg", "AVG", "average", "AVERAGE"), "mean"),
}
"""What a call in a head's argument that is an aggregate is registered as."""


class Result(enum.Enum):
    """What kind of value an aggregate gives."""

    WHOLE = "a whole number, number or unsigned"
    FLOAT = "a float, of operands as floats"
    OPERAND = "of the kind of its operand"


def head_aggregate(expression: ast.Expression) -> tuple[str, ast.Expression] | None:
    """The function and operand of a head's argument that is an aggregate."""
    if isinstance(expression, ast.Call) and len(expression.args) == 1:
        function = IN_HEADS.get(expression.function)
        if function is not None:
            return function, expression.args[0]
    return None


def takes_value(function: str) -> bool:
    """Whether it is of a value, else of bindings."""
    return not aggregate_named(function).takes_rows


def result_of(function: str) -> Result:
    """What it gives."""
    if not takes_value(function):
        return Result.WHOLE
    signature = aggregate_named(function).rule((BIGINT,))
    return Result.OPERAND if signature is not None and signature.result == BIGINT else Result.FLOAT


def operand_domains(function: str) -> frozenset[Domain]:
    """The domains of operands that it takes; SQL's types are told apart later."""
    rule = aggregate_named(function).rule
    plain = {kind.domain for kind in (NUMBER, UNSIGNED, FLOAT, SYMBOL) if rule((kind.type,)) is not None}
    return frozenset(plain | {Domain.SQL} if result_of(function) is Result.OPERAND else plain)


def selects(function: str) -> bool:
    """Whether what it gives is one of its operands."""
    return aggregate_named(function).selects
