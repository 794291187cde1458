"""The order in which a path of a delta join looks the other relations up, chosen greedily."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kpg.compiler.physical.classes import Class, Classes
from kpg.compiler.physical.estimate import selectivity
from kpg.compiler.physical.problem import Problem, Slots
from kpg.runtime.scalar import Scalar

UNKNOWN_FAN_OUT: Final = 10.0
LEAST_FAN_OUT: Final = 2.0
"""What a lookup by less than a unique key finds at least, as far as planning is concerned."""


@dataclass(frozen=True, slots=True)
class Step:
    """Relation ``slot`` is looked up by ``key``: for each class, its member there."""

    slot: int
    key: tuple[tuple[Class, Scalar], ...]


def step_to(problem: Problem, classes: Classes, bound: Slots, slot: int) -> Step:
    """The lookup of a relation by all that equates it with the bound ones.

    A base table's rowid is key enough.
    """
    key: list[tuple[Class, Scalar]] = []
    for one in classes.classes:
        member = one.member_in(slot)
        if member is not None and one.available(bound):
            key.append((one, member))
    relation = problem.relations[slot]
    by_rowid = [pair for pair in key if relation.table is not None and pair[1] == relation.rowid]
    return Step(slot, tuple(by_rowid or key))


def fan_out(problem: Problem, slot: int, key: Iterable[tuple[Class, Scalar]]) -> float:
    """About how many rows of a relation agree on the key."""
    relation = problem.relations[slot]
    pairs = tuple(key)
    if any(one <= {member for _, member in pairs} for one in relation.keys):
        return 1.0
    if not pairs:
        return relation.rows
    domains = [_domain(problem, one) for one, _ in pairs]
    known = [domain for domain in domains if domain is not None]
    if not known:
        return max(LEAST_FAN_OUT, min(UNKNOWN_FAN_OUT, relation.rows))
    product = 1.0
    for domain in known:
        product *= domain
    return max(LEAST_FAN_OUT, relation.rows / product)


def _domain(problem: Problem, one: Class) -> float | None:
    """How many values the class takes: the size of a relation that it is a unique key of."""
    sizes = [
        relation.rows
        for relation in problem.relations
        for member in one.members
        if frozenset((member,)) in relation.keys
    ]
    return min(sizes, default=None)


def local_selectivity(problem: Problem, classes: Classes, slot: int) -> float:
    """The share of a relation's rows that its own predicates keep."""
    own = [predicate for predicate in classes.rest if problem.slots(predicate) == {slot}]
    return selectivity(own) * problem.relations[slot].passing


def lookup_order(problem: Problem, classes: Classes, start: int) -> tuple[Step, ...]:
    """All other relations, each time the one after which the fewest rows are expected.

    Relations without an equality to the bound ones come last, but for those of one row.
    """
    bound: Slots = frozenset((start,))
    steps: list[Step] = []
    while len(bound) < len(problem.relations):
        best: tuple[tuple[bool, float, float, int], Step] | None = None
        for slot in range(len(problem.relations)):
            if slot in bound:
                continue
            step = step_to(problem, classes, bound, slot)
            matches = fan_out(problem, slot, step.key)
            kept = matches * _share(problem, classes, bound, slot)
            loose = not step.key and not problem.relations[slot].is_single
            rank = (loose, round(kept, 6), round(matches, 6), slot)
            if best is None or rank < best[0]:
                best = (rank, step)
        assert best is not None
        steps.append(best[1])
        bound |= {best[1].slot}
    return tuple(steps)


def _share(problem: Problem, classes: Classes, bound: Slots, slot: int) -> float:
    """What the predicates that can be checked once a relation is bound keep of the matches."""
    after = bound | {slot}
    joint = [p for p in classes.rest if len(problem.slots(p)) > 1 and slot in problem.slots(p) <= after]
    return local_selectivity(problem, classes, slot) * selectivity(joint)
