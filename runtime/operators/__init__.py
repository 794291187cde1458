"""The operators of the dataflow: thin layers over traces, group tables and compiled expressions."""
