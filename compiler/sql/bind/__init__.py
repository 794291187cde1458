"""The binder: resolves names and types in syntax trees of queries, and yields the ``bound_tree``.

``query.bind`` is the entry point; there is one module per clause and kind of expression. ``scope`` resolves
names at a place in a query. ``functions`` maps sqlglot's nodes to registered functions, and ``calls`` coerces
arguments to parameter types.
"""
