"""Statements that change rows: DML, COPY, bulk loads, and the constraints that rows must satisfy.

``pipeline`` runs the stages of INSERT, UPDATE, DELETE and MERGE. A statement first computes its changes
from the tables as they are, then applies them.
"""
