"""Clauses to rules of the core.

``flatten`` makes one rule for each head and alternative, ``normal`` core literals of its parts; ``inline``
puts inline relations in place; ``ground`` orients equalities by what binds what (``equate``, and ``collect``
for aggregates); ``desugar`` makes rules of what the core does not have. ``structures`` and ``constants`` are
the expressions of records and literals.
"""
