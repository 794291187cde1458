"""Slow, obvious models of what the engine computes: the oracles of its tests."""
