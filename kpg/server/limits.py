"""What a server bounds."""

import math

from kpg.runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """How many clients may be there at once, and what a statement may take."""

    connections: int = 1_000
    slow: float = math.inf
    """Seconds that a statement may take before it is logged."""
    memory: int = 0
    """Bytes that one may take, 0: as many as there are."""
    reserved: int = 0
    """Of the clients, so many are only superusers."""
