"""Sessions: many users of one database, each with a transaction and settings of its own."""
