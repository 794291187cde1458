"""Datalog: text to a checked program of rules (``kpg.compiler.rules``).

``check.check`` is the way in. ``syntax`` reads texts: macros, components, a tree as written. ``relations``
and ``typing`` take in declarations and find the type of every expression; ``clauses`` brings each rule
through them to the normal form of ``desugaring``, which makes rules of the core of it, put together by
``assemble``. ``checks`` looks at the program as a whole. Every fault is a ``Diagnostic``; all of them are
collected.
"""
