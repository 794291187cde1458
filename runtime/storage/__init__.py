"""Storage of a durable database: files, write-ahead log, packs, and the codec. Knows no tables or operators."""
