"""Component instantiation: ``.init i = C<A>`` becomes the statements of C and its bases, named ``i.name``.

A name in a component refers to the component's own declaration, or else to the scope of its ``.init``.
Renaming covers relations, types, branches and components. :func:`check_clashes` reports names that are
ambiguous, and :func:`check_component_references` reports undefined names in components that are never
instantiated.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, fields, is_dataclass, replace
from typing import Any, TypeVar, assert_never

from kpg.compiler.catalog.entries import did_you_mean
from kpg.compiler.datalog.diagnostics import Diagnostics, count_text, plural
from kpg.compiler.datalog.syntax import ast
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass

TYPE_DECLARATIONS = (ast.Subtype, ast.UnionType, ast.RecordType, ast.AdtType)


def _declared_names(statement: ast.Statement) -> Iterator[tuple[str, ast.Name]]:
    """Yield the names that a statement declares, with their kinds."""
    if isinstance(statement, ast.Declaration):
        yield from (("relation", name) for name in statement.names)
    elif isinstance(statement, TYPE_DECLARATIONS):
        yield "type", statement.name
    elif isinstance(statement, ast.Component):
        yield "component", statement.name
    elif isinstance(statement, ast.Init):
        yield "component instance", statement.name


def check_clashes(statements: Sequence[ast.Statement], diagnostics: Diagnostics) -> None:
    """Report names that are declared as two kinds, also in components."""
    known: dict[str, tuple[str, ast.Name]] = {}
    for statement in statements:
        for sort, name in _declared_names(statement):
            old = known.setdefault(name.text, (sort, name))
            if old[0] != sort:
                notes = ((f"it is a {old[0]} here:", old[1].span),)
                diagnostics.error("redefinition", f"{name} is a {old[0]} already", name.span, notes=notes)
        if isinstance(statement, ast.Component):
            check_clashes(statement.statements, diagnostics)


def check_component_references(
    statements: Sequence[ast.Statement],
    outer_components: Mapping[str, ast.Component],
    parameters: frozenset[str],
    diagnostics: Diagnostics,
) -> None:
    """Report undefined components that a component refers to.

    ``parameters`` may stand for any component.
    """
    inner = {one.name.text: one for one in statements if isinstance(one, ast.Component)}
    visible = {**outer_components, **inner}
    for statement in statements:
        if isinstance(statement, ast.Component):
            own = parameters | {name.text for name in statement.parameters}
            for base in statement.bases:
                _check_reference(base, visible, own, diagnostics)
            inherited = {**visible, **_inherited_components(statement, visible, ())}
            check_component_references(statement.statements, inherited, own, diagnostics)
        elif isinstance(statement, ast.Init):
            _check_reference(statement.component, visible, parameters, diagnostics)


def _inherited_components(
    component: ast.Component, components: Mapping[str, ast.Component], path: tuple[str, ...]
) -> dict[str, ast.Component]:
    """Return the components that a component's bases declare."""
    found: dict[str, ast.Component] = {}
    for base in component.bases:
        one = components.get(base.name.text)
        if one is None or one.name.text in path:
            continue
        inner = {part.name.text: part for part in one.statements if isinstance(part, ast.Component)}
        found |= {**_inherited_components(one, components, (*path, component.name.text)), **inner}
    return found


def _check_reference(
    reference: ast.ComponentRef,
    components: Mapping[str, ast.Component],
    parameters: frozenset[str],
    diagnostics: Diagnostics,
) -> None:
    name = reference.name
    if name.text in parameters:
        return
    if name.text not in components:
        hint = did_you_mean(name.text, components)
        diagnostics.error("component", f"component {name} is not defined", name.span, hint=hint)
        return
    expected, count = len(components[name.text].parameters), len(reference.arguments)
    if expected != count:
        message = f"component {name} takes {plural(expected, 'parameter')}, {count_text(count)}"
        diagnostics.error("component", message, name.span)


NameMapping = Callable[[str], str]
T = TypeVar("T")


def identity(name: str) -> str:
    """Return the name unchanged."""
    return name


@dataclass(frozen=True, slots=True)
class Renaming:
    """The mapping of names for each kind."""

    relation: NameMapping = identity
    type: NameMapping = identity
    branch: NameMapping = identity
    component: NameMapping = identity


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
    """Return the node with mapped names.

    Unchanged parts are shared.
    """
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
        new = _rename(old, renaming) if role is None else _rename_value(old, getattr(renaming, role))
        if new is not old:
            changes[part.name] = new
    return replace(node, **changes) if changes else node


def _rename_value(value: Any, mapping: NameMapping) -> Any:
    if isinstance(value, tuple):
        return tuple(_rename_value(part, mapping) for part in value)
    if isinstance(value, str):
        return mapping(value)
    text = mapping(value.text)
    return value if text == value.text else ast.Name(text, value.span)


MAX_DEPTH = 100
"""Maximum depth of nested components."""
MAX_STATEMENTS = 200_000
"""Maximum number of statements after expansion.

They can double with each level of components.
"""
ABSOLUTE = "::"
"""Prefix of a resolved name, which no inner scope may capture."""


@dataclass(slots=True)
class _Scope:
    """The names that an instance or the program declares."""

    parent: "_Scope | None"
    prefix: str
    relations: set[str] = field(default_factory=set)
    types: set[str] = field(default_factory=set)
    branches: set[str] = field(default_factory=set)
    instances: set[str] = field(default_factory=set)
    components: dict[str, ast.Component] = field(default_factory=dict)

    def resolve(self, name: str, sort: str) -> str:
        """Return the full name, or the name unchanged if no scope declares it."""
        if name.startswith(ABSOLUTE):
            return name.removeprefix(ABSOLUTE)
        here: _Scope | None = self
        while here is not None:
            known: set[str] = getattr(here, sort)
            if name in known or ("." in name and name.split(".")[0] in here.instances):
                return here.prefix + name
            here = here.parent
        return name

    def find_component(self, name: str) -> "ast.Component | None":
        """Return the component that a name refers to."""
        here: _Scope | None = self
        while here is not None:
            found = here.components.get(name.removeprefix(ABSOLUTE))
            if found is not None:
                return found
            here = here.parent
        return None

    def visible_components(self) -> list[str]:
        """Return the names of all components that are visible here."""
        outer = self.parent.visible_components() if self.parent is not None else []
        return [*self.components, *outer]


def instantiate(program: ast.Module, diagnostics: Diagnostics) -> ast.Module:
    """Return the program with components expanded.

    Faulty instances are reported and left out.
    """
    run = _Instantiator(diagnostics)
    scope = _Scope(None, "")
    run.declare(program.statements, scope)
    expanded = tuple(run.expand(program.statements, scope, 0))
    check_clashes(program.statements, diagnostics)
    check_component_references(program.statements, scope.components, frozenset(), diagnostics)
    return ast.Module(expanded)


@dataclass(slots=True)
class _Instantiator:
    diagnostics: Diagnostics
    size: int = 0

    def declare(self, statements: tuple[ast.Statement, ...], scope: _Scope) -> None:
        """Enter the declarations of the statements into the scope."""
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
        """Yield the statements with full names and with expanded instances."""
        renaming = Renaming(
            lambda name: scope.resolve(name, "relations"),
            lambda name: scope.resolve(name, "types"),
            lambda name: scope.resolve(name, "branches"),
        )
        for statement in statements:
            match statement:
                case ast.Component():
                    continue
                case ast.Override(name=name):
                    if not scope.prefix:
                        self._error(f".override {name} outside of a component", name)
                case ast.Init():
                    yield from self._expand_instance(statement, scope, depth)
                case _:
                    self.size += 1
                    if self.size <= MAX_STATEMENTS:
                        yield rename(statement, renaming) if scope.prefix else statement
                    elif self.size == MAX_STATEMENTS + 1:
                        self.diagnostics.error(
                            "component", f"components make more than {MAX_STATEMENTS} statements", None
                        )

    def _expand_instance(self, init: ast.Init, scope: _Scope, depth: int) -> Iterator[ast.Statement]:
        if depth >= MAX_DEPTH or self.size > MAX_STATEMENTS:
            self._error(
                f"component {_display_name(init.component.name)} contains itself", init.component.name
            )
            return
        arguments = tuple(
            replace(name, text=ABSOLUTE + scope.resolve(name.text, "types"))
            for name in init.component.arguments
        )
        reference = replace(init.component, arguments=arguments)
        content = tuple(self._content(reference, scope, ()))
        inner = _Scope(scope, f"{scope.prefix}{init.name}.")
        self.declare(content, inner)
        yield from self.expand(content, inner, depth + 1)

    def _content(
        self, reference: ast.ComponentRef, scope: _Scope, inherited_by: tuple[str, ...]
    ) -> Iterator[ast.Statement]:
        """Yield the statements of a component with substituted arguments, those of its bases first."""
        component = scope.find_component(reference.name.text)
        component_name = _display_name(reference.name)
        if component is None:
            hint = did_you_mean(component_name, scope.visible_components())
            self._error(f"component {component_name} is not defined", reference.name, "component", hint)
            return
        if component.name.text in inherited_by:
            self._error(f"component {component_name} inherits from itself", reference.name)
            return
        expected, count = len(component.parameters), len(reference.arguments)
        if expected != count:
            message = f"component {component_name} takes {plural(expected, 'parameter')}, {count_text(count)}"
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
            kept = _remove_overridden(statement, overridden)
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


def _display_name(name: ast.Name) -> str:
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

    return Renaming(identity, change, identity, change)


def _remove_overridden(statement: ast.Statement, overridden: Mapping[str, ast.Name]) -> ast.Statement | None:
    """Return the statement without overridden heads, or None if no head remains."""
    if isinstance(statement, ast.Subsumption):
        return None if statement.less.name.text in overridden else statement
    if not isinstance(statement, ast.Clause):
        return statement
    heads = tuple(head for head in statement.heads if head.name.text not in overridden)
    return replace(statement, heads=heads) if heads else None
