"""Rows in parentheses: compared column by column, the first difference decides."""

from collections.abc import Sequence

from sqlglot import exp

from kpg.compiler.sql.bind.calls import call, settled
from kpg.compiler.sql.bind.functions import COMPARISONS
from kpg.compiler.sql.bind.scope import Binding, Scope
from kpg.compiler.sql.modify import column_of
from kpg.compiler.sql.syntax import only
from kpg.runtime.scalar import Scalar

STRICT = {"lt": "lt", "le": "lt", "gt": "gt", "ge": "gt"}
"""The comparison of all columns but the last."""


def row_parts(node: exp.Expr | None) -> list[exp.Expr] | None:
    """The columns of ``(a, b)`` or ``ROW(a, b)``; None for anything else."""
    match node:
        case exp.Tuple():
            return list(node.expressions)
        case exp.Anonymous() if str(node.this).lower() == "row":
            return list(node.expressions)
        case exp.Paren(this=exp.Anonymous() | exp.Tuple() as inner):
            return row_parts(inner)
        case _:
            return None


def row_columns(node: exp.Expr | None) -> list[exp.Expr] | None:
    """As :func:`row_parts`, and the columns of a subquery that has several, each a subquery."""
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select):
        listed = node.this.expressions
        if len(listed) > 1 and not any(part.is_star for part in listed):
            return [column_of(node, place, len(listed)) for place in range(len(listed))]
    return row_parts(node)


def compared_rows(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    """``(a, b) < (c, d)`` and the like."""
    only(node, binding.source, "this", "expression")
    sides = _sides(binding, scope, node.this, node.expression, node)
    if isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ):
        tests = [call(binding, "is_not_distinct", pair, node) for pair in sides]
        same = _all(binding, tests, node)
        return same if isinstance(node, exp.NullSafeEQ) else call(binding, "not", [same], node)
    return compared_pairs(binding, COMPARISONS[type(node)], sides, node)


def compared_pairs(binding: Binding, name: str, sides: Sequence[Sequence[Scalar]], node: exp.Expr) -> Scalar:
    """A comparison of two rows, of which the columns are given pair by pair."""
    if name in ("eq", "ne"):
        equal = _all(binding, [call(binding, "eq", pair, node) for pair in sides], node)
        return equal if name == "eq" else call(binding, "not", [equal], node)
    result = call(binding, name, sides[-1], node)
    for pair in reversed(sides[:-1]):
        further = call(binding, "and", [call(binding, "eq", pair, node), result], node)
        result = call(binding, "or", [call(binding, STRICT[name], pair, node), further], node)
    return result


def rows_equal(binding: Binding, scope: Scope, left: exp.Expr, right: exp.Expr, node: exp.Expr) -> Scalar:
    """Whether two rows are equal."""
    sides = _sides(binding, scope, left, right, node)
    return _all(binding, [call(binding, "eq", pair, node) for pair in sides], node)


def row_is_null(binding: Binding, scope: Scope, parts: Sequence[exp.Expr], node: exp.Is) -> Scalar:
    """``(a, b) IS NULL`` if all are; ``IS NOT NULL`` if none is."""
    name = "is_not_null" if node.args.get("negate") else "is_null"
    values = [settled(binding.expression(scope, part)) for part in parts]
    return _all(binding, [call(binding, name, [value], node) for value in values], node)


def _sides(
    binding: Binding, scope: Scope, left: exp.Expr, right: exp.Expr, node: exp.Expr
) -> list[list[Scalar]]:
    first, second = row_columns(left), row_columns(right)
    if first is None or second is None or len(first) != len(second) or not first:
        binding.wrong("rows of different sizes cannot be compared", node)
    pairs = zip(first, second, strict=True)
    return [[binding.expression(scope, one) for one in pair] for pair in pairs]


def _all(binding: Binding, tests: Sequence[Scalar], node: exp.Expr) -> Scalar:
    return tests[0] if len(tests) == 1 else call(binding, "and", tests, node)
