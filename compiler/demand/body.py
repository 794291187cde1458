"""The body of a rule, before it has names."""

from kpg.compiler.algebra.rel import Rel
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Scalar


@dataclass(frozen=True, slots=True)
class Part:
    """An atom: the rows of ``rel``, its columns called by the numbers of variables.

    ``rel`` is a LocalGet of a relation with rules, or anything that is computed without rules.
    """

    rel: Rel
    variables: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Absence:
    """A negated atom: ``rel``, which is computed without rules, has no row with the variables' values."""

    rel: Rel
    variables: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Body:
    """The bindings of the parts' variables that satisfy the tests, with the scalars that they give.

    ``Column(index)`` of a scalar is a variable.
    """

    parts: tuple[Part, ...]
    tests: tuple[Scalar, ...]
    outputs: tuple[Scalar, ...]
    absences: tuple[Absence, ...] = ()
