"""Transitive closures: whichever way they are written, asked columns are carried by left-linear rules.

``p(x, y) :- p(x, z), p(z, y)`` says that p is the closure of its exits; so does ``p(x, y) :- r(x, z),
p(z, y)`` if the exits are ``p(x, y) :- r(x, y)``. With x asked, ``p(x, y) :- p(x, z), r(z, y)`` needs no
demand but x.
"""

from collections.abc import Sequence
from dataclasses import replace

from kpg.compiler.rules import core
from kpg.compiler.rules.magic.adornment import Adorned
from kpg.compiler.rules.magic.linear import Linearity, linearity_of, recursive_atoms, rest_of
from kpg.compiler.rules.magic.literals import term_names
from kpg.compiler.rules.magic.rewriting import Rewriting
from kpg.compiler.rules.substitute import changed, replacing


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
