"""Goals as data: for a relation and the columns that goals give, one program with a table of what is asked.

Which program is a matter of cost, never of the answer: what cannot be restricted, or is not worth it, is
computed as a whole and looked up.
"""

import enum
from collections.abc import Container, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from kpg.compiler.rules import core
from kpg.compiler.rules.core import Limit
from kpg.compiler.rules.magic.adornment import Adorned, derived
from kpg.compiler.rules.magic.counting import Levelled, levelled
from kpg.compiler.rules.magic.literals import term_names
from kpg.compiler.rules.magic.rewrite import NOWHERE, Options, rewrite
from kpg.compiler.rules.magic.rewriting import Decisions, Rewriting, Source
from kpg.compiler.rules.strata import dependencies, reachable, successors
from kpg.compiler.rules.text import rule_text
from kpg.runtime.errors import NotSupportedError
from kpg.runtime.records import dataclass

EXCLUDE: Final = "magic-transform-exclude"
"""The pragma that names relations to be computed as a whole, ``*`` being all."""


Steps = tuple[str, tuple[int, ...], tuple[int, ...]]
"""An input, the columns that a step starts from, and those that it leads to."""


class Strategy(enum.Enum):
    """How a goal is answered."""

    LOOKUP = "looked up in what is there"
    FULL = "computed as a whole and looked up"
    LINEAR = "from what is asked, by left- or right-linear rules"
    COUNTING = "from what is asked, by levels"
    MAGIC = "from what is asked, by magic sets"


@dataclass(frozen=True, slots=True)
class Policy:
    """What the choice of strategy depends on, besides the program.

    ``kept``: derived relations that are there already. ``whole``: why the relation asked is to be computed
    as a whole, if it is. ``rows``: sizes of inputs, as far as known.
    ``acyclic``: inputs without cycles, seen as edges from some columns to others (``steps_of_levels``).
    ``least_rows``: programs over less than that are computed as a whole. ``levels``: the greatest level of
    counting, None to leave it out; ``count_always``: even where cycles are possible.
    """

    kept: frozenset[str] = frozenset()
    whole: str = ""
    rows: Mapping[str, int] = field(default_factory=dict)
    acyclic: Container[Steps | None] = frozenset()
    least_rows: int = 0
    levels: int | None = 1024
    count_always: bool = False
    linear: bool = True


@dataclass(frozen=True, slots=True)
class Explanation:
    """What EXPLAIN MAGIC shows: the strategy with its reason, what was done to relations, and the rules."""

    strategy: Strategy
    reason: str
    notes: tuple[tuple[str, str], ...]
    """Relations of the source or of the rewritten program, with what became of them and why."""
    rules: tuple[str, ...]

    def text(self) -> str:
        """All of it, a line each."""
        lines = [f"{self.strategy.value}: {self.reason}" if self.reason else self.strategy.value]
        lines += [f"  {name}: {what}" for name, what in self.notes]
        return "\n".join((*lines, *self.rules)) + "\n"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A program that answers goals.

    ``bound``: the columns that are given; fewer than asked if some are aggregated. ``seed``: the program's
    input with a row (distinct) of these for each goal, None if there are none. ``answer``: its relation with
    the columns of the relation asked, and the tuples for all rows of the seed. ``demands``: relations whose
    sizes are the demand. ``spreading``: those of them that hold more than what is asked from outside, with
    the relation of the source and its columns that they have values for.
    """

    program: core.Program
    bound: tuple[bool, ...]
    seed: str | None
    answer: str
    strategy: Strategy
    demands: tuple[str, ...]
    explanation: Explanation
    spreading: tuple[tuple[str, str, tuple[bool, ...]], ...] = ()


def prepare(
    program: core.Program, relation: str, bound: Sequence[bool], policy: Policy | None = None
) -> Prepared:
    """The program for goals that give values for the ``bound`` columns of a relation.

    NotSupportedError if the relation can be asked only with values for columns that are not bound.
    """
    policy = policy or Policy()
    asked = program.relations[relation]
    missing = [asked.columns[place].name for place in sorted(asked.demanded) if not bound[place]]
    if missing:
        raise NotSupportedError(f"{relation} can be asked only with values for {', '.join(missing)}")
    given = [not (asked.aggregates and asked.aggregates[place]) for place in range(len(bound))]
    goal = Adorned(relation, tuple(one and able for one, able in zip(bound, given, strict=True)))
    if asked.kind is not core.Kind.DERIVED or relation in policy.kept:
        return _as_whole(program, goal, Strategy.LOOKUP, "")
    reason = _against(program, goal, policy)
    if reason and not asked.demanded:
        return _as_whole(program, goal, Strategy.FULL, reason)
    source = Source.of(program)
    decisions = computed_whole(source, policy.kept)
    seed = _seed(asked, goal)
    result = rewrite(source, goal, seed, decisions, _options(program, policy))
    if result.asked is None:
        return _as_whole(program, goal, Strategy.FULL, decisions.reasons.get(relation, ""))
    return _finished(source, goal, result.rewriting, result.asked, seed)


def _against(program: core.Program, goal: Adorned, policy: Policy) -> str:
    """Why not to restrict the computation to what is asked; nothing if there is no reason."""
    if not any(goal.bound):
        return "no column that can be restricted is given"
    if policy.whole:
        return policy.whole
    below = needed(program, {goal.relation})
    sizes = [policy.rows.get(name) for name in below if program.relations[name].kind is not core.Kind.DERIVED]
    total = sum(size for size in sizes if size is not None)
    if None not in sizes and total < policy.least_rows:
        return f"there are only {total} rows in what it is computed from"
    return ""


def computed_whole(source: Source, kept: frozenset[str] = frozenset()) -> Decisions:
    """The relations that are computed as a whole in any case."""
    decisions = Decisions()
    excluded = {name.strip() for name in source.program.pragmas.get(EXCLUDE, "").split(",")}
    for name, relation in source.program.relations.items():
        if relation.kind is not core.Kind.DERIVED or relation.demanded:
            continue
        if relation.magic is False or name in excluded or "*" in excluded:
            decisions.make_whole(name, "the program asks for no magic")
        elif relation.selection is not None or _is_limited(source, name):
            decisions.make_whole(name, "which of its tuples it keeps depends on all of them")
        elif name in kept:
            decisions.make_whole(name, "it is there already")
        elif any(rule.plan for rule in source.rules[name]):
            decisions.make_whole(name, "its rules have a .plan")
    return decisions


def _is_limited(source: Source, name: str) -> bool:
    """Whether a relation is computed by rounds that end early."""
    members = source.members[name]
    return any(isinstance(source.relation(one).selection, Limit) for one in members)


def _options(program: core.Program, policy: Policy) -> Options:
    def by_levels(found: Levelled) -> bool:
        return policy.levels is not None and (policy.count_always or _steps(program, found) in policy.acyclic)

    return Options(by_levels, policy.linear, policy.levels or 1)


def steps_of_levels(program: core.Program, relation: str, bound: Sequence[bool]) -> Steps | None:
    """What must have no cycle, as in ``Policy.acyclic``, for goals to be answered by levels.

    None if they cannot be, or if it is no input that is to be without cycles.
    """
    if program.relations[relation].kind is not core.Kind.DERIVED:
        return None
    rewriting = Rewriting(Source.of(program), Decisions())
    found = levelled(rewriting, Adorned(relation, tuple(bound)))
    return None if found is None else _steps(program, found)


def _steps(program: core.Program, found: Levelled) -> Steps | None:
    """The upward half, if it is one atom of an input: the columns it starts from and those it leads to."""
    if len(found.up) != 1 or not isinstance(found.up[0], core.Atom):
        return None
    atom = found.up[0]
    if program.relations[atom.relation].kind is core.Kind.DERIVED:
        return None
    head, inner = term_names(found.given), term_names(found.reached)
    names = [term.name if isinstance(term, core.Variable) else "" for term in atom.terms]
    start = tuple(place for place, name in enumerate(names) if name in head)
    end = tuple(place for place, name in enumerate(names) if name in inner)
    return atom.relation, start, end


def _seed(asked: core.Relation, goal: Adorned) -> core.Relation:
    columns = tuple(
        core.Column(column.name, column.type, column.type.type) for column in goal.given(asked.columns)
    )
    return core.Relation(goal.made("seed"), columns, core.Kind.INPUT, None)


def _answer_rule(goal: Adorned, relation: core.Relation, held: str, seed: str | None) -> core.Rule:
    """The tuples of ``held`` for the rows of the seed."""
    terms = tuple(core.Variable(one.name, one.type.type) for one in relation.columns)
    body = [core.Atom(held, terms, NOWHERE)]
    if seed is not None:
        body.insert(0, core.Atom(seed, goal.given(terms), NOWHERE))
    return core.Rule(core.Head(goal.made("answer"), terms, NOWHERE), tuple(body), NOWHERE)


def _as_whole(program: core.Program, goal: Adorned, strategy: Strategy, reason: str) -> Prepared:
    """The program as it is, with a relation of the tuples asked for."""
    relation = program.relations[goal.relation]
    seed = _seed(relation, goal) if any(goal.bound) else None
    rule = _answer_rule(goal, relation, goal.relation, None if seed is None else seed.name)
    answer = derived(rule.head.relation, relation.columns)
    made = {one.name: one for one in (answer, seed) if one is not None}
    below = needed(program, {goal.relation})
    relations = {name: one for name, one in program.relations.items() if name in below} | made
    rules = tuple(one for one in program.rules if one.head.relation in below)
    whole = _with(program, relations, (*rules, rule))
    shown = Explanation(strategy, reason, (), (rule_text(rule),))
    return Prepared(whole, goal.bound, None if seed is None else seed.name, answer.name, strategy, (), shown)


def _finished(
    source: Source, goal: Adorned, rewriting: Rewriting, asked: Adorned, seed: core.Relation
) -> Prepared:
    """The rewritten rules with those of the relations that are computed as a whole."""
    relation = source.relation(goal.relation)
    made = list(rewriting.rules)
    answer = asked.name
    if not _is_seeded(rewriting, asked, goal):
        made.append(_answer_rule(goal, relation, asked.name, seed.name))
        answer = made[-1].head.relation
    read = {atom.relation for one in made for atom, _ in core.atoms(one.body)}
    below = needed(source.program, read & set(source.program.relations))
    relations = {name: one for name, one in source.program.relations.items() if name in below}
    relations |= rewriting.relations
    relations.setdefault(answer, derived(answer, relation.columns))
    copied = tuple(one for one in source.program.rules if one.head.relation in below)
    program = _with(source.program, relations, (*copied, *made))
    whole = [(name, why) for name, why in rewriting.decisions.reasons.items() if name in below]
    weaker = [
        (one.name, f"asked by {wide.name}, which is asked for too")
        for one, wide in rewriting.decisions.weaker.items()
    ]
    strategy = _strategy(rewriting, asked)
    rules = tuple(rule_text(one, relations[one.head.relation]) for one in made)
    shown = Explanation(strategy, "", (*rewriting.notes, *weaker, *whole), rules)
    spreading = _spreading(rewriting, seed.name)
    demands = tuple(rewriting.demands)
    return Prepared(program, goal.bound, seed.name, answer, strategy, demands, shown, spreading)


def _spreading(rewriting: Rewriting, seed: str) -> tuple[tuple[str, str, tuple[bool, ...]], ...]:
    """The relations of values asked for that rules make values for, as ``Prepared.spreading``."""
    made = {
        rule.head.relation
        for rule in rewriting.rules
        if any(atom.relation != seed for atom, _ in core.atoms(rule.body))
    }
    return tuple(
        (name, asked.relation, asked.bound)
        for name, asked in rewriting.demands.items()
        if asked is not None and name in made
    )


def _is_seeded(rewriting: Rewriting, asked: Adorned, goal: Adorned) -> bool:
    """Whether nothing but the seed asks, so that what is asked for is the answer."""
    rules = [rule for rule in rewriting.rules if rule.head.relation == asked.made("demand")]
    return len(rules) == 1 and asked.bound == goal.bound


def _strategy(rewriting: Rewriting, asked: Adorned) -> Strategy:
    if asked.variant:
        return Strategy.COUNTING
    return Strategy.LINEAR if asked.made("context") in rewriting.relations else Strategy.MAGIC


def _with(
    program: core.Program, relations: Mapping[str, core.Relation], rules: tuple[core.Rule, ...]
) -> core.Program:
    """A program of these relations and rules, with the facts of its inputs."""
    facts = {name: rows for name, rows in program.facts.items() if name in relations}
    return replace(
        program, relations=relations, rules=rules, facts=facts, goals=(), queries=(), updates=(), transfers=()
    )


def needed(program: core.Program, roots: set[str]) -> set[str]:
    """The relations that some depend on, directly or not, and these themselves."""
    reads = successors(program.relations, dependencies(program.rules))
    return reachable(reads, roots)
