"""Names that stand for two things, and what components that nobody instantiates name that is not there."""

from collections.abc import Iterator, Mapping, Sequence

from kpg.compiler.catalog import did_you_mean
from kpg.compiler.datalog.diagnostics import Diagnostics, given, plural
from kpg.compiler.datalog.syntax import ast

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
