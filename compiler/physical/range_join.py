"""Comparisons of a relation with one maintained value, as with a global aggregate (TPC-H Q11, Q22)."""

from collections.abc import Iterator
from typing import Final

from kpg.compiler.physical.classes import Classes
from kpg.compiler.physical.mfp import over
from kpg.compiler.physical.problem import Problem
from kpg.runtime.plan import Mfp
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Scalar, children
from kpg.runtime.types import BOOLEAN, same_words

SIGNS: Final = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
MIRRORED: Final = {"lt": ">", "le": ">=", "gt": "<", "ge": "<="}


@dataclass(frozen=True, slots=True)
class Threshold:
    """``left.0 comparison right.0`` over two smaller problems; ``mfp`` is over the left's outputs."""

    left: Problem
    right: Problem
    comparison: str
    mfp: Mfp


@dataclass(frozen=True, slots=True)
class _Found:
    slot: int
    predicate: Scalar
    value: Scalar
    bound: Scalar
    comparison: str


def find_threshold(problem: Problem, classes: Classes) -> Threshold | None:
    """The problem split at a one-row relation that only a comparison ties to the others, if there is one."""
    for slot, relation in enumerate(problem.relations):
        linked = any(slot in problem.slots(m) for one in classes.classes for m in one.members)
        if len(problem.relations) < 2 or not relation.is_single or linked:
            continue
        if any(slot in problem.slots(output) for output in problem.outputs):
            continue
        touching = [p for p in classes.rest if slot in problem.slots(p) and problem.slots(p) != {slot}]
        found = _comparison(problem, slot, touching[0]) if len(touching) == 1 else None
        if found is not None:
            return _split(problem, found)
    return None


def _comparison(problem: Problem, slot: int, predicate: Scalar) -> _Found | None:
    if not isinstance(predicate, Call) or predicate.function not in SIGNS:
        return None
    left, right = predicate.args
    if left.type.is_interned or not same_words(left.type, right.type):
        return None
    if problem.slots(right) == {slot} and slot not in problem.slots(left):
        return _Found(slot, predicate, left, right, SIGNS[predicate.function])
    if problem.slots(left) == {slot} and slot not in problem.slots(right):
        return _Found(slot, predicate, right, left, MIRRORED[predicate.function])
    return None


def _split(problem: Problem, found: _Found) -> Threshold:
    own = tuple(p for p in problem.predicates if problem.slots(p) == {found.slot})
    others = tuple(p for p in problem.predicates if p not in own and p != found.predicate)
    relations = tuple(r for slot, r in enumerate(problem.relations) if slot != found.slot)
    carried = dict.fromkeys([found.value])
    for output in problem.outputs:
        carried.update(dict.fromkeys(_leaves(output, found.value)))
    items = tuple(carried)
    left = Problem(relations, others, items)
    known = Call("is_not_null", (found.bound,), BOOLEAN)
    right = Problem((problem.relations[found.slot],), (*own, known), (found.bound,))
    places: dict[Scalar, int] = {item: place for place, item in enumerate(items)}
    outputs = tuple(over(output, places.get) for output in problem.outputs)
    return Threshold(left, right, found.comparison, Mfp((), outputs))


def _leaves(scalar: Scalar, known: Scalar) -> Iterator[Scalar]:
    """The columns below a scalar, but for those inside the known one."""
    if scalar == known:
        return
    if isinstance(scalar, Column):
        yield scalar
    for child in children(scalar):
        yield from _leaves(child, known)
