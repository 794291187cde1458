"""``.decl D = debug_delta(R)``: a declaration of R's columns with a round behind them, and a rule."""

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.syntax import ast
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class Delta:
    """The statement as it stands. It is gone once a text is parsed."""

    name: ast.Name
    relation: ast.Name
    qualifiers: tuple[ast.Name, ...]
    span: Span = field(compare=False, repr=False)


def with_deltas(statements: Sequence[Any], diagnostics: Diagnostics) -> list[Any]:
    """The statements of a text or component with declarations and rules in place of such."""
    declared = {
        name.text: one for one in statements if isinstance(one, ast.Declaration) for name in one.names
    }
    made: list[Any] = []
    for one in statements:
        if not isinstance(one, Delta):
            made.append(one)
        elif one.relation.text in declared:
            made += _written(one, declared[one.relation.text])
        else:
            hint = "declare it beside its debug_delta"
            message = f"relation {one.relation} is not defined"
            diagnostics.error("undefined", message, one.relation.span, hint=hint)
    return made


def _written(delta: Delta, of: ast.Declaration) -> Iterator[ast.Statement]:
    span = delta.span
    round_ = ast.Attribute(ast.Name("iteration", span), ast.TypeRef(ast.Name("unsigned", span)))
    yield ast.Declaration((delta.name,), (*of.attributes, round_), delta.qualifiers, span)
    names = tuple(ast.Variable(f"c{place}", span) for place in range(len(of.attributes)))
    head = ast.Atom(delta.name, (*names, ast.Call("$delta", (), span)), span)
    yield ast.Clause((head,), ast.Atom(delta.relation, names, span), None, span)
