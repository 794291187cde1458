"""Rewrites of linear recursion: counting, linear rules, transitive closure.

They derive less than magic sets.

*Counting* applies to ``p(x, y) :- exit(x, y). p(x, y) :- up(x, a), p(a, b), down(b, y).`` Magic
sets derive all pairs (a, b) with a above x. Counting derives (level, a) up from each demanded x,
then (level, b) down from the exits. The answers are the b at level 0. Levels do not end if ``up``
has a cycle above x. So an x that reaches ``limit`` levels is ``deep``, and magic sets answer for
it (Bancilhon et al. 1986; Saccà and Zaniolo 1986).

*Linear rules*: in a right-linear rule ``p(x, y) :- r(x, z), p(z, y)`` the answers for x are those
for z. ``context`` records which z each demanded x reaches, and only x gets answers. A left-linear
rule ``p(x, y) :- p(x, z), l(z, y)`` extends answers of any x. A relation with only such rules is
r* exit l* (Naughton, Ramakrishnan, Sagiv and Ullman 1989).

*Transitive closure*: ``p(x, y) :- p(x, z), p(z, y)`` defines p as the closure of its exits. So
does ``p(x, y) :- r(x, z), p(z, y)`` if the exits are ``p(x, y) :- r(x, y)``. With x demanded, the
left-linear form ``p(x, y) :- p(x, z), r(z, y)`` demands nothing but x.
"""

import enum
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from kpg.compiler.rules import core
from kpg.compiler.rules.core import substitute_literal, substitution
from kpg.compiler.rules.magic.rule_rewriting import Rewriting, Task, rewrite_rule
from kpg.compiler.rules.magic.sips import AdornedRelation, BindingState, names, order_literals, term_names
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass
from kpg.runtime.types import BIGINT


class Linearity(enum.Enum):
    """The linearity of a rule of a linear relation."""

    EXIT = "not recursive"
    LEFT = "left-linear"
    RIGHT = "right-linear"


ClassifiedRules = tuple[tuple[Linearity, core.Rule], ...]


def classify_rules(rewriting: Rewriting, adorned: AdornedRelation) -> ClassifiedRules | None:
    """Return the relation's rules by linearity, or None if one is not linear or none is right-linear.

    If all columns are bound, magic sets are at least as good, so the result is None.
    """
    source = rewriting.source
    relation = source.relation(adorned.relation)
    alone = source.members[adorned.relation] == {adorned.relation} and not any(relation.aggregates)
    if not alone or all(adorned.bound):
        return None
    found: list[tuple[Linearity, core.Rule]] = []
    for rule in source.rules[adorned.relation]:
        linearity = linearity_of(rewriting, adorned, rule)
        if linearity is None:
            return None
        found.append((linearity, rule))
    return tuple(found) if any(linearity is Linearity.RIGHT for linearity, _ in found) else None


def recursive_atoms(rule: core.Rule) -> list[core.Atom]:
    """Return the atoms of the body over the head's relation."""
    return [
        literal
        for literal in rule.body
        if isinstance(literal, core.Atom) and literal.relation == rule.head.relation
    ]


def non_recursive_literals(rule: core.Rule) -> tuple[core.Literal, ...]:
    """Return the body without the atoms over the head's relation."""
    return tuple(literal for literal in rule.body if literal not in recursive_atoms(rule))


def linearity_of(rewriting: Rewriting, adorned: AdornedRelation, rule: core.Rule) -> Linearity | None:
    """Return the linearity of a rule, or None if it is not linear."""
    recursive = recursive_atoms(rule)
    if not recursive:
        return Linearity.EXIT
    if len(recursive) > 1:
        return None
    terms, head, rest = recursive[0].terms, rule.head.terms, non_recursive_literals(rule)
    if _passes_unchanged(
        adorned.free_items(head),
        adorned.free_items(terms),
        adorned.bound_items(head),
        adorned.bound_items(terms),
        rest,
    ):
        known = binding_after(rewriting, rule, rest, term_names(adorned.bound_items(head)))
        return Linearity.RIGHT if can_be_demanded(adorned.bound_items(terms), known) else None
    if _passes_unchanged(
        adorned.bound_items(head),
        adorned.bound_items(terms),
        adorned.free_items(head),
        adorned.free_items(terms),
        rest,
    ):
        return Linearity.LEFT
    return None


def _passes_unchanged(
    head: Sequence[core.Term],
    inner: Sequence[core.Term],
    other_head: Sequence[core.Term],
    other_inner: Sequence[core.Term],
    rest: Sequence[core.Literal],
) -> bool:
    """Return whether the recursive atom's terms reach the head unchanged, and no other literal reads them."""
    carried = term_names(head)
    plain = tuple(head) == tuple(inner) and len(carried) == len(head)
    return plain and not carried & (names(rest) | term_names(other_head) | term_names(other_inner))


def can_be_demanded(terms: Sequence[core.Term], state: BindingState) -> bool:
    """Return whether the terms can be passed on as demand."""
    return term_names(terms) <= state.passable and not any(isinstance(t, core.Wildcard) for t in terms)


def binding_after(
    rewriting: Rewriting, rule: core.Rule, rest: Sequence[core.Literal], bound: Iterable[str]
) -> BindingState:
    """Return the binding state after the literals, when demand has bound ``bound``.

    The state is empty if the literals cannot be evaluated.
    """
    state = BindingState(set(bound), set(bound), set())
    if not _can_evaluate(rest, state.copy()):
        return BindingState()
    for _ in order_literals(rest, state, rewriting.classes(rule.head.relation)):
        pass
    return state


def _can_evaluate(rest: Sequence[core.Literal], state: BindingState) -> bool:
    """Return whether the literals' atoms and ``state`` bind the variables of the other literals."""
    remaining = [one for one in rest if not isinstance(one, core.Atom)]
    for literal in rest:
        if isinstance(literal, core.Atom):
            state.add(literal)
    while any(state.is_ready(one) for one in remaining):
        ready = next(one for one in remaining if state.is_ready(one))
        remaining.remove(ready)
        state.add(ready)
    return not remaining


def rewrite_linear(rewriting: Rewriting, adorned: AdornedRelation, rules: ClassifiedRules) -> None:
    """Add the rules of a linear relation: the values reached from the demand, and its answers."""
    columns = rewriting.source.relation(adorned.relation).columns
    bound_columns = adorned.bound_items(columns)
    context = adorned.auxiliary_name("context")
    rewriting.declare(context, (*bound_columns, *bound_columns), adorned.relation, is_demand=True)
    start = tuple(core.Variable(f"@from{place}", one.type.type) for place, one in enumerate(bound_columns))
    span = rules[0][1].span
    demand = core.Atom(adorned.auxiliary_name("demand"), start, span)
    rewriting.add_rule(context, (*start, *start), [demand], span)
    for linearity, rule in rules:
        head, atoms = rule.head.terms, recursive_atoms(rule)
        guard = core.Atom(context, (*start, *adorned.bound_items(head)), span)
        rest = non_recursive_literals(rule)
        match linearity:
            case Linearity.RIGHT:
                reached = (*start, *adorned.bound_items(atoms[0].terms))
                task = Task(rule, context, reached, guard, rest, term_names(guard.terms))
            case Linearity.EXIT:
                answer = adorned.merge_items(start, adorned.free_items(head))
                task = Task(rule, adorned.name, answer, guard, rest, term_names(guard.terms))
            case Linearity.LEFT:
                guard = core.Atom(adorned.name, atoms[0].terms, span)
                weak = term_names(adorned.bound_items(head))
                task = Task(rule, adorned.name, head, guard, rest, weak)
        rewrite_rule(rewriting, task)
    linearities = {linearity for linearity, _ in rules}
    how = "left- and right-linear" if Linearity.LEFT in linearities else "right-linear"
    rewriting.notes.append((adorned.name, f"{how}: answers only for demand from outside the recursion"))


def closure_rules(rewriting: Rewriting, adorned: AdornedRelation) -> tuple[core.Rule, ...] | None:
    """Return the exits, and each also as a left-linear rule, if the relation is their transitive closure.

    The closure must lead from the bound columns to the free ones. Returns None otherwise.
    """
    source = rewriting.source
    rules = source.rules[adorned.relation]
    columns = [column.type.type for column in source.relation(adorned.relation).columns]
    alone = source.members[adorned.relation] == {adorned.relation}
    if (
        not alone
        or not adorned.bound_items(columns)
        or adorned.bound_items(columns) != adorned.free_items(columns)
    ):
        return None
    recursive = [rule for rule in rules if recursive_atoms(rule)]
    exits = [rule for rule in rules if not recursive_atoms(rule)]
    composed = len(recursive) == 1 and _composes(adorned, recursive[0])
    if not composed and not _steps_are_exits(rewriting, adorned, recursive, exits):
        return None
    return (*exits, *(_left_linear(adorned, rule, number) for number, rule in enumerate(exits)))


def _left_linear(adorned: AdornedRelation, rule: core.Rule, number: int) -> core.Rule:
    """Return an exit rule as the last step of a path."""
    types = adorned.bound_items([term.type for term in rule.head.terms])
    start = [core.Variable(f"@asked{number}_{place}", type_) for place, type_ in enumerate(types)]
    inner = adorned.merge_items(start, adorned.bound_items(rule.head.terms))
    head = replace(rule.head, terms=adorned.merge_items(start, adorned.free_items(rule.head.terms)))
    return replace(rule, head=head, body=(core.Atom(adorned.relation, inner, rule.span), *rule.body))


def _composes(adorned: AdornedRelation, rule: core.Rule) -> bool:
    """Return whether the rule is ``p(x, y) :- p(x, z), p(z, y)`` with x bound and y free."""
    atoms = recursive_atoms(rule)
    if len(atoms) != 2 or len(rule.body) != 2:
        return False
    start, end = adorned.bound_items(rule.head.terms), adorned.free_items(rule.head.terms)
    for first, second in (atoms, atoms[::-1]):
        middle = adorned.free_items(first.terms)
        if (
            adorned.bound_items(first.terms) == start
            and adorned.free_items(second.terms) == end
            and adorned.bound_items(second.terms) == middle
            and len(term_names((*start, *middle, *end))) == 3 * len(middle)
        ):
            return True
    return False


def _steps_are_exits(
    rewriting: Rewriting, adorned: AdornedRelation, recursive: Sequence[core.Rule], exits: Sequence[core.Rule]
) -> bool:
    """Return whether the recursive rules are right-linear and their steps are the exits."""
    if not recursive or any(
        linearity_of(rewriting, adorned, rule) is not Linearity.RIGHT for rule in recursive
    ):
        return False
    steps = [
        _canonical(
            adorned.bound_items(rule.head.terms),
            adorned.bound_items(recursive_atoms(rule)[0].terms),
            non_recursive_literals(rule),
        )
        for rule in recursive
    ]
    ends = [
        _canonical(adorned.bound_items(rule.head.terms), adorned.free_items(rule.head.terms), rule.body)
        for rule in exits
    ]
    return None not in steps and None not in ends and set(steps) == set(ends)


def _canonical(
    start: Sequence[core.Term], end: Sequence[core.Term], body: Sequence[core.Literal]
) -> tuple[object, ...] | None:
    """Return a step with variables numbered by occurrence, or None if it contains an aggregate."""
    if any(isinstance(literal, core.BodyAggregate) for literal in body):
        return None
    found = [term for term in (*start, *end) if isinstance(term, core.Variable)]
    found += [variable for literal in body for variable in core.literal_variables(literal)]
    mapping: dict[str, core.Expression] = {}
    for variable in found:
        mapping.setdefault(variable.name, core.Variable(f"@{len(mapping)}", variable.type))
    terms = (mapping[term.name] if isinstance(term, core.Variable) else term for term in (*start, *end))
    change = substitution(mapping)
    return (*terms, *(substitute_literal(literal, change) for literal in body))


DEEP: Final = "deep"
LEVEL: Final = core.Variable("@level", BIGINT)
NEXT: Final = core.Variable("@next", BIGINT)
LEVELS: Final = core.Column("level", core.ValueType("number", core.Domain.NUMBER, BIGINT), BIGINT)


@dataclass(frozen=True, slots=True)
class CountingRules:
    """A relation that counting can compute: its single recursive rule in two halves, and its exits."""

    rule: core.Rule
    up: tuple[core.Literal, ...]
    down: tuple[core.Literal, ...]
    exits: tuple[core.Rule, ...]
    head_terms: tuple[core.Term, ...]
    inner_terms: tuple[core.Term, ...]
    """Terms at the bound columns of the recursive atom; ``head_terms`` are those of the head."""


def find_counting_rules(rewriting: Rewriting, adorned: AdornedRelation) -> CountingRules | None:
    """Return the relation's rules in the form that counting needs, or None."""
    source = rewriting.source
    relation = source.relation(adorned.relation)
    recursive = [rule for rule in source.rules[adorned.relation] if recursive_atoms(rule)]
    exits = tuple(rule for rule in source.rules[adorned.relation] if not recursive_atoms(rule))
    if source.members[adorned.relation] != {adorned.relation} or any(relation.aggregates):
        return None
    if len(recursive) != 1 or len(recursive_atoms(recursive[0])) != 1 or all(adorned.bound):
        return None
    rule, inner = recursive[0], recursive_atoms(recursive[0])[0].terms
    if linearity_of(rewriting, adorned, rule) is not None:
        return None
    above = term_names(adorned.bound_items(rule.head.terms)) | term_names(adorned.bound_items(inner))
    below = term_names(adorned.free_items(rule.head.terms)) | term_names(adorned.free_items(inner))
    halves = _split_halves(non_recursive_literals(rule), above, below)
    if halves is None or not all(isinstance(term, core.Variable) for term in inner):
        return None
    up, down = halves
    up_state = binding_after(rewriting, rule, up, term_names(adorned.bound_items(rule.head.terms)))
    down_state = binding_after(rewriting, rule, down, term_names(adorned.free_items(inner)))
    fits = (
        can_be_demanded(adorned.bound_items(inner), up_state)
        and term_names(adorned.free_items(rule.head.terms)) <= down_state.bound
    )
    if not fits:
        return None
    return CountingRules(
        rule, up, down, exits, adorned.bound_items(rule.head.terms), adorned.bound_items(inner)
    )


def _split_halves(
    rest: tuple[core.Literal, ...], above: frozenset[str], below: frozenset[str]
) -> tuple[tuple[core.Literal, ...], tuple[core.Literal, ...]] | None:
    """Return the literals connected with ``above`` and those connected with ``below``.

    Returns None if a literal is connected with both.
    """
    high, low = set(above), set(below)
    size = -1
    while size < len(high) + len(low):
        size = len(high) + len(low)
        for literal in rest:
            for side in (high, low):
                if names([literal]) & side:
                    side |= names([literal])
    if high & low:
        return None
    up = tuple(one for one in rest if not names([one]) & low)
    return up, tuple(one for one in rest if one not in up)


def rewrite_counting(
    rewriting: Rewriting, adorned: AdornedRelation, rules: CountingRules, limit: int
) -> None:
    """Add the counting rules for the relation with adornment ``adorned``."""
    columns = rewriting.source.relation(adorned.relation).columns
    bound_columns, free_columns = adorned.bound_items(columns), adorned.free_items(columns)
    level, level_answers, deep = (adorned.auxiliary_name(what) for what in ("levels", "found", DEEP))
    rewriting.declare(level, (*bound_columns, LEVELS, *bound_columns), adorned.relation, is_demand=True)
    rewriting.declare(level_answers, (*bound_columns, LEVELS, *free_columns), adorned.relation)
    rewriting.declare(deep, bound_columns, adorned.relation)
    start = tuple(core.Variable(f"@from{place}", one.type.type) for place, one in enumerate(bound_columns))
    ends = tuple(core.Variable(f"@end{place}", one.type.type) for place, one in enumerate(free_columns))
    span = rules.rule.span
    demand = core.Atom(adorned.auxiliary_name("demand"), start, span)
    rewriting.add_rule(level, (*start, core.Constant(0, BIGINT), *start), [demand], span)
    any_value = tuple(core.Wildcard(one.type.type) for one in bound_columns)
    last = core.Atom(level, (*start, core.Constant(limit, BIGINT), *any_value), span)
    too_deep = core.Atom(deep, start, span)
    rewriting.add_rule(deep, start, [last], span)
    _add_steps(rewriting, adorned, rules, limit, start)
    answer = adorned.merge_items(start, ends)
    surface = core.Atom(level_answers, (*start, core.Constant(0, BIGINT), *ends), span)
    rewriting.add_rule(adorned.name, answer, [surface], span)
    other = rewriting.add_demanded(AdornedRelation(adorned.relation, adorned.bound))
    rewriting.add_rule(other.auxiliary_name("demand"), other.bound_items(answer), [too_deep], span)
    rewriting.add_rule(adorned.name, answer, [too_deep, core.Atom(other.name, answer, span)], span)
    rewriting.notes.append((adorned.name, f"by levels, up to {limit}; deeper levels by magic sets"))


def _add_steps(
    rewriting: Rewriting,
    adorned: AdornedRelation,
    rules: CountingRules,
    limit: int,
    start: tuple[core.Variable, ...],
) -> None:
    """Add the rules for the steps up, across by the exits, and down."""
    level, level_answers, deep = (adorned.auxiliary_name(what) for what in ("levels", "found", DEEP))
    rule, span = rules.rule, rules.rule.span
    head, inner = rule.head.terms, recursive_atoms(rule)[0].terms
    guard = core.Atom(level, (*start, LEVEL, *adorned.bound_items(head)), span)
    below_limit = core.Comparison("lt", LEVEL, core.Constant(limit, BIGINT), span)
    up = (below_limit, *rules.up, _step_level("add", span))
    terms = (*start, NEXT, *adorned.bound_items(inner))
    rewrite_rule(rewriting, Task(rule, level, terms, guard, up, term_names(guard.terms)))
    for one in rules.exits:
        guard = core.Atom(level, (*start, LEVEL, *adorned.bound_items(one.head.terms)), span)
        terms = (*start, LEVEL, *adorned.free_items(one.head.terms))
        body = (core.Negation(core.Atom(deep, start, span)), *one.body)
        rewrite_rule(rewriting, Task(one, level_answers, terms, guard, body, term_names(guard.terms)))
    guard = core.Atom(level_answers, (*start, LEVEL, *adorned.free_items(inner)), span)
    above_ground = core.Comparison("gt", LEVEL, core.Constant(0, BIGINT), span)
    down = (above_ground, *rules.down, _step_level("sub", span))
    weak = term_names((*start, LEVEL))
    rewrite_rule(
        rewriting, Task(rule, level_answers, (*start, NEXT, *adorned.free_items(head)), guard, down, weak)
    )


def _step_level(function: str, span: Span) -> core.Assignment:
    return core.Assignment(NEXT, core.Call(function, (LEVEL, core.Constant(1, BIGINT)), BIGINT), span)
