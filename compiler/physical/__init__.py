"""The physical planner: join order, shared arrangements, and aggregation by kind."""

from kpg.compiler.physical.planner import plan_query

__all__ = ["plan_query"]
