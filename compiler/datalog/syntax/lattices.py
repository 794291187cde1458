"""Lattice columns, ``x: Sign<>``: one tuple per key, with the least upper bound of the derived values.

The relation ``@all`` has all derived values and their bounds; the relation itself keeps the greatest. A rule
that depends on the relation reads ``@all``, so nothing that it derives is retracted. A variable that occurs
several times in lattice columns has the greatest lower bound of those values, which must not be the bottom.
An argument that is not a variable must have such a bound with the tuple's value.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final

from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.syntax.flatten import FlatRule, flatten
from kpg.compiler.datalog.syntax.traverse import nodes, transform_tree
from kpg.compiler.rules.strata import strongly_connected
from kpg.runtime.records import dataclass

ALL_SUFFIX: Final = "@all"
OPERATORS: Final = ("Bottom", "Top", "Lub", "Glb")


def expand_lattices(
    statements: tuple[ast.Statement, ...], diagnostics: Diagnostics
) -> tuple[ast.Statement, ...]:
    """Return the statements with lattice relations replaced by the rules that compute them."""
    lattices = {one.name.text: one for one in statements if isinstance(one, ast.Lattice)}
    for lattice in lattices.values():
        _check_lattice(lattice, diagnostics)
    rest = tuple(one for one in statements if not isinstance(one, ast.Lattice))
    relations: dict[str, tuple[str | None, ...]] = {}
    for statement in rest:
        if isinstance(statement, ast.Declaration) and any(
            part.type.is_lattice for part in statement.attributes
        ):
            columns = tuple(
                part.type.name.text if part.type.is_lattice else None for part in statement.attributes
            )
            relations |= {name.text: columns for name in statement.names}
            for part in statement.attributes:
                if part.type.is_lattice and part.type.name.text not in lattices:
                    message = f"type {part.type.name} has no .lattice"
                    diagnostics.error("undefined", message, part.type.name.span)
    if not relations or diagnostics.has_errors:
        return rest
    return tuple(_LatticeExpansion(lattices, relations, rest, diagnostics).statements())


def _check_lattice(lattice: ast.Lattice, diagnostics: Diagnostics) -> None:
    names = [name.text for name, _ in lattice.operators]
    for name, value in lattice.operators:
        if name.text not in OPERATORS:
            hint = f"it has {', '.join(OPERATORS)}"
            diagnostics.error("option", f"a lattice has no {name}", name.span, hint=hint)
        elif names.count(name.text) > 1:
            diagnostics.error("redefinition", f"{name} is given twice", name.span)
        blanks = sum(isinstance(part, ast.Underscore) for part in nodes(value))
        if blanks != (2 if name.text in ("Lub", "Glb") else 0):
            takes = "two underscores for its arguments" if name.text in ("Lub", "Glb") else "a constant"
            diagnostics.error("functor", f"{name} is written with {takes}", value.span)
    if "Lub" not in names:
        message = f"lattice {lattice.name} has no Lub"
        diagnostics.error("undefined", message, lattice.span, hint="Lub -> @lub(_, _)")


@dataclass(slots=True)
class _LatticeExpansion:
    lattices: Mapping[str, ast.Lattice]
    relations: Mapping[str, tuple[str | None, ...]]
    source: tuple[ast.Statement, ...]
    diagnostics: Diagnostics
    component: dict[str, int] = field(default_factory=dict)

    def statements(self) -> Iterator[ast.Statement]:
        reads: dict[str, list[str]] = {}
        for statement in self.source:
            if isinstance(statement, ast.Clause):
                for head in statement.heads:
                    atoms = (part.name.text for part in nodes(statement.body) if isinstance(part, ast.Atom))
                    reads.setdefault(head.name.text, []).extend(atoms)
        for name in [name for found in reads.values() for name in found]:
            reads.setdefault(name, [])
        self.component = {name: at for at, found in enumerate(strongly_connected(reads)) for name in found}
        for statement in self.source:
            if isinstance(statement, ast.Declaration) and statement.names[0].text in self.relations:
                yield from self._expand_declaration(statement)
            elif isinstance(statement, ast.Clause) and any(
                self._is_lattice_atom(part) for part in nodes(statement)
            ):
                yield from (
                    self._expand_rule(rule, statement) for rule in flatten(statement, self.diagnostics)
                )
            else:
                self._report_unsupported(statement)
                yield statement

    def _report_unsupported(self, statement: ast.Statement) -> None:
        if isinstance(statement, ast.Subsumption) and self._is_lattice_atom(statement.less):
            message = f"{statement.less.name} has a lattice, subsumption beside it is not supported"
            self.diagnostics.error("unsupported", message, statement.span)
        inputs = statement.names if isinstance(statement, ast.Directive) and statement.kind == "input" else ()
        if any(name.text in self.relations for name in inputs):
            message = ".input of a relation with a lattice is not supported"
            hint = "read another relation, and copy it by a rule"
            self.diagnostics.error("unsupported", message, statement.span, hint=hint)

    def _is_lattice_atom(self, node: Any) -> bool:
        return isinstance(node, ast.Atom) and node.name.text in self.relations

    def _bound(self, lattice: str, operator: str, left: ast.Expression, right: ast.Expression) -> Any:
        """Return the expression for a bound of two values, or None if the lattice lacks the operator."""
        found = {name.text: value for name, value in self.lattices[lattice].operators}.get(operator)
        args = iter((left, right))
        return transform_tree(found, lambda part: next(args) if isinstance(part, ast.Underscore) else part)

    # Relations

    def _expand_declaration(self, declaration: ast.Declaration) -> Iterator[ast.Statement]:
        yield declaration
        for name in declaration.names:
            span = name.span
            every = ast.Name(name.text + ALL_SUFFIX, span)
            yield replace(declaration, names=(every,), qualifiers=(), keys=())
            lattices = self.relations[name.text]
            left, right, bounds = self._terms(lattices, name)
            both = ast.And((ast.Atom(every, left, span), ast.Atom(every, right, span)), span)
            yield ast.Clause((ast.Atom(every, bounds, span),), both, None, span)
            copied = ast.Atom(every, left, span)
            yield ast.Clause((ast.Atom(name, left, span),), copied, None, span)
            above = [
                ast.Comparison("=", bound, greater, span)
                for bound, greater, lattice in zip(bounds, right, lattices, strict=True)
                if lattice is not None
            ]
            yield ast.Subsumption(
                ast.Atom(name, left, span), ast.Atom(name, right, span), ast.And(tuple(above), span), span
            )

    def _terms(self, lattices: Sequence[str | None], name: ast.Name) -> Any:
        """Return the terms of two tuples with equal keys, and those of the tuple with their bounds."""
        span = name.span
        left = tuple(ast.Variable(f"v{at}", span) for at in range(len(lattices)))
        right = tuple(
            one if lattice is None else ast.Variable(f"w{at}", span)
            for at, (one, lattice) in enumerate(zip(left, lattices, strict=True))
        )
        bounds = tuple(
            one if lattice is None else self._bound(lattice, "Lub", one, other)
            for one, other, lattice in zip(left, right, lattices, strict=True)
        )
        return left, right, bounds

    # Rules

    def _expand_rule(self, rule: FlatRule, clause: ast.Clause) -> ast.Clause:
        assert rule.head is not None
        body: tuple[ast.Body, ...] = tuple(self._meet_values(rule))
        own = self.component.get(rule.head.name.text)

        def use_all_values(part: Any) -> Any:
            if self._is_lattice_atom(part) and self.component.get(part.name.text) == own:
                return replace(part, name=replace(part.name, text=part.name.text + ALL_SUFFIX))
            return part

        head = rule.head
        if self._is_lattice_atom(head):
            head = replace(head, name=replace(head.name, text=head.name.text + ALL_SUFFIX))
        if rule.is_fact:
            return replace(clause, heads=(head,), body=None)
        return replace(clause, heads=(head,), body=ast.And(transform_tree(body, use_all_values), clause.span))

    def _meet_values(self, rule: FlatRule) -> Iterator[ast.Body]:
        """Yield the body, with greatest lower bounds for repeated variables of lattice columns."""
        counts: dict[str, int] = {}
        for part in (*nodes(rule.head), *nodes(rule.body)):
            if isinstance(part, ast.Variable):
                counts[part.name] = counts.get(part.name, 0) + 1
        atoms = [one for one in rule.body if isinstance(one, ast.Atom)]
        lattice_of = {
            arg.name: lattice
            for one in atoms
            for arg, lattice in zip(one.args, self.relations.get(one.name.text, ()), strict=False)
            if lattice is not None and isinstance(arg, ast.Variable) and counts[arg.name] > 1
            and self._bound(lattice, "Glb", arg, arg) is not None
        }  # fmt: skip
        occurrences: dict[str, list[ast.Variable]] = {}
        tests: list[ast.Body] = []
        for number, one in enumerate(rule.body):
            if not isinstance(one, ast.Atom):
                yield one
                continue
            lattices = self.relations.get(one.name.text, (None,) * len(one.args))
            args: list[ast.Expression] = []
            for at, (arg, lattice) in enumerate(zip(one.args, lattices, strict=False)):
                fresh = ast.Variable(f"@{number}.{at}", arg.span)
                if isinstance(arg, ast.Variable) and arg.name in lattice_of:
                    occurrences.setdefault(arg.name, []).append(fresh)
                    args.append(fresh)
                elif lattice is None or isinstance(arg, ast.Variable | ast.Underscore):
                    args.append(arg)
                else:
                    tests += self._not_bottom(lattice, self._bound(lattice, "Glb", fresh, arg) or fresh)
                    args.append(fresh)
            yield replace(one, args=(*args, *one.args[len(args) :]))
        for name, parts in occurrences.items():
            value: ast.Expression = parts[0]
            for part in parts[1:]:
                value = self._bound(lattice_of[name], "Glb", part, value)
            variable = ast.Variable(name, parts[0].span)
            yield ast.Comparison("=", variable, value, parts[0].span)
            yield from self._not_bottom(lattice_of[name], variable)
        yield from tests

    def _not_bottom(self, lattice: str, value: ast.Expression) -> list[ast.Body]:
        bottom = [value for name, value in self.lattices[lattice].operators if name.text == "Bottom"]
        return [ast.Comparison("!=", value, one, value.span) for one in bottom]
