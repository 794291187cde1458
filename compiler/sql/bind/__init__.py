"""Syntax trees of queries to the bound tree (``sql/bound_tree.py``): names resolved, every scalar typed.

``query.bind`` is the way in; a file for each clause and kind of expression. ``scope`` has what names mean
at a place, ``functions`` which registered function a node of sqlglot's is, ``calls`` brings arguments to
their types.
"""
