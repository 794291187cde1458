"""Statements run: each statement class has its handler in queries, changes or definitions."""
