"""Statements that change rows, and the ways that rows come in and go out in bulk.

``changing`` is INSERT, UPDATE and DELETE, ``conflicting`` ON CONFLICT, ``merging`` MERGE, ``modifying``
changes in WITH, ``modify`` changes by Python data; ``copying`` is COPY, ``loading`` files and frames, with
the ``positions`` of sources.
"""
