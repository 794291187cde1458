"""Calls evaluated once per row of a one-time query: calls with side effects, and volatile values.

A call with side effects must be a column of the query; its arguments are computed in its place. A volatile
value is computed from the row's number.
"""

import random
from typing import Final

from sqlglot import exp

from kpg.compiler.sql.bind.query_output import order_within
from kpg.compiler.sql.bind.scope import ROW, Binding, Field, Scope
from kpg.compiler.sql.bind.volatile_calls import Drawn, is_computed, varies
from kpg.compiler.sql.bound_tree import Node, Window
from kpg.runtime.errors import ProgrammingError, Span
from kpg.runtime.plan.nodes import WindowCall
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BIGINT, DOUBLE, Kind, Type

ACTS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "pg_notify": ("text", ("text", "text")),
    "pg_cancel_backend": ("boolean", ("int",)),
    "pg_terminate_backend": ("boolean", ("int",)),
    "setval": ("bigint", ("text", "bigint", "boolean")),
    "pg_sleep": ("text", ("double precision",)),
    "pg_advisory_unlock_all": ("text", ()),
    "pg_export_snapshot": ("text", ()),
}
"""The type of what comes out, and those that the arguments are brought to, by name."""
NO_NUMBER: Final = 2**63 - 1
"""What the second number of a lock is that has one."""
DEFAULTS: Final[dict[str, exp.Expr]] = {"setval": exp.true()}
"""What the last argument is that need not be given."""
LOCKS: Final = {
    f"pg_{tries}advisory_{part}{shared}": ("boolean" if tries or part == "unlock" else "text")
    for tries in ("", "try_")
    for part in ("lock", "xact_lock", "unlock")
    for shared in ("", "_shared")
    if not (tries and part == "unlock")
}
"""The functions of advisory locks, and what they give."""
for _name_of_lock, _type in LOCKS.items():
    ACTS[_name_of_lock] = (_type, ("bigint", "bigint"))
    DEFAULTS[_name_of_lock] = exp.Literal.number(NO_NUMBER)


def _call(node: exp.Expr) -> exp.Expr:
    node = node.this if isinstance(node, exp.Alias) else node
    if isinstance(node, exp.Dot) and node.this.name.lower() == "pg_catalog":
        return node.expression
    return node


def _name(node: exp.Expr) -> str:
    call = _call(node)
    name = str(call.this).lower() if isinstance(call, exp.Anonymous) else ""
    if name == "setval" and isinstance(call, exp.Anonymous) and not is_computed(call):
        return ""  # whose value is put in its place before the statement is run
    return name if name in ACTS else ""


def acts(tree: exp.Expr) -> bool:
    """Whether columns of a query are such calls."""
    return isinstance(tree, exp.Select) and any(map(_name, tree.expressions))


def idle(tree: exp.Expr) -> exp.Expr:
    """The query with NULLs in the place of the calls."""
    made = []
    for node in tree.expressions:
        name = _name(node)
        if name:
            nothing = exp.Cast(this=exp.Null(), to=exp.DataType.build(ACTS[name][0]))
            node = exp.alias_(nothing, node.alias or name)
        made.append(node)
    result = tree.copy()
    result.set("expressions", made)
    return result


def with_arguments(tree: exp.Expr, span: Span) -> tuple[exp.Expr, list[tuple[str, str]]]:
    """The query with the arguments in the place of the calls; and for each column the function, which may
    be none, and the name that it has if it has one of its own.
    """
    columns: list[exp.Expr] = []
    parts: list[tuple[str, str]] = []
    for node in tree.expressions:
        name = _name(node)
        parts.append((name, node.alias or name))
        if name:
            columns += _arguments(node, name, span)
        elif node.is_star:
            raise ProgrammingError(f"* beside {_acting(tree)} is not supported", span=span)
        else:
            columns.append(node)
    result = tree.copy()
    result.set("expressions", columns)
    return result, parts


def _acting(tree: exp.Expr) -> str:
    return next(filter(None, map(_name, tree.expressions)))


def _arguments(node: exp.Expr, name: str, span: Span) -> list[exp.Expr]:
    given, types = list(_call(node).expressions), ACTS[name][1]
    if len(given) == len(types) - 1 and name in DEFAULTS:
        given.append(DEFAULTS[name])
    if len(given) != len(types):
        raise ProgrammingError(f"{name} takes {len(types)} arguments", span=span)
    pairs = zip(given, types, strict=True)
    return [exp.Cast(this=part.copy(), to=exp.DataType.build(type_)) for part, type_ in pairs]


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
