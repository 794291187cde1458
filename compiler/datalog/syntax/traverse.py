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
"""A literal of a conjunction: an atom, an atom negated, a comparison."""


def children(expression: ast.Expression) -> tuple[ast.Expression, ...]:
    """The direct parts of an expression; of an aggregate none, for it is a scope of its own."""
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
    """The expression and its parts, aggregates among them but nothing inside of those."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def atom_of(literal: FlatLiteral) -> ast.Atom | None:
    """The atom that a literal is, or is the negation of."""
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
    """The expressions that a literal is made of."""
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
    """The literals of a flat body, those of all its alternatives."""
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
    """The conjunctions of a flat body: one, unless it is a disjunction."""
    if isinstance(body, ast.Or):
        return tuple(literals(part) for part in body.parts)
    return (literals(body),)


def with_literals(body: ast.Body, change: Callable[[FlatLiteral], FlatLiteral]) -> ast.Body:
    """The flat body with its literals changed."""
    found = tuple(ast.And(tuple(change(one) for one in part), body.span) for part in alternatives(body))
    return found[0] if not isinstance(body, ast.Or) else ast.Or(found, body.span)


def variables(expression: ast.Expression) -> Iterator[ast.Variable]:
    """The variables of an expression, none inside of aggregates."""
    return (part for part in walk(expression) if isinstance(part, ast.Variable))


def all_variables(expression: ast.Expression) -> Iterator[ast.Variable]:
    """The variables of an expression, those inside of aggregates too."""
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
    """Rebuilds the expression bottom-up; ``change`` gets variables, underscores and whole aggregates too."""
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
    """The literal with its expressions rebuilt."""
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


def rewritten(node: T, change: Callable[[Any], Any]) -> T:
    """The tree with each of its nodes changed, those inside first."""
    found: Any = node
    if isinstance(found, tuple):
        made: Any = tuple(rewritten(part, change) for part in found)
        return made
    if not is_dataclass(found) or isinstance(found, Span | type):
        return node
    changes = {}
    for one in fields(found):
        old = getattr(found, one.name)
        new = rewritten(old, change)
        if new is not old and new != old:
            changes[one.name] = new
    result: T = change(replace(found, **changes) if changes else found)
    return result


def nodes(node: Any) -> Iterator[Any]:
    if isinstance(node, tuple):
        for part in node:
            yield from nodes(part)
    elif is_dataclass(node) and not isinstance(node, Span | type):
        yield node
        for one in fields(node):
            yield from nodes(getattr(node, one.name))


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
