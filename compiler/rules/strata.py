"""Stratification: the strongly connected components of the relations, in evaluation order."""

from collections.abc import Iterable, Mapping, Sequence
from typing import assert_never

from kpg.compiler.rules.core import Choice, Limit, Relation, RowNumbering, Rule, Selection, Subsumption, atoms
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class Stratum:
    """Relations that depend on each other, or a single one, and their rules in text order."""

    relations: tuple[str, ...]
    rules: tuple[Rule, ...]
    is_recursive: bool


@dataclass(frozen=True, slots=True)
class Dependency:
    """A dependency of ``head`` on ``body``, with ``use`` as in ``core.atoms``."""

    head: str
    body: str
    use: str
    span: Span


def strata(relations: Iterable[str] | Mapping[str, Relation], rules: Sequence[Rule]) -> tuple[Stratum, ...]:
    """Return the strata in dependency order.

    Each relation is in exactly one. If ``relations`` maps names to relations, those that are computed
    in rounds count as recursive.
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
    """Return every atom of a body as a dependency of the head, in text order."""
    return [
        Dependency(rule.head.relation, atom.relation, use, atom.span)
        for rule in rules
        for atom, use in atoms(rule.body)
    ]


def successors(
    relations: Iterable[str] | Mapping[str, Relation], edges: Iterable[Dependency]
) -> dict[str, list[str]]:
    """Return the direct dependencies of each relation, with repetitions.

    Every relation is a key. If ``relations`` maps names to relations, those computed in lockstep
    depend on each other. A relation with a subsumption depends on the relations that its rules read.
    """
    successors: dict[str, list[str]] = {name: [] for name in relations}
    for edge in edges:
        successors.setdefault(edge.head, []).append(edge.body)
        successors.setdefault(edge.body, [])
    for name, relation in relations.items() if isinstance(relations, Mapping) else ():
        if isinstance(relation.selection, Subsumption):
            successors[name] += sorted(relation.selection.guards)
        if isinstance(relation.selection, Limit):
            for other in relation.selection.lockstep_relations:
                if other in relations:
                    successors[name].append(other)
                    successors[other].append(name)
    return successors


def reachable(successors: Mapping[str, Sequence[str]], roots: Iterable[str]) -> set[str]:
    """Return ``roots`` and all names reachable from them."""
    found: set[str] = set()
    pending = list(roots)
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending.extend(successors.get(name, ()))
    return found


def strongly_connected(successors: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """Return the strongly connected components in dependency order, by Tarjan's algorithm.

    The members of a component are in the order of the keys.
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
            position = _next_unvisited(name, position, successors[name], index, low, on_stack)
            if position < len(successors[name]):
                work.append((name, position + 1))
                work.append((successors[name][position], 0))
            elif low[name] == index[name]:
                found.append(_pop(name, stack, on_stack, order))
    return found


def _next_unvisited(
    name: str,
    position: int,
    nexts: Sequence[str],
    index: Mapping[str, int],
    low: dict[str, int],
    on_stack: set[str],
) -> int:
    """Return the position of the next unvisited successor, and update ``low`` for those before it."""
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
    """Return whether a relation is computed in a loop although it does not depend on itself."""
    match selection:
        case Choice(keys=keys):
            return len(keys) > 1
        case Limit(lockstep_relations=together):
            return bool(together)
        case Subsumption() | RowNumbering() | None:
            return False
        case _:
            assert_never(selection)
