"""State of operators that is no trace: group tables, and histories of accumulators. Knows no operators."""
