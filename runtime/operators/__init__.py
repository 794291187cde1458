"""One operator a file: thin shells over traces, group tables and compiled expressions."""
