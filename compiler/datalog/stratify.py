"""Strata: the strongly connected components of the relations, in an order in which they can be computed.

A relation may not depend on itself through a negation or an aggregate, head aggregates min and max excepted.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kpg.compiler.datalog.core import Relation, Rule, atoms
from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.runtime.errors import Span

IN_RECURSION = frozenset({"min", "max"})
USES = {"negation": "negates", "aggregation": "aggregates over"}


@dataclass(frozen=True, slots=True)
class Stratum:
    """Relations that depend on each other (or one alone), and their rules in the order of the text."""

    relations: tuple[str, ...]
    rules: tuple[Rule, ...]
    is_recursive: bool


@dataclass(frozen=True, slots=True)
class _Edge:
    """A rule for ``head`` names ``body``; ``use`` as in ``core.atoms``."""

    head: str
    body: str
    use: str
    span: Span


def strata(relations: Iterable[str], rules: Sequence[Rule]) -> tuple[Stratum, ...]:
    """The strata, every relation in one, each after those that it depends on."""
    edges = _edges(rules)
    by_head: dict[str, list[Rule]] = {}
    for rule in rules:
        by_head.setdefault(rule.head.relation, []).append(rule)
    found: list[Stratum] = []
    for component in components(_successors(relations, edges)):
        members = set(component)
        recursive = any(edge.head in members and edge.body in members for edge in edges)
        own = tuple(rule for rule in rules if rule.head.relation in members)
        found.append(Stratum(component, own, recursive))
    return tuple(found)


def check_stratified(
    relations: Mapping[str, Relation], rules: Sequence[Rule], diagnostics: Diagnostics
) -> None:
    """Notes each way in which a relation depends on its own negation or aggregation."""
    edges = _edges(rules)
    component_of = {
        name: position
        for position, component in enumerate(components(_successors(relations, edges)))
        for name in component
    }
    inner = [edge for edge in edges if component_of.get(edge.head) == component_of.get(edge.body)]
    reported: set[int] = set()
    for edge in inner:
        component = component_of[edge.head]
        if edge.use and component not in reported:
            reported.add(component)
            members = sorted(name for name, at in component_of.items() if at == component)
            _report(edge, members, inner, diagnostics)
    for name in dict.fromkeys(edge.head for edge in inner if edge.head in relations):
        for function in relations[name].aggregates:
            if function is not None and function not in IN_RECURSION:
                _refuse(name, function, relations[name], inner, diagnostics)


def _edges(rules: Sequence[Rule]) -> list[_Edge]:
    return [
        _Edge(rule.head.relation, atom.relation, use, atom.span)
        for rule in rules
        for atom, use in atoms(rule.body)
    ]


def _successors(relations: Iterable[str], edges: Iterable[_Edge]) -> dict[str, list[str]]:
    successors: dict[str, list[str]] = {name: [] for name in relations}
    for edge in edges:
        successors.setdefault(edge.head, []).append(edge.body)
        successors.setdefault(edge.body, [])
    return successors


def _report(edge: _Edge, members: list[str], inner: list[_Edge], diagnostics: Diagnostics) -> None:
    path = _path(edge.body, edge.head, inner)
    shown = ", ".join(members)
    what = "negation" if edge.use == "negation" else "aggregation"
    message = f"unable to stratify relations {{{shown}}}: {edge.head} {USES[edge.use]} {edge.body}"
    if edge.head != edge.body:
        message += f", which depends on {edge.head}"
    notes = tuple((f"{step.head} needs {step.body} here:", step.span) for step in path)
    hint = "recursion may use min and max as head aggregates" if what == "aggregation" else None
    diagnostics.error("stratification", f"{message} (cyclic {what})", edge.span, hint=hint, notes=notes)


def _path(start: str, end: str, edges: list[_Edge]) -> list[_Edge]:
    """The shortest way from ``start`` to what it depends on, ``end``; none if they are the same."""
    came: dict[str, _Edge] = {}
    todo = [start]
    for name in todo:
        if name == end:
            break
        for edge in edges:
            if edge.head == name and edge.body not in came and edge.body != start:
                came[edge.body] = edge
                todo.append(edge.body)
    path: list[_Edge] = []
    while end in came and end != start:
        path.append(came[end])
        end = came[end].head
    return path[::-1]


def _refuse(
    name: str, function: str, relation: Relation, inner: list[_Edge], diagnostics: Diagnostics
) -> None:
    edge = next(edge for edge in inner if edge.head == name)
    path = _path(edge.body, name, inner)
    message = f"{function} in recursion: {name} depends on itself"
    hint = "only min and max can be used in recursion"
    notes = tuple((f"{step.head} needs {step.body} here:", step.span) for step in (edge, *path))
    diagnostics.error("aggregation", message, relation.span, hint=hint, notes=notes)


def components(successors: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """Tarjan's strongly connected components, each after those that it leads to; members in the order of the
    keys.
    """
    order = {name: position for position, name in enumerate(successors)}
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[tuple[str, ...]] = []
    for root in successors:
        if root in index:
            continue
        work: list[tuple[str, int]] = [(root, 0)]
        while work:
            name, position = work.pop()
            if position == 0:
                index[name] = low[name] = len(index)
                stack.append(name)
                on_stack.add(name)
            else:
                low[name] = min(low[name], low[successors[name][position - 1]])
            position = _unvisited(name, position, successors[name], index, low, on_stack)
            if position < len(successors[name]):
                work.append((name, position + 1))
                work.append((successors[name][position], 0))
            elif low[name] == index[name]:
                found.append(_pop(name, stack, on_stack, order))
    return found


def _unvisited(
    name: str,
    position: int,
    nexts: Sequence[str],
    index: Mapping[str, int],
    low: dict[str, int],
    on_stack: set[str],
) -> int:
    """The position of the next successor that was not visited; those before it are taken account of."""
    while position < len(nexts) and nexts[position] in index:
        if nexts[position] in on_stack:
            low[name] = min(low[name], index[nexts[position]])
        position += 1
    return position


def _pop(name: str, stack: list[str], on_stack: set[str], order: Mapping[str, int]) -> tuple[str, ...]:
    at = stack.index(name)
    component = tuple(sorted(stack[at:], key=order.__getitem__))
    on_stack.difference_update(component)
    del stack[at:]
    return component
