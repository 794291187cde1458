"""Bound queries to relational algebra, every subquery decorrelated.

``query.lower_resolved`` is the way in; ``lowered`` has the relations with column ids that all of it is made
of.
"""
