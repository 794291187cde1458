"""Why a row of a SQL view is there: source rows found when it is asked, from what is maintained.

A row is explained from the top, over the *bound* query of its view (``sql.bound_tree``), whose nodes are
what the user wrote: outer joins, subqueries and windows are still there. A *block* of filters, maps and joins
is one question (``node_rows``): the same block with the row's values as conditions, and all columns
of what is joined in it, rowids included, as its columns. Each row of that is a way in which the row comes
about; of the first the joined rows are explained in turn. What ends a block (a group, DISTINCT, UNION, a
window, LIMIT) says which rows of its input it takes (``derivation``).

*Cost.* Nothing is recorded while views are maintained. A question is planned as any query is: its conditions
go down to keys and arrangements, so it costs what a query with that WHERE costs; an aggregate and a window
cost their group and partition.

*Recursion.* The recursive collection is maintained while it is explained, shared with the view's own loop if
that is the same; a row is explained by rows of earlier rounds, so an explanation is a
shortest one.

Other views, materialized or not, are explained by their own queries, relations of Datalog programs by their
proofs. All of it is one proof tree (``proof_tree``).
"""
