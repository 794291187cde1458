"""Statements that define things, read token by token: tables, constraints, sequences, settings."""
