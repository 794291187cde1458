"""Joins of many relations as joins of joins.

A delta join has a path for each of its n relations, each of n - 1 lookups. Past some size the first few
relations of one good order are joined on their own, what comes of them with the next few, and so on: that
is in proportion to n, and keeps what comes of each.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.facts import equalities
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.scalars import all_columns, conjuncts
from kpg.compiler.algebra.traverse import width
from kpg.compiler.physical.classes import classify
from kpg.compiler.physical.context import Planning
from kpg.compiler.physical.order import lookup_order
from kpg.compiler.physical.problem import problem_of
from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Call, Scalar, columns, remap
from kpg.runtime.types import BOOLEAN, same_words

MOST: Final = 12
"""A join of more relations is split."""
PART: Final = 8
"""How many relations are joined at once then."""


def split(planning: Planning, join: algebra.Join) -> Rel:
    """The join's rows by joins of a few relations each."""
    problem = problem_of(planning, join, Mfp((), all_columns(join)))
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
