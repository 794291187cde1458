"""Calls evaluated once per row of a one-time query: calls with side effects, and volatile values.

A call with side effects must be a column of the query; its arguments are computed in its place. A volatile
value is computed from the row's number.
"""

import random
from typing import Final

from sqlglot import exp

from kpg.compiler.sql.bind.query_output import inherited_order
from kpg.compiler.sql.bind.scope import ROW_NUMBER, Binding, Field, Scope
from kpg.compiler.sql.bind.volatile_calls import RowIndex, has_computed_argument, varies_per_row
from kpg.compiler.sql.bound_tree import Node, Window
from kpg.compiler.sql.parse.features import ADVISORY_LOCK_FUNCTIONS
from kpg.runtime.errors import ProgrammingError, Span
from kpg.runtime.plan.nodes import WindowCall
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BIGINT, DOUBLE, Kind, Type

SIDE_EFFECT_FUNCTIONS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "pg_notify": ("text", ("text", "text")),
    "pg_cancel_backend": ("boolean", ("int",)),
    "pg_terminate_backend": ("boolean", ("int",)),
    "setval": ("bigint", ("text", "bigint", "boolean")),
    "pg_sleep": ("text", ("double precision",)),
    "pg_advisory_unlock_all": ("text", ()),
    "pg_export_snapshot": ("text", ()),
}
"""Result type and parameter types by function name."""
NO_SECOND_KEY: Final = 2**63 - 1
"""The second key of an advisory lock that has only one."""
DEFAULT_LAST_ARGUMENT: Final[dict[str, exp.Expr]] = {"setval": exp.true()}
"""Value of an optional last argument."""
for _name_of_lock, _type in ADVISORY_LOCK_FUNCTIONS.items():
    SIDE_EFFECT_FUNCTIONS[_name_of_lock] = (_type, ("bigint", "bigint"))
    DEFAULT_LAST_ARGUMENT[_name_of_lock] = exp.Literal.number(NO_SECOND_KEY)


def _unwrap_call(node: exp.Expr) -> exp.Expr:
    node = node.this if isinstance(node, exp.Alias) else node
    if isinstance(node, exp.Dot) and node.this.name.lower() == "pg_catalog":
        return node.expression
    return node


def _side_effect_name(node: exp.Expr) -> str:
    call = _unwrap_call(node)
    name = str(call.this).lower() if isinstance(call, exp.Anonymous) else ""
    if name == "setval" and isinstance(call, exp.Anonymous) and not has_computed_argument(call):
        return ""  # such a call is evaluated before the statement runs
    return name if name in SIDE_EFFECT_FUNCTIONS else ""


def has_side_effects(tree: exp.Expr) -> bool:
    """Return whether columns of a query are calls with side effects."""
    return isinstance(tree, exp.Select) and any(map(_side_effect_name, tree.expressions))


def without_side_effects(tree: exp.Expr) -> exp.Expr:
    """Return the query with NULLs in the place of the calls with side effects."""
    made = []
    for node in tree.expressions:
        name = _side_effect_name(node)
        if name:
            nothing = exp.Cast(this=exp.Null(), to=exp.DataType.build(SIDE_EFFECT_FUNCTIONS[name][0]))
            node = exp.alias_(nothing, node.alias or name)
        made.append(node)
    result = tree.copy()
    result.set("expressions", made)
    return result


def with_call_arguments(tree: exp.Expr, span: Span) -> tuple[exp.Expr, list[tuple[str, str]]]:
    """Return the query with the arguments in the place of the calls with side effects.

    Also return for each column the function, "" for none, and its alias or the function's name.
    """
    columns: list[exp.Expr] = []
    parts: list[tuple[str, str]] = []
    for node in tree.expressions:
        name = _side_effect_name(node)
        parts.append((name, node.alias or name))
        if name:
            columns += _cast_arguments(node, name, span)
        elif node.is_star:
            raise ProgrammingError(f"* beside {_first_side_effect(tree)} is not supported", span=span)
        else:
            columns.append(node)
    result = tree.copy()
    result.set("expressions", columns)
    return result, parts


def _first_side_effect(tree: exp.Expr) -> str:
    return next(filter(None, map(_side_effect_name, tree.expressions)))


def _cast_arguments(node: exp.Expr, name: str, span: Span) -> list[exp.Expr]:
    given, types = list(_unwrap_call(node).expressions), SIDE_EFFECT_FUNCTIONS[name][1]
    if len(given) == len(types) - 1 and name in DEFAULT_LAST_ARGUMENT:
        given.append(DEFAULT_LAST_ARGUMENT[name])
    if len(given) != len(types):
        raise ProgrammingError(f"{name} takes {len(types)} arguments", span=span)
    pairs = zip(given, types, strict=True)
    return [exp.Cast(this=part.copy(), to=exp.DataType.build(type_)) for part, type_ in pairs]


SALT_BITS: Final = 62
"""Number of random bits of a volatile call's salt."""


def number_rows_for_calls(binding: Binding, scope: Scope, source: Node, node: exp.Select) -> Node:
    """Number the rows of FROM in their order if the query has a volatile call."""
    found = (one for one in node.find_all(exp.Rand, exp.Uuid, exp.Anonymous, RowIndex) if varies_per_row(one))
    if not any(one.find_ancestor(exp.Select) is node for one in found):
        return source
    number = Column(binding.new_id(), BIGINT)
    order = inherited_order(source, scope.orders)
    made = Window(source, (), order, (), (number.index,), (WindowCall("row_number", (), BIGINT),))
    if order:
        scope.orders[id(made)] = order
    scope.fields.append(row_number_field(number))
    return made


def row_number_field(column: Column) -> Field:
    """Return the hidden field of a row number column."""
    return Field("", ROW_NUMBER, column, is_system=True)


def bind_volatile_call(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar | None:
    """Bind a volatile call over the row number; None for any other call, and if rows have no numbers."""
    if binding.is_view or not varies_per_row(node):
        return None
    number = next((field.column for field in scope.fields if field.name == ROW_NUMBER), None)
    if number is None:
        return None
    if isinstance(node, RowIndex):
        return Call("$drawn", (number, Literal(node.token, BIGINT)), BIGINT)
    salt = Literal(random.getrandbits(SALT_BITS), BIGINT)
    if isinstance(node, exp.Rand):
        return Call("$random", (number, salt), DOUBLE)
    return Call("$random_uuid", (number, salt), Type(Kind.UUID))
