"""Lowering: bound queries to relational algebra, every subquery decorrelated.

``query.lower_to_algebra`` is the entry point. ``relation`` has the relations with column ids on
which all of lowering is built.
"""
