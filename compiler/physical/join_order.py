"""Greedy join order: the sequence of lookups on each path of a delta join.

:func:`classify` puts scalars that the predicates equate into equivalence classes. A delta join of n relations
has n paths of n - 1 lookups. :func:`split` divides a large join: it joins the first few relations of one good
order, joins that result with the next few, and so on. The number of lookups is then linear in n, at the cost
of storing the intermediate results.
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
from kpg.runtime.types import BOOLEAN, same_words


@dataclass(frozen=True, slots=True, eq=False)
class Class:
    """Scalars whose words are equal in every result row, with the relations that each reads.

    ``strict``: an SQL equality is among the reasons, so that NULL is no match.
    """

    members: tuple[Scalar, ...]
    slots: tuple[Slots, ...]
    strict: bool
    alone: Mapping[int, Scalar]
    """For each relation that has members of its own, the first of them."""
    reads: Slots
    """All relations that members read."""
    joint: tuple[Slots, ...]
    """The relations that a member reads, for each that reads none or several."""

    def is_available(self, bound: Slots) -> bool:
        """Whether a member can be computed from the bound relations."""
        return not bound.isdisjoint(self.alone) or any(slots <= bound for slots in self.joint)

    def fresh(self, before: Slots, bound: Slots) -> list[Scalar]:
        """The members that can be computed from the bound relations, but not from those bound before."""
        both = zip(self.members, self.slots, strict=True)
        return [member for member, slots in both if slots <= bound and not slots <= before]

    def late(self, bound: Slots) -> list[Scalar]:
        """The members that cannot be computed yet."""
        return [member for member, slots in zip(self.members, self.slots, strict=True) if not slots <= bound]

    def test(self, left: Scalar, right: Scalar) -> Call:
        """The predicate that two members are equal."""
        return Call("eq" if self.strict else "is_not_distinct", (left, right), BOOLEAN)


@dataclass(frozen=True, slots=True)
class Classes:
    """The classes of a problem, and the predicates that they do not express."""

    classes: tuple[Class, ...]
    rest: tuple[Scalar, ...]
    by_member: dict[Scalar, Class] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        self.by_member.update((member, one) for one in self.classes for member in one.members)

    def reading(self, slots: Slots) -> list[Class]:
        """The classes with members over one of the relations."""
        return [one for one in self.classes if not one.reads.isdisjoint(slots)]

    def of(self, scalar: Scalar) -> Class | None:
        """The class that a scalar is a member of."""
        return self.by_member.get(scalar)


@dataclass(slots=True, eq=False)
class _Group:
    """Scalars that are equal to each other; ``last`` is the number of the last predicate that says so."""

    members: dict[Scalar, None] = field(default_factory=dict)
    strict: bool = False
    last: int = 0


def classify(problem: Problem) -> Classes:
    """Sorts the predicates into equalities between relations and others."""
    group_of: dict[Scalar, _Group] = {}
    rest: list[Scalar] = []
    for number, predicate in enumerate(problem.predicates):
        if not _links(problem, predicate):
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
    return Classes(tuple(_class(problem, group.members, group.strict) for _, group in ordered), tuple(rest))


def _class(problem: Problem, members: Iterable[Scalar], strict: bool) -> Class:
    ordered = tuple(sorted(members, key=lambda member: not isinstance(member, Column)))
    slots = tuple(map(problem.slots, ordered))
    alone: dict[int, Scalar] = {}
    for member, read in zip(ordered, slots, strict=True):
        if len(read) == 1:
            alone.setdefault(min(read), member)
    joint = tuple(read for read in slots if len(read) != 1)
    return Class(ordered, slots, strict, alone, frozenset[int]().union(*slots), joint)


def _links(problem: Problem, predicate: Scalar) -> bool:
    if not isinstance(predicate, Call) or predicate.function not in ("eq", "is_not_distinct"):
        return False
    left, right = predicate.args
    one, other = problem.slots(left), problem.slots(right)
    return bool(one and other and one.isdisjoint(other)) and same_words(left.type, right.type)


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
    reading: tuple[tuple[Class, ...], ...]
    """The classes that read the relation."""
    near: tuple[Slots, ...]
    """The relations of which some other predicate reads the relation too."""

    @staticmethod
    def of(problem: Problem, classes: Classes) -> "_Ordering":
        slots = range(len(problem.relations))
        own: list[list[Scalar]] = [[] for _ in slots]
        joint: list[list[Scalar]] = [[] for _ in slots]
        for predicate in classes.rest:
            read = problem.slots(predicate)
            for slot in read:
                (joint if len(read) > 1 else own)[slot].append(predicate)
        shares = tuple(selectivity(own[slot]) * problem.relations[slot].passing for slot in slots)
        near = tuple(frozenset[int]().union(*map(problem.slots, predicates)) for predicates in joint)
        members: list[list[tuple[Class, Scalar]]] = [[] for _ in slots]
        reading: list[list[Class]] = [[] for _ in slots]
        for one in classes.classes:
            for slot, member in one.alone.items():
                members[slot].append((one, member))
            for slot in one.reads:
                reading[slot].append(one)
        return _Ordering(
            problem,
            tuple(map(tuple, members)),
            shares,
            tuple(map(tuple, joint)),
            tuple(map(tuple, reading)),
            near,
        )

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
        number = count()  # candidates of one rank are not compared
        queue = [(candidate.rank, next(number), candidate) for candidate in left.values()]
        heapify(queue)
        steps: list[Step] = []
        while left:
            _, _, candidate = heappop(queue)
            best = candidate.step
            if left.get(best.slot) is not candidate:
                continue  # there is a newer candidate for the relation
            steps.append(best)
            del left[best.slot]
            before, bound = bound, bound | {best.slot}
            changed = set(self.near[best.slot])
            for one in self.reading[best.slot]:
                if not one.is_available(before) and one.is_available(bound):
                    changed.update(one.alone)
            for slot in changed & left.keys():
                left[slot] = candidate = self._candidate(bound, slot)
                heappush(queue, (candidate.rank, next(number), candidate))
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


MOST: Final = 12
"""A join of more relations is split."""
PART: Final = 8
"""How many relations are joined at once then."""


def split(planning: Planning, join: algebra.Join) -> Rel:
    """The join's rows by joins of a few relations each."""
    problem = problem_of(planning, join, Mfp((), all_columns(join)))
    loose = _loose_rows(problem, join)
    if len(loose) > PART:
        return _with_product(join, loose)
    sizes = [relation.rows * relation.passing for relation in problem.relations]
    first = sizes.index(min(sizes))
    order = [first, *(step.slot for step in lookup_order(problem, classify(problem), first))]
    starts = _starts(join)
    classes = _classes(join.on)
    result, places = join.inputs[first], {starts[first] + i: i for i in range(width(join.inputs[first]))}
    done: set[Scalar] = set()
    for begin in range(1, len(order), PART - 1):
        sources: list[Rel] = [result]
        for slot in order[begin : begin + PART - 1]:
            at = sum(map(width, sources))
            places.update((starts[slot] + i, at + i) for i in range(width(join.inputs[slot])))
            sources.append(join.inputs[slot])
        on = [test for test in (*_equal(classes, places), *join.on) if columns(test) <= places.keys()]
        fresh = [test for test in dict.fromkeys(on) if test not in done]
        done.update(fresh)
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
        parts = [tuple(level[begin : begin + PART]) for begin in range(0, len(level), PART)]
        level = [algebra.Join(part, ()) if len(part) > 1 else part[0] for part in parts]
    others = tuple(source for slot, source in enumerate(join.inputs) if slot not in inside)
    on = tuple(remap(test, places.__getitem__) for test in join.on)
    result = algebra.Join((*others, *level), on) if others else level[0]
    return algebra.Project(result, tuple(places[column] for column in range(width(join))))


def _starts(join: algebra.Join) -> list[int]:
    """The number of each input's first column."""
    starts = [0]
    for source in join.inputs:
        starts.append(starts[-1] + width(source))
    return starts


def _classes(predicates: Iterable[Scalar]) -> list[tuple[list[Scalar], bool]]:
    """Scalars that are equal to each other, and whether NULL is no match for NULL."""
    classes: list[tuple[list[Scalar], bool]] = []
    for predicate in predicates:
        for left, right in equalities([predicate]):
            if not same_words(left.type, right.type) or not columns(left) or not columns(right):
                continue
            touched = [one for one in classes if left in one[0] or right in one[0]]
            classes = [one for one in classes if not any(one is other for other in touched)]
            members = dict.fromkeys((*(member for one in touched for member in one[0]), left, right))
            strict = any(one[1] for one in touched) or (
                isinstance(predicate, Call) and predicate.function == "eq"
            )
            classes.append((list(members), strict))
    return classes


def _equal(classes: Sequence[tuple[list[Scalar], bool]], places: Mapping[int, int]) -> Iterator[Scalar]:
    """That the members of each class are equal, as far as they are there."""
    for members, strict in classes:
        here = [member for member in members if columns(member) <= places.keys()]
        for member in here[1:]:
            yield Call("eq" if strict else "is_not_distinct", (here[0], member), BOOLEAN)
