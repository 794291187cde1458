"""One path of a delta join: what a row of the stream carries from lookup to lookup.

A stream row holds *items*: scalars of the problem that are computed already, above all rowids and the
columns of derived relations. Each stage keeps what later stages need and no more; a base table's
columns are fetched where they are used unless they came along in a key.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from kpg.compiler.physical.classes import Class, Classes
from kpg.compiler.physical.mfp import Finder, over, parts_over
from kpg.compiler.physical.order import Step
from kpg.compiler.physical.problem import Problem, Slots
from kpg.runtime.interrupts import checkpoint
from kpg.runtime.plan import Mfp, Ref
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Scalar, children
from kpg.runtime.types import BOOLEAN

Places = Mapping[Scalar, int]


@dataclass(frozen=True, slots=True)
class Target:
    """An arrangement to look into: what its columns are, and how many of them the lookup gives."""

    arrangement: Ref
    items: tuple[Scalar, ...]
    length: int


@dataclass(frozen=True, slots=True)
class Lookup:
    """What will be a half-join with an arrangement of relation ``slot``."""

    arrangement: Ref
    slot: int
    key: tuple[int, ...]
    mfp: Mfp


@dataclass(frozen=True, slots=True)
class Path:
    """What will be a chain of nodes: ``mfp`` of the changes of a relation, then the lookups."""

    mfp: Mfp
    lookups: tuple[Lookup, ...]


@dataclass(slots=True)
class PathBuilder:
    """Builds the path of the changes of relation ``start`` along ``steps`` into ``targets``.

    ``items`` are the columns of its stream; ``settled`` the relations whose streams and arrangements
    have applied their local predicates already.
    """

    problem: Problem
    classes: Classes
    start: int
    items: tuple[Scalar, ...]
    steps: tuple[Step, ...]
    targets: tuple[Target, ...]
    settled: Slots
    first: dict[Class, Scalar] = field(default_factory=dict)
    """The member by which a class was bound first."""
    pending: list[Scalar] = field(default_factory=list)

    def build(self) -> Path:
        """The path."""
        self.pending = [p for p in self.classes.rest if not is_settled(self.problem, p, self.settled)]
        bound: Slots = frozenset((self.start,))
        places = _places(self.items)
        tests = self._tests(places, places, frozenset(), bound, ())
        row, start = self._stage(0, tests, places, bound)
        lookups: list[Lookup] = []
        for index, (step, target) in enumerate(zip(self.steps, self.targets, strict=True)):
            stream = _places(row)
            key = tuple(stream[scalar] for scalar in self._key(index))
            places = _places((*row, *target.items))
            before, bound = bound, bound | {step.slot}
            tests = self._tests(stream, places, before, bound, target.items[: target.length])
            row, mfp = self._stage(index + 1, tests, places, bound)
            lookups.append(Lookup(target.arrangement, step.slot, key, mfp))
        return Path(start, tuple(lookups))

    def _key(self, index: int) -> list[Scalar]:
        """The bound scalars that lookup ``index`` looks up, in the arrangement's order."""
        classes = {member: one for one, member in self.steps[index].key}
        target = self.targets[index]
        return [self.first[classes[item]] for item in target.items[: target.length]]

    def _tests(
        self, stream: Places, places: Places, before: Slots, bound: Slots, looked: Sequence[Scalar]
    ) -> tuple[Scalar, ...]:
        """What can be checked now: equalities that the lookup does not cover, then other predicates."""
        tests: list[Scalar] = []
        for one in self.classes.reading(bound - before):
            fresh = one.fresh(before, bound)
            if not fresh:
                continue
            if one in self.first:
                known = self._located(self.first[one], stream)
                fresh = [member for member in fresh if member not in looked]
            else:
                self.first[one] = fresh[0]
                known = self._computed(fresh[0], places)
                if one.strict and self.problem.can_be_null(fresh[0]) and not self._is_own(fresh[0]):
                    tests.append(Call("is_not_null", (known,), BOOLEAN))
                fresh = fresh[1:]
            tests += [one.test(known, self._computed(member, places)) for member in fresh]
        ready = [p for p in self.pending if self.problem.slots(p) <= bound]
        self.pending = [p for p in self.pending if not self.problem.slots(p) <= bound]
        return (*tests, *(self._located(predicate, places) for predicate in ready))

    def _is_own(self, member: Scalar) -> bool:
        """Whether a member is of a relation that has left out its NULLs already."""
        alone = self.classes.by_member[member].alone
        return any(alone.get(slot) == member for slot in self.settled)

    def _stage(
        self, index: int, tests: tuple[Scalar, ...], places: Places, bound: Slots
    ) -> tuple[tuple[Scalar, ...], Mfp]:
        """The items of the row after stage ``index``, and the mfp that makes it."""
        checkpoint()
        if index == len(self.steps):
            outputs = self.problem.outputs
            return outputs, Mfp(tests, tuple(self._located(output, places) for output in outputs))
        items = dict.fromkeys(self._key(index))
        items.update(dict.fromkeys(self._carried(self._needed(bound), places, bound)))
        if not items:
            items = dict.fromkeys(list(places)[:1])
        return tuple(items), Mfp(tests, tuple(self._located(item, places) for item in items))

    def _needed(self, bound: Slots) -> Iterable[Scalar]:
        """The scalars that later stages compute or compare."""
        yield from self.problem.outputs
        yield from self.pending
        for one in self.classes.classes:
            late = one.late(bound)
            if late and one in self.first:
                yield self.first[one]
            # The class's value is no substitute for a member that is to be compared with it.
            for member in late:
                yield from children(member)

    def _carried(self, needed: Iterable[Scalar], places: Places, bound: Slots) -> list[Scalar]:
        """The items at hand from which the needed scalars can be computed, as far as they are bound."""
        kept: set[Scalar] = set()
        stack = list(dict.fromkeys(needed))
        while stack:
            scalar = stack.pop()
            if self.problem.slots(scalar).isdisjoint(bound):
                continue
            item = self._item(scalar, places)
            if item is not None:
                kept.add(item)
            else:
                stack.extend(children(scalar))
        return sorted(kept, key=places.__getitem__)

    def _item(self, scalar: Scalar, places: Places) -> Scalar | None:
        """An item that has the scalar's value: itself, or a member of its class."""
        if scalar in places:
            return scalar
        one = self.classes.of(scalar)
        return next((member for member in one.members if member in places), None) if one else None

    def _located(self, scalar: Scalar, places: Places) -> Scalar:
        """The scalar over the columns of a row with the given items."""
        return over(scalar, self._finder(places))

    def _computed(self, scalar: Scalar, places: Places) -> Scalar:
        """As :meth:`_located`, but without help of the scalar's class: its equality is yet to be checked."""
        if scalar in places:
            return Column(places[scalar], scalar.type)
        return parts_over(scalar, self._finder(places))

    def _finder(self, places: Places) -> Finder:
        def find(scalar: Scalar) -> int | None:
            item = self._item(scalar, places)
            return None if item is None else places[item]

        return find


def is_settled(problem: Problem, predicate: Scalar, settled: Slots) -> bool:
    """Whether the predicate is local to a relation that applies its local predicates itself."""
    slots = problem.slots(predicate)
    return len(slots) == 1 and slots <= settled


def _places(items: Sequence[Scalar]) -> Places:
    """Where each item is, the first time it occurs."""
    return {item: place for place, item in reversed(tuple(enumerate(items)))}
