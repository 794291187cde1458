"""SQL text to relational algebra."""
