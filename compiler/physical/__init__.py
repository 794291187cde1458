"""The physical planner: orders joins, chooses and shares arrangements, and plans aggregation by kind."""

from kpg.compiler.physical.planner import plan_query

__all__ = ["plan_query"]
