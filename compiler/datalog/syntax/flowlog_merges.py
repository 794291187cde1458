"""FlowLog's columns that keep the least or the greatest value, ``dist: min<int32>``: aggregates in heads."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kpg.compiler.datalog.syntax import ast

Merges = Mapping[str, Mapping[int, str]]
"""Of relations the functions of columns, by place."""


def with_merges(statements: Sequence[ast.Statement]) -> list[ast.Statement]:
    """The statements with such columns as aggregates of what rules derive."""
    merges: dict[str, dict[int, str]] = {}
    made: list[ast.Statement] = []
    for one in statements:
        if isinstance(one, ast.Declaration) and any(part.type.merge for part in one.attributes):
            places = {at: part.type.merge for at, part in enumerate(one.attributes) if part.type.merge}
            merges |= {name.text: places for name in one.names}
            plain = tuple(replace(part, type=replace(part.type, merge="")) for part in one.attributes)
            one = replace(one, attributes=plain)
        made.append(one)
    return [_aggregating(one, merges) if merges and isinstance(one, ast.Clause) else one for one in made]


def _aggregating(clause: ast.Clause, merges: Merges) -> ast.Clause:
    body = clause.body or ast.Truth(True, clause.span)  # facts alone would be a table that keeps them all
    heads = tuple(_head(head, merges.get(head.name.text, {})) for head in clause.heads)
    return clause if heads == clause.heads else replace(clause, heads=heads, body=body)


def _head(head: ast.Atom, places: Mapping[int, str]) -> ast.Atom:
    args = tuple(
        ast.Call(places[at], (arg,), arg.span) if at in places else arg for at, arg in enumerate(head.args)
    )
    return replace(head, args=args)
