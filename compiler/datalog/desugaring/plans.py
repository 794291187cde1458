"""``.plan``: checked, and turned from the numbers of a rule's atoms as written into places in its body."""

from collections.abc import Mapping, Sequence

from kpg.compiler.datalog.diagnostics import Diagnostics, plural
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.rules.core import Atom, Literal, Relation, Rule
from kpg.compiler.rules.strata import strata

MADE_UP = "@"
"""Begins the names of relations that stand for no atom of the text."""

Orders = tuple[tuple[int, tuple[int, ...]], ...]


def orders(plan: ast.Plan | None, body: Sequence[Literal], diagnostics: Diagnostics) -> Orders:
    """The plan as ``core.Rule.plan`` has it; noted if it does not name every atom of the text once.

    Atoms that the text does not have come last.
    """
    if plan is None:
        return ()
    atoms = [one for one in body if isinstance(one, Atom)]
    written = [place for place, one in enumerate(atoms) if not one.relation.startswith(MADE_UP)]
    rest = tuple(place for place in range(len(atoms)) if place not in written)
    found: dict[int, tuple[int, ...]] = {}
    if plan.is_strict:
        return ((0, (*written, *rest)),) if len(atoms) > 1 else ()
    for version, order in plan.orders:
        if sorted(order) != list(range(1, len(written) + 1)):
            message = f"invalid plan: it has to name each of the {len(written)} atoms once"
            hint = f"atoms are numbered from 1 to {len(written)}, in the order of the body"
            diagnostics.error("plan", message, plan.span, hint=hint)
        elif version in found:
            diagnostics.error("plan", f"two plans for version {version}", plan.span)
        else:
            found[version] = (*(written[number - 1] for number in order), *rest)
    return tuple(found.items())


def check_versions(
    relations: Mapping[str, Relation], rules: Sequence[Rule], diagnostics: Diagnostics
) -> None:
    """Notes plans for versions that no rule of a clause has: one for each atom that is recursive with it.

    A plan holds for the rules of all heads of a clause. Those without such an atom have no other versions to
    take it, so that one for them alone is without effect.
    """
    if not any(rule.plan for rule in rules):
        return
    most: dict[tuple[str, int, int], tuple[Rule, int]] = {}
    for stratum in strata(relations, rules):
        members = frozenset(stratum.relations) if stratum.is_recursive else frozenset[str]()
        for rule in stratum.rules:
            if rule.plan:
                clause = (rule.span.file, rule.span.line, rule.span.start)
                count = sum(isinstance(one, Atom) and one.relation in members for one in rule.body)
                if clause not in most or count > most[clause][1]:
                    most[clause] = rule, count
    for rule, count in most.values():
        _check_versions(rule, count, diagnostics)


def _check_versions(rule: Rule, count: int, diagnostics: Diagnostics) -> None:
    for version, _ in rule.plan:
        if version >= max(1, count):
            message = f"a plan for version {version}, but the rule has {plural(count, 'recursive atom')}"
            hint = "version v orders what the changes of the v-th recursive atom, from 0 on, are joined with"
            note = diagnostics.error if count else diagnostics.warning
            note("plan", message, rule.span, hint=hint)
