"""Desugaring: flat rules to rules of the core.

``normal_rules`` makes core literals of the parts of a rule, and ``inline`` expands inline relations.
``groundness`` orients equalities by which side is bound. ``core_rules`` expresses what the core lacks and
reads ``.plan``. ``counters`` numbers bindings and rounds. ``constants`` encodes literals, records and ADT
values.
"""
