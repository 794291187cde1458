"""Aggregate and window functions, one entry each."""
