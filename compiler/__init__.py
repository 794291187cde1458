"""The compiler, from text to plan: SQL and Datalog front ends, one algebra, its passes, the physical planner."""
