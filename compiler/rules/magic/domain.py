"""What a column of a relation can hold at most, and whether a relation as a whole is sure to be finite."""

from kpg.compiler.rules import core
from kpg.compiler.rules.strata import strata

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
