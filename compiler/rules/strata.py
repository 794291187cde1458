"""Stratification: the strongly connected components of the relations, in evaluation order."""

from collections.abc import Iterable, Mapping, Sequence
from typing import assert_never

from kpg.compiler.rules.core import Choice, Limit, Numbered, Relation, Rule, Selection, Subsumption, atoms
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class Stratum:
    """Relations that depend on each other (or one alone), and their rules in the order of the text."""

    relations: tuple[str, ...]
    rules: tuple[Rule, ...]
    is_recursive: bool


@dataclass(frozen=True, slots=True)
class Dependency:
    """A rule for ``head`` names ``body``; ``use`` as in ``core.atoms``."""

    head: str
    body: str
    use: str
    span: Span


def strata(relations: Iterable[str] | Mapping[str, Relation], rules: Sequence[Rule]) -> tuple[Stratum, ...]:
    """The strata, every relation in one, each after those that it depends on.

    Given the relations, and not only their names, those that are computed in rounds count as recursive.
    """
    edges = dependencies(rules)
    found: list[Stratum] = []
    for component in strongly_connected(successors(relations, edges)):
        members = set(component)
        recursive = any(edge.head in members and edge.body in members for edge in edges)
        if isinstance(relations, Mapping):
            recursive |= any(needs_rounds(relations[name].selection) for name in members & relations.keys())
        own = tuple(rule for rule in rules if rule.head.relation in members)
        found.append(Stratum(component, own, recursive))
    return tuple(found)


def dependencies(rules: Sequence[Rule]) -> list[Dependency]:
    """Every atom of a body as a dependency of the head, in the order of the text."""
    return [
        Dependency(rule.head.relation, atom.relation, use, atom.span)
        for rule in rules
        for atom, use in atoms(rule.body)
    ]


def successors(
    relations: Iterable[str] | Mapping[str, Relation], edges: Iterable[Dependency]
) -> dict[str, list[str]]:
    """What each relation depends on directly, with repetitions; every relation is a key.

    Given the relations, and not only their names, those of the same rounds depend on each other, and one
    with a subsumption on what its rules name.
    """
    successors: dict[str, list[str]] = {name: [] for name in relations}
    for edge in edges:
        successors.setdefault(edge.head, []).append(edge.body)
        successors.setdefault(edge.body, [])
    for name, relation in relations.items() if isinstance(relations, Mapping) else ():
        if isinstance(relation.selection, Subsumption):
            successors[name] += sorted(relation.selection.guards)
        if isinstance(relation.selection, Limit):
            for other in relation.selection.together:
                if other in relations:
                    successors[name].append(other)
                    successors[other].append(name)
    return successors


def reachable(successors: Mapping[str, Sequence[str]], roots: Iterable[str]) -> set[str]:
    """These names and all that they lead to."""
    found: set[str] = set()
    pending = list(roots)
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending.extend(successors.get(name, ()))
    return found


def strongly_connected(successors: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
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


def needs_rounds(selection: Selection | None) -> bool:
    """Whether a relation is computed in a loop although it does not depend on itself."""
    match selection:
        case Choice(keys=keys):
            return len(keys) > 1
        case Limit(together=together):
            return bool(together)
        case Subsumption() | Numbered() | None:
            return False
        case _:
            assert_never(selection)
