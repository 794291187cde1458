"""Magic sets rewriting of one rule: literals in binding order, demand derived before each derived atom.

Supplementary relations are made only for a prefix of at least two literals with two readers (Bancilhon,
Maier, Sagiv, Ullman, PODS 1986; Beeri, Ramakrishnan, JLP 1991).

:class:`Rewriting` is the state of one attempt. A decision that proves wrong, for example that a relation must
be computed as a whole after all, is recorded in ``Decisions`` and the rewriting restarts. Decisions only
grow, so this terminates.
"""

from collections.abc import Sequence
from dataclasses import field, replace
from typing import assert_never

from kpg.compiler.rules import core
from kpg.compiler.rules.core import is_duplicate_sensitive
from kpg.compiler.rules.magic.sips import (
    AdornedRelation,
    BindingState,
    RelationClasses,
    can_fail,
    derived_relation,
    names,
    order_literals,
    orient_equalities,
    term_names,
)
from kpg.compiler.rules.strata import strata
from kpg.runtime.errors import NotSupportedError, Span
from kpg.runtime.records import dataclass


@dataclass(slots=True)
class Decisions:
    """Decisions for the whole rewriting, with ``reasons`` by relation."""

    full: set[str] = field(default_factory=set)
    """Relations that are computed in full, by their own rules."""
    generalized: dict[AdornedRelation, AdornedRelation] = field(default_factory=dict)
    """Adornments replaced by more general ones that are demanded anyway."""
    allows_counting: bool = True
    """Whether counting may be used."""
    reasons: dict[str, str] = field(default_factory=dict)

    def compute_in_full(self, relation: str, reason: str) -> bool:
        """Decide to compute a relation in full, and return whether that is new."""
        new = relation not in self.full
        self.full.add(relation)
        self.reasons.setdefault(relation, reason)
        return new


@dataclass(frozen=True, slots=True)
class SourceProgram:
    """The source program, indexed by relation."""

    program: core.Program
    members: dict[str, frozenset[str]]
    """Relations in recursion with each recursive relation, empty for any other."""
    rules: dict[str, tuple[core.Rule, ...]]

    @staticmethod
    def create(program: core.Program) -> "SourceProgram":
        members: dict[str, frozenset[str]] = {}
        rules: dict[str, tuple[core.Rule, ...]] = {}
        for stratum in strata(program.relations, program.rules):
            inside = frozenset(stratum.relations) if stratum.is_recursive else frozenset[str]()
            for name in stratum.relations:
                members[name] = inside
                rules[name] = tuple(rule for rule in stratum.rules if rule.head.relation == name)
        return SourceProgram(program, members, rules)

    def relation(self, name: str) -> core.Relation:
        return self.program.relations[name]

    def is_derived(self, name: str) -> bool:
        """Return whether the name is a derived relation of the source."""
        relation = self.program.relations.get(name)
        return relation is not None and relation.kind is core.Kind.DERIVED

    def unstable_columns(self, head: str, atom: str) -> frozenset[int]:
        """Return the columns of an atom's relation whose values are not final while the head is computed.

        These are the minima and maxima of a relation in recursion with the head.
        """
        if atom not in self.members[head]:
            return frozenset()
        return frozenset(place for place, f in enumerate(self.relation(atom).aggregates) if f)


@dataclass(slots=True)
class Rewriting:
    """One attempt at the rewriting.

    ``origin`` maps each new relation to the source relation it is a part of.
    """

    source: SourceProgram
    decisions: Decisions
    relations: dict[str, core.Relation] = field(default_factory=dict)
    rules: dict[core.Rule, None] = field(default_factory=dict)
    origin: dict[str, str] = field(default_factory=dict)
    demands: dict[str, AdornedRelation | None] = field(default_factory=dict)
    """Demand relations; each maps to the adorned relation it restricts, or None for an auxiliary one."""
    adorned: dict[AdornedRelation, None] = field(default_factory=dict)
    strict: set[AdornedRelation] = field(default_factory=set)
    """Negated or aggregated relations, which keep their own adornment so as not to become recursive."""
    pending: list[AdornedRelation] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    """Notes on relations, in order."""
    restart: bool = False
    numbers: dict[str, int] = field(default_factory=dict)

    def classes(self, head: str) -> RelationClasses:
        """Return the classes of relations for a rule of ``head``."""
        program = self.source.program
        derived_ = frozenset(name for name, one in program.relations.items() if one.kind is core.Kind.DERIVED)
        return RelationClasses(
            derived_ - self.decisions.full, self.source.members[head] - self.decisions.full
        )

    def compute_in_full(self, relation: str, reason: str) -> None:
        """Compute the relation in full from the next attempt on."""
        if self.source.relation(relation).required_bindings:
            raise NotSupportedError(
                f"{relation} cannot be computed as a whole, but {reason}",
                hint="bind its columns in its rules",
            )
        self.restart |= self.decisions.compute_in_full(relation, reason)

    def add_demanded(self, adorned: AdornedRelation) -> AdornedRelation:
        """Return the adorned relation, or its generalization, and schedule the making of its rules."""
        adorned = self.decisions.generalized.get(adorned, adorned)
        if adorned not in self.adorned:
            self.adorned[adorned] = None
            self.pending.append(adorned)
            columns = self.source.relation(adorned.relation).columns
            self.declare(adorned.auxiliary_name("demand"), adorned.bound_items(columns), adorned.relation)
            self.demands[adorned.auxiliary_name("demand")] = adorned
            whole = self.source.relation(adorned.relation)
            self.relations[adorned.name] = derived_relation(adorned.name, whole.columns, whole)
            self.origin[adorned.name] = adorned.relation
        return adorned

    def declare(
        self, name: str, columns: Sequence[core.Column], origin: str, *, is_demand: bool = False
    ) -> None:
        """Declare a relation of the rewritten program.

        ``is_demand`` if its size grows with the demand.
        """
        self.relations[name] = derived_relation(name, columns)
        self.origin[name] = origin
        if is_demand:
            self.demands[name] = None

    def add_rule(
        self, relation: str, terms: Sequence[core.Term], body: Sequence[core.Literal], span: Span
    ) -> None:
        """Add a rule, unless its head is an atom of its body or an equal rule exists."""
        head = core.Head(relation, _head_terms(terms), span)
        itself = core.Atom(relation, tuple(terms), span)
        body = [literal for literal in body if not self._is_implied(literal, body)]
        if itself not in body:
            self.rules.setdefault(core.Rule(head, orient_equalities(body), span))

    def _is_implied(self, literal: core.Literal, body: Sequence[core.Literal]) -> bool:
        """Return whether a literal is a demand atom that a demanded tuple of the body implies."""
        adorned = self.demands.get(literal.relation) if isinstance(literal, core.Atom) else None
        return adorned is not None and any(
            isinstance(other, core.Atom)
            and other.relation == adorned.name
            and isinstance(literal, core.Atom)
            and adorned.bound_items(other.terms) == literal.terms
            for other in body
        )

    def next_number(self, kind: str) -> int:
        """Return the next number for a kind of name, from 1."""
        self.numbers[kind] = self.numbers.get(kind, 0) + 1
        return self.numbers[kind]


def _head_terms(terms: Sequence[core.Term]) -> tuple[core.HeadTerm, ...]:
    found = tuple(term for term in terms if isinstance(term, core.Variable | core.Constant))
    assert len(found) == len(terms), terms
    return found


def count_costly(prefix: Sequence[core.Literal]) -> int:
    """Return the number of literals of a prefix that need a lookup, including the guard."""
    return sum(1 for literal in prefix if not isinstance(literal, core.Comparison | core.Assignment))


def variables_of(literals: Sequence[core.Literal], terms: Sequence[core.Term]) -> frozenset[str]:
    """Return the variables of literals and terms."""
    return names(literals) | {term.name for term in terms if isinstance(term, core.Variable)}


MIN_SUPPLEMENTARY_LITERALS = 3
"""Minimum number of literals, including the guard, of a prefix that is stored and not computed twice."""


@dataclass(frozen=True, slots=True)
class Task:
    """A rule to add: ``head :- guard, body``.

    ``guard`` has the bindings by demand, or is None if there are none.
    """

    source: core.Rule
    """Source rule from which it is made."""
    relation: str
    terms: tuple[core.Term, ...]
    guard: core.Atom | None
    body: tuple[core.Literal, ...]
    weak: frozenset[str] = frozenset()
    """Variables of the guard that only demand has bound."""


def rewrite_rule(rewriting: Rewriting, task: Task) -> None:
    """Add the task's rule to the rewriting, and the rules that derive demand for its atoms."""
    _RuleRewriter(rewriting, task).rewrite()


@dataclass(slots=True)
class _RuleRewriter:
    rewriting: Rewriting
    task: Task
    state: BindingState = field(default_factory=BindingState)
    prefix: list[core.Literal] = field(default_factory=list)
    """Literals evaluated so far."""
    stable: list[core.Literal] = field(default_factory=list)
    """Literals of the prefix that demand may use.

    Literals that can fail, or that depend on values that are not final, are excluded. So are
    negations with demand of their own, because demand would depend on its own negation.
    """
    unstable: set[str] = field(default_factory=set)
    """Variables that only excluded literals bind."""

    @property
    def head(self) -> str:
        """Source relation that the rule defines."""
        return self.task.source.head.relation

    def rewrite(self) -> None:
        task = self.task
        if task.guard is not None:
            self.prefix.append(task.guard)
            self.stable.append(task.guard)
            guarded = term_names(task.guard.terms)
            self.state.bound |= guarded
            self.state.passable |= guarded
            self.state.strong |= guarded - task.weak
        remaining = list(task.body)
        for literal in order_literals(task.body, self.state, self.rewriting.classes(self.head)):
            remaining.remove(literal)
            self.add_literal(literal, remaining)
        self.rewriting.add_rule(task.relation, task.terms, self.prefix, task.source.span)

    def add_literal(self, literal: core.Literal, remaining: Sequence[core.Literal]) -> None:
        """Append a literal to the prefix, after adding demand for what it reads."""
        match literal:
            case core.Atom():
                self._add_atom(literal, remaining)
            case core.Negation(atom=atom) if self._is_restricted(atom):
                self.prefix.append(core.Negation(self._add_demand(atom, strict=True)))
            case core.BodyAggregate():
                self._append(replace(literal, body=self._rewrite_aggregate_body(literal)))
            case core.Negation() | core.Comparison() | core.Assignment():
                self._append(literal)
            case _:
                assert_never(literal)

    def _append(self, literal: core.Literal) -> None:
        self.prefix.append(literal)
        mentioned = names([literal])
        if mentioned & self.unstable or can_fail(literal):
            self.unstable |= mentioned - names(self.stable)
        else:
            self.stable.append(literal)

    def _add_atom(self, atom: core.Atom, remaining: Sequence[core.Literal]) -> None:
        if self._is_restricted(atom) and self._is_worth_storing(remaining):
            self._store_prefix([atom, *remaining])
        adorned = self._add_demand(atom)
        unstable_columns = self.rewriting.source.unstable_columns(self.head, atom.relation)
        if not unstable_columns:
            self._append(adorned)
            return
        self.prefix.append(adorned)
        terms = tuple(
            core.Wildcard(term.type) if place in unstable_columns else term
            for place, term in enumerate(adorned.terms)
        )
        if not term_names(terms) & self.unstable:
            self.stable.append(replace(adorned, terms=terms))
        self.unstable |= term_names(adorned.terms) - names(self.stable)

    def _is_worth_storing(self, remaining: Sequence[core.Literal]) -> bool:
        """Return whether the prefix is worth storing for both the demand and the rule."""
        functions = self.rewriting.source.relation(self.head).aggregates
        counts = is_duplicate_sensitive(functions)
        rest = [literal for literal in self.prefix if literal not in self.stable]
        plain = all(isinstance(literal, core.Negation) for literal in rest)
        return count_costly(self.stable) >= MIN_SUPPLEMENTARY_LITERALS and plain and not counts

    def _store_prefix(self, remaining: Sequence[core.Literal]) -> None:
        """Replace the prefix, except negations that demand does not use, by a supplementary relation."""
        rest = [literal for literal in self.prefix if literal not in self.stable]
        needed = variables_of([*remaining, *rest], self.task.terms)
        stored = {
            v.name: v for literal in self.stable for v in core.literal_variables(literal) if v.name in needed
        }
        number = self.rewriting.next_number(self.task.relation)
        name = f"part {number} of {self.task.relation}"
        columns = [_column(variable) for variable in stored.values()]
        self.rewriting.declare(name, columns, self.head)
        terms = tuple(stored.values())
        span = self.task.source.span
        self.rewriting.add_rule(name, terms, self.stable, span)
        self.rewriting.notes.append((name, "stores bindings that both demand and the rule read"))
        self.stable = [core.Atom(name, terms, span)]
        self.prefix = [*self.stable, *rest]

    def _is_restricted(self, atom: core.Atom) -> bool:
        """Return whether demand is derived for the atom."""
        return self.rewriting.source.is_derived(atom.relation) and (
            atom.relation not in self.rewriting.decisions.full
        )

    def _add_demand(self, atom: core.Atom, *, strict: bool = False) -> core.Atom:
        """Return the atom over demanded tuples, and add the rule that derives its demand from the prefix.

        ``strict``: the atom is negated or aggregated.
        """
        if not self._is_restricted(atom):
            return atom
        relation = self.rewriting.source.relation(atom.relation)
        passable = self.state.passable & names(self.stable)
        bound = tuple(
            _is_bound(term, passable | (self.state.bound if place in relation.required_bindings else set()))
            and not (relation.aggregates and relation.aggregates[place])
            for place, term in enumerate(atom.terms)
        )
        if any(not bound[place] for place in relation.required_bindings):
            self._raise_unbound(relation, atom.span)
        if not any(bound):
            self.rewriting.compute_in_full(
                atom.relation, f"it is asked for as a whole in a rule for {self.head}"
            )
            return atom
        adorned = self.rewriting.add_demanded(AdornedRelation(atom.relation, bound))
        if strict:
            self.rewriting.strict.add(adorned)
        demand = adorned.bound_items(atom.terms)
        self.rewriting.add_rule(adorned.auxiliary_name("demand"), demand, self.stable, atom.span)
        return core.Atom(adorned.name, atom.terms, atom.span)

    def _raise_unbound(self, relation: core.Relation, span: Span) -> None:
        missing = ", ".join(relation.columns[place].name for place in sorted(relation.required_bindings))
        raise NotSupportedError(
            f"{relation.name} is used where {missing} has no value",
            hint=f"{relation.name} can be asked only with values for them",
            span=span,
        )

    def _rewrite_aggregate_body(self, aggregate: core.BodyAggregate) -> tuple[core.Literal, ...]:
        """Return the body of an aggregate over the tuples demanded by its groups and by its own literals."""
        inside = _RuleRewriter(self.rewriting, self.task)
        groups = term_names(aggregate.groups)
        inside.state = self.state.restrict_to(groups)
        inside.stable = list(self.stable)
        inside.unstable = set(self.unstable)
        inside.prefix = []
        classes = self.rewriting.classes(self.head)
        for literal in order_literals(aggregate.body, inside.state, classes):
            if isinstance(literal, core.Atom):
                inside._append(inside._add_demand(literal, strict=True))
            else:
                inside.add_literal(literal, ())
        return tuple(inside.prefix)


def _is_bound(term: core.Term, bound: set[str]) -> bool:
    return isinstance(term, core.Constant) or (isinstance(term, core.Variable) and term.name in bound)


def _column(variable: core.Variable) -> core.Column:
    type_ = core.ValueType(str(variable.type), core.Domain.SQL, variable.type)
    return core.Column(variable.name, type_, variable.type)
