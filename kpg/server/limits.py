"""What a server bounds."""

import math

from kpg.runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """How many clients may be there at once, and how long a statement may take before it is logged."""

    connections: int = 1_000
    slow: float = math.inf
    """In seconds."""
