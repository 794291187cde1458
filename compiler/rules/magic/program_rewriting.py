"""Magic sets for a whole program: a seed table of goals, demand relations and rewritten rules.

:func:`prepare` chooses a strategy per goal. The choice affects cost only, never the answer. A
relation that cannot be restricted, or is not worth it, is computed in full and looked up.

:func:`break_cycles` keeps the program stratified. A negated or aggregated relation that would
become recursive with its reader is computed in full, from its own rules (the labelled copy of
Balbin, Port, Ramamohanarao and Meenakshi, JLP 1991). So is a relation with aggregated columns
that would join a recursion that the source program does not have (Alviano et al., TPLP 2019).

:func:`origins` finds the stored columns that hold every value of a column. :func:`is_finite`
returns whether a program is certain to end for all facts. :func:`restrict_program` applies demand inside
a program. The outputs are computed in full, as is any relation that they read in full, and their
rules demand the rest.
"""

import enum
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from kpg.compiler.rules import core
from kpg.compiler.rules.core import Limit, is_monotone, rule_text
from kpg.compiler.rules.magic.linear_recursion import (
    DEEP,
    CountingRules,
    classify_rules,
    closure_rules,
    find_counting_rules,
    rewrite_counting,
    rewrite_linear,
)
from kpg.compiler.rules.magic.rule_rewriting import Decisions, Rewriting, SourceProgram, Task, rewrite_rule
from kpg.compiler.rules.magic.sips import AdornedRelation, derived_relation, term_names
from kpg.compiler.rules.strata import dependencies, reachable, strata, successors
from kpg.runtime.errors import NotSupportedError, Span
from kpg.runtime.records import dataclass


def break_cycles(rewriting: Rewriting) -> None:
    """Break cycles through negation or aggregation: compute a relation in full, and restart the rewriting.

    Only the lowest relation is decided per attempt, because other cycles may vanish without its
    demand.
    """
    found: dict[str, str] = {}
    for stratum in strata(rewriting.relations, tuple(rewriting.rules)):
        if stratum.is_recursive:
            members = set(stratum.relations)
            for rule in stratum.rules:
                for atom, use in core.atoms(rule.body):
                    if atom.relation in members:
                        found |= _stratification_violations(rewriting, rule.head.relation, atom.relation, use)
    if found and any(name.startswith(f"{DEEP} ") for name in found):
        rewriting.decisions.allows_counting = False
        rewriting.restart = True
    elif found:
        lowest = next(name for name in rewriting.source.members if name in found)
        rewriting.compute_in_full(lowest, found[lowest])


def _stratification_violations(rewriting: Rewriting, head: str, atom: str, use: str) -> dict[str, str]:
    """Return relations whose demand breaks stratification at a recursive atom, with the reasons."""
    found: dict[str, str] = {}
    if use:
        name = atom if atom.startswith(f"{DEEP} ") else rewriting.origin[atom]
        found[name] = f"demand for it would make {use} recursive"
    functions = {f for f in rewriting.relations[head].aggregates if f}
    relation = rewriting.origin[head]
    allowed = (
        all(map(is_monotone, functions)) and rewriting.origin[atom] in rewriting.source.members[relation]
    )
    if functions and not allowed:
        found[relation] = "demand for it would make its aggregate recursive"
    return found


NOWHERE = Span("", 0, 0)


@dataclass(frozen=True, slots=True)
class Options:
    """The allowed rewrites.

    ``use_counting`` decides whether counting is used for a relation.
    """

    use_counting: Callable[[CountingRules], bool]
    linear: bool = True
    limit: int = 1024


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """A finished rewriting.

    ``adorned`` is the relation of the demanded tuples, or None if it is computed in full.
    """

    rewriting: Rewriting
    adorned: AdornedRelation | None


def rewrite(
    source: SourceProgram, goal: AdornedRelation, seed: core.Relation, decisions: Decisions, options: Options
) -> RewriteResult:
    """Return the rules that answer the goal for the rows of the seed.

    ``decisions`` grow as attempts fail.
    """
    while True:
        rewriting = Rewriting(source, decisions)
        rewriting.relations[seed.name] = seed
        rewriting.origin[seed.name] = goal.relation
        if goal.relation in decisions.full:
            return RewriteResult(rewriting, None)
        adorned = _attempt(rewriting, goal, seed, options)
        if not rewriting.restart:
            generalize_adornments(rewriting)
        if not rewriting.restart:
            break_cycles(rewriting)
        if not rewriting.restart:
            return RewriteResult(rewriting, adorned)


def _attempt(
    rewriting: Rewriting, goal: AdornedRelation, seed: core.Relation, options: Options
) -> AdornedRelation:
    counting_rules = find_counting_rules(rewriting, goal) if rewriting.decisions.allows_counting else None
    counted = counting_rules is not None and options.use_counting(counting_rules)
    adorned = rewriting.add_demanded(
        AdornedRelation(goal.relation, goal.bound, " by level") if counted else goal
    )
    columns = rewriting.source.relation(goal.relation).columns
    terms = tuple(core.Variable(f"@ask{i}", column.type.type) for i, column in enumerate(columns))
    seed_atom = core.Atom(seed.name, goal.bound_items(terms), NOWHERE)
    rewriting.add_rule(adorned.auxiliary_name("demand"), adorned.bound_items(terms), [seed_atom], NOWHERE)
    if counted and counting_rules is not None:
        rewriting.pending.remove(adorned)
        rewrite_counting(rewriting, adorned, counting_rules, options.limit)
    while rewriting.pending:
        define_adorned(rewriting, rewriting.pending.pop(0), options)
    return adorned


def define_adorned(rewriting: Rewriting, adorned: AdornedRelation, options: Options) -> None:
    """Add the rules for an adorned relation."""
    closure = closure_rules(rewriting, adorned) if options.linear else None
    rules = classify_rules(rewriting, adorned) if options.linear and closure is None else None
    if rules is not None:
        rewrite_linear(rewriting, adorned, rules)
        return
    for rule in closure or rewriting.source.rules[adorned.relation]:
        bound_terms = adorned.bound_items(rule.head.terms)
        guard = core.Atom(adorned.auxiliary_name("demand"), bound_terms, rule.span)
        rewrite_rule(
            rewriting, Task(rule, adorned.name, rule.head.terms, guard, rule.body, term_names(bound_terms))
        )
    how = "magic sets" if closure is None else "a transitive closure, from the demanded values"
    rewriting.notes.append((adorned.name, how))


def generalize_adornments(rewriting: Rewriting) -> None:
    """Replace adornments by more general ones that are demanded anyway (Tekle and Liu, SIGMOD 2011)."""
    for adorned in rewriting.adorned:
        covers = [other for other in rewriting.adorned if other.covers(adorned)]
        if covers and not adorned.variant and adorned not in rewriting.strict:
            most = min(covers, key=lambda other: other.bound.count(True))
            rewriting.decisions.generalized[adorned] = most
            rewriting.restart = True


ColumnRef = tuple[str, int]
"""A column: its relation and position."""


def origins(program: core.Program, relation: str, column: int) -> frozenset[ColumnRef] | None:
    """Return stored columns that together hold every value of a column, except constants of rules.

    Returns None if rules compute values for it.
    """
    rules: dict[str, list[core.Rule]] = {}
    for rule in program.rules:
        rules.setdefault(rule.head.relation, []).append(rule)
    found: set[ColumnRef] = set()
    seen: set[ColumnRef] = set()
    pending: list[ColumnRef] = [(relation, column)]
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
                above = _source_column(program, rule, term.name)
                if above is None:
                    return None
                pending.append(above)
    return frozenset(found)


def _source_column(program: core.Program, rule: core.Rule, variable: str) -> ColumnRef | None:
    """Return a body column that holds all values of a variable, a stored one if there is one."""
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
    """Return whether no recursion of the program computes values, so that it ends for all facts."""
    return not any(
        isinstance(literal, core.Assignment | core.BodyAggregate)
        for stratum in strata(program.relations, program.rules)
        if stratum.is_recursive
        for rule in stratum.rules
        for literal in rule.body
    )


EXCLUDE: Final = "magic-transform-exclude"
"""Pragma that names relations to compute in full, or ``*`` for all."""


Steps = tuple[str, tuple[int, ...], tuple[int, ...]]
"""An input relation, the columns from which a step starts, and those to which it leads."""


class Strategy(enum.Enum):
    """The evaluation strategy of a goal."""

    LOOKUP = "looked up in what is there"
    FULL = "computed as a whole and looked up"
    LINEAR = "from what is asked, by left- or right-linear rules"
    COUNTING = "from what is asked, by levels"
    MAGIC = "from what is asked, by magic sets"


@dataclass(frozen=True, slots=True)
class Policy:
    """Inputs for the choice of strategy, in addition to the program.

    ``materialized``: derived relations that are materialized. ``full_reason``: the reason to compute
    the goal's relation in full, or empty. ``rows``: known sizes of inputs. ``acyclic``: inputs
    without cycles, seen as edges from some columns to others (:func:`counting_steps`). ``min_rows``:
    programs over fewer rows are computed in full. ``max_levels``: maximum level of counting, or None
    to disable it. ``count_always``: use counting even if cycles are possible.
    """

    materialized: frozenset[str] = frozenset()
    full_reason: str = ""
    rows: Mapping[str, int] = field(default_factory=dict)
    acyclic: Container[Steps | None] = frozenset()
    min_rows: int = 0
    max_levels: int | None = 1024
    count_always: bool = False
    linear: bool = True


@dataclass(frozen=True, slots=True)
class Explanation:
    """The content of EXPLAIN MAGIC: the strategy with its reason, the notes on relations, and the rules."""

    strategy: Strategy
    reason: str
    notes: tuple[tuple[str, str], ...]
    """Relations of the source or rewritten program, each with what was done and why."""
    rules: tuple[str, ...]

    def text(self) -> str:
        """Return the explanation as text, one item per line."""
        lines = [f"{self.strategy.value}: {self.reason}" if self.reason else self.strategy.value]
        lines += [f"  {name}: {what}" for name, what in self.notes]
        return "\n".join((*lines, *self.rules)) + "\n"


@dataclass(frozen=True, slots=True)
class GoalProgram:
    """A program that answers goals.

    ``bound``: the columns that goals bind, without aggregated ones. ``seed``: the input that has a
    distinct row of these columns per goal, or None if there are none. ``answer``: the relation with
    the answers for all rows of the seed, in the columns of the goal's relation. ``demands``:
    relations whose sizes measure the demand. ``derived_demands``: those of them to which rules add
    demand beyond the seed, with the source relation and its bound columns.
    """

    program: core.Program
    bound: tuple[bool, ...]
    seed: str | None
    answer: str
    strategy: Strategy
    demands: tuple[str, ...]
    explanation: Explanation
    derived_demands: tuple[tuple[str, str, tuple[bool, ...]], ...] = ()


def prepare(
    program: core.Program, relation: str, bound: Sequence[bool], policy: Policy | None = None
) -> GoalProgram:
    """Return the program for goals that bind the ``bound`` columns of a relation.

    Raises NotSupportedError if a column is not bound that every goal of the relation must bind.
    """
    policy = policy or Policy()
    target = program.relations[relation]
    missing = [target.columns[place].name for place in sorted(target.required_bindings) if not bound[place]]
    if missing:
        raise NotSupportedError(f"{relation} can be asked only with values for {', '.join(missing)}")
    restrictable = [not (target.aggregates and target.aggregates[place]) for place in range(len(bound))]
    goal = AdornedRelation(
        relation, tuple(one and able for one, able in zip(bound, restrictable, strict=True))
    )
    if target.kind is not core.Kind.DERIVED or relation in policy.materialized:
        return _full_program(program, goal, Strategy.LOOKUP, "")
    reason = _reason_for_full(program, goal, policy)
    if reason and not target.required_bindings:
        return _full_program(program, goal, Strategy.FULL, reason)
    source = SourceProgram.create(program)
    decisions = initial_decisions(source, policy.materialized)
    seed = _seed(target, goal)
    result = rewrite(source, goal, seed, decisions, _options(program, policy))
    if result.adorned is None:
        return _full_program(program, goal, Strategy.FULL, decisions.reasons.get(relation, ""))
    return _goal_program(source, goal, result.rewriting, result.adorned, seed)


def _reason_for_full(program: core.Program, goal: AdornedRelation, policy: Policy) -> str:
    """Return the reason to compute the relation in full, or an empty string."""
    if not any(goal.bound):
        return "the goal binds no column that can be restricted"
    if policy.full_reason:
        return policy.full_reason
    below = dependency_closure(program, {goal.relation})
    sizes = [policy.rows.get(name) for name in below if program.relations[name].kind is not core.Kind.DERIVED]
    total = sum(size for size in sizes if size is not None)
    if None not in sizes and total < policy.min_rows:
        return f"there are only {total} rows in what it is computed from"
    return ""


def initial_decisions(source: SourceProgram, materialized: frozenset[str] = frozenset()) -> Decisions:
    """Return the decisions with the relations that are always computed in full."""
    decisions = Decisions()
    excluded = {name.strip() for name in source.program.pragmas.get(EXCLUDE, "").split(",")}
    for name, relation in source.program.relations.items():
        if relation.kind is not core.Kind.DERIVED or relation.required_bindings:
            continue
        if relation.magic is False or name in excluded or "*" in excluded:
            decisions.compute_in_full(name, "the program asks for no magic")
        elif relation.selection is not None or _is_limited(source, name):
            decisions.compute_in_full(name, "its selection depends on all of its tuples")
        elif name in materialized:
            decisions.compute_in_full(name, "it is there already")
        elif any(rule.plan for rule in source.rules[name]):
            decisions.compute_in_full(name, "its rules have a .plan")
    return decisions


def _is_limited(source: SourceProgram, name: str) -> bool:
    """Return whether a relation is computed in rounds that may end early."""
    members = source.members[name]
    return any(isinstance(source.relation(member).selection, Limit) for member in members)


def _options(program: core.Program, policy: Policy) -> Options:
    def by_levels(counting_rules: CountingRules) -> bool:
        return policy.max_levels is not None and (
            policy.count_always or _steps(program, counting_rules) in policy.acyclic
        )

    return Options(by_levels, policy.linear, policy.max_levels or 1)


def counting_steps(program: core.Program, relation: str, bound: Sequence[bool]) -> Steps | None:
    """Return the input steps that must be acyclic for counting, as in ``Policy.acyclic``.

    Returns None if counting is impossible, or if the steps are not a single atom of an input.
    """
    if program.relations[relation].kind is not core.Kind.DERIVED:
        return None
    rewriting = Rewriting(SourceProgram.create(program), Decisions())
    counting_rules = find_counting_rules(rewriting, AdornedRelation(relation, tuple(bound)))
    return None if counting_rules is None else _steps(program, counting_rules)


def _steps(program: core.Program, counting_rules: CountingRules) -> Steps | None:
    """Return the upward half as steps of an input, or None if it is not a single atom of one."""
    if len(counting_rules.up) != 1 or not isinstance(counting_rules.up[0], core.Atom):
        return None
    atom = counting_rules.up[0]
    if program.relations[atom.relation].kind is core.Kind.DERIVED:
        return None
    head, inner = term_names(counting_rules.head_terms), term_names(counting_rules.inner_terms)
    names = [term.name if isinstance(term, core.Variable) else "" for term in atom.terms]
    start = tuple(place for place, name in enumerate(names) if name in head)
    end = tuple(place for place, name in enumerate(names) if name in inner)
    return atom.relation, start, end


def _seed(target: core.Relation, goal: AdornedRelation) -> core.Relation:
    columns = tuple(
        core.Column(column.name, column.type, column.type.type) for column in goal.bound_items(target.columns)
    )
    return core.Relation(goal.auxiliary_name("seed"), columns, core.Kind.INPUT, None)


def _answer_rule(goal: AdornedRelation, relation: core.Relation, source: str, seed: str | None) -> core.Rule:
    """Return the rule for the tuples of ``source`` that match the rows of the seed."""
    terms = tuple(core.Variable(column.name, column.type.type) for column in relation.columns)
    body = [core.Atom(source, terms, NOWHERE)]
    if seed is not None:
        body.insert(0, core.Atom(seed, goal.bound_items(terms), NOWHERE))
    return core.Rule(core.Head(goal.auxiliary_name("answer"), terms, NOWHERE), tuple(body), NOWHERE)


def _full_program(
    program: core.Program, goal: AdornedRelation, strategy: Strategy, reason: str
) -> GoalProgram:
    """Return the unchanged rules, with a relation of the goal's tuples."""
    relation = program.relations[goal.relation]
    seed = _seed(relation, goal) if any(goal.bound) else None
    rule = _answer_rule(goal, relation, goal.relation, None if seed is None else seed.name)
    answer = derived_relation(rule.head.relation, relation.columns)
    added = {one.name: one for one in (answer, seed) if one is not None}
    below = dependency_closure(program, {goal.relation})
    relations = {name: one for name, one in program.relations.items() if name in below} | added
    rules = tuple(one for one in program.rules if one.head.relation in below)
    whole = _replace_rules(program, relations, (*rules, rule))
    explanation = Explanation(strategy, reason, (), (rule_text(rule),))
    return GoalProgram(
        whole, goal.bound, None if seed is None else seed.name, answer.name, strategy, (), explanation
    )


def _goal_program(
    source: SourceProgram,
    goal: AdornedRelation,
    rewriting: Rewriting,
    adorned: AdornedRelation,
    seed: core.Relation,
) -> GoalProgram:
    """Return the rewritten rules, with the rules of the relations that are computed in full."""
    relation = source.relation(goal.relation)
    rules_made = list(rewriting.rules)
    answer = adorned.name
    if not _is_seeded(rewriting, adorned, goal):
        rules_made.append(_answer_rule(goal, relation, adorned.name, seed.name))
        answer = rules_made[-1].head.relation
    read = {atom.relation for one in rules_made for atom, _ in core.atoms(one.body)}
    below = dependency_closure(source.program, read & set(source.program.relations))
    relations = {name: one for name, one in source.program.relations.items() if name in below}
    relations |= rewriting.relations
    relations.setdefault(answer, derived_relation(answer, relation.columns))
    copied = tuple(one for one in source.program.rules if one.head.relation in below)
    program = _replace_rules(source.program, relations, (*copied, *rules_made))
    whole = [(name, why) for name, why in rewriting.decisions.reasons.items() if name in below]
    weaker = [
        (special.name, f"asked by {general.name}, which is asked for too")
        for special, general in rewriting.decisions.generalized.items()
    ]
    strategy = _strategy(rewriting, adorned)
    rules = tuple(rule_text(one, relations[one.head.relation]) for one in rules_made)
    explanation = Explanation(strategy, "", (*rewriting.notes, *weaker, *whole), rules)
    spreading = _derived_demands(rewriting, seed.name)
    demands = tuple(rewriting.demands)
    return GoalProgram(program, goal.bound, seed.name, answer, strategy, demands, explanation, spreading)


def _derived_demands(rewriting: Rewriting, seed: str) -> tuple[tuple[str, str, tuple[bool, ...]], ...]:
    """Return the demand relations to which rules add demand, as ``GoalProgram.derived_demands``."""
    derived_relations = {
        rule.head.relation
        for rule in rewriting.rules
        if any(atom.relation != seed for atom, _ in core.atoms(rule.body))
    }
    return tuple(
        (name, adorned.relation, adorned.bound)
        for name, adorned in rewriting.demands.items()
        if adorned is not None and name in derived_relations
    )


def _is_seeded(rewriting: Rewriting, adorned: AdornedRelation, goal: AdornedRelation) -> bool:
    """Return whether only the seed produces demand, so that the demanded tuples are the answer."""
    rules = [rule for rule in rewriting.rules if rule.head.relation == adorned.auxiliary_name("demand")]
    return len(rules) == 1 and adorned.bound == goal.bound


def _strategy(rewriting: Rewriting, adorned: AdornedRelation) -> Strategy:
    if adorned.variant:
        return Strategy.COUNTING
    return Strategy.LINEAR if adorned.auxiliary_name("context") in rewriting.relations else Strategy.MAGIC


def _replace_rules(
    program: core.Program, relations: Mapping[str, core.Relation], rules: tuple[core.Rule, ...]
) -> core.Program:
    """Return the program with these relations and rules, and the facts of its inputs."""
    facts = {name: rows for name, rows in program.facts.items() if name in relations}
    return replace(
        program, relations=relations, rules=rules, facts=facts, goals=(), queries=(), updates=(), transfers=()
    )


def dependency_closure(program: core.Program, roots: set[str]) -> set[str]:
    """Return the roots and all relations that they depend on."""
    reads = successors(program.relations, dependencies(program.rules))
    return reachable(reads, roots)


TRANSFORM: Final = "magic-transform"
"""Pragma that names relations to restrict to what the outputs need, or ``*`` for all."""


def restrict_program(program: core.Program, outputs: Sequence[str]) -> core.Program | None:
    """Restrict relations of the program to the tuples that the outputs need.

    Returns None if the program does not request it, or if nothing can be restricted.
    """
    chosen = _restrictable_relations(program)
    if not chosen:
        return None
    below = dependency_closure(program, set(outputs))
    if not chosen & below or any(program.relations[name].required_bindings for name in below):
        return None
    source = SourceProgram.create(program)
    decisions = initial_decisions(source)
    for name in below:
        if name in outputs:
            decisions.compute_in_full(name, "it is an output")
        elif name not in chosen:
            decisions.compute_in_full(name, "the program asks for no magic")
    try:
        rewriting = _rewrite_outputs(source, decisions, outputs)
    except NotSupportedError:
        return None
    return None if not rewriting.adorned else _rewritten_program(program, rewriting, outputs)


def _restrictable_relations(program: core.Program) -> frozenset[str]:
    """Return the derived relations whose restriction the program requests."""
    listed = {name.strip() for name in program.pragmas.get(TRANSFORM, "").split(",")}
    return frozenset(
        name
        for name, relation in program.relations.items()
        if relation.kind is core.Kind.DERIVED and (relation.magic or name in listed or "*" in listed)
    )


def _rewrite_outputs(source: SourceProgram, decisions: Decisions, outputs: Iterable[str]) -> Rewriting:
    options = Options(lambda _: False)
    while True:
        rewriting = Rewriting(source, decisions)
        rewritten: set[str] = set()
        pending = list(outputs)
        while pending or rewriting.pending:
            for name in pending:
                rewritten.add(name)
                _rewrite_in_full(rewriting, name)
            while rewriting.pending:
                define_adorned(rewriting, rewriting.pending.pop(0), options)
            read = {atom.relation for rule in rewriting.rules for atom, _ in core.atoms(rule.body)}
            pending = [
                name for name in source.members if name in read - rewritten and source.is_derived(name)
            ]
        if not rewriting.restart:
            generalize_adornments(rewriting)
        if not rewriting.restart:
            break_cycles(rewriting)
        if not rewriting.restart:
            _break_full_cycles(rewriting)
        if not rewriting.restart:
            return rewriting


def _rewrite_in_full(rewriting: Rewriting, name: str) -> None:
    """Add the rules of a relation that is computed in full, and the demand of their bodies."""
    source = rewriting.source
    rewriting.relations[name] = source.relation(name)
    rewriting.origin[name] = name
    together = source.members[name] | {name}
    by_rounds = any(source.relation(one).selection is not None for one in together)
    for rule in source.rules[name]:
        if not by_rounds and not rule.plan:
            rewrite_rule(rewriting, Task(rule, name, rule.head.terms, None, rule.body))
            continue
        # The selection depends on the rounds, so these rules stay unchanged.
        for atom, _ in core.atoms(rule.body):
            if source.is_derived(atom.relation):
                rewriting.compute_in_full(atom.relation, f"it is asked for as a whole in a rule for {name}")
        rewriting.rules.setdefault(rule)


def _break_full_cycles(rewriting: Rewriting) -> None:
    """Compute relations in full where demand would still make a negation or aggregate recursive."""
    for stratum in strata(rewriting.relations, tuple(rewriting.rules)):
        members = set(stratum.relations)
        if not stratum.is_recursive or not any(
            _breaks_stratification(rewriting, rule, members, atom.relation, use)
            for rule in stratum.rules
            for atom, use in core.atoms(rule.body)
        ):
            continue
        for name in sorted({rewriting.origin[member] for member in members} - rewriting.decisions.full):
            rewriting.compute_in_full(name, "demand for it would make a negation or aggregate recursive")


def _breaks_stratification(
    rewriting: Rewriting, rule: core.Rule, members: set[str], atom: str, use: str
) -> bool:
    if atom not in members:
        return False
    head = rewriting.relations[rule.head.relation]
    functions = {function for function in head.aggregates if function}
    inside = rewriting.source.members[rewriting.origin[head.name]]
    is_allowed = all(map(is_monotone, functions)) and rewriting.origin[atom] in inside
    return bool(use) or (bool(functions) and not is_allowed) or (head.selection is not None and not inside)


def _rewritten_program(program: core.Program, rewriting: Rewriting, outputs: Iterable[str]) -> core.Program:
    """Return the program of the new rules, and the relations that they mention."""
    rules = tuple(rewriting.rules)
    read = {atom.relation for rule in rules for atom, _ in core.atoms(rule.body)}
    relations = {name: one for name, one in program.relations.items() if name in read or name in set(outputs)}
    return replace(program, relations=relations | rewriting.relations, rules=rules)
