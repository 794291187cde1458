"""The rule language: the form to which Datalog programs and recursive SQL queries are reduced.

``core`` defines programs, their invariants and their text form. ``strata`` orders relations into strongly
connected components. ``magic`` restricts a program to its goals, and ``demand`` does so for recursive SQL.
``lower`` translates rules to relational algebra. Apart from ``demand``, nothing here depends on the source
language.
"""
