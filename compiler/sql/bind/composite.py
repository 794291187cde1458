"""Values made of others: arrays, their elements, rows; and AT TIME ZONE."""

from sqlglot import exp

from kpg.compiler.sql.bind.scope import Binding, Scope
from kpg.runtime.scalar import Scalar


def bind_composite(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar | None:
    """The scalar of an expression that makes or takes apart such a value; None if the node is no such."""
    return None
