"""TPC-H: schema, queries, data, refreshes, an oracle, and the job that combines them."""
