"""Check of declared types within a kind.

A variable has one of the types of every place that binds it. A head accepts only a variable whose type fits
its column.
"""

from dataclasses import field
from typing import assert_never

from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.syntax.flatten import FlatRule
from kpg.compiler.datalog.syntax.traverse import (
    FlatLiteral,
    atom_of,
    head_aggregate,
    literal_expressions,
    literals,
    walk,
)
from kpg.compiler.datalog.types.declarations import Branch, RelationInfo, TypeTable
from kpg.compiler.datalog.types.functors import returns_operand
from kpg.compiler.datalog.types.kind_inference import Typing, describe
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class _TypeOrigin:
    """The types that a variable may have, and the place that implies it."""

    types: frozenset[str]
    text: str
    span: Span


def check_subtypes(
    rule: FlatRule,
    typing: Typing,
    relations: dict[str, RelationInfo],
    diagnostics: Diagnostics,
) -> None:
    """Report mixed types of one kind that have no value in common."""
    run = _SubtypeCheck(typing, typing.table, relations, diagnostics)
    for literal in rule.body:
        run.equate(literal)
    for literal in rule.body:
        run.check_literal(literal)
    if rule.head is not None:
        run.check_head(rule.head)


@dataclass(slots=True)
class _SubtypeCheck:
    typing: Typing
    table: TypeTable
    relations: dict[str, RelationInfo]
    diagnostics: Diagnostics
    parents: dict[str, str] = field(default_factory=dict)
    sources: dict[str, _TypeOrigin] = field(default_factory=dict)
    reported: set[str] = field(default_factory=set)

    def _root(self, name: str) -> str:
        while name in self.parents:
            name = self.parents[name]
        return name

    def equate(self, literal: FlatLiteral) -> None:
        """Merge variables that are equal, which have a common type."""
        match literal:
            case ast.Comparison(operator="=", left=ast.Variable(name=left), right=ast.Variable(name=right)):
                if self._root(left) != self._root(right):
                    self.parents[self._root(left)] = self._root(right)
            case ast.Comparison() | ast.Atom() | ast.Not():
                pass
            case _:
                assert_never(literal)
        for aggregate in self._aggregates(literal):
            for inner in literals(aggregate.body):
                self.equate(inner)

    def _aggregates(self, literal: FlatLiteral) -> list[ast.Aggregate]:
        return [
            part
            for expression in literal_expressions(literal)
            for part in walk(expression)
            if isinstance(part, ast.Aggregate)
        ]

    def check_literal(self, literal: FlatLiteral) -> None:
        match literal:
            case ast.Atom() | ast.Not():
                self._check_arguments(atom_of(literal))
            case ast.Comparison(operator="=", left=left, right=right):
                for one, other in ((left, right), (right, left)):
                    if isinstance(one, ast.Cast):
                        self._add_origin(other, one.type.text, f"as {one.type}")
                    elif isinstance(one, ast.Record | ast.Dollar):
                        self._add_field_origins(one)
            case ast.Comparison():
                pass
            case _:
                assert_never(literal)
        for aggregate in self._aggregates(literal):
            for inner in literals(aggregate.body):
                self.check_literal(inner)

    def _check_arguments(self, atom: ast.Atom | None) -> None:
        relation = None if atom is None else self.relations.get(atom.name.text)
        if atom is None or relation is None:
            return
        for arg, column in zip(atom.args, relation.columns, strict=False):
            self._add_origin(arg, column.type.name, f"column {column.name} of {atom.name}")

    def _add_origin(self, expression: ast.Expression, type_: str, text: str) -> None:
        """Record that the expression has a value of this type."""
        if isinstance(expression, ast.Record | ast.Dollar):
            self._add_field_origins(expression)
        if not isinstance(expression, ast.Variable) or type_ not in self.table.kinds:
            return
        root = self._root(expression.name)
        old = self.sources.get(root)
        new = _TypeOrigin(frozenset((type_,)), text, expression.span)
        if old is None:
            self.sources[root] = new
            return
        common = self.table.meet(old.types, new.types)
        if common:
            kept = old if common == old.types else new
            self.sources[root] = _TypeOrigin(common, kept.text, kept.span)
        else:
            self._report_mixed(expression, old, new)

    def _definition(self, expression: ast.Expression) -> Branch | None:
        if isinstance(expression, ast.Dollar):
            return self.table.branches.get(expression.name)
        return self.table.records.get(self.typing.kind(expression).structure)

    def _add_field_origins(self, expression: ast.Record | ast.Dollar) -> None:
        definition = self._definition(expression)
        if definition is None:
            return
        what = definition.name or definition.structure
        for arg, (name, type_) in zip(expression.args or (), definition.fields, strict=False):
            self._add_origin(arg, type_, f"field {name} of {what}")

    def check_head(self, atom: ast.Atom) -> None:
        """Check that the values of the head have the types of its columns.

        A record or branch determines the types of its fields, in a head as in a body.
        """
        for arg in atom.args:
            for part in walk(arg):
                if isinstance(part, ast.Record | ast.Dollar):
                    self._add_field_origins(part)
        for arg, column in zip(atom.args, self.relations[atom.name.text].columns, strict=True):
            found = head_aggregate(arg)
            value = arg if found is None else found[1]
            if found is None or returns_operand(found[0]):
                self._check_target(value, column.type.name, f"column {column.name} of {atom.name}")

    def _check_target(self, expression: ast.Expression, type_: str, text: str) -> None:
        if isinstance(expression, ast.Record | ast.Dollar):
            definition = self._definition(expression)
            for arg, (name, part) in zip(
                expression.args or (), definition.fields if definition else (), strict=False
            ):
                self._check_target(arg, part, f"field {name} of {type_}")
        elif isinstance(expression, ast.Cast):
            types = frozenset((expression.type.text,))
            source = _TypeOrigin(types, f"as {expression.type}", expression.span)
            self._check_subtype(expression, source, _TypeOrigin(frozenset((type_,)), text, expression.span))
        elif isinstance(expression, ast.Variable):
            known = self.sources.get(self._root(expression.name))
            target = _TypeOrigin(frozenset((type_,)), text, expression.span)
            if known is not None:
                self._check_subtype(expression, known, target)

    def _check_subtype(self, expression: ast.Expression, source: _TypeOrigin, target: _TypeOrigin) -> None:
        if self.table.is_legacy:
            return
        (expected,) = target.types
        if all(self.table.is_subtype(type_, expected) for type_ in source.types if type_ in self.table.kinds):
            return
        if describe(expression) in self.reported:
            return
        self.reported.add(describe(expression))
        found = f"{_types_text(source.types)} ({source.text})"
        message = f"type mismatch: {describe(expression)} is {found}, not {expected} ({target.text})"
        hint = f"if it is meant, write as({_name(expression)}, {expected})"
        self.diagnostics.error("type", message, target.span, hint=hint)

    def _report_mixed(self, expression: ast.Variable, old: _TypeOrigin, new: _TypeOrigin) -> None:
        what = describe(expression)
        if what in self.reported:
            return
        self.reported.add(what)
        old_types, new_types = _types_text(old.types), _types_text(new.types)
        message = f"type mismatch: {what} is {old_types} ({old.text}) and {new_types} ({new.text})"
        notes = ((f"it is {old_types} here:", old.span),)
        self.diagnostics.error("type", message, new.span, notes=notes)


def _types_text(types: frozenset[str]) -> str:
    return " or ".join(sorted(types))


def _name(expression: ast.Expression) -> str:
    return describe(expression).removeprefix("variable ")
