"""The compiler, from text to plan: SQL and Datalog front ends, algebra, passes and physical planner."""
