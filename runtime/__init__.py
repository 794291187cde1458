"""Plan to maintained collections: words, tables, traces, operators, worker. Never imports the compiler."""
