"""Merge maps, filters and projections that follow each other."""

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import transform_up
from kpg.compiler.passes._selection import build, peel


def fuse_selections(rel: Rel) -> Rel:
    """A chain becomes one filter, one map and one projection, in that order, without idle ones.

    Filters go below maps, whose scalars take the place of their columns; conjunctions are taken apart.
    """

    def rewrite(node: Rel) -> Rel:
        if isinstance(node, algebra.Map | algebra.Filter | algebra.Project):
            return build(peel(node))
        return node

    return transform_up(rel, rewrite)
