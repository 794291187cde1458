"""The orders in which the paths of a delta join look the other relations up, chosen greedily."""

from collections.abc import Iterable
from typing import Final

from kpg.compiler.physical.classes import Class, Classes
from kpg.compiler.physical.estimate import selectivity
from kpg.compiler.physical.problem import Problem, Slots
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Scalar

UNKNOWN_FAN_OUT: Final = 10.0
"""What a lookup finds if nothing is known of the values there: more than by a key, less than all."""
LEAST_FAN_OUT: Final = 2.0
"""What a lookup by less than a unique key finds at least, as far as planning is concerned."""


@dataclass(frozen=True, slots=True)
class Step:
    """Relation ``slot`` is looked up by ``key``: for each class, its member there."""

    slot: int
    key: tuple[tuple[Class, Scalar], ...]


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
    if one not in problem.domains:
        keys = {frozenset((member,)) for member in one.members}
        sizes = (relation.rows for relation in problem.relations if not keys.isdisjoint(relation.keys))
        problem.domains[one] = min(sizes, default=None)
    return problem.domains[one]


def lookup_orders(problem: Problem, classes: Classes) -> tuple[tuple[Step, ...], ...]:
    """For each relation, the order in which the path of its changes looks the others up."""
    ordering = _Ordering.of(problem, classes)
    return tuple(ordering.order(start) for start in range(len(problem.relations)))


def lookup_order(problem: Problem, classes: Classes, start: int) -> tuple[Step, ...]:
    """The order of one of the paths: that of the changes of relation ``start``."""
    return _Ordering.of(problem, classes).order(start)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """The lookup of a relation, and what it is judged by: the least is taken."""

    rank: tuple[bool, float, float, int]
    step: Step


@dataclass(frozen=True, slots=True)
class _Ordering:
    """What the paths of a join have in common, by relation."""

    problem: Problem
    members: tuple[tuple[tuple[Class, Scalar], ...], ...]
    """The classes that the relation has a member of, with that member."""
    kept: tuple[float, ...]
    """The share of the relation's rows that its own predicates keep."""
    joint: tuple[tuple[Scalar, ...], ...]
    """The other predicates that read the relation, and more."""
    near: tuple[Slots, ...]
    """The relations whose lookups can change when the relation is bound."""

    @staticmethod
    def of(problem: Problem, classes: Classes) -> "_Ordering":
        slots = range(len(problem.relations))
        tests = [(predicate, problem.slots(predicate)) for predicate in classes.rest]
        joint = tuple(tuple(p for p, read in tests if slot in read and len(read) > 1) for slot in slots)
        shares = tuple(
            selectivity(p for p, read in tests if read == {slot}) * problem.relations[slot].passing
            for slot in slots
        )
        groups = [*(one.reads for one in classes.classes), *(read for _, read in tests)]
        near = tuple(frozenset[int]().union(*(group for group in groups if slot in group)) for slot in slots)
        members = tuple(
            tuple((one, one.alone[slot]) for one in classes.classes if slot in one.alone) for slot in slots
        )
        return _Ordering(problem, members, shares, joint, near)

    def order(self, start: int) -> tuple[Step, ...]:
        """All relations but ``start``, each time the one after which the fewest rows are expected.

        Relations without an equality to the bound ones come last, but for those of one row. An order that
        is given is followed.
        """
        bound: Slots = frozenset((start,))
        given = self.problem.orders[start] if self.problem.orders else ()
        if given:
            return tuple(self._step(bound.union(given[:place]), slot) for place, slot in enumerate(given))
        left = {slot: self._candidate(bound, slot) for slot in range(len(self.near)) if slot != start}
        steps: list[Step] = []
        while left:
            best = min(left.values(), key=lambda candidate: candidate.rank).step
            steps.append(best)
            bound |= {best.slot}
            del left[best.slot]
            left.update((slot, self._candidate(bound, slot)) for slot in self.near[best.slot] if slot in left)
        return tuple(steps)

    def _candidate(self, bound: Slots, slot: int) -> _Candidate:
        step = self._step(bound, slot)
        matches = fan_out(self.problem, slot, step.key)
        after = bound | {slot}
        joint = selectivity(p for p in self.joint[slot] if self.problem.slots(p) <= after)
        loose = not step.key and not self.problem.relations[slot].is_single
        return _Candidate((loose, round(matches * self.kept[slot] * joint, 6), round(matches, 6), slot), step)

    def _step(self, bound: Slots, slot: int) -> Step:
        """The lookup of a relation by all that equates it with the bound ones.

        A base table's rowid is key enough.
        """
        key = tuple(pair for pair in self.members[slot] if pair[0].is_available(bound))
        relation = self.problem.relations[slot]
        by_rowid = tuple(pair for pair in key if relation.table is not None and pair[1] == relation.rowid)
        return Step(slot, by_rowid or key)
