"""The types of a program's expressions.

``types`` and ``relations`` have what is declared; ``functors`` and ``aggregates`` what can be called.
``infer`` unifies ``kinds`` over a rule's expressions, noting what has to wait (``constraints``), which
``solve`` settles; ``subtypes`` then checks the declared names.
"""
