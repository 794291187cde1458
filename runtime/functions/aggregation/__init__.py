"""Aggregate and window functions: their definitions, and the algorithms that compute them."""
