"""Operator state other than traces: group tables, and histories of accumulators."""
