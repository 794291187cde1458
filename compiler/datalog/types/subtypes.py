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
from kpg.compiler.datalog.types.functors import selects
from kpg.compiler.datalog.types.kind_inference import Typing, describe
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class _Source:
    """The types that a variable may have, and the place that says so."""

    types: frozenset[str]
    text: str
    span: Span


def check_declared_types(
    rule: FlatRule,
    typing: Typing,
    relations: dict[str, RelationInfo],
    diagnostics: Diagnostics,
) -> None:
    """Notes where types of one kind are mixed that have nothing in common."""
    run = _Check(typing, typing.table, relations, diagnostics)
    for literal in rule.body:
        run.equate(literal)
    for literal in rule.body:
        run.literal(literal)
    if rule.head is not None:
        run.head(rule.head)


@dataclass(slots=True)
class _Check:
    typing: Typing
    table: TypeTable
    relations: dict[str, RelationInfo]
    diagnostics: Diagnostics
    parents: dict[str, str] = field(default_factory=dict)
    sources: dict[str, _Source] = field(default_factory=dict)
    blamed: set[str] = field(default_factory=set)

    def _root(self, name: str) -> str:
        while name in self.parents:
            name = self.parents[name]
        return name

    def equate(self, literal: FlatLiteral) -> None:
        """Variables that are equal have their types in common."""
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

    def literal(self, literal: FlatLiteral) -> None:
        match literal:
            case ast.Atom() | ast.Not():
                self._arguments(atom_of(literal))
            case ast.Comparison(operator="=", left=left, right=right):
                for one, other in ((left, right), (right, left)):
                    if isinstance(one, ast.Cast):
                        self._source(other, one.type.text, f"as {one.type}")
                    elif isinstance(one, ast.Record | ast.Dollar):
                        self._fields(one)
            case ast.Comparison():
                pass
            case _:
                assert_never(literal)
        for aggregate in self._aggregates(literal):
            for inner in literals(aggregate.body):
                self.literal(inner)

    def _arguments(self, atom: ast.Atom | None) -> None:
        relation = None if atom is None else self.relations.get(atom.name.text)
        if atom is None or relation is None:
            return
        for arg, column in zip(atom.args, relation.columns, strict=False):
            self._source(arg, column.type.name, f"column {column.name} of {atom.name}")

    def _source(self, expression: ast.Expression, type_: str, text: str) -> None:
        """The expression takes its value from a place of that type."""
        if isinstance(expression, ast.Record | ast.Dollar):
            self._fields(expression)
        if not isinstance(expression, ast.Variable) or type_ not in self.table.kinds:
            return
        root = self._root(expression.name)
        old = self.sources.get(root)
        new = _Source(frozenset((type_,)), text, expression.span)
        if old is None:
            self.sources[root] = new
            return
        common = self.table.meet(old.types, new.types)
        if common:
            kept = old if common == old.types else new
            self.sources[root] = _Source(common, kept.text, kept.span)
        else:
            self._mixed(expression, old, new)

    def _definition(self, expression: ast.Expression) -> Branch | None:
        if isinstance(expression, ast.Dollar):
            return self.table.branches.get(expression.name)
        return self.table.records.get(self.typing.kind(expression).structure)

    def _fields(self, expression: ast.Record | ast.Dollar) -> None:
        definition = self._definition(expression)
        if definition is None:
            return
        what = definition.name or definition.structure
        for arg, (name, type_) in zip(expression.args or (), definition.fields, strict=False):
            self._source(arg, type_, f"field {name} of {what}")

    def head(self, atom: ast.Atom) -> None:
        """What the head gets must be of the types of its columns.

        A record or branch says of what types its fields are, in a head as in a body.
        """
        for arg in atom.args:
            for part in walk(arg):
                if isinstance(part, ast.Record | ast.Dollar):
                    self._fields(part)
        for arg, column in zip(atom.args, self.relations[atom.name.text].columns, strict=True):
            found = head_aggregate(arg)
            value = arg if found is None else found[1]
            if found is None or selects(found[0]):
                self._sink(value, column.type.name, f"column {column.name} of {atom.name}")

    def _sink(self, expression: ast.Expression, type_: str, text: str) -> None:
        if isinstance(expression, ast.Record | ast.Dollar):
            definition = self._definition(expression)
            for arg, (name, part) in zip(
                expression.args or (), definition.fields if definition else (), strict=False
            ):
                self._sink(arg, part, f"field {name} of {type_}")
        elif isinstance(expression, ast.Cast):
            types = frozenset((expression.type.text,))
            source = _Source(types, f"as {expression.type}", expression.span)
            self._flows(expression, source, _Source(frozenset((type_,)), text, expression.span))
        elif isinstance(expression, ast.Variable):
            known = self.sources.get(self._root(expression.name))
            target = _Source(frozenset((type_,)), text, expression.span)
            if known is not None:
                self._flows(expression, known, target)

    def _flows(self, expression: ast.Expression, source: _Source, target: _Source) -> None:
        if self.table.is_legacy:
            return
        (wanted,) = target.types
        if all(self.table.is_subtype(one, wanted) for one in source.types if one in self.table.kinds):
            return
        if describe(expression) in self.blamed:
            return
        self.blamed.add(describe(expression))
        shown = _shown(source.types)
        message = (
            f"type mismatch: {describe(expression)} is {shown} ({source.text}), not {wanted} ({target.text})"
        )
        hint = f"if it is meant, write as({_name(expression)}, {wanted})"
        self.diagnostics.error("type", message, target.span, hint=hint)

    def _mixed(self, expression: ast.Variable, old: _Source, new: _Source) -> None:
        what = describe(expression)
        if what in self.blamed:
            return
        self.blamed.add(what)
        message = (
            f"type mismatch: {what} is {_shown(old.types)} ({old.text}) and {_shown(new.types)} ({new.text})"
        )
        notes = ((f"it is {_shown(old.types)} here:", old.span),)
        self.diagnostics.error("type", message, new.span, notes=notes)


def _shown(types: frozenset[str]) -> str:
    return " or ".join(sorted(types))


def _name(expression: ast.Expression) -> str:
    return describe(expression).removeprefix("variable ")
