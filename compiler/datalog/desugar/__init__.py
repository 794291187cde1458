"""Desugaring: flat rules to rules of the core.

``normal_rules`` makes core literals of the parts of a rule, and ``inline`` expands inline relations.
``core_rules`` expresses what the core lacks and reads ``.plan``. ``counters`` numbers bindings and rounds.
``constants`` encodes literals, records and ADT values.
"""
