"""``.plan``: the orders that a user gives for the joins of a rule's body."""

from collections.abc import Sequence

from kpg.compiler.rules import core

Plan = tuple[tuple[int, tuple[int, ...]], ...]
"""As ``core.Rule.plan``."""


def lookup_orders(
    plan: Plan, atoms: Sequence[core.Atom], stratum: frozenset[str], size: int
) -> tuple[tuple[int, ...], ...]:
    """For each of ``size`` inputs of a join, ``atoms`` first, the others in the order of the plan.

    The changes of the atom that is recursive as version v says follow v's order; those of atoms that no
    version is about, version 0's. Without an order for it, an input's is empty. What joins besides the
    atoms comes last.
    """
    if not plan or size < 2:
        return ()
    orders = dict(plan)
    recursive = [place for place, atom in enumerate(atoms) if atom.relation in stratum]
    versions = {place: version for version, place in enumerate(recursive)}
    others = tuple(range(len(atoms), size))
    chosen = [orders.get(versions.get(place, 0)) for place in range(len(atoms))]
    chosen += [orders.get(0)] * len(others)
    return tuple(
        () if order is None else tuple(one for one in (*order, *others) if one != place)
        for place, order in enumerate(chosen)
    )
