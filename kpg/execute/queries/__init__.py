"""Statements that read: plans, the plan cache, point lookups, cursors, EXPLAIN."""
