"""TPC-H: its schema, queries, data and refreshes, an oracle, and the job that puts them together."""
