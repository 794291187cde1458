"""Greedy join order: the sequence of lookups on each path of a delta join.

:func:`classify` puts scalars that the predicates equate into equivalence classes. A delta join of
n relations has n paths of n - 1 lookups. :func:`split` divides a large join: it joins the first
few relations of one good order, joins that result with the next few, and so on. The number of
lookups is then linear in n, but intermediate results are stored.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.facts import equalities
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.scalars import all_columns, conjuncts
from kpg.compiler.algebra.traverse import width
from kpg.compiler.physical.cardinality import selectivity
from kpg.compiler.physical.context import Planning
from kpg.compiler.physical.join_problem import Problem, Slots, problem_of
from kpg.runtime.plan import Mfp
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Scalar, columns, remap
from kpg.runtime.types import BOOLEAN, have_same_words


@dataclass(frozen=True, slots=True, eq=False)
class EquivalenceClass:
    """Scalars whose words are equal in every result row, with the relations that each reads.

    ``strict``: at least one SQL equality defines the class, so NULL matches nothing.
    """

    members: tuple[Scalar, ...]
    slots: tuple[Slots, ...]
    strict: bool
    own_members: Mapping[int, Scalar]
    """For each relation, the first member that reads only that relation."""
    reads: Slots
    """All relations that the members read."""
    joint: tuple[Slots, ...]
    """The relations that a member reads, for each that reads none or several."""

    def is_available(self, bound: Slots) -> bool:
        """Return whether a member can be computed from the bound relations."""
        return not bound.isdisjoint(self.own_members) or any(slots <= bound for slots in self.joint)

    def newly_available(self, before: Slots, bound: Slots) -> list[Scalar]:
        """Return the members that can be computed from ``bound``, but not from ``before``."""
        both = zip(self.members, self.slots, strict=True)
        return [member for member, slots in both if slots <= bound and not slots <= before]

    def unavailable(self, bound: Slots) -> list[Scalar]:
        """Return the members that cannot be computed from the bound relations."""
        return [member for member, slots in zip(self.members, self.slots, strict=True) if not slots <= bound]

    def equality(self, left: Scalar, right: Scalar) -> Call:
        """Return the predicate that two members are equal."""
        return Call("eq" if self.strict else "is_not_distinct", (left, right), BOOLEAN)


@dataclass(frozen=True, slots=True)
class EquivalenceClasses:
    """The equivalence classes of a problem, and the predicates that they do not imply."""

    classes: tuple[EquivalenceClass, ...]
    other_predicates: tuple[Scalar, ...]
    by_member: dict[Scalar, EquivalenceClass] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        self.by_member.update((member, class_) for class_ in self.classes for member in class_.members)

    def reading_any(self, slots: Slots) -> list[EquivalenceClass]:
        """Return the classes that have a member over one of the relations."""
        return [class_ for class_ in self.classes if not class_.reads.isdisjoint(slots)]

    def class_of(self, scalar: Scalar) -> EquivalenceClass | None:
        """Return the class of a scalar, or None."""
        return self.by_member.get(scalar)


@dataclass(slots=True, eq=False)
class _Group:
    """Scalars that are equal to each other; ``last`` is the number of the last predicate that says so."""

    members: dict[Scalar, None] = field(default_factory=dict)
    strict: bool = False
    last: int = 0


def classify(problem: Problem) -> EquivalenceClasses:
    """Divide the predicates into equivalence classes across relations and other predicates."""
    group_of: dict[Scalar, _Group] = {}
    rest: list[Scalar] = []
    for number, predicate in enumerate(problem.predicates):
        if not _is_equijoin(problem, predicate):
            rest.append(predicate)
            continue
        assert isinstance(predicate, Call)
        groups = {group_of[member].last: group_of[member] for member in predicate.args if member in group_of}
        touched = [group for _, group in sorted(groups.items(), reverse=True)]
        group = touched[0] if touched else _Group()
        for other in touched[1:]:
            group.members.update(other.members)
            group.strict = group.strict or other.strict
            group_of.update(dict.fromkeys(other.members, group))
        group.members.update(dict.fromkeys(predicate.args))
        group_of.update(dict.fromkeys(predicate.args, group))
        group.strict, group.last = group.strict or predicate.function == "eq", number
    ordered = sorted({group.last: group for group in group_of.values()}.items())
    return EquivalenceClasses(
        tuple(_class(problem, group.members, group.strict) for _, group in ordered), tuple(rest)
    )


def _class(problem: Problem, members: Iterable[Scalar], strict: bool) -> EquivalenceClass:
    ordered = tuple(sorted(members, key=lambda member: not isinstance(member, Column)))
    slots = tuple(map(problem.slots, ordered))
    alone: dict[int, Scalar] = {}
    for member, read in zip(ordered, slots, strict=True):
        if len(read) == 1:
            alone.setdefault(min(read), member)
    joint = tuple(read for read in slots if len(read) != 1)
    return EquivalenceClass(ordered, slots, strict, alone, frozenset[int]().union(*slots), joint)


def _is_equijoin(problem: Problem, predicate: Scalar) -> bool:
    if not isinstance(predicate, Call) or predicate.function not in ("eq", "is_not_distinct"):
        return False
    left, right = predicate.args
    one, other = problem.slots(left), problem.slots(right)
    return bool(one and other and one.isdisjoint(other)) and have_same_words(left.type, right.type)


UNKNOWN_FAN_OUT: Final = 10.0
"""Estimated matches of a lookup without statistics: more than by a key, less than all rows."""
MIN_FAN_OUT: Final = 2.0
"""Minimum estimated matches of a lookup that does not cover a unique key."""


@dataclass(frozen=True, slots=True)
class HalfJoinChoice:
    """A half-join with relation ``slot`` by ``key``: equivalence classes with its member of each."""

    slot: int
    key: tuple[tuple[EquivalenceClass, Scalar], ...]


def fan_out(problem: Problem, slot: int, key: Iterable[tuple[EquivalenceClass, Scalar]]) -> float:
    """Return the estimated number of rows of a relation that match a key."""
    relation = problem.relations[slot]
    pairs = tuple(key)
    if any(one <= {member for _, member in pairs} for one in relation.keys):
        return 1.0
    if not pairs:
        return relation.rows
    domains = [_domain(problem, one) for one, _ in pairs]
    known = [domain for domain in domains if domain is not None]
    if not known:
        return max(MIN_FAN_OUT, min(UNKNOWN_FAN_OUT, relation.rows))
    product = 1.0
    for domain in known:
        product *= domain
    return max(MIN_FAN_OUT, relation.rows / product)


def _domain(problem: Problem, class_: EquivalenceClass) -> float | None:
    """Return the estimated distinct values of a class: the rows of a relation that it is a unique key of."""
    if class_ not in problem.domains:
        keys = {frozenset((member,)) for member in class_.members}
        sizes = (relation.rows for relation in problem.relations if not keys.isdisjoint(relation.keys))
        problem.domains[class_] = min(sizes, default=None)
    return problem.domains[class_]


def path_orders(problem: Problem, classes: EquivalenceClasses) -> tuple[tuple[HalfJoinChoice, ...], ...]:
    """Return for each relation the order in which the path of its changes looks up the others."""
    ordering = _JoinGraph.create(problem, classes)
    return tuple(ordering.order(start) for start in range(len(problem.relations)))


def path_order(problem: Problem, classes: EquivalenceClasses, start: int) -> tuple[HalfJoinChoice, ...]:
    """Return the lookup order of one path, for the changes of relation ``start``."""
    return _JoinGraph.create(problem, classes).order(start)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A possible next lookup.

    The one with the least rank is chosen.
    """

    rank: tuple[bool, float, float, int]
    step: HalfJoinChoice


@dataclass(frozen=True, slots=True)
class _JoinGraph:
    """Properties of the relations that all paths of a join use, by relation."""

    problem: Problem
    members: tuple[tuple[tuple[EquivalenceClass, Scalar], ...], ...]
    """Equivalence classes with a member in the relation, and that member."""
    selectivities: tuple[float, ...]
    """Fraction of the relation's rows that its own predicates keep."""
    joint_predicates: tuple[tuple[Scalar, ...], ...]
    """Other predicates that read the relation and at least one more."""
    reading: tuple[tuple[EquivalenceClass, ...], ...]
    """The classes that read the relation."""
    neighbors: tuple[Slots, ...]
    """Relations whose lookups can change when this one is bound."""

    @staticmethod
    def create(problem: Problem, classes: EquivalenceClasses) -> "_JoinGraph":
        slots = range(len(problem.relations))
        own: list[list[Scalar]] = [[] for _ in slots]
        joint: list[list[Scalar]] = [[] for _ in slots]
        for predicate in classes.other_predicates:
            read = problem.slots(predicate)
            for slot in read:
                (joint if len(read) > 1 else own)[slot].append(predicate)
        shares = tuple(selectivity(own[slot]) * problem.relations[slot].selectivity for slot in slots)
        near = tuple(frozenset[int]().union(*map(problem.slots, predicates)) for predicates in joint)
        members: list[list[tuple[EquivalenceClass, Scalar]]] = [[] for _ in slots]
        reading: list[list[EquivalenceClass]] = [[] for _ in slots]
        for class_ in classes.classes:
            for slot, member in class_.own_members.items():
                members[slot].append((class_, member))
            for slot in class_.reads:
                reading[slot].append(class_)
        return _JoinGraph(
            problem,
            tuple(map(tuple, members)),
            shares,
            tuple(map(tuple, joint)),
            tuple(map(tuple, reading)),
            near,
        )

    def order(self, start: int) -> tuple[HalfJoinChoice, ...]:
        """Return all relations but ``start``, greedily by the fewest expected rows.

        Relations without an equality to the bound ones come last, except single-row relations. An order
        fixed by the problem is used unchanged.
        """
        bound: Slots = frozenset((start,))
        fixed_order = self.problem.orders[start] if self.problem.orders else ()
        if fixed_order:
            return tuple(
                self._step(bound.union(fixed_order[:place]), slot) for place, slot in enumerate(fixed_order)
            )
        candidates = {
            slot: self._candidate(bound, slot) for slot in range(len(self.neighbors)) if slot != start
        }
        number = count()  # candidates of one rank are not compared
        queue = [(candidate.rank, next(number), candidate) for candidate in candidates.values()]
        heapify(queue)
        steps: list[HalfJoinChoice] = []
        while candidates:
            _, _, candidate = heappop(queue)
            best = candidate.step
            if candidates.get(best.slot) is not candidate:
                continue  # there is a newer candidate for the relation
            steps.append(best)
            del candidates[best.slot]
            before, bound = bound, bound | {best.slot}
            changed = set(self.neighbors[best.slot])
            for one in self.reading[best.slot]:
                if not one.is_available(before) and one.is_available(bound):
                    changed.update(one.own_members)
            for slot in changed & candidates.keys():
                candidates[slot] = candidate = self._candidate(bound, slot)
                heappush(queue, (candidate.rank, next(number), candidate))
        return tuple(steps)

    def _candidate(self, bound: Slots, slot: int) -> _Candidate:
        step = self._step(bound, slot)
        matches = fan_out(self.problem, slot, step.key)
        after = bound | {slot}
        joint = selectivity(p for p in self.joint_predicates[slot] if self.problem.slots(p) <= after)
        is_product = not step.key and not self.problem.relations[slot].is_single
        return _Candidate(
            (is_product, round(matches * self.selectivities[slot] * joint, 6), round(matches, 6), slot), step
        )

    def _step(self, bound: Slots, slot: int) -> HalfJoinChoice:
        """Return the lookup of a relation by all members that equal a bound scalar, or by its rowid alone."""
        key = tuple(pair for pair in self.members[slot] if pair[0].is_available(bound))
        relation = self.problem.relations[slot]
        by_rowid = tuple(pair for pair in key if relation.table is not None and pair[1] == relation.rowid)
        return HalfJoinChoice(slot, by_rowid or key)


MAX_RELATIONS: Final = 12
"""Maximum number of relations of a join that is not split."""
SPLIT_SIZE: Final = 8
"""Number of relations of each part of a split join."""


def split(planning: Planning, join: algebra.Join) -> Rel:
    """Return the rows of the join by a sequence of joins of a few relations each."""
    problem = problem_of(planning, join, Mfp((), all_columns(join)))
    loose = _loose_rows(problem, join)
    if len(loose) > SPLIT_SIZE:
        return _with_product(join, loose)
    sizes = [relation.rows * relation.selectivity for relation in problem.relations]
    first = sizes.index(min(sizes))
    order = [first, *(step.slot for step in path_order(problem, classify(problem), first))]
    starts = _starts(join)
    classes = _equal_scalars(join.on)
    result, places = join.inputs[first], {starts[first] + i: i for i in range(width(join.inputs[first]))}
    applied: set[Scalar] = set()
    for begin in range(1, len(order), SPLIT_SIZE - 1):
        sources: list[Rel] = [result]
        for slot in order[begin : begin + SPLIT_SIZE - 1]:
            at = sum(map(width, sources))
            places.update((starts[slot] + i, at + i) for i in range(width(join.inputs[slot])))
            sources.append(join.inputs[slot])
        on = [
            test for test in (*_class_equalities(classes, places), *join.on) if columns(test) <= places.keys()
        ]
        fresh = [test for test in dict.fromkeys(on) if test not in applied]
        applied.update(fresh)
        tests = conjuncts(remap(test, places.__getitem__) for test in fresh)
        result = algebra.Join(tuple(sources), tests)
    return algebra.Project(result, tuple(places[column] for column in range(width(join))))


def _loose_rows(problem: Problem, join: algebra.Join) -> list[int]:
    """The inputs of at most one row that no predicate reads, such as subqueries of the select list."""
    read = frozenset[int]().union(*map(columns, join.on))
    starts = _starts(join)
    return [
        slot
        for slot, relation in enumerate(problem.relations)
        if relation.is_single and read.isdisjoint(range(starts[slot], starts[slot + 1]))
    ]


def _with_product(join: algebra.Join, slots: Sequence[int]) -> Rel:
    """The join with some inputs replaced by their product, a tree of joins of a few inputs each.

    A row of one value each takes part in as many joins as the tree has levels, not in all that follow.
    """
    inside = frozenset(slots)
    order = [*(slot for slot in range(len(join.inputs)) if slot not in inside), *slots]
    starts, places, at = _starts(join), dict[int, int](), 0
    for slot in order:
        places.update((starts[slot] + i, at + i) for i in range(width(join.inputs[slot])))
        at += width(join.inputs[slot])
    level = [join.inputs[slot] for slot in slots]
    while len(level) > 1:
        parts = [tuple(level[begin : begin + SPLIT_SIZE]) for begin in range(0, len(level), SPLIT_SIZE)]
        level = [algebra.Join(part, ()) if len(part) > 1 else part[0] for part in parts]
    others = tuple(source for slot, source in enumerate(join.inputs) if slot not in inside)
    on = tuple(remap(test, places.__getitem__) for test in join.on)
    result = algebra.Join((*others, *level), on) if others else level[0]
    return algebra.Project(result, tuple(places[column] for column in range(width(join))))


def _starts(join: algebra.Join) -> list[int]:
    """Return the number of each input's first column."""
    starts = [0]
    for source in join.inputs:
        starts.append(starts[-1] + width(source))
    return starts


def _equal_scalars(predicates: Iterable[Scalar]) -> list[tuple[list[Scalar], bool]]:
    """Return classes of equal scalars, and whether NULL matches nothing in each."""
    classes: list[tuple[list[Scalar], bool]] = []
    for predicate in predicates:
        for left, right in equalities([predicate]):
            if not have_same_words(left.type, right.type) or not columns(left) or not columns(right):
                continue
            merged = [class_ for class_ in classes if left in class_[0] or right in class_[0]]
            classes = [class_ for class_ in classes if not any(class_ is other for other in merged)]
            members = dict.fromkeys((*(member for class_ in merged for member in class_[0]), left, right))
            strict = any(class_[1] for class_ in merged) or (
                isinstance(predicate, Call) and predicate.function == "eq"
            )
            classes.append((list(members), strict))
    return classes


def _class_equalities(
    classes: Sequence[tuple[list[Scalar], bool]], places: Mapping[int, int]
) -> Iterator[Scalar]:
    """Yield the equalities between the members of each class whose columns are in ``places``."""
    for members, strict in classes:
        here = [member for member in members if columns(member) <= places.keys()]
        for member in here[1:]:
            yield Call("eq" if strict else "is_not_distinct", (here[0], member), BOOLEAN)
