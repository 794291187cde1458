"""Rewrites of linear recursion that derive less than magic sets: counting, linear rules, transitive closure.

*Counting* applies to ``p(x, y) :- exit(x, y). p(x, y) :- up(x, a), p(a, b), down(b, y).`` Magic sets derive
all pairs (a, b) with a above x. Counting derives (level, a) up from each x asked for, then (level, b) down
from the exits. The answers are the b at level 0. Levels do not end if ``up`` has a cycle above x. So an x
that reaches ``limit`` levels is ``deep``, and magic sets answer for it (Bancilhon et al. 1986; Saccà and
Zaniolo 1986).

*Linear rules*: in a right-linear rule ``p(x, y) :- r(x, z), p(z, y)`` the answers for x are those for z.
``context`` records which z each asked x reaches, and only x gets answers. A left-linear rule
``p(x, y) :- p(x, z), l(z, y)`` extends answers of any x. A relation with only such rules is r* exit l*
(Naughton, Ramakrishnan, Sagiv and Ullman 1989).

*Transitive closure*: ``p(x, y) :- p(x, z), p(z, y)`` defines p as the closure of its exits. So does
``p(x, y) :- r(x, z), p(z, y)`` if the exits are ``p(x, y) :- r(x, y)``. With x asked, the left-linear form
``p(x, y) :- p(x, z), r(z, y)`` demands nothing but x.
"""

import enum
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from kpg.compiler.rules import core
from kpg.compiler.rules.core import changed, replacing
from kpg.compiler.rules.magic.sips import Adorned, Known, names, ordered, term_names
from kpg.compiler.rules.magic.transformation import Rewriting, Task, rewrite_rule
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass
from kpg.runtime.types import BIGINT


class Linearity(enum.Enum):
    """How a rule of a linear relation recurs."""

    EXIT = "not recursive"
    LEFT = "left-linear"
    RIGHT = "right-linear"


Classified = tuple[tuple[Linearity, core.Rule], ...]


def classified(rewriting: Rewriting, adorned: Adorned) -> Classified | None:
    """The rules of the relation by linearity, None if one has another or none is right-linear.

    Where all columns are bound there is an answer at most for what is asked on the way: magic sets do.
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
    """The atoms of the body over the head's relation."""
    return [one for one in rule.body if isinstance(one, core.Atom) and one.relation == rule.head.relation]


def rest_of(rule: core.Rule) -> tuple[core.Literal, ...]:
    """The body without the atoms over the head's relation."""
    return tuple(one for one in rule.body if one not in recursive_atoms(rule))


def linearity_of(rewriting: Rewriting, adorned: Adorned, rule: core.Rule) -> Linearity | None:
    """How the rule recurs; None if it does so in no simple way."""
    recursive = recursive_atoms(rule)
    if not recursive:
        return Linearity.EXIT
    if len(recursive) > 1:
        return None
    terms, head, rest = recursive[0].terms, rule.head.terms, rest_of(rule)
    if _is_carried(adorned.open(head), adorned.open(terms), adorned.given(head), adorned.given(terms), rest):
        known = outcome(rewriting, rule, rest, term_names(adorned.given(head)))
        return Linearity.RIGHT if are_passed(adorned.given(terms), known) else None
    if _is_carried(adorned.given(head), adorned.given(terms), adorned.open(head), adorned.open(terms), rest):
        return Linearity.LEFT
    return None


def _is_carried(
    head: Sequence[core.Term],
    inner: Sequence[core.Term],
    other_head: Sequence[core.Term],
    other_inner: Sequence[core.Term],
    rest: Sequence[core.Literal],
) -> bool:
    """Whether the recursive atom's terms go to the head as they are, and nothing else reads them."""
    carried = term_names(head)
    plain = tuple(head) == tuple(inner) and len(carried) == len(head)
    return plain and not carried & (names(rest) | term_names(other_head) | term_names(other_inner))


def are_passed(terms: Sequence[core.Term], known: Known) -> bool:
    """Whether terms can be asked for."""
    return term_names(terms) <= known.passable and not any(isinstance(t, core.Wildcard) for t in terms)


def outcome(
    rewriting: Rewriting, rule: core.Rule, rest: Sequence[core.Literal], given: Iterable[str]
) -> Known:
    """What literals of the rule bind when demand has bound ``given``; nothing if they cannot be evaluated."""
    known = Known(set(given), set(given), set())
    if not _can_run(rest, known.copy()):
        return Known()
    for _ in ordered(rest, known, rewriting.classes(rule.head.relation)):
        pass
    return known


def _can_run(rest: Sequence[core.Literal], known: Known) -> bool:
    """Whether the literals' atoms and what is known bind the variables of the others."""
    left = [one for one in rest if not isinstance(one, core.Atom)]
    for one in rest:
        if isinstance(one, core.Atom):
            known.add(one)
    while any(known.is_ready(one) for one in left):
        ready = next(one for one in left if known.is_ready(one))
        left.remove(ready)
        known.add(ready)
    return not left


def rewrite_linear(rewriting: Rewriting, adorned: Adorned, rules: Classified) -> None:
    """The rules of a linear relation: what is reached from what is asked, and its answers."""
    columns = rewriting.source.relation(adorned.relation).columns
    given = adorned.given(columns)
    context = adorned.made("context")
    rewriting.make(context, (*given, *given), adorned.relation, is_demand=True)
    start = tuple(core.Variable(f"@from{place}", one.type.type) for place, one in enumerate(given))
    span = rules[0][1].span
    demand = core.Atom(adorned.made("demand"), start, span)
    rewriting.add(context, (*start, *start), [demand], span)
    for linearity, rule in rules:
        head, atoms = rule.head.terms, recursive_atoms(rule)
        guard = core.Atom(context, (*start, *adorned.given(head)), span)
        rest = rest_of(rule)
        match linearity:
            case Linearity.RIGHT:
                reached = (*start, *adorned.given(atoms[0].terms))
                task = Task(rule, context, reached, guard, rest, term_names(guard.terms))
            case Linearity.EXIT:
                answer = adorned.merged(start, adorned.open(head))
                task = Task(rule, adorned.name, answer, guard, rest, term_names(guard.terms))
            case Linearity.LEFT:
                guard = core.Atom(adorned.name, atoms[0].terms, span)
                weak = term_names(adorned.given(head))
                task = Task(rule, adorned.name, head, guard, rest, weak)
        rewrite_rule(rewriting, task)
    linearities = {linearity for linearity, _ in rules}
    how = "left- and right-linear" if Linearity.LEFT in linearities else "right-linear"
    rewriting.notes.append((adorned.name, f"{how}: answers only for what is asked from outside"))


def closure_rules(rewriting: Rewriting, adorned: Adorned) -> tuple[core.Rule, ...] | None:
    """The exits, each as a left-linear rule too, if the relation is their closure, from bound to free."""
    source = rewriting.source
    rules = source.rules[adorned.relation]
    columns = [column.type.type for column in source.relation(adorned.relation).columns]
    alone = source.members[adorned.relation] == {adorned.relation}
    if not alone or not adorned.given(columns) or adorned.given(columns) != adorned.open(columns):
        return None
    recursive = [rule for rule in rules if recursive_atoms(rule)]
    exits = [rule for rule in rules if not recursive_atoms(rule)]
    composed = len(recursive) == 1 and _composes(adorned, recursive[0])
    if not composed and not _repeats(rewriting, adorned, recursive, exits):
        return None
    return (*exits, *(_left_linear(adorned, rule, number) for number, rule in enumerate(exits)))


def _left_linear(adorned: Adorned, rule: core.Rule, number: int) -> core.Rule:
    """An exit as the last step."""
    types = adorned.given([term.type for term in rule.head.terms])
    asked = [core.Variable(f"@asked{number}_{place}", type_) for place, type_ in enumerate(types)]
    inner = adorned.merged(asked, adorned.given(rule.head.terms))
    head = replace(rule.head, terms=adorned.merged(asked, adorned.open(rule.head.terms)))
    return replace(rule, head=head, body=(core.Atom(adorned.relation, inner, rule.span), *rule.body))


def _composes(adorned: Adorned, rule: core.Rule) -> bool:
    """Whether the rule is ``p(x, y) :- p(x, z), p(z, y)``, x being at the bound columns, y at the others."""
    atoms = recursive_atoms(rule)
    if len(atoms) != 2 or len(rule.body) != 2:
        return False
    start, end = adorned.given(rule.head.terms), adorned.open(rule.head.terms)
    for first, second in (atoms, atoms[::-1]):
        middle = adorned.open(first.terms)
        if (
            adorned.given(first.terms) == start
            and adorned.open(second.terms) == end
            and adorned.given(second.terms) == middle
            and len(term_names((*start, *middle, *end))) == 3 * len(middle)
        ):
            return True
    return False


def _repeats(
    rewriting: Rewriting, adorned: Adorned, recursive: Sequence[core.Rule], exits: Sequence[core.Rule]
) -> bool:
    """Whether the recursive rules are right-linear with just the exits as steps."""
    if not recursive or any(
        linearity_of(rewriting, adorned, rule) is not Linearity.RIGHT for rule in recursive
    ):
        return False
    steps = [
        _canonical(
            adorned.given(rule.head.terms), adorned.given(recursive_atoms(rule)[0].terms), rest_of(rule)
        )
        for rule in recursive
    ]
    ends = [
        _canonical(adorned.given(rule.head.terms), adorned.open(rule.head.terms), rule.body) for rule in exits
    ]
    return None not in steps and None not in ends and set(steps) == set(ends)


def _canonical(
    start: Sequence[core.Term], end: Sequence[core.Term], body: Sequence[core.Literal]
) -> tuple[object, ...] | None:
    """A step with its variables named in order of occurrence; None if it is not simple enough to compare."""
    if any(isinstance(one, core.BodyAggregate) for one in body):
        return None
    found = [term for term in (*start, *end) if isinstance(term, core.Variable)]
    found += [variable for one in body for variable in core.literal_variables(one)]
    mapping: dict[str, core.Expression] = {}
    for variable in found:
        mapping.setdefault(variable.name, core.Variable(f"@{len(mapping)}", variable.type))
    terms = (mapping[term.name] if isinstance(term, core.Variable) else term for term in (*start, *end))
    change = replacing(mapping)
    return (*terms, *(changed(one, change) for one in body))


DEEP: Final = "deep"
LEVEL: Final = core.Variable("@level", BIGINT)
NEXT: Final = core.Variable("@next", BIGINT)
LEVELS: Final = core.Column("level", core.ValueType("number", core.Domain.NUMBER, BIGINT), BIGINT)


@dataclass(frozen=True, slots=True)
class Levelled:
    """A relation that can be computed by levels: its one recursive rule in two halves, and its exits."""

    rule: core.Rule
    up: tuple[core.Literal, ...]
    down: tuple[core.Literal, ...]
    exits: tuple[core.Rule, ...]
    given: tuple[core.Term, ...]
    reached: tuple[core.Term, ...]
    """The recursive rule's terms at the bound columns, of its head and of its recursive atom."""


def levelled(rewriting: Rewriting, adorned: Adorned) -> Levelled | None:
    """The relation's rules as counting needs them, None if they are not so."""
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
    above = term_names(adorned.given(rule.head.terms)) | term_names(adorned.given(inner))
    below = term_names(adorned.open(rule.head.terms)) | term_names(adorned.open(inner))
    halves = _halves(rest_of(rule), above, below)
    if halves is None or not all(isinstance(term, core.Variable) for term in inner):
        return None
    up, down = halves
    rise = outcome(rewriting, rule, up, term_names(adorned.given(rule.head.terms)))
    fall = outcome(rewriting, rule, down, term_names(adorned.open(inner)))
    fits = are_passed(adorned.given(inner), rise) and term_names(adorned.open(rule.head.terms)) <= fall.bound
    if not fits:
        return None
    return Levelled(rule, up, down, exits, adorned.given(rule.head.terms), adorned.given(inner))


def _halves(
    rest: tuple[core.Literal, ...], above: frozenset[str], below: frozenset[str]
) -> tuple[tuple[core.Literal, ...], tuple[core.Literal, ...]] | None:
    """The literals connected with what is above and those with what is below, if no literal is both."""
    high, low = set(above), set(below)
    size = -1
    while size < len(high) + len(low):
        size = len(high) + len(low)
        for one in rest:
            for side in (high, low):
                if names([one]) & side:
                    side |= names([one])
    if high & low:
        return None
    up = tuple(one for one in rest if not names([one]) & low)
    return up, tuple(one for one in rest if one not in up)


def rewrite_levelled(rewriting: Rewriting, adorned: Adorned, rules: Levelled, limit: int) -> None:
    """Rules by levels for the relation asked as ``adorned``, a variant of what magic sets rewrite."""
    columns = rewriting.source.relation(adorned.relation).columns
    given, free = adorned.given(columns), adorned.open(columns)
    level, found, deep = (adorned.made(what) for what in ("levels", "found", DEEP))
    rewriting.make(level, (*given, LEVELS, *given), adorned.relation, is_demand=True)
    rewriting.make(found, (*given, LEVELS, *free), adorned.relation)
    rewriting.make(deep, given, adorned.relation)
    start = tuple(core.Variable(f"@from{place}", one.type.type) for place, one in enumerate(given))
    ends = tuple(core.Variable(f"@end{place}", one.type.type) for place, one in enumerate(free))
    span = rules.rule.span
    demand = core.Atom(adorned.made("demand"), start, span)
    rewriting.add(level, (*start, core.Constant(0, BIGINT), *start), [demand], span)
    any_value = tuple(core.Wildcard(one.type.type) for one in given)
    last = core.Atom(level, (*start, core.Constant(limit, BIGINT), *any_value), span)
    too_deep = core.Atom(deep, start, span)
    rewriting.add(deep, start, [last], span)
    _add_steps(rewriting, adorned, rules, limit, start)
    answer = adorned.merged(start, ends)
    surface = core.Atom(found, (*start, core.Constant(0, BIGINT), *ends), span)
    rewriting.add(adorned.name, answer, [surface], span)
    other = rewriting.ask(Adorned(adorned.relation, adorned.bound))
    rewriting.add(other.made("demand"), other.given(answer), [too_deep], span)
    rewriting.add(adorned.name, answer, [too_deep, core.Atom(other.name, answer, span)], span)
    rewriting.notes.append((adorned.name, f"by levels, up to {limit}; what is deeper by magic sets"))


def _add_steps(
    rewriting: Rewriting,
    adorned: Adorned,
    rules: Levelled,
    limit: int,
    start: tuple[core.Variable, ...],
) -> None:
    """The rules up, across by the exits, and down."""
    level, found, deep = (adorned.made(what) for what in ("levels", "found", DEEP))
    rule, span = rules.rule, rules.rule.span
    head, inner = rule.head.terms, recursive_atoms(rule)[0].terms
    guard = core.Atom(level, (*start, LEVEL, *adorned.given(head)), span)
    weak = term_names(guard.terms)
    below_limit = core.Comparison("lt", LEVEL, core.Constant(limit, BIGINT), span)
    up = (below_limit, *rules.up, _stepped("add", span))
    rewrite_rule(rewriting, Task(rule, level, (*start, NEXT, *adorned.given(inner)), guard, up, weak))
    for one in rules.exits:
        guard = core.Atom(level, (*start, LEVEL, *adorned.given(one.head.terms)), span)
        terms = (*start, LEVEL, *adorned.open(one.head.terms))
        body = (core.Negation(core.Atom(deep, start, span)), *one.body)
        rewrite_rule(rewriting, Task(one, found, terms, guard, body, weak))
    guard = core.Atom(found, (*start, LEVEL, *adorned.open(inner)), span)
    above_ground = core.Comparison("gt", LEVEL, core.Constant(0, BIGINT), span)
    down = (above_ground, *rules.down, _stepped("sub", span))
    weak = term_names((*start, LEVEL))
    rewrite_rule(rewriting, Task(rule, found, (*start, NEXT, *adorned.open(head)), guard, down, weak))


def _stepped(function: str, span: Span) -> core.Assignment:
    return core.Assignment(NEXT, core.Call(function, (LEVEL, core.Constant(1, BIGINT)), BIGINT), span)
