"""Underscores beside the alternatives of an aggregate: a variable each, the same in all alternatives."""

from dataclasses import replace

from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.syntax.scopes import LOCAL


def same_underscores(body: ast.Body) -> ast.Body:
    """The body of an aggregate without underscores in the atoms that stand beside alternatives."""
    if not isinstance(body, ast.And) or not any(isinstance(part, ast.Or) for part in body.parts):
        return body
    return replace(body, parts=tuple(_named(*numbered) for numbered in enumerate(body.parts)))


def _named(number: int, part: ast.Body) -> ast.Body:
    if not isinstance(part, ast.Atom):
        return part
    args = (
        ast.Variable(f"_{number}_{place}{LOCAL}", arg.span) if isinstance(arg, ast.Underscore) else arg
        for place, arg in enumerate(part.args)
    )
    return replace(part, args=tuple(args))
