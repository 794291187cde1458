"""From terms to plans."""

from collections.abc import Sequence
from dataclasses import field

from kpg.collections.term import EnterTerm, LeaveTerm, Level, LoopTerm, Term, VariableTerm
from kpg.runtime import plan
from kpg.runtime.errors import InternalError
from kpg.runtime.plan import Plan, Ref
from kpg.runtime.records import dataclass
from kpg.runtime.types import Type


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
