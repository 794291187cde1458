"""Underscores in the bodies of FlowLog's aggregates: there they are no variables.

An aggregate is over the bindings of the variables that have names, so atoms with underscores become those of
relations without these columns.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.syntax.rewriting import rewritten
from kpg.runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class Projections:
    """Relations of columns of others, by name."""

    declared: Mapping[str, ast.Declaration]
    made: dict[str, ast.Declaration] = field(default_factory=dict)

    def projected(self, clause: ast.Clause) -> tuple[ast.Clause, list[ast.Statement]]:
        """The rule with its aggregates over named variables, and the rules that it needs besides."""
        added: list[ast.Statement] = []

        def change(node: Any) -> Any:
            if not isinstance(node, ast.Aggregate):
                return node
            return replace(node, body=rewritten(node.body, lambda part: self._atom(part, added)))

        return rewritten(clause, change), added

    def _atom(self, atom: Any, added: list[ast.Statement]) -> Any:
        if not isinstance(atom, ast.Atom) or atom.name.text not in self.declared:
            return atom
        declaration = self.declared[atom.name.text]
        kept = [at for at, arg in enumerate(atom.args) if not isinstance(arg, ast.Underscore)]
        if len(kept) == len(atom.args) or len(atom.args) != len(declaration.attributes):
            return atom
        span = atom.span
        name = replace(atom.name, text=f"{atom.name.text}@{'.'.join(map(str, kept))}")
        if name.text not in self.made:
            attributes = tuple(declaration.attributes[at] for at in kept)
            self.made[name.text] = ast.Declaration((name,), attributes, (), span)
            terms = {at: ast.Variable(f"c{at}", span) for at in kept}
            wide = tuple(terms.get(at, ast.Underscore(span)) for at in range(len(atom.args)))
            head = ast.Atom(name, tuple(terms.values()), span)
            added += [
                self.made[name.text],
                ast.Clause((head,), ast.Atom(atom.name, wide, span), None, span),
            ]
        return ast.Atom(name, tuple(atom.args[at] for at in kept), span)
