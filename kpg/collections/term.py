"""Terms: the graph that collections build, where each term is a future plan node over other terms.

A term belongs to the innermost scope of its inputs. So a term that does not depend on a loop
variable is computed outside the loop and enters it. ``build_plan`` translates terms into a plan.
``plan_as_term`` wraps a compiled plan as a term, so that a view that is not materialized can serve
as a collection.
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

NodeFactory = Callable[[Sequence[plan.Ref]], plan.AnyNode]
"""Makes a plan node, given the positions of the term's inputs."""


class Scope(Protocol):
    """A loop's scope, as terms see it."""

    parent: "Scope | None"
    limit: int | None
    error_at_limit: bool

    @property
    def variables(self) -> "Sequence[VariableTerm]":
        """The recursive collections."""

    @property
    def exit_terms(self) -> "Sequence[Term]":
        """The terms that leave the loop."""

    @property
    def results(self) -> "Sequence[Term]":
        """The result of each variable, then the terms that leave.

        Raises InterfaceError while the block is open.
        """

    @property
    def output_terms(self) -> "Sequence[Term]":
        """The terms that outputs read inside the loop."""


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """A future plan node. ``types`` are those of its rows, ``scope`` is its loop, None outside all loops."""

    inputs: "tuple[Term, ...]"
    types: tuple[Type, ...]
    make: NodeFactory
    scope: Scope | None
    relation: str | None = None
    """The table or view that the term reads."""
    input: InputHandle | None = None
    """The input that the term reads. The reference keeps it alive."""

    @classmethod
    def over(cls, inputs: "Sequence[Term]", types: Sequence[Type], make: NodeFactory) -> "Term":
        """Return a term in the innermost scope of its inputs. InterfaceError if these are not nested."""
        return cls(tuple(inputs), tuple(types), make, innermost_scope([term.scope for term in inputs]))


@dataclass(frozen=True, slots=True, eq=False)
class EnterTerm(Term):
    """A term of the enclosing scope that enters a loop explicitly."""


@dataclass(frozen=True, slots=True, eq=False)
class VariableTerm(Term):
    """Recursive collection ``index`` of its scope. Its input, if there is one, is the initial value."""

    index: int = field(default=0, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class LeaveTerm(Term):
    """A collection that leaves a loop, number ``result``, in the enclosing scope."""

    loop: "Scope" = field(kw_only=True)
    result: int = field(default=0, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class LoopTerm(Term):
    """A loop itself, in the enclosing scope, for the outputs inside it."""

    loop: "Scope" = field(kw_only=True)


def leaf_terms(term: Term) -> Iterator[Term]:
    """Yield the terms without inputs that a term depends on, each once. A loop depends on all its results."""
    visited: set[Term] = set()
    stack = [term]
    while stack:
        current = stack.pop()
        if current in visited:
            continue
        visited.add(current)
        stack.extend(current.inputs)
        if isinstance(current, LeaveTerm | LoopTerm):
            loop = current.loop
            stack.extend((*loop.variables, *loop.results, *loop.output_terms))
        elif not current.inputs:
            yield current


def loop_depth(scope: Scope | None) -> int:
    """Return the number of enclosing loops."""
    count = 0
    while scope is not None:
        scope, count = scope.parent, count + 1
    return count


def innermost_scope(scopes: Sequence[Scope | None]) -> Scope | None:
    """Return the deepest scope, which all others must enclose. Raises InterfaceError otherwise."""
    deepest = max(scopes, key=loop_depth, default=None)
    scopes_around = enclosing_scopes(deepest)
    for scope in scopes:
        if scope is not None and not any(scope is other for other in scopes_around):
            raise InterfaceError(
                "collections of two loops, neither of which is inside the other, cannot be combined",
                hint="leave() one of the loops first",
            )
    return deepest


def enclosing_scopes(scope: Scope | None) -> list[Scope]:
    """Return the scope and those that enclose it, innermost first."""
    scopes = []
    while scope is not None:
        scopes.append(scope)
        scope = scope.parent
    return scopes


@dataclass(slots=True, eq=False)
class PlanBuilder:
    """The node list of a plan, or of the body of the loop ``scope``. Equal nodes are merged."""

    scope: Scope | None = None
    outer: "PlanBuilder | None" = None
    nodes: list[plan.AnyNode] = field(default_factory=list)
    _refs: dict[plan.AnyNode, Ref] = field(default_factory=dict)
    _terms: dict[Term, Ref] = field(default_factory=dict)
    _loops: dict[Scope, Ref] = field(default_factory=dict)

    def add(self, node: plan.AnyNode) -> Ref:
        """Add a node unless there is an equal one, and return its position."""
        ref = self._refs.get(node)
        if ref is None:
            ref = self._refs[node] = len(self.nodes)
            self.nodes.append(node)
        return ref

    def ref(self, term: Term) -> Ref:
        """Return the position of a term, adding it and its inputs as needed."""
        stack = [term]
        while stack:
            current = stack[-1]
            missing = [] if current in self._terms else self._missing_inputs(current)
            if missing:
                stack += missing
                continue
            stack.pop()
            if current not in self._terms:
                if isinstance(current, LoopTerm):
                    self._terms[current] = self._loop_ref(current.loop)
                else:
                    self._terms[current] = self.add(self._make_node(current))
        return self._terms[term]

    def _is_in_scope(self, term: Term) -> bool:
        return term.scope is self.scope

    def _missing_inputs(self, term: Term) -> list[Term]:
        """Return the inputs in this list that have no position yet."""
        if not self._is_in_scope(term) or isinstance(term, (LeaveTerm, EnterTerm, LoopTerm)):
            return []
        return [source for source in reversed(term.inputs) if source not in self._terms]

    def _make_node(self, term: Term) -> plan.AnyNode:
        if not self._is_in_scope(term):
            return self._enter(term)
        if isinstance(term, EnterTerm):
            return self._enter(term.inputs[0])
        if isinstance(term, LeaveTerm):
            return plan.Leave(self._loop_ref(term.loop), len(term.loop.variables) + term.result)
        return term.make([self._terms[source] for source in term.inputs])

    def _enter(self, term: Term) -> plan.AnyNode:
        if self.outer is None:
            raise InternalError("a collection of a loop is read outside of it")
        return plan.Enter(self.outer.ref(term))

    def _loop_ref(self, scope: Scope) -> Ref:
        """Return the position of a loop, with all its results."""
        ref = self._loops.get(scope)
        if ref is None:
            body = PlanBuilder(scope, self)
            for variable in scope.variables:
                body.ref(variable)
            results = tuple(body.ref(result) for result in scope.results)
            for output_term in scope.output_terms:
                body.ref(output_term)
            node = plan.Loop(tuple(body.nodes), results, scope.limit, scope.error_at_limit)
            ref = self._loops[scope] = self.add(node)
            # A reader of one result keeps all of them: a result without a reader could not be hydrated later.
            for result in range(len(scope.exit_terms)):
                self.add(plan.Leave(ref, len(scope.variables) + result))
        return ref


def build_plan(term: Term) -> Plan:
    """Return the plan of a term outside loops."""
    builder = PlanBuilder()
    output = builder.ref(term)
    return Plan(tuple(builder.nodes), output)


def variable_term(index: int, types: Sequence[Type], initial: Term | None, scope: Scope) -> VariableTerm:
    """Return recursive collection ``index`` of a scope."""
    inputs = () if initial is None else (initial,)

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return plan.Variable(index, tuple(types), refs[0] if refs else None)

    return VariableTerm(inputs, tuple(types), make, scope, index=index)


def plan_as_term(source: Plan, types: Sequence[Type]) -> Term:
    """Return the output of a plan, rows of ``types``, as a term.

    Its nodes are shared as those of any plan.
    """
    terms_by_ref: dict[Ref, Term] = {}
    for ref, node in enumerate(source.nodes):
        inputs = plan.inputs(node)
        relation = None
        if isinstance(node, plan.Source):
            relation = node.table
        elif isinstance(node, plan.Import):
            relation = node.view
        row = tuple(types) if ref == source.output else ()
        terms = tuple(terms_by_ref[input_ref] for input_ref in inputs)
        terms_by_ref[ref] = Term(terms, row, _node_factory(node, inputs), None, relation=relation)
    return terms_by_ref[source.output]


def _node_factory(node: plan.AnyNode, inputs: tuple[Ref, ...]) -> NodeFactory:
    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return plan.renumber_inputs(node, dict(zip(inputs, refs, strict=True)).__getitem__)

    return make
