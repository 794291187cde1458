"""``information_schema`` and ``pg_catalog``: the catalog as relations, computed on demand."""
