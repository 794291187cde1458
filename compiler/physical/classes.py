"""Equivalence classes of a join: scalars of several relations that the predicates equate."""

from collections.abc import Iterable, Mapping
from dataclasses import field

from kpg.compiler.physical.problem import Problem, Slots
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Scalar
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

    def is_available(self, bound: Slots) -> bool:
        """Whether a member can be computed from the bound relations."""
        return any(slots <= bound for slots in self.slots)

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


def classify(problem: Problem) -> Classes:
    """Sorts the predicates into equalities between relations and others."""
    groups: list[tuple[dict[Scalar, None], bool]] = []
    rest: list[Scalar] = []
    for predicate in problem.predicates:
        if not _links(problem, predicate):
            rest.append(predicate)
            continue
        assert isinstance(predicate, Call)
        members: dict[Scalar, None] = dict.fromkeys(predicate.args)
        strict = predicate.function == "eq"
        for group in [group for group in groups if not members.keys().isdisjoint(group[0])]:
            groups.remove(group)
            members = group[0] | members
            strict = strict or group[1]
        groups.append((members, strict))
    return Classes(tuple(_class(problem, members, strict) for members, strict in groups), tuple(rest))


def _class(problem: Problem, members: Iterable[Scalar], strict: bool) -> Class:
    ordered = tuple(sorted(members, key=lambda member: not isinstance(member, Column)))
    slots = tuple(map(problem.slots, ordered))
    alone: dict[int, Scalar] = {}
    for member, read in zip(ordered, slots, strict=True):
        if len(read) == 1:
            alone.setdefault(min(read), member)
    return Class(ordered, slots, strict, alone, frozenset[int]().union(*slots))


def _links(problem: Problem, predicate: Scalar) -> bool:
    if not isinstance(predicate, Call) or predicate.function not in ("eq", "is_not_distinct"):
        return False
    left, right = predicate.args
    one, other = problem.slots(left), problem.slots(right)
    return bool(one and other and one.isdisjoint(other)) and same_words(left.type, right.type)
