"""SQL text to relational algebra.

``parse.parse(text)`` gives the statements of a script (:mod:`statements`), ``query.lower_query(select,
catalog)`` a :class:`query.Bound`: the relation, the names, types and nullability of its ``visible`` first
columns, and the order to present rows in (columns after the visible ones serve it only). ``lower_view`` and,
in :mod:`change`, ``lower_insert`` (whole rows), ``lower_delete`` (rowids) and ``lower_update`` (rowid and new
row) do so for other statements, ``conflict.lower_conflict`` gives what ON CONFLICT computes from an old and a
new row; ``lower_relation(name, catalog)`` reads all of a relation. :mod:`parameters` puts values in the place
of placeholders.

On the way a query is *bound* (``bind``: names and types resolved, a :mod:`tree` with ids for columns) and
*lowered* (``lower``: every subquery decorrelated). Recursive WITH queries (``bind.recursive``) become loops
of the tree, and LetRec in the algebra. sqlglot's parser is used by this package only (:mod:`dialect`).
"""
