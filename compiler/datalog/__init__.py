"""Datalog: text to a checked program of rules (``kpg.compiler.rules``).

``check.check`` is the way in. ``syntax`` reads texts: macros, a tree as written, components, one rule for
each head and alternative. ``typing`` takes in declarations and finds the type of every expression;
``clauses`` brings each rule through it to the normal form of ``desugaring``, which makes rules of the core
of it, put together by ``assemble``. ``checks`` looks at the program as a whole. Every fault is a
``Diagnostic``; all of them are collected.
"""
