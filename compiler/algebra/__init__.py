"""The relational algebra: its nodes, traversals, facts and text form."""
