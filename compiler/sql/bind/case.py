"""CASE, and IF of other systems."""

from sqlglot import exp

from kpg.compiler.sql.bind.calls import call, condition, unified
from kpg.compiler.sql.bind.scope import Binding, Scope
from kpg.compiler.sql.syntax import only
from kpg.runtime.scalar import If, Literal, Scalar
from kpg.runtime.types import UNKNOWN


def bind_case(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    only(node, binding.source, "this", "ifs", "default", "true", "false")
    if isinstance(node, exp.If):
        branches, operand, default = [node], None, node.args.get("false")
    else:
        branches, operand, default = node.args["ifs"], node.args.get("this"), node.args.get("default")
    scope = scope.without_rows("CASE")
    tested = binding.expression(scope, operand) if operand is not None else None
    conditions = [_branch(binding, scope, tested, branch.this) for branch in branches]
    values = [binding.expression(scope, branch.args["true"]) for branch in branches]
    values.append(binding.expression(scope, default) if default is not None else Literal(None, UNKNOWN))
    nodes = [*(branch.args["true"] for branch in branches), default if default is not None else node]
    values = unified(binding, values, nodes, "CASE branches")
    result = values[-1]
    for test, value in zip(reversed(conditions), reversed(values[:-1]), strict=True):
        result = If(test, value, result, value.type)
    return result


def _branch(binding: Binding, scope: Scope, tested: Scalar | None, node: exp.Expr) -> Scalar:
    value = binding.expression(scope, node)
    if tested is not None:
        return call(binding, "eq", [tested, value], node)
    return condition(binding, value, node, "WHEN")
