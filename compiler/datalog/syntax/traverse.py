"""Traversals and rewrites of ``ast``: expressions, flat bodies and whole trees.

An aggregate is a scope of its own, so traversals of expressions do not enter it unless they say so.
:func:`head_aggregate` recognizes an aggregate in a head, which the syntax writes as a call.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final, TypeVar, assert_never

from kpg.compiler.datalog.syntax import ast
from kpg.runtime.errors import Span

FlatLiteral = ast.Atom | ast.Not | ast.Comparison
"""A literal of a conjunction: an atom, a negated atom or a comparison."""


def children(expression: ast.Expression) -> tuple[ast.Expression, ...]:
    """Return the direct parts of an expression.

    An aggregate has none, because it is a scope of its own.
    """
    match expression:
        case ast.Record(args=args) | ast.Call(args=args):
            return args
        case ast.Dollar(args=arguments):
            return arguments or ()
        case ast.Cast(value=value):
            return (value,)
        case (
            ast.Variable()
            | ast.Underscore()
            | ast.Integer()
            | ast.Float()
            | ast.Boolean()
            | ast.String()
            | ast.Nil()
        ):
            return ()
        case ast.Aggregate():
            return ()
        case _:
            assert_never(expression)


def walk(expression: ast.Expression) -> Iterator[ast.Expression]:
    """Yield the expression and its parts in preorder, without the inside of aggregates."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def atom_of(literal: FlatLiteral) -> ast.Atom | None:
    """Return the atom of a positive or negated literal, or None."""
    match literal:
        case ast.Atom():
            return literal
        case ast.Not(body=body):
            return body if isinstance(body, ast.Atom) else None
        case ast.Comparison():
            return None
        case _:
            assert_never(literal)


def literal_expressions(literal: FlatLiteral) -> tuple[ast.Expression, ...]:
    """Return the expressions of a literal."""
    match literal:
        case ast.Atom(args=args) | ast.Not(body=ast.Atom(args=args)):
            return args
        case ast.Comparison(left=left, right=right):
            return (left, right)
        case ast.Not():
            return ()
        case _:
            assert_never(literal)


def literals(body: ast.Body) -> tuple[FlatLiteral, ...]:
    """Return the literals of all alternatives of a flat body."""
    match body:
        case ast.And(parts=parts) | ast.Or(parts=parts):
            return tuple(flat for part in parts for flat in literals(part))
        case ast.Atom() | ast.Not() | ast.Comparison():
            return (body,)
        case ast.Truth():
            return ()
        case _:
            assert_never(body)


def alternatives(body: ast.Body) -> tuple[tuple[FlatLiteral, ...], ...]:
    """Return the conjunctions of a flat body, more than one only for a disjunction."""
    if isinstance(body, ast.Or):
        return tuple(literals(part) for part in body.parts)
    return (literals(body),)


def map_literals(body: ast.Body, change: Callable[[FlatLiteral], FlatLiteral]) -> ast.Body:
    """Return the flat body with ``change`` applied to its literals."""
    found = tuple(ast.And(tuple(change(one) for one in part), body.span) for part in alternatives(body))
    return found[0] if not isinstance(body, ast.Or) else ast.Or(found, body.span)


def variables(expression: ast.Expression) -> Iterator[ast.Variable]:
    """Yield the variables of an expression, except those in aggregates."""
    return (part for part in walk(expression) if isinstance(part, ast.Variable))


def all_variables(expression: ast.Expression) -> Iterator[ast.Variable]:
    """Yield the variables of an expression, including those in aggregates."""
    for part in walk(expression):
        if isinstance(part, ast.Variable):
            yield part
        elif isinstance(part, ast.Aggregate):
            if part.value is not None:
                yield from all_variables(part.value)
            for literal in literals(part.body):
                for inner in literal_expressions(literal):
                    yield from all_variables(inner)


def transform(
    expression: ast.Expression, change: Callable[[ast.Expression], ast.Expression]
) -> ast.Expression:
    """Rebuild the expression bottom-up.

    ``change`` also receives variables, underscores and whole aggregates.
    """
    match expression:
        case ast.Record(args=args) | ast.Call(args=args):
            return change(replace(expression, args=tuple(transform(arg, change) for arg in args)))
        case ast.Dollar(args=arguments):
            if arguments is None:
                return change(expression)
            return change(replace(expression, args=tuple(transform(arg, change) for arg in arguments)))
        case ast.Cast(value=value):
            return change(replace(expression, value=transform(value, change)))
        case (
            ast.Variable()
            | ast.Underscore()
            | ast.Integer()
            | ast.Float()
            | ast.Boolean()
            | ast.String()
            | ast.Nil()
        ):
            return change(expression)
        case ast.Aggregate():
            return change(expression)
        case _:
            assert_never(expression)


def transform_literal(
    literal: FlatLiteral, change: Callable[[ast.Expression], ast.Expression]
) -> FlatLiteral:
    """Return the literal with its expressions rebuilt by :func:`transform`."""
    match literal:
        case ast.Atom(args=args):
            return replace(literal, args=tuple(transform(arg, change) for arg in args))
        case ast.Not(body=ast.Atom(args=args) as atom):
            return replace(literal, body=replace(atom, args=tuple(transform(arg, change) for arg in args)))
        case ast.Comparison(left=left, right=right):
            return replace(literal, left=transform(left, change), right=transform(right, change))
        case ast.Not():
            return literal
        case _:
            assert_never(literal)


T = TypeVar("T")


def transform_tree(node: T, change: Callable[[Any], Any]) -> T:
    """Rebuild the tree bottom-up, with ``change`` applied to each node."""
    found: Any = node
    if isinstance(found, tuple):
        new_parts: Any = tuple(transform_tree(part, change) for part in found)
        return new_parts
    if not is_dataclass(found) or isinstance(found, Span | type):
        return node
    changes = {}
    for field_ in fields(found):
        old = getattr(found, field_.name)
        new = transform_tree(old, change)
        if new is not old and new != old:
            changes[field_.name] = new
    result: T = change(replace(found, **changes) if changes else found)
    return result


def nodes(node: Any) -> Iterator[Any]:
    if isinstance(node, tuple):
        for part in node:
            yield from nodes(part)
    elif is_dataclass(node) and not isinstance(node, Span | type):
        yield node
        for field_ in fields(node):
            yield from nodes(getattr(node, field_.name))


HEAD_AGGREGATES: Final = {
    **{name: name for name in ("min", "max", "sum", "count", "mean")},
    **{name: name.lower() for name in ("MIN", "MAX", "SUM", "COUNT")},
    **dict.fromkeys(("avg", "AVG", "average", "AVERAGE"), "mean"),
}
"""Registered aggregate for each function name that is an aggregate in a head."""


def head_aggregate(expression: ast.Expression) -> tuple[str, ast.Expression] | None:
    """Return the function and operand of a head argument that is an aggregate, or None."""
    if isinstance(expression, ast.Call) and len(expression.args) == 1:
        function = HEAD_AGGREGATES.get(expression.function)
        if function is not None:
            return function, expression.args[0]
    return None
