"""Text of SQL to statements: tokens, sqlglot's trees of queries, and definitions read token by token."""
