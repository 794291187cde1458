"""Lowering of checked rules to relational algebra: one relation of the algebra per relation of the program.

``program`` orders the relations and lowers them with their heads. ``body`` lowers the body of a rule, in the
order of ``.plan`` if there is one.
"""

from kpg.compiler.rules.lower.program import Lowering, Sources, lower_relation, lowering

__all__ = ["Lowering", "Sources", "lower_relation", "lowering"]
