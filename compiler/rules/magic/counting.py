"""Linear recursion by levels: Bancilhon et al. 1986, Saccà, Zaniolo 1986.

``p(x, y) :- exit(x, y). p(x, y) :- up(x, a), p(a, b), down(b, y).`` Magic sets derive all pairs (a, b) with
a above x. Counting derives, for each x asked for, the pairs (level, a), then down from the exits (level, b),
and the answers are the b at level 0. Levels do not end where ``up`` has a cycle above x: an x that reaches
``limit`` levels is ``deep``, and magic sets answer for it.
"""

from typing import Final

from kpg.compiler.rules import core
from kpg.compiler.rules.magic.adornment import Adorned
from kpg.compiler.rules.magic.linear import are_passed, linearity_of, outcome, recursive_atoms, rest_of
from kpg.compiler.rules.magic.literals import names, term_names
from kpg.compiler.rules.magic.rewriting import Rewriting
from kpg.compiler.rules.magic.walk import Task, rewrite_rule
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass
from kpg.runtime.types import BIGINT

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
