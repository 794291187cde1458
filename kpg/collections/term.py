"""The graph that collections build: terms, each a plan node to be, over other terms.

A term lives in the innermost of its inputs' scopes: what does not depend on a variable is computed outside
of the loop and enters it, however it was written.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Protocol

from kpg.runtime import plan
from kpg.runtime.errors import InterfaceError
from kpg.runtime.handles import InputHandle
from kpg.runtime.records import dataclass
from kpg.runtime.types import Type

Make = Callable[[Sequence[plan.Ref]], plan.AnyNode]
"""A plan node over the positions of the term's inputs."""


class Level(Protocol):
    """A loop's scope, as terms see it."""

    parent: "Level | None"
    limit: int | None
    error_at_limit: bool

    @property
    def variables(self) -> "Sequence[VariableTerm]":
        """The recursive collections."""

    @property
    def left(self) -> "Sequence[Term]":
        """What leaves."""

    @property
    def results(self) -> "Sequence[Term]":
        """What each variable becomes, then what leaves."""

    @property
    def watched(self) -> "Sequence[Term]":
        """What is read inside."""


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """One node to be; ``types`` are those of its rows, ``scope`` the loop it runs in, None outside of all."""

    inputs: "tuple[Term, ...]"
    types: tuple[Type, ...]
    make: Make
    scope: Level | None
    relation: str | None = None
    """The table or view that the term reads."""
    input: InputHandle | None = None
    """The input that the term is, which is there for as long as somebody holds this."""

    @classmethod
    def over(cls, inputs: "Sequence[Term]", types: Sequence[Type], make: Make) -> "Term":
        """A term in the innermost of its inputs' scopes; InterfaceError if these are not nested."""
        return cls(tuple(inputs), tuple(types), make, innermost([term.scope for term in inputs]))


@dataclass(frozen=True, slots=True, eq=False)
class EnterTerm(Term):
    """A term of the enclosing scope, in a loop on purpose though nothing makes it depend on a variable."""


@dataclass(frozen=True, slots=True, eq=False)
class VariableTerm(Term):
    """Recursive collection ``index`` of its scope, which begins as its input, if it has one."""

    index: int = field(default=0, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class LeaveTerm(Term):
    """What leaves a loop as number ``result``, in the scope around it."""

    loop: "Level" = field(kw_only=True)
    result: int = field(default=0, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class LoopTerm(Term):
    """A loop itself, in the scope around it, for the sake of what is read inside."""

    loop: "Level" = field(kw_only=True)


def leaves(term: Term) -> Iterator[Term]:
    """The terms without inputs that a term depends on, each once; a loop depends on all it defines."""
    seen: set[Term] = set()
    stack = [term]
    while stack:
        current = stack.pop()
        if current in seen:
            continue
        seen.add(current)
        stack.extend(current.inputs)
        if isinstance(current, LeaveTerm | LoopTerm):
            loop = current.loop
            stack.extend((*loop.variables, *loop.results, *loop.watched))
        elif not current.inputs:
            yield current


def depth(scope: Level | None) -> int:
    """How many loops are around."""
    count = 0
    while scope is not None:
        scope, count = scope.parent, count + 1
    return count


def innermost(scopes: Sequence[Level | None]) -> Level | None:
    """The deepest of scopes that all enclose it; InterfaceError if there is none."""
    deepest = max(scopes, key=depth, default=None)
    around = enclosing(deepest)
    for scope in scopes:
        if scope is not None and not any(scope is other for other in around):
            raise InterfaceError(
                "collections of two loops, neither of which is inside the other, cannot be combined",
                hint="leave() one of the loops first",
            )
    return deepest


def enclosing(scope: Level | None) -> list[Level]:
    """The scope and those around it."""
    found = []
    while scope is not None:
        found.append(scope)
        scope = scope.parent
    return found
