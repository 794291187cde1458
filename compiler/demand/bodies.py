"""Relations taken apart: unions of joins of atoms, as rules have them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from itertools import count, product
from typing import Final, assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.scalars import conjuncts, substitute
from kpg.compiler.algebra.traverse import free_locals, transform_up
from kpg.compiler.demand.absence import unmatched
from kpg.compiler.demand.body import Body, Part
from kpg.compiler.demand.failing import may_fail
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Scalar

MOST_BODIES: Final = 64
"""A relation that would take more rules than this is not taken apart."""
TAKES_AWAY: Final = "it takes rows away (NOT, EXCEPT or an outer join)"


class NotRules(Exception):
    """Why a relation cannot be written as rules."""


@dataclass(slots=True)
class Taking:
    """Takes relations apart; ``has_rules`` tells of which ids there are rules, or there are to be."""

    has_rules: Callable[[str], bool]
    own: frozenset[str]
    """The ids that must not be read but by atoms."""
    lets: Mapping[str, Rel]
    """What other ids stand for that are not recursive."""
    numbers: "count[int]" = field(default_factory=count)

    def apart(self, rel: Rel) -> list[Body]:
        """The relation's rows as a set; NotRules if they are no union of joins of such."""
        return self._bodies(_without_lets(rel))

    def _bodies(self, rel: Rel) -> list[Body]:
        free = free_locals(rel)
        fails = may_fail(rel, self.lets)
        if not fails and not any(self.has_rules(id_) for id_ in free):
            return [self._atom(rel)]
        try:
            return self._taken(rel)
        except NotRules:
            if fails or free & self.own:
                raise
            return [self._atom(rel)]

    def _atom(self, rel: Rel) -> Body:
        types = algebra.types(rel)
        variables = tuple(next(self.numbers) for _ in types)
        outputs = tuple(Column(number, type_) for number, type_ in zip(variables, types, strict=True))
        return Body((Part(rel, variables),), (), outputs)

    def _taken(self, rel: Rel) -> list[Body]:
        match rel:
            case algebra.LocalGet(id=id_) if self.has_rules(id_):
                return [self._atom(rel)]
            case algebra.Filter(input=source, predicates=predicates):
                return [_tested(body, predicates) for body in self._bodies(source)]
            case algebra.Map(input=source, scalars=scalars):
                return [_extended(body, scalars) for body in self._bodies(source)]
            case algebra.Project(input=source, columns=columns):
                return [_chosen(body, columns) for body in self._bodies(source)]
            case algebra.Distinct(input=source):
                return self._bodies(source)
            case algebra.Union(inputs=inputs):
                if any(is_negative(source) for source in inputs):
                    return self._difference(inputs)
                return [body for source in inputs for body in self._bodies(source)]
            case algebra.Join(inputs=inputs, on=on):
                return _products([self._bodies(source) for source in inputs], on)
            case algebra.Negate() | algebra.Threshold():
                raise NotRules(TAKES_AWAY)
            case algebra.Reduce():
                raise NotRules("it aggregates")
            case algebra.Expand():
                raise NotRules("a function makes rows of its rows")
            case algebra.LocalGet() | algebra.Get() | algebra.Constant():
                raise NotRules("what it reads may fail where it is not needed")
            case algebra.Window():
                raise NotRules("it has window functions")
            case algebra.TopK() | algebra.Single():
                raise NotRules("it limits rows or takes a row for a value")
            case algebra.Let() | algebra.LetRec():
                raise NotRules("it has a recursion inside that depends on it")
            case _:
                assert_never(rel)

    def _difference(self, inputs: Sequence[Rel]) -> list[Body]:
        """The rows of the first relation without the second, those of them that have a match, negated."""
        if len(inputs) != 2 or is_negative(inputs[0]) or not isinstance(inputs[1], algebra.Negate):
            raise NotRules(TAKES_AWAY)
        found = unmatched(self._taken(inputs[0]), self._taken(inputs[1].input))
        if found is None:
            raise NotRules(TAKES_AWAY)
        return found


def is_negative(rel: Rel) -> bool:
    """Whether a part of a union is there to be subtracted from the others."""
    while isinstance(rel, algebra.Filter | algebra.Map | algebra.Project):
        rel = rel.input
    return isinstance(rel, algebra.Negate)


def _tested(body: Body, predicates: Sequence[Scalar]) -> Body:
    tests = (substitute(predicate, body.outputs) for predicate in predicates)
    return replace(body, tests=conjuncts((*body.tests, *tests)))


def _extended(body: Body, scalars: Sequence[Scalar]) -> Body:
    more = tuple(substitute(scalar, body.outputs) for scalar in scalars)
    return replace(body, outputs=(*body.outputs, *more))


def _chosen(body: Body, columns: Sequence[int]) -> Body:
    return replace(body, outputs=tuple(body.outputs[column] for column in columns))


def _products(choices: Sequence[Sequence[Body]], on: Sequence[Scalar]) -> list[Body]:
    """The joins of one body of each input."""
    size = 1
    for bodies in choices:
        size *= len(bodies)
    if size > MOST_BODIES:
        raise NotRules(f"it would take {size} rules")
    found = []
    for combination in product(*choices):
        parts = tuple(part for body in combination for part in body.parts)
        tests = tuple(test for body in combination for test in body.tests)
        outputs = tuple(output for body in combination for output in body.outputs)
        absences = tuple(one for body in combination for one in body.absences)
        found.append(_tested(Body(parts, tests, outputs, absences), on))
    return found


def _without_lets(rel: Rel) -> Rel:
    """The relation with its lets written out; ids are unique."""

    def written(node: Rel) -> Rel:
        if isinstance(node, algebra.Let):
            return transform_up(node.body, lambda one: _replaced(one, node.id, node.value))
        return node

    return transform_up(rel, written)


def _replaced(node: Rel, id_: str, value: Rel) -> Rel:
    return value if isinstance(node, algebra.LocalGet) and node.id == id_ else node
