"""The types of a program's expressions.

``types`` has what is declared: kinds, subtypes, records. ``infer`` unifies ``kinds`` over a rule's
expressions, noting what has to wait (``constraints``), which ``solve`` settles; ``subtypes`` then checks
the declared names.
"""
