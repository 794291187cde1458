"""Chains: one compiled call that runs a small step through many operators."""
