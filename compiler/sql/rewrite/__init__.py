"""Statements that change rows and definitions that are stored, as queries and as texts over whole names."""
