"""The SQL front end: SQL text to relational algebra.

``parse`` turns a script into statements (``parse.statements``). Only this package uses sqlglot's
parser (``parse.dialect``). ``parameterize`` normalizes statements for the plan cache, and
``parse.parameters`` substitutes values for placeholders. ``bind`` resolves names and types, and
yields a ``bound_tree`` that refers to columns by id. ``lower`` decorrelates every subquery. A
recursive WITH query becomes a loop of the bound tree, then a LetRec of the algebra.

``frontend.lower_query(select, catalog)`` is the entry point for queries. Its ``LoweredQuery`` has
the relation, the names, types and nullability of the first ``visible`` columns, and the order of
the rows; later columns serve only that order. ``rewrite.changes`` lowers INSERT, DELETE and UPDATE
to rows, rowids, or rowids with new rows. ``rewrite.upsert`` lowers ON CONFLICT and MERGE.
"""
