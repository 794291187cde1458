"""Statements that change rows: DML, COPY, loads, constraints, foreign keys, defaults."""
