"""Text to plan: SQL and Datalog front ends, one algebra, passes, and the physical planner."""
