"""Magic sets for recursive SQL: compute a recursion only for the values that the query uses.

``restriction.restrict`` is the entry point. It finds the values that a query gives to columns of a recursive
relation, and replaces the read by a restricted relation. ``rule_program`` turns the recursion into a program
of rules, which ``rules.magic`` rewrites. ``outcome`` records the result for EXPLAIN.
"""
