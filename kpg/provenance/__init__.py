"""Provenance of SQL rows: proof trees, computed on demand from the maintained state.

A row is explained top down over the *bound* query of its view (``sql.bound_tree``). Its nodes are
those of the query text, including outer joins, subqueries and windows. A *block* of filters, maps
and joins becomes one query (``node_rows``): the block with the row's values as conditions,
returning all columns of the joined inputs, rowids included. Each result row is one derivation. The
input rows of the first derivation are explained in turn. At the end of a block (group, DISTINCT,
UNION, window, LIMIT), ``derivation`` selects the input rows.

*Cost.* View maintenance records nothing. An explanation query is planned as any query: its
conditions use keys and arrangements. An aggregate or a window costs O(group) or O(partition).

*Recursion.* A recursive collection is maintained while it is explained, and shared with the view's
own loop if they are identical. A row is explained by rows of earlier rounds, so an explanation is a
shortest one.

Other views are explained by their own queries, relations of Datalog programs by their proofs
(``kpg.datalog.proof``). The result is one proof tree (``proof_tree``).
"""
