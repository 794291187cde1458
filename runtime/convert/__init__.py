"""Conversion between words and Python values, Arrow tables, and files."""
