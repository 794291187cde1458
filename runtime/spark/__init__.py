"""Bulk load through Spark."""
