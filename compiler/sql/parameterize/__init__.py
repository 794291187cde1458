"""Normalized statements, parameters and generic plans: the keys of the plan cache."""
