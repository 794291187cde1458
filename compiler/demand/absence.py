"""Rows that have no match, as the algebra writes them: all rows, less those that have one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.demand.body import Absence, Body, Part
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar, remap


def unmatched(bodies: Sequence[Body], matches: Sequence[Body]) -> list[Body] | None:
    """The bodies without their bindings that are among the matches; None if these are not joins of them.

    Each match must be one of the bodies joined with one more relation, a set, by all its columns.
    """
    left = list(matches)
    found: list[Body] = []
    for body in bodies:
        absences = ((match, _absence(body, match)) for match in left)
        first = next(((match, absence) for match, absence in absences if absence is not None), None)
        if first is None:
            return None
        left.remove(first[0])
        found.append(replace(body, absences=(*body.absences, first[1])))
    return None if left else found


def _absence(body: Body, match: Body) -> Absence | None:
    """What the match has that the body has not; None if it is not just one relation more."""
    *same, extra = match.parts
    if not isinstance(extra.rel, algebra.Distinct) or len(same) != len(body.parts):
        return None
    names: dict[int, int] = {}
    for one, other in zip(same, body.parts, strict=True):
        if one.rel != other.rel:
            return None
        names.update(zip(one.variables, other.variables, strict=True))
    places = {variable: -1 - place for place, variable in enumerate(extra.variables)}
    names.update(places)
    tests = [remap(test, names.__getitem__) for test in match.tests]
    rest = [test for test in tests if test not in body.tests]
    outputs = tuple(remap(output, names.__getitem__) for output in match.outputs)
    if outputs != body.outputs or len(tests) - len(rest) != len(body.tests) or match.absences:
        return None
    return _equated(extra, rest)


def _equated(extra: Part, tests: Sequence[Scalar]) -> Absence | None:
    """The variables that the tests equate the relation's columns with, which they number from -1 down."""
    found: dict[int, Column] = {}
    for test in tests:
        match test:
            case Call(function="eq", args=(Column() as one, Column() as other)) if one.type == other.type:
                own, outer = (one, other) if one.index < 0 else (other, one)
                if own.index >= 0 or outer.index < 0 or -1 - own.index in found:
                    return None
                found[-1 - own.index] = outer
            case Column() | Fetch() | Literal() | If() | Call():
                return None
            case _:
                assert_never(test)
    if len(found) != len(extra.variables):
        return None
    return Absence(extra.rel, tuple(found[place] for place in range(len(found))))
