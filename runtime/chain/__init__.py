"""Small steps through many operators in one compiled call."""

from kpg.runtime.chain.chain import FEW, Chain, ready

__all__ = ["FEW", "Chain", "ready"]
