"""Component instantiation: ``.init i = C<A>`` becomes the statements of C and its bases, named ``i.name``.

A name in a component refers to the component's own declaration, or else to the scope of its ``.init``.
Renaming covers relations, types, branches and components. :func:`check_clashes` reports names that are
ambiguous, and :func:`check_unused` reports undefined names in components that are never instantiated.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, fields, is_dataclass, replace
from typing import Any, TypeVar, assert_never

from kpg.compiler.catalog.entries import did_you_mean
from kpg.compiler.datalog.diagnostics import Diagnostics, given, plural
from kpg.compiler.datalog.syntax import ast
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass

NAMED = (ast.Subtype, ast.UnionType, ast.RecordType, ast.AdtType)


def _named(statement: ast.Statement) -> Iterator[tuple[str, ast.Name]]:
    """What a statement gives names to."""
    if isinstance(statement, ast.Declaration):
        yield from (("relation", name) for name in statement.names)
    elif isinstance(statement, NAMED):
        yield "type", statement.name
    elif isinstance(statement, ast.Component):
        yield "component", statement.name
    elif isinstance(statement, ast.Init):
        yield "component instance", statement.name


def check_clashes(statements: Sequence[ast.Statement], diagnostics: Diagnostics) -> None:
    """Notes names that stand for things of two sorts, in components too."""
    known: dict[str, tuple[str, ast.Name]] = {}
    for statement in statements:
        for sort, name in _named(statement):
            old = known.setdefault(name.text, (sort, name))
            if old[0] != sort:
                notes = ((f"it is a {old[0]} here:", old[1].span),)
                diagnostics.error("redefinition", f"{name} is a {old[0]} already", name.span, notes=notes)
        if isinstance(statement, ast.Component):
            check_clashes(statement.statements, diagnostics)


def check_unused(
    statements: Sequence[ast.Statement],
    known: Mapping[str, ast.Component],
    parameters: frozenset[str],
    diagnostics: Diagnostics,
) -> None:
    """Notes components that a component names and that there are not; ``parameters`` may stand for any."""
    inner = {one.name.text: one for one in statements if isinstance(one, ast.Component)}
    visible = {**known, **inner}
    for one in statements:
        if isinstance(one, ast.Component):
            own = parameters | {name.text for name in one.parameters}
            for base in one.bases:
                _check(base, visible, own, diagnostics)
            inherited = {**visible, **_inherited(one, visible, ())}
            check_unused(one.statements, inherited, own, diagnostics)
        elif isinstance(one, ast.Init):
            _check(one.component, visible, parameters, diagnostics)


def _inherited(
    component: ast.Component, known: Mapping[str, ast.Component], through: tuple[str, ...]
) -> dict[str, ast.Component]:
    """The components that the bases of a component declare."""
    found: dict[str, ast.Component] = {}
    for base in component.bases:
        one = known.get(base.name.text)
        if one is None or one.name.text in through:
            continue
        inner = {part.name.text: part for part in one.statements if isinstance(part, ast.Component)}
        found |= {**_inherited(one, known, (*through, component.name.text)), **inner}
    return found


def _check(
    reference: ast.ComponentRef,
    known: Mapping[str, ast.Component],
    parameters: frozenset[str],
    diagnostics: Diagnostics,
) -> None:
    name = reference.name
    if name.text in parameters:
        return
    if name.text not in known:
        hint = did_you_mean(name.text, known)
        diagnostics.error("component", f"component {name} is not defined", name.span, hint=hint)
        return
    expected, count = len(known[name.text].parameters), len(reference.arguments)
    if expected != count:
        message = f"component {name} takes {plural(expected, 'parameter')}, {given(count)}"
        diagnostics.error("component", message, name.span)


Change = Callable[[str], str]
T = TypeVar("T")


def same(name: str) -> str:
    """Leaves a name as it is."""
    return name


@dataclass(frozen=True, slots=True)
class Renaming:
    """What becomes of the names of each sort."""

    relation: Change = same
    type: Change = same
    branch: Change = same
    component: Change = same


ROLES = {
    (ast.Atom, "name"): "relation",
    (ast.Declaration, "names"): "relation",
    (ast.Directive, "names"): "relation",
    (ast.Query, "name"): "relation",
    (ast.TypeRef, "name"): "type",
    (ast.Cast, "type"): "type",
    (ast.Subtype, "name"): "type",
    (ast.UnionType, "name"): "type",
    (ast.RecordType, "name"): "type",
    (ast.AdtType, "name"): "type",
    (ast.Lattice, "name"): "type",
    (ast.Branch, "name"): "branch",
    (ast.Dollar, "name"): "branch",
    (ast.ComponentRef, "name"): "component",
    (ast.ComponentRef, "arguments"): "type",
}


def rename(node: T, renaming: Renaming) -> T:
    """The node with its names changed; what is not changed is shared."""
    changed: Any = _rename(node, renaming)
    return changed


def _rename(node: Any, renaming: Renaming) -> Any:
    if isinstance(node, tuple):
        parts = tuple(_rename(part, renaming) for part in node)
        return node if all(new is old for new, old in zip(parts, node, strict=True)) else parts
    if not is_dataclass(node) or isinstance(node, Span | type):
        return node
    changes: dict[str, Any] = {}
    for part in fields(node):
        old = getattr(node, part.name)
        role = ROLES.get((type(node), part.name))
        new = _rename(old, renaming) if role is None else _renamed(old, getattr(renaming, role))
        if new is not old:
            changes[part.name] = new
    return replace(node, **changes) if changes else node


def _renamed(value: Any, change: Change) -> Any:
    if isinstance(value, tuple):
        return tuple(_renamed(part, change) for part in value)
    if isinstance(value, str):
        return change(value)
    text = change(value.text)
    return value if text == value.text else ast.Name(text, value.span)


DEEPEST = 100
"""Components in each other: one that contains itself has no end."""
MOST_STATEMENTS = 200_000
"""Statements of a program with its components expanded: these can double with each level of them."""
ABSOLUTE = "::"
"""Stands before a name that has been resolved, so that no inner scope takes it for its own."""


@dataclass(slots=True)
class _Scope:
    """The names that one instance (or the program) declares."""

    parent: "_Scope | None"
    prefix: str
    relations: set[str] = field(default_factory=set)
    types: set[str] = field(default_factory=set)
    branches: set[str] = field(default_factory=set)
    instances: set[str] = field(default_factory=set)
    components: dict[str, ast.Component] = field(default_factory=dict)

    def find(self, name: str, sort: str) -> str:
        """The full name for one as written here; unchanged if nothing declares it."""
        if name.startswith(ABSOLUTE):
            return name.removeprefix(ABSOLUTE)
        here: _Scope | None = self
        while here is not None:
            known: set[str] = getattr(here, sort)
            if name in known or ("." in name and name.split(".")[0] in here.instances):
                return here.prefix + name
            here = here.parent
        return name

    def component(self, name: str) -> "ast.Component | None":
        """The component that a name means here."""
        here: _Scope | None = self
        while here is not None:
            found = here.components.get(name.removeprefix(ABSOLUTE))
            if found is not None:
                return found
            here = here.parent
        return None

    def known_components(self) -> list[str]:
        """Every component that can be named here."""
        outer = self.parent.known_components() if self.parent is not None else []
        return [*self.components, *outer]


def instantiate(program: ast.Module, diagnostics: Diagnostics) -> ast.Module:
    """The program without components; faults are noted, and what they are about is left out."""
    run = _Instantiation(diagnostics)
    scope = _Scope(None, "")
    run.declare(program.statements, scope)
    expanded = tuple(run.expand(program.statements, scope, 0))
    check_clashes(program.statements, diagnostics)
    check_unused(program.statements, scope.components, frozenset(), diagnostics)
    return ast.Module(expanded)


@dataclass(slots=True)
class _Instantiation:
    diagnostics: Diagnostics
    size: int = 0

    def declare(self, statements: tuple[ast.Statement, ...], scope: _Scope) -> None:
        """Enters into the scope what the statements declare."""
        for statement in statements:
            match statement:
                case ast.Declaration(names=names):
                    scope.relations.update(name.text for name in names)
                case ast.Subtype(name=name) | ast.UnionType(name=name) | ast.RecordType(name=name):
                    scope.types.add(name.text)
                case ast.AdtType(name=name, branches=branches):
                    scope.types.add(name.text)
                    scope.branches.update(branch.name.text for branch in branches)
                case ast.Init(name=name):
                    if name.text in scope.instances:
                        self._error(f"component instance {name} is already defined", name, "redefinition")
                    scope.instances.add(name.text)
                case ast.Component(name=name):
                    if name.text in scope.components:
                        self._error(f"component {name} is already defined", name, "redefinition")
                    scope.components.setdefault(name.text, statement)
                case ast.Directive() | ast.Clause() | ast.Subsumption() | ast.Override() | ast.Pragma():
                    pass
                case ast.Goal() | ast.Query() | ast.Update() | ast.Functor():
                    pass
                case ast.Rounds() | ast.Lattice():
                    pass
                case _:
                    assert_never(statement)

    def expand(
        self, statements: tuple[ast.Statement, ...], scope: _Scope, depth: int
    ) -> Iterator[ast.Statement]:
        """The statements with names in full, and the instances among them expanded."""
        renaming = Renaming(
            lambda name: scope.find(name, "relations"),
            lambda name: scope.find(name, "types"),
            lambda name: scope.find(name, "branches"),
        )
        for statement in statements:
            match statement:
                case ast.Component():
                    continue
                case ast.Override(name=name):
                    if not scope.prefix:
                        self._error(f".override {name} outside of a component", name)
                case ast.Init():
                    yield from self._instance(statement, scope, depth)
                case _:
                    self.size += 1
                    if self.size <= MOST_STATEMENTS:
                        yield rename(statement, renaming) if scope.prefix else statement
                    elif self.size == MOST_STATEMENTS + 1:
                        self.diagnostics.error(
                            "component", f"components make more than {MOST_STATEMENTS} statements", None
                        )

    def _instance(self, init: ast.Init, scope: _Scope, depth: int) -> Iterator[ast.Statement]:
        if depth >= DEEPEST or self.size > MOST_STATEMENTS:
            self._error(f"component {_shown(init.component.name)} contains itself", init.component.name)
            return
        arguments = tuple(
            replace(name, text=ABSOLUTE + scope.find(name.text, "types")) for name in init.component.arguments
        )
        reference = replace(init.component, arguments=arguments)
        content = tuple(self._content(reference, scope, ()))
        inner = _Scope(scope, f"{scope.prefix}{init.name}.")
        self.declare(content, inner)
        yield from self.expand(content, inner, depth + 1)

    def _content(
        self, reference: ast.ComponentRef, scope: _Scope, inherited_by: tuple[str, ...]
    ) -> Iterator[ast.Statement]:
        """The statements of a component with its arguments in place, its bases' before its own."""
        component = scope.component(reference.name.text)
        shown = _shown(reference.name)
        if component is None:
            hint = did_you_mean(shown, scope.known_components())
            self._error(f"component {shown} is not defined", reference.name, "component", hint)
            return
        if component.name.text in inherited_by:
            self._error(f"component {shown} inherits from itself", reference.name)
            return
        expected, count = len(component.parameters), len(reference.arguments)
        if expected != count:
            message = f"component {shown} takes {plural(expected, 'parameter')}, {given(count)}"
            self._error(message, reference.name)
            return
        substitution = _substitution(component, reference)
        overridden = {
            one.name.text: one.name for one in component.statements if isinstance(one, ast.Override)
        }
        chain = (*inherited_by, component.name.text)
        base_content = [
            statement
            for base in component.bases
            for statement in self._content(rename(base, substitution), scope, chain)
        ]
        self._check_overrides(overridden, base_content)
        for statement in base_content:
            kept = _without(statement, overridden)
            if kept is not None:
                yield kept
        for statement in component.statements:
            yield rename(statement, substitution)

    def _check_overrides(self, overridden: Mapping[str, ast.Name], content: list[ast.Statement]) -> None:
        declared = {
            name.text: {qualifier.text for qualifier in statement.qualifiers}
            for statement in content
            if isinstance(statement, ast.Declaration)
            for name in statement.names
        }
        for text, name in overridden.items():
            if text not in declared:
                hint = did_you_mean(text, declared)
                self._error(f"no base component declares relation {text}", name, "component", hint)
            elif "overridable" not in declared[text]:
                hint = "qualify its declaration: overridable"
                self._error(f"relation {text} is not overridable", name, "component", hint)

    def _error(self, message: str, name: ast.Name, code: str = "component", hint: str | None = None) -> None:
        self.diagnostics.error(code, message, name.span, hint=hint)


def _shown(name: ast.Name) -> str:
    return name.text.removeprefix(ABSOLUTE)


def _substitution(component: ast.Component, reference: ast.ComponentRef) -> Renaming:
    mapping = {
        parameter.text: argument.text
        for parameter, argument in zip(component.parameters, reference.arguments, strict=True)
    }
    if not mapping:
        return Renaming()

    def change(name: str) -> str:
        return mapping.get(name, name)

    return Renaming(same, change, same, change)


def _without(statement: ast.Statement, overridden: Mapping[str, ast.Name]) -> ast.Statement | None:
    """The statement without its heads that are overridden; None if none is left."""
    if isinstance(statement, ast.Subsumption):
        return None if statement.less.name.text in overridden else statement
    if not isinstance(statement, ast.Clause):
        return statement
    heads = tuple(head for head in statement.heads if head.name.text not in overridden)
    return replace(statement, heads=heads) if heads else None
