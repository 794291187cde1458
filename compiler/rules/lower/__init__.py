"""Checked rules to relational algebra: one relation of the algebra for each relation of the program.

``program`` orders the relations, ``rule`` makes heads, ``body`` bodies, in the user's order if ``ordered``
finds one; ``aggregate`` the aggregates in bodies; ``atom`` reads one relation, ``bindings`` is what all
of them pass on.
"""

from kpg.compiler.rules.lower.program import Lowering, Sources, lower_relation, lowering

__all__ = ["Lowering", "Sources", "lower_relation", "lowering"]
