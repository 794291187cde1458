"""Terms: the graph that collections build, where each term is a future plan node over other terms.

A term belongs to the innermost scope of its inputs. A term that does not depend on a loop variable is
therefore computed outside the loop and enters it. ``assemble`` translates terms into a plan. ``planned_term``
wraps a compiled plan as a term, so that a view that is not materialized can serve as a collection.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Protocol

from kpg.runtime import plan
from kpg.runtime.errors import InterfaceError, InternalError
from kpg.runtime.handles import InputHandle
from kpg.runtime.plan import Plan, Ref
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


@dataclass(slots=True, eq=False)
class Assembly:
    """The node list of a plan, or of the body of the loop ``scope``; equal nodes are one."""

    scope: Level | None = None
    outer: "Assembly | None" = None
    nodes: list[plan.AnyNode] = field(default_factory=list)
    _places: dict[plan.AnyNode, Ref] = field(default_factory=dict)
    _terms: dict[Term, Ref] = field(default_factory=dict)
    _loops: dict[Level, Ref] = field(default_factory=dict)

    def add(self, node: plan.AnyNode) -> Ref:
        """The node's position."""
        place = self._places.get(node)
        if place is None:
            place = self._places[node] = len(self.nodes)
            self.nodes.append(node)
        return place

    def ref(self, term: Term) -> Ref:
        """The position of a term, whose inputs come before it."""
        stack = [term]
        while stack:
            current = stack[-1]
            missing = [] if current in self._terms else self._missing(current)
            if missing:
                stack += missing
                continue
            stack.pop()
            if current not in self._terms:
                if isinstance(current, LoopTerm):
                    self._terms[current] = self._loop(current.loop)
                else:
                    self._terms[current] = self.add(self._node(current))
        return self._terms[term]

    def _here(self, term: Term) -> bool:
        return term.scope is self.scope

    def _missing(self, term: Term) -> list[Term]:
        """The inputs, in this list, that have no position yet."""
        if not self._here(term) or isinstance(term, (LeaveTerm, EnterTerm, LoopTerm)):
            return []
        return [source for source in reversed(term.inputs) if source not in self._terms]

    def _node(self, term: Term) -> plan.AnyNode:
        if not self._here(term):
            return self._entered(term)
        if isinstance(term, EnterTerm):
            return self._entered(term.inputs[0])
        if isinstance(term, LeaveTerm):
            return plan.Leave(self._loop(term.loop), len(term.loop.variables) + term.result)
        return term.make([self._terms[source] for source in term.inputs])

    def _entered(self, term: Term) -> plan.AnyNode:
        if self.outer is None:
            raise InternalError("a collection of a loop is read outside of it")
        return plan.Enter(self.outer.ref(term))

    def _loop(self, scope: Level) -> Ref:
        """The position of a loop, with all that it defines."""
        found = self._loops.get(scope)
        if found is None:
            body = Assembly(scope, self)
            for variable in scope.variables:
                body.ref(variable)
            results = tuple(body.ref(result) for result in scope.results)
            for watched in scope.watched:
                body.ref(watched)
            node = plan.Loop(tuple(body.nodes), results, scope.limit, scope.error_at_limit)
            found = self._loops[scope] = self.add(node)
            # Whoever reads one result holds all: a result that is left alone could not be filled later.
            for result in range(len(scope.left)):
                self.add(plan.Leave(found, len(scope.variables) + result))
        return found


def assemble(term: Term) -> Plan:
    """The plan of all that a term outside of loops needs."""
    assembly = Assembly()
    output = assembly.ref(term)
    return Plan(tuple(assembly.nodes), output)


def variable(index: int, types: Sequence[Type], initial: Term | None, scope: Level) -> VariableTerm:
    """Recursive collection ``index`` of a scope."""
    inputs = () if initial is None else (initial,)

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return plan.Variable(index, tuple(types), refs[0] if refs else None)

    return VariableTerm(inputs, tuple(types), make, scope, index=index)


def planned_term(source: Plan, types: Sequence[Type]) -> Term:
    """The plan's output, rows of ``types``; what others compute too is shared as the plan itself would."""
    found: dict[Ref, Term] = {}
    for ref, node in enumerate(source.nodes):
        inputs = plan.inputs(node)
        relation = None
        if isinstance(node, plan.Source):
            relation = node.table
        elif isinstance(node, plan.Import):
            relation = node.view
        row = tuple(types) if ref == source.output else ()
        terms = tuple(found[each] for each in inputs)
        found[ref] = Term(terms, row, _maker(node, inputs), None, relation=relation)
    return found[source.output]


def _maker(node: plan.AnyNode, inputs: tuple[Ref, ...]) -> Make:
    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return plan.moved(node, dict(zip(inputs, refs, strict=True)).__getitem__)

    return make
