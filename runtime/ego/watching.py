"""When labels are to be compared with what was observed again."""

from typing import Final

from kpg.runtime.records import dataclass

WATCHED: Final = 1 << 16
"""After so many writes and reads labels are compared with what was observed."""
PATIENCE: Final = 25
"""So many times as long as that took writes and reads take before anything of the kind is done again."""
STEADY: Final = 0.005
"""Where a smaller share of nodes changed labels it is twice as many times, and so on."""
SHIFTED: Final = 0.02
"""Where a larger share did, what is written and read has changed: all labels are to be decided soon."""
HURRY: Final = 8
"""So many times as long as it took is the next comparison away then."""
LONGEST: Final = 5.0
"""Seconds, to which that is let grow: so late is it noticed that what is written and read has changed."""


@dataclass(slots=True, eq=False)
class Watching:
    """The work that there was since the last time."""

    seen: int = 0
    """Writes and reads."""
    busy: float = 0.0
    """Seconds that they have taken."""
    patience: float = 0.0
    """Seconds that they are to take."""
    waits: int = PATIENCE
    shifted: bool = False
    """Whether what is written and read has changed, so that labels at the frontier are not enough."""

    @property
    def due(self) -> bool:
        """Whether there was enough of it."""
        return self.seen > WATCHED and self.busy > self.patience

    def compared(self, changed: float, took: float) -> None:
        """Labels were compared; such a share of them has changed, and it took so many seconds."""
        if changed >= STEADY:
            self.waits = PATIENCE if changed < SHIFTED else HURRY
        else:
            self.waits = max(self.waits, min(2 * self.waits, int(LONGEST / max(took, 1e-6))))
        self.shifted = changed >= SHIFTED
        self.seen, self.busy, self.patience = 0, 0.0, self.waits * took

    def decided(self, observed: int) -> None:
        """All labels are new, by so many writes and reads; if these are many there is time."""
        self.waits, self.shifted = PATIENCE, False
        if observed > WATCHED:
            self.busy, self.patience = 0.0, LONGEST / 2
