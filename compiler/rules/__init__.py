"""Rules: the language that Datalog programs and the recursions of SQL queries are reduced to.

``core`` says what a program of rules is, ``text`` writes it, ``strata`` orders its relations, ``primitives``
lists the functions that only rules have. ``magic`` restricts a program to what is asked of it, ``lowering``
makes relational algebra of it. Nothing here knows which language the rules come from.
"""
