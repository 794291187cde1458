"""Datalog: text to a checked program in a small core language.

``check.check`` is the way in. ``preprocess`` and ``parse`` make the tree of ``ast``, ``components``
instantiates components, ``types`` and ``relations`` take in declarations; ``clauses`` brings each rule from
``flatten`` by way of ``infer`` and ``nominal`` to ``normal``; ``inline``, ``ground`` and ``desugar`` make
the ``core`` program, which ``stratify`` checks and ``lowering`` makes algebra of. Every fault is a
``Diagnostic``; all of them are collected.
"""
