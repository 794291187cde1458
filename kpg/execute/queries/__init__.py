"""Statements that read: planning, the plan cache, point lookups, cursors, locking reads and EXPLAIN."""
