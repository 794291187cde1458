"""A program for one way of asking a relation: demand from a seed table, rules that answer it."""

from collections.abc import Callable

from kpg.compiler.rules import core
from kpg.compiler.rules.magic.adornment import Adorned
from kpg.compiler.rules.magic.closure import closure_rules
from kpg.compiler.rules.magic.counting import Levelled, levelled, rewrite_levelled
from kpg.compiler.rules.magic.cycles import break_cycles
from kpg.compiler.rules.magic.linear import classified, rewrite_linear
from kpg.compiler.rules.magic.literals import term_names
from kpg.compiler.rules.magic.rewriting import Decisions, Rewriting, Source
from kpg.compiler.rules.magic.walk import Task, rewrite_rule
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass

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
