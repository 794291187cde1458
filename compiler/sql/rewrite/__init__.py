"""Rewrites of statements: DML as queries, column defaults, updatable views, and stored definitions."""
