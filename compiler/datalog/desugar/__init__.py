"""Flat rules to rules of the core.

``normal`` makes core literals of the parts of a rule; ``inline`` puts inline relations in place; ``ground``
orients equalities by what binds what (``equate``, and ``collect`` for aggregates); ``desugar`` makes rules
of what the core does not have, with the join orders that ``plans`` reads. ``structures`` and ``constants``
are the expressions of records and literals.
"""
