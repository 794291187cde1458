"""Small steps through many operators in one compiled call."""

from kpg.runtime.chain.chain import Chain
from kpg.runtime.chain.small import SmallSteps

__all__ = ["Chain", "SmallSteps"]
