"""Magic sets for a whole program: a seed table of goals, demand relations and the rules that answer them.

:func:`prepare` chooses a strategy per goal. The choice affects cost only, never the answer: a relation that
cannot be restricted, or is not worth it, is computed as a whole and looked up.

:func:`break_cycles` keeps the program stratified. A negated or aggregated relation that would become
recursive with its reader is computed as a whole, from its own rules (the labelled copy of Balbin, Port,
Ramamohanarao and Meenakshi, JLP 1991). So is a relation with aggregated columns that would join a recursion
that the source program does not have (Alviano et al., TPLP 2019).

:func:`origins` finds the stored columns that hold every value of a column. :func:`is_finite` tells whether a
relation is certain to be finite. :func:`restricted` applies demand inside a program: the outputs are computed
as a whole, as is any relation that they read as a whole, and their rules demand the rest.
"""

import enum
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from kpg.compiler.rules import core
from kpg.compiler.rules.core import Limit, in_recursion, rule_text
from kpg.compiler.rules.magic.linear_recursion import (
    DEEP,
    Levelled,
    classified,
    closure_rules,
    levelled,
    rewrite_levelled,
    rewrite_linear,
)
from kpg.compiler.rules.magic.sips import Adorned, derived, term_names
from kpg.compiler.rules.magic.transformation import Decisions, Rewriting, Source, Task, rewrite_rule
from kpg.compiler.rules.strata import dependencies, reachable, strata, successors
from kpg.runtime.errors import NotSupportedError, Span
from kpg.runtime.records import dataclass


def break_cycles(rewriting: Rewriting) -> None:
    """Where there is such a cycle, decide what to compute as a whole, and have the rewriting start again.

    One relation at a time, the lowest first: without demand for that, there may be no other cycle.
    """
    found: dict[str, str] = {}
    for stratum in strata(rewriting.relations, tuple(rewriting.rules)):
        if stratum.is_recursive:
            members = set(stratum.relations)
            for rule in stratum.rules:
                for atom, use in core.atoms(rule.body):
                    if atom.relation in members:
                        found |= _broken(rewriting, rule.head.relation, atom.relation, use)
    if found and any(name.startswith(f"{DEEP} ") for name in found):
        rewriting.decisions.counting = False
        rewriting.restart = True
    elif found:
        lowest = next(name for name in rewriting.source.members if name in found)
        rewriting.make_whole(lowest, found[lowest])


def _broken(rewriting: Rewriting, head: str, atom: str, use: str) -> dict[str, str]:
    """What is wrong with an atom in recursion with the head of its rule: relations, with reasons."""
    found: dict[str, str] = {}
    if use:
        name = atom if atom.startswith(f"{DEEP} ") else rewriting.origin[atom]
        found[name] = f"demand for it would make {use} recursive"
    functions = {f for f in rewriting.relations[head].aggregates if f}
    relation = rewriting.origin[head]
    allowed = (
        all(map(in_recursion, functions)) and rewriting.origin[atom] in rewriting.source.members[relation]
    )
    if functions and not allowed:
        found[relation] = "demand for it would make its aggregate recursive"
    return found


NOWHERE = Span("", 0, 0)


@dataclass(frozen=True, slots=True)
class Options:
    """What rewrites may be used. ``by_levels`` decides for a relation that can be computed by levels."""

    by_levels: Callable[[Levelled], bool]
    linear: bool = True
    limit: int = 1024


@dataclass(frozen=True, slots=True)
class Result:
    """A finished rewriting: what ``asked`` names holds the demanded tuples; whole, if it is None."""

    rewriting: Rewriting
    asked: Adorned | None


def rewrite(
    source: Source, goal: Adorned, seed: core.Relation, decisions: Decisions, options: Options
) -> Result:
    """The rules that answer the goal for the rows of the seed, under decisions that grow as needed."""
    while True:
        rewriting = Rewriting(source, decisions)
        rewriting.relations[seed.name] = seed
        rewriting.origin[seed.name] = goal.relation
        if goal.relation in decisions.whole:
            return Result(rewriting, None)
        asked = _attempt(rewriting, goal, seed, options)
        if not rewriting.restart:
            weaken(rewriting)
        if not rewriting.restart:
            break_cycles(rewriting)
        if not rewriting.restart:
            return Result(rewriting, asked)


def _attempt(rewriting: Rewriting, goal: Adorned, seed: core.Relation, options: Options) -> Adorned:
    found = levelled(rewriting, goal) if rewriting.decisions.counting else None
    counted = found is not None and options.by_levels(found)
    asked = rewriting.ask(Adorned(goal.relation, goal.bound, " by level") if counted else goal)
    columns = rewriting.source.relation(goal.relation).columns
    terms = tuple(core.Variable(f"@ask{i}", column.type.type) for i, column in enumerate(columns))
    given = core.Atom(seed.name, goal.given(terms), NOWHERE)
    rewriting.add(asked.made("demand"), asked.given(terms), [given], NOWHERE)
    if counted and found is not None:
        rewriting.pending.remove(asked)
        rewrite_levelled(rewriting, asked, found, options.limit)
    while rewriting.pending:
        define(rewriting, rewriting.pending.pop(0), options)
    return asked


def define(rewriting: Rewriting, adorned: Adorned, options: Options) -> None:
    """The rules for an adorned relation."""
    closure = closure_rules(rewriting, adorned) if options.linear else None
    rules = classified(rewriting, adorned) if options.linear and closure is None else None
    if rules is not None:
        rewrite_linear(rewriting, adorned, rules)
        return
    for rule in closure or rewriting.source.rules[adorned.relation]:
        given = adorned.given(rule.head.terms)
        guard = core.Atom(adorned.made("demand"), given, rule.span)
        rewrite_rule(
            rewriting, Task(rule, adorned.name, rule.head.terms, guard, rule.body, term_names(given))
        )
    how = "magic sets" if closure is None else "a closure, from what is asked on"
    rewriting.notes.append((adorned.name, how))


def weaken(rewriting: Rewriting) -> None:
    """What a more general adornment covers is asked by that: Tekle and Liu, SIGMOD 2011."""
    for one in rewriting.asked:
        covers = [other for other in rewriting.asked if other.covers(one)]
        if covers and not one.variant and one not in rewriting.strict:
            most = min(covers, key=lambda other: other.bound.count(True))
            rewriting.decisions.weaker[one] = most
            rewriting.restart = True


Place = tuple[str, int]
"""A column: its relation and position."""


def origins(program: core.Program, relation: str, column: int) -> frozenset[Place] | None:
    """Stored columns that have, all together, every value that a column can have but for constants of rules.

    None if rules compute values for it.
    """
    rules: dict[str, list[core.Rule]] = {}
    for rule in program.rules:
        rules.setdefault(rule.head.relation, []).append(rule)
    found: set[Place] = set()
    seen: set[Place] = set()
    pending: list[Place] = [(relation, column)]
    while pending:
        place = pending.pop()
        if place in seen:
            continue
        seen.add(place)
        name, position = place
        if program.relations[name].kind is not core.Kind.DERIVED:
            found.add(place)
            continue
        for rule in rules.get(name, ()):
            term = rule.head.terms[position]
            if isinstance(term, core.Variable):
                above = _bound_by(program, rule, term.name)
                if above is None:
                    return None
                pending.append(above)
    return frozenset(found)


def _bound_by(program: core.Program, rule: core.Rule, variable: str) -> Place | None:
    """A column that has all values of a variable of the body: a stored one if there is one."""
    places = [
        (one.relation, place)
        for one in rule.body
        if isinstance(one, core.Atom)
        for place, term in enumerate(one.terms)
        if isinstance(term, core.Variable) and term.name == variable
    ]
    stored = (one for one in places if program.relations[one[0]].kind is not core.Kind.DERIVED)
    return next(stored, places[0] if places else None)


def is_finite(program: core.Program) -> bool:
    """Whether no recursion of the program computes values, so that it ends whatever the facts are."""
    return not any(
        isinstance(one, core.Assignment | core.BodyAggregate)
        for stratum in strata(program.relations, program.rules)
        if stratum.is_recursive
        for rule in stratum.rules
        for one in rule.body
    )


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


TRANSFORM: Final = "magic-transform"
"""The pragma that names relations of which only what outputs need is to be derived, ``*`` being all."""


def restricted(program: core.Program, outputs: Sequence[str]) -> core.Program | None:
    """The program that has the outputs as they are, and of other relations what the outputs need.

    None if the program does not ask for that, or if there is nothing to leave out.
    """
    chosen = _chosen(program)
    if not chosen:
        return None
    below = needed(program, set(outputs))
    if not chosen & below or any(program.relations[name].demanded for name in below):
        return None
    source = Source.of(program)
    decisions = computed_whole(source)
    for name in below:
        if name in outputs:
            decisions.make_whole(name, "it is an output")
        elif name not in chosen:
            decisions.make_whole(name, "the program asks for no magic")
    try:
        rewriting = _rewritten(source, decisions, outputs)
    except NotSupportedError:
        return None
    return None if not rewriting.asked else _program(program, rewriting, outputs)


def _chosen(program: core.Program) -> frozenset[str]:
    """The derived relations that the program wants restricted."""
    listed = {name.strip() for name in program.pragmas.get(TRANSFORM, "").split(",")}
    return frozenset(
        name
        for name, relation in program.relations.items()
        if relation.kind is core.Kind.DERIVED and (relation.magic or name in listed or "*" in listed)
    )


def _rewritten(source: Source, decisions: Decisions, outputs: Iterable[str]) -> Rewriting:
    options = Options(lambda _: False)
    while True:
        rewriting = Rewriting(source, decisions)
        done: set[str] = set()
        pending = list(outputs)
        while pending or rewriting.pending:
            for name in pending:
                done.add(name)
                _whole(rewriting, name)
            while rewriting.pending:
                define(rewriting, rewriting.pending.pop(0), options)
            read = {atom.relation for rule in rewriting.rules for atom, _ in core.atoms(rule.body)}
            pending = [name for name in source.members if name in read - done and source.is_derived(name)]
        if not rewriting.restart:
            weaken(rewriting)
        if not rewriting.restart:
            break_cycles(rewriting)
        if not rewriting.restart:
            _keep_apart(rewriting)
        if not rewriting.restart:
            return rewriting


def _whole(rewriting: Rewriting, name: str) -> None:
    """The rules of a relation that is computed as a whole, over what they ask for."""
    source = rewriting.source
    rewriting.relations[name] = source.relation(name)
    rewriting.origin[name] = name
    together = source.members[name] | {name}
    by_rounds = any(source.relation(one).selection is not None for one in together)
    for rule in source.rules[name]:
        if not by_rounds and not rule.plan:
            rewrite_rule(rewriting, Task(rule, name, rule.head.terms, None, rule.body))
            continue
        # What is kept depends on the rounds, so these stay as they are.
        for atom, _ in core.atoms(rule.body):
            if source.is_derived(atom.relation):
                rewriting.make_whole(atom.relation, f"it is asked for as a whole in a rule for {name}")
        rewriting.rules.setdefault(rule)


def _keep_apart(rewriting: Rewriting) -> None:
    """Where demand still makes a negation or aggregate of a whole relation recursive, make no demand."""
    for stratum in strata(rewriting.relations, tuple(rewriting.rules)):
        members = set(stratum.relations)
        if not stratum.is_recursive or not any(
            _is_broken(rewriting, rule, members, atom.relation, use)
            for rule in stratum.rules
            for atom, use in core.atoms(rule.body)
        ):
            continue
        for name in sorted({rewriting.origin[one] for one in members} - rewriting.decisions.whole):
            rewriting.make_whole(name, "demand for it would make a negation or aggregate recursive")


def _is_broken(rewriting: Rewriting, rule: core.Rule, members: set[str], atom: str, use: str) -> bool:
    if atom not in members:
        return False
    head = rewriting.relations[rule.head.relation]
    functions = {function for function in head.aggregates if function}
    inside = rewriting.source.members[rewriting.origin[head.name]]
    lawful = all(map(in_recursion, functions)) and rewriting.origin[atom] in inside
    return bool(use) or (bool(functions) and not lawful) or (head.selection is not None and not inside)


def _program(program: core.Program, rewriting: Rewriting, outputs: Iterable[str]) -> core.Program:
    """The rules that were made, and the relations that they are about."""
    rules = tuple(rewriting.rules)
    read = {atom.relation for rule in rules for atom, _ in core.atoms(rule.body)}
    relations = {name: one for name, one in program.relations.items() if name in read or name in set(outputs)}
    return replace(program, relations=relations | rewriting.relations, rules=rules)
