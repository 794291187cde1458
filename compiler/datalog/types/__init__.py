"""Declarations of a program, and the types of its expressions.

``declarations`` has the declared types and relations, ``functors`` the functors and aggregates.
``kind_inference`` infers the kind of every expression by unification. ``subtypes`` then checks the declared
types within a kind.
"""
