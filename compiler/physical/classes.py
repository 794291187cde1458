"""Equivalence classes of a join: scalars of several relations that the predicates equate."""

from collections.abc import Iterator
from dataclasses import dataclass

from kpg.compiler.physical.problem import Problem, Slots
from kpg.runtime.scalar import Call, Column, Scalar
from kpg.runtime.types import BOOLEAN, Type


@dataclass(frozen=True, slots=True)
class Class:
    """Scalars whose words are equal in every result row.

    ``strict``: an SQL equality is among the reasons, so that NULL is no match.
    """

    members: tuple[Scalar, ...]
    strict: bool

    def test(self, left: Scalar, right: Scalar) -> Call:
        """The predicate that two members are equal."""
        return Call("eq" if self.strict else "is_not_distinct", (left, right), BOOLEAN)


@dataclass(frozen=True, slots=True)
class Classes:
    """The classes of a problem, and the predicates that they do not express."""

    classes: tuple[Class, ...]
    rest: tuple[Scalar, ...]

    def of(self, scalar: Scalar) -> Class | None:
        """The class that a scalar is a member of."""
        return next((one for one in self.classes if scalar in one.members), None)


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
    return Classes(tuple(Class(tuple(members), strict) for members, strict in groups), tuple(rest))


def _links(problem: Problem, predicate: Scalar) -> bool:
    if not isinstance(predicate, Call) or predicate.function not in ("eq", "is_not_distinct"):
        return False
    left, right = predicate.args
    one, other = problem.slots(left), problem.slots(right)
    return bool(one and other and one.isdisjoint(other)) and same_words(left.type, right.type)


def same_words(left: Type, right: Type) -> bool:
    """Whether equal values of the two types are equal words."""
    if left.is_text and right.is_text:
        return True
    if left.is_integer and right.is_integer:
        return True
    return left.kind is right.kind and left.scale == right.scale


def available(problem: Problem, one: Class, bound: Slots) -> Iterator[Scalar]:
    """The members that can be computed from the bound relations, plain columns first."""
    members = [member for member in one.members if problem.slots(member) <= bound]
    yield from sorted(members, key=lambda member: not isinstance(member, Column))
