"""Calls that have another value for each row of a query that is asked once: over a number of the row."""

import random
from typing import Final

from sqlglot import exp

from kpg.compiler.sql.bind.input_order import order_within
from kpg.compiler.sql.bind.scope import ROW, Binding, Field, Scope
from kpg.compiler.sql.tree import Node, Window
from kpg.compiler.sql.volatile import Drawn, varies
from kpg.runtime.plan.nodes import WindowCall
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BIGINT, DOUBLE, Kind, Type

SALT_BITS: Final = 62


def with_numbers(binding: Binding, scope: Scope, source: Node, node: exp.Select) -> Node:
    """The rows of FROM, with numbers in their order if a call of the query is to have a value for each."""
    found = (one for one in node.find_all(exp.Rand, exp.Uuid, exp.Anonymous, Drawn) if varies(one))
    if not any(one.find_ancestor(exp.Select) is node for one in found):
        return source
    number = Column(binding.fresh(), BIGINT)
    order = order_within(source, scope.orders)
    made = Window(source, (), order, (), (number.index,), (WindowCall("row_number", (), BIGINT),))
    if order:
        scope.orders[id(made)] = order
    scope.fields.append(numbered_by(number))
    return made


def numbered_by(column: Column) -> Field:
    """The field of a column that tells rows apart."""
    return Field("", ROW, column, of_system=True)


def bind_varying(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar | None:
    """Such a call; None for any other, and where rows have no numbers."""
    if binding.kept or not varies(node):
        return None
    number = next((field.column for field in scope.fields if field.name == ROW), None)
    if number is None:
        return None
    if isinstance(node, Drawn):
        return Call("$drawn", (number, Literal(node.token, BIGINT)), BIGINT)
    salt = Literal(random.getrandbits(SALT_BITS), BIGINT)
    if isinstance(node, exp.Rand):
        return Call("$random", (number, salt), DOUBLE)
    return Call("$random_uuid", (number, salt), Type(Kind.UUID))
