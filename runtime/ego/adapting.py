"""Labels that follow what is observed: a few at the frontier, or all once that has changed altogether.

At the frontier each node is looked at alone. That is little work, and enough where frequencies drift. Where
they shift it is not: pushing a partial aggregate may pay only if its readers are pushed as well, and each of
these only if it is. So then all labels are decided anew, of the overlay as it is.
"""

import itertools
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.ego import deciding, patching
from kpg.runtime.ego.deciding import Costs
from kpg.runtime.ego.family import Family
from kpg.runtime.ego.overlay import WRITER, Overlay
from kpg.runtime.errors import DataError

Words = NDArray[np.int64]
LEVELS: Final = 8
"""So often at most the frontier is looked at again when labels at it have changed."""
BETTER: Final = 1.05
"""Labels that were decided anew are taken if the old ones are expected to cost more by this."""


def fill(overlay: Overlay, family: Family, nodes: Words) -> None:
    """Compute pushed nodes; what cannot be computed is pulled, and says so when it is read."""
    try:
        family.fill(overlay, nodes)
    except DataError:
        family.rollback()
        overlay.pushed[nodes] = overlay.kinds[nodes] == WRITER
        overlay.labelled(nodes)
    family.commit()


def at_frontier(overlay: Overlay, family: Family, costs: Costs, forced: Words) -> int:
    """Flip what costs less the other way at the frontier, and what is at it then; how many nodes were."""
    flips = 0
    for found in itertools.islice(deciding.adapt(overlay, costs), LEVELS):
        nodes = np.setdiff1d(found, forced)
        pushed = overlay.pushed[nodes] == 1
        _pull(overlay, family, nodes[pushed])
        _push(overlay, family, patching.all_pushed(overlay, np.ascontiguousarray(nodes[~pushed])))
        flips += nodes.shape[0]
    overlay.settle()
    return flips


def everywhere(overlay: Overlay, family: Family, costs: Costs, forced: Words) -> int:
    """Decide all labels, and have them be those if that is expected to pay; how many nodes have changed."""
    often = deciding.frequencies(overlay, overlay.order())
    before, was = overlay.pushed.copy(), sum(deciding.shares(overlay, often, costs))
    deciding.decide(overlay, "auto", costs, forced)
    after, now = overlay.pushed.copy(), sum(deciding.shares(overlay, often, costs))
    overlay.pushed[:] = before
    if was < BETTER * now:
        return 0
    _pull(overlay, family, np.flatnonzero(before > after))
    order = overlay.order()
    _push(overlay, family, order[(before < after)[order]])
    overlay.settle(every=True)
    return int((before != after)[: overlay.count].sum())


def _pull(overlay: Overlay, family: Family, nodes: Words) -> None:
    overlay.pushed[nodes] = 0
    family.drop(nodes)
    overlay.labelled(nodes)


def _push(overlay: Overlay, family: Family, nodes: Words) -> None:
    """Push nodes that come in order: each after what feeds it, which is pushed."""
    overlay.pushed[nodes] = 1
    fill(overlay, family, nodes)
    overlay.labelled(nodes)
