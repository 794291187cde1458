"""Relational algebra to the dataflow plan: joins ordered, arrangements chosen and shared, reduces by kind."""

from kpg.compiler.physical.planner import plan_query

__all__ = ["plan_query"]
