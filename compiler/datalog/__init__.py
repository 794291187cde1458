"""Datalog: text to a checked program in a small core language.

``check.check`` is the way in: ``preprocess`` and ``parse`` make the tree of ``ast``, ``components``
instantiates components, ``names``, ``types``, ``ground`` and ``stratify`` check, and ``desugar`` makes the
``core`` program that lowering and magic sets work on. Every fault is a ``diagnostics.Diagnostic``; all of
them are collected.
"""
