"""Storage of a durable database: files, write-ahead log, packs and codec. Knows no tables or operators."""
