"""Aggregates in the heads of rules, which are written as calls."""

from typing import Final

from kpg.compiler.datalog.syntax import ast

IN_HEADS: Final = {
    **{name: name for name in ("min", "max", "sum", "count", "mean")},
    **{name: name.lower() for name in ("MIN", "MAX", "SUM", "COUNT")},
    **dict.fromkeys(("avg", "AVG", "average", "AVERAGE"), "mean"),
}
"""What a call in a head's argument that is an aggregate is registered as."""


def head_aggregate(expression: ast.Expression) -> tuple[str, ast.Expression] | None:
    """The function and operand of a head's argument that is an aggregate."""
    if isinstance(expression, ast.Call) and len(expression.args) == 1:
        function = IN_HEADS.get(expression.function)
        if function is not None:
            return function, expression.args[0]
    return None
