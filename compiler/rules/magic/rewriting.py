"""The state of one rewriting: what has been decided, what is still to be rewritten, and what was made.

A decision that turns out wrong (a relation has to be there as a whole after all) is noted in ``Decisions``
and the rewriting starts again; decisions only ever grow, so that ends.
"""

from collections.abc import Sequence
from dataclasses import field

from kpg.compiler.rules import core
from kpg.compiler.rules.magic.adornment import Adorned, derived
from kpg.compiler.rules.magic.literals import names, oriented
from kpg.compiler.rules.magic.sips import Classes
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
