"""A node whose scalar is known already: what a variable of PL/pgSQL stands for within SQL."""

from typing import ClassVar

from sqlglot import exp

from kpg.runtime.scalar import Scalar


class Known(exp.Expression):
    """A scalar in the place of a name."""

    arg_types: ClassVar[dict[str, bool]] = {"scalar": True}


def scalar_of(node: Known) -> Scalar:
    """What a node stands for."""
    found: Scalar = node.args["scalar"]
    return found


def known(scalar: Scalar) -> Known:
    """The node of a scalar."""
    return Known(scalar=scalar)
