"""The SQL parser: text to statements. Queries are sqlglot's trees; DDL is parsed token by token."""
