"""Linear recursion without answers for what is asked on the way: Naughton, Ramakrishnan, Sagiv, Ullman, 1989.

In a right-linear rule ``p(x, y) :- r(x, z), p(z, y)`` the answers for x are those for z. Instead of all
answers for all z that are reached, ``context`` keeps which z each asked x reaches, and only x gets answers. A
left-linear rule ``p(x, y) :- p(x, z), l(z, y)`` adds to answers, whatever x is. The tuples of a relation
with such rules only are r* exit l*.
"""

import enum
from collections.abc import Iterable, Sequence

from kpg.compiler.rules import core
from kpg.compiler.rules.magic.adornment import Adorned
from kpg.compiler.rules.magic.literals import names, term_names
from kpg.compiler.rules.magic.rewriting import Rewriting
from kpg.compiler.rules.magic.sips import Known, ordered
from kpg.compiler.rules.magic.walk import Task, rewrite_rule


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
