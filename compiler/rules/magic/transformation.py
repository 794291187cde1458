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
from kpg.compiler.rules.core import counts_repeats
from kpg.compiler.rules.magic.sips import (
    Adorned,
    Classes,
    Known,
    can_fail,
    derived,
    names,
    ordered,
    oriented,
    term_names,
)
from kpg.compiler.rules.strata import strata
from kpg.runtime.errors import NotSupportedError, Span
from kpg.runtime.records import dataclass


@dataclass(slots=True)
class Decisions:
    """What holds for the whole rewriting. ``reasons`` tell why, by relation."""

    whole: set[str] = field(default_factory=set)
    """Relations that are computed as if asked for all, by their own rules."""
    weaker: dict[Adorned, Adorned] = field(default_factory=dict)
    """What is asked by a more general adornment that is asked for anyway."""
    counting: bool = True
    """Whether what is asked for may be computed by levels."""
    reasons: dict[str, str] = field(default_factory=dict)

    def make_whole(self, relation: str, reason: str) -> bool:
        """Whether that is new."""
        new = relation not in self.whole
        self.whole.add(relation)
        self.reasons.setdefault(relation, reason)
        return new


@dataclass(frozen=True, slots=True)
class Source:
    """The program that is rewritten, with what is asked of it often."""

    program: core.Program
    members: dict[str, frozenset[str]]
    """The relations in recursion with each recursive one; of any other, none."""
    rules: dict[str, tuple[core.Rule, ...]]

    @staticmethod
    def of(program: core.Program) -> "Source":
        members: dict[str, frozenset[str]] = {}
        rules: dict[str, tuple[core.Rule, ...]] = {}
        for stratum in strata(program.relations, program.rules):
            inside = frozenset(stratum.relations) if stratum.is_recursive else frozenset[str]()
            for name in stratum.relations:
                members[name] = inside
                rules[name] = tuple(rule for rule in stratum.rules if rule.head.relation == name)
        return Source(program, members, rules)

    def relation(self, name: str) -> core.Relation:
        return self.program.relations[name]

    def is_derived(self, name: str) -> bool:
        """Whether it is a derived relation of the source."""
        relation = self.program.relations.get(name)
        return relation is not None and relation.kind is core.Kind.DERIVED

    def unstable(self, head: str, atom: str) -> frozenset[int]:
        """The columns of an atom's relation whose values are not final while the head is computed.

        They are the minima and maxima of a relation that is in recursion with the head.
        """
        if atom not in self.members[head]:
            return frozenset()
        return frozenset(place for place, f in enumerate(self.relation(atom).aggregates) if f)


@dataclass(slots=True)
class Rewriting:
    """One attempt. ``origin``: the relation of the source that each made relation is a part of."""

    source: Source
    decisions: Decisions
    relations: dict[str, core.Relation] = field(default_factory=dict)
    rules: dict[core.Rule, None] = field(default_factory=dict)
    origin: dict[str, str] = field(default_factory=dict)
    demands: dict[str, Adorned | None] = field(default_factory=dict)
    """The relations that hold demand; those of the values asked for, with what is asked."""
    asked: dict[Adorned, None] = field(default_factory=dict)
    strict: set[Adorned] = field(default_factory=set)
    """What is negated or aggregated: it is kept apart, lest it become recursive with its reader."""
    pending: list[Adorned] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    """What was done to what, in order."""
    restart: bool = False
    numbers: dict[str, int] = field(default_factory=dict)

    def classes(self, head: str) -> Classes:
        """What the relations are to a rule for ``head``."""
        program = self.source.program
        derived_ = frozenset(name for name, one in program.relations.items() if one.kind is core.Kind.DERIVED)
        return Classes(derived_ - self.decisions.whole, self.source.members[head] - self.decisions.whole)

    def make_whole(self, relation: str, reason: str) -> None:
        """Have the relation computed as a whole from the next attempt on."""
        if self.source.relation(relation).demanded:
            raise NotSupportedError(
                f"{relation} cannot be computed as a whole, but {reason}",
                hint="bind its columns in its rules",
            )
        self.restart |= self.decisions.make_whole(relation, reason)

    def ask(self, adorned: Adorned) -> Adorned:
        """The adornment by which that is asked, whose rules will be made."""
        adorned = self.decisions.weaker.get(adorned, adorned)
        if adorned not in self.asked:
            self.asked[adorned] = None
            self.pending.append(adorned)
            columns = self.source.relation(adorned.relation).columns
            self.make(adorned.made("demand"), adorned.given(columns), adorned.relation)
            self.demands[adorned.made("demand")] = adorned
            whole = self.source.relation(adorned.relation)
            self.relations[adorned.name] = derived(adorned.name, whole.columns, whole)
            self.origin[adorned.name] = adorned.relation
        return adorned

    def make(
        self, name: str, columns: Sequence[core.Column], origin: str, *, is_demand: bool = False
    ) -> None:
        """Declare a relation of the rewritten program; one that grows with what is asked ``is_demand``."""
        self.relations[name] = derived(name, columns)
        self.origin[name] = origin
        if is_demand:
            self.demands[name] = None

    def add(
        self, relation: str, terms: Sequence[core.Term], body: Sequence[core.Literal], span: Span
    ) -> None:
        """Add a rule, unless its head is an atom of its body or the same rule is there."""
        head = core.Head(relation, _head_terms(terms), span)
        itself = core.Atom(relation, tuple(terms), span)
        body = [one for one in body if not self._is_implied(one, body)]
        if itself not in body:
            self.rules.setdefault(core.Rule(head, oriented(body), span))

    def _is_implied(self, literal: core.Literal, body: Sequence[core.Literal]) -> bool:
        """Whether a literal is demand for what an atom of the body, a demanded tuple, has."""
        adorned = self.demands.get(literal.relation) if isinstance(literal, core.Atom) else None
        return adorned is not None and any(
            isinstance(one, core.Atom)
            and one.relation == adorned.name
            and isinstance(literal, core.Atom)
            and adorned.given(one.terms) == literal.terms
            for one in body
        )

    def number(self, what: str) -> int:
        """1, 2... for each kind of name."""
        self.numbers[what] = self.numbers.get(what, 0) + 1
        return self.numbers[what]


def _head_terms(terms: Sequence[core.Term]) -> tuple[core.HeadTerm, ...]:
    found = tuple(term for term in terms if isinstance(term, core.Variable | core.Constant))
    assert len(found) == len(terms), terms
    return found


def costly(prefix: Sequence[core.Literal]) -> int:
    """How many literals of a prefix are work to evaluate, the guard included."""
    return sum(1 for one in prefix if not isinstance(one, core.Comparison | core.Assignment))


def used(literals: Sequence[core.Literal], terms: Sequence[core.Term]) -> frozenset[str]:
    """The variables of literals and terms."""
    return names(literals) | {term.name for term in terms if isinstance(term, core.Variable)}


WORTH_KEEPING = 3
"""The literals of a prefix, its guard included, from which on it is kept rather than computed twice."""


@dataclass(frozen=True, slots=True)
class Task:
    """A rule to be made: ``head :- guard, body``. ``guard`` has what demand binds; None if the body does."""

    source: core.Rule
    """The rule that it is made of."""
    relation: str
    terms: tuple[core.Term, ...]
    guard: core.Atom | None
    body: tuple[core.Literal, ...]
    weak: frozenset[str] = frozenset()
    """The guard's variables that demand alone has bound."""


def rewrite_rule(rewriting: Rewriting, task: Task) -> None:
    """Add the task's rule to the rewriting, and those that make demand for its derived atoms."""
    _Walk(rewriting, task).run()


@dataclass(slots=True)
class _Walk:
    rewriting: Rewriting
    task: Task
    known: Known = field(default_factory=Known)
    prefix: list[core.Literal] = field(default_factory=list)
    """What is evaluated so far."""
    stable: list[core.Literal] = field(default_factory=list)
    """That as demand may use it: without what depends on values that are not final or can fail, and without
    negations that make demand themselves, lest demand depend on its own negation.
    """
    shaky: set[str] = field(default_factory=set)
    """The variables that only such literals bind."""

    @property
    def head(self) -> str:
        """The relation of the source that the rule is for."""
        return self.task.source.head.relation

    def run(self) -> None:
        task = self.task
        if task.guard is not None:
            self.prefix.append(task.guard)
            self.stable.append(task.guard)
            guarded = term_names(task.guard.terms)
            self.known.bound |= guarded
            self.known.passable |= guarded
            self.known.strong |= guarded - task.weak
        left = list(task.body)
        for literal in ordered(task.body, self.known, self.rewriting.classes(self.head)):
            left.remove(literal)
            self.step(literal, left)
        self.rewriting.add(task.relation, task.terms, self.prefix, task.source.span)

    def step(self, literal: core.Literal, left: Sequence[core.Literal]) -> None:
        """Evaluate a literal, having asked for what it needs."""
        match literal:
            case core.Atom():
                self._atom(literal, left)
            case core.Negation(atom=atom) if self._restricts(atom):
                self.prefix.append(core.Negation(self._asked(atom, strict=True)))
            case core.BodyAggregate():
                self._append(replace(literal, body=self._inner(literal)))
            case core.Negation() | core.Comparison() | core.Assignment():
                self._append(literal)
            case _:
                assert_never(literal)

    def _append(self, literal: core.Literal) -> None:
        self.prefix.append(literal)
        mentioned = names([literal])
        if mentioned & self.shaky or can_fail(literal):
            self.shaky |= mentioned - names(self.stable)
        else:
            self.stable.append(literal)

    def _atom(self, atom: core.Atom, left: Sequence[core.Literal]) -> None:
        if self._restricts(atom) and self._has_two_readers(left):
            self._keep_prefix([atom, *left])
        asked = self._asked(atom)
        moving = self.rewriting.source.unstable(self.head, atom.relation)
        if not moving:
            self._append(asked)
            return
        self.prefix.append(asked)
        terms = tuple(
            core.Wildcard(term.type) if place in moving else term for place, term in enumerate(asked.terms)
        )
        if not term_names(terms) & self.shaky:
            self.stable.append(replace(asked, terms=terms))
        self.shaky |= term_names(asked.terms) - names(self.stable)

    def _has_two_readers(self, left: Sequence[core.Literal]) -> bool:
        """Whether the prefix is worth keeping for the demand that it makes and for the rule itself."""
        functions = self.rewriting.source.relation(self.head).aggregates
        counts = counts_repeats(functions)
        rest = [one for one in self.prefix if one not in self.stable]
        plain = all(isinstance(one, core.Negation) for one in rest)
        return costly(self.stable) >= WORTH_KEEPING and plain and not counts

    def _keep_prefix(self, left: Sequence[core.Literal]) -> None:
        """Replace the prefix, but for negations that demand does not use, by a relation of its bindings."""
        rest = [one for one in self.prefix if one not in self.stable]
        needed = used([*left, *rest], self.task.terms)
        kept = {v.name: v for one in self.stable for v in core.literal_variables(one) if v.name in needed}
        number = self.rewriting.number(self.task.relation)
        name = f"part {number} of {self.task.relation}"
        columns = [_column(variable) for variable in kept.values()]
        self.rewriting.make(name, columns, self.head)
        terms = tuple(kept.values())
        span = self.task.source.span
        self.rewriting.add(name, terms, self.stable, span)
        self.rewriting.notes.append((name, "keeps bindings that both demand and the rule need"))
        self.stable = [core.Atom(name, terms, span)]
        self.prefix = [*self.stable, *rest]

    def _restricts(self, atom: core.Atom) -> bool:
        """Whether demand will be made for the atom."""
        return self.rewriting.source.is_derived(atom.relation) and (
            atom.relation not in self.rewriting.decisions.whole
        )

    def _asked(self, atom: core.Atom, *, strict: bool = False) -> core.Atom:
        """The atom over the tuples that are asked for by what is bound before it.

        ``strict``: the atom is negated or aggregated.
        """
        if not self._restricts(atom):
            return atom
        relation = self.rewriting.source.relation(atom.relation)
        passable = self.known.passable & names(self.stable)
        bound = tuple(
            _is_given(term, passable | (self.known.bound if place in relation.demanded else set()))
            and not (relation.aggregates and relation.aggregates[place])
            for place, term in enumerate(atom.terms)
        )
        if any(not bound[place] for place in relation.demanded):
            self._refuse(relation, atom.span)
        if not any(bound):
            self.rewriting.make_whole(atom.relation, f"it is asked for as a whole in a rule for {self.head}")
            return atom
        adorned = self.rewriting.ask(Adorned(atom.relation, bound))
        if strict:
            self.rewriting.strict.add(adorned)
        demand = adorned.given(atom.terms)
        self.rewriting.add(adorned.made("demand"), demand, self.stable, atom.span)
        return core.Atom(adorned.name, atom.terms, atom.span)

    def _refuse(self, relation: core.Relation, span: Span) -> None:
        missing = ", ".join(relation.columns[place].name for place in sorted(relation.demanded))
        raise NotSupportedError(
            f"{relation.name} is used where {missing} has no value",
            hint=f"{relation.name} can be asked only with values for them",
            span=span,
        )

    def _inner(self, aggregate: core.BodyAggregate) -> tuple[core.Literal, ...]:
        """The body of an aggregate over what is asked for by its groups and by what is bound inside."""
        inside = _Walk(self.rewriting, self.task)
        groups = term_names(aggregate.groups)
        inside.known = self.known.limited(groups)
        inside.stable = list(self.stable)
        inside.shaky = set(self.shaky)
        inside.prefix = []
        classes = self.rewriting.classes(self.head)
        for literal in ordered(aggregate.body, inside.known, classes):
            if isinstance(literal, core.Atom):
                inside._append(inside._asked(literal, strict=True))
            else:
                inside.step(literal, ())
        return tuple(inside.prefix)


def _is_given(term: core.Term, bound: set[str]) -> bool:
    return isinstance(term, core.Constant) or (isinstance(term, core.Variable) and term.name in bound)


def _column(variable: core.Variable) -> core.Column:
    type_ = core.ValueType(str(variable.type), core.Domain.SQL, variable.type)
    return core.Column(variable.name, type_, variable.type)
