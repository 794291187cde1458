"""Demand must not make a relation depend on its own negation or aggregate: what to do where it would.

A negated or aggregated relation that would be in recursion with its reader is computed as a whole, from its
own rules (the labelled copy of Balbin, Port, Ramamohanarao and Meenakshi, JLP 1991); so is a relation with
aggregated columns that would be in a recursion which the program does not have (Alviano et al., TPLP 2019).
"""

from kpg.compiler.rules import core
from kpg.compiler.rules.aggregates import in_recursion
from kpg.compiler.rules.magic.counting import DEEP
from kpg.compiler.rules.magic.rewriting import Rewriting
from kpg.compiler.rules.strata import strata


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
