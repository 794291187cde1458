"""What an operator without links puts out, on its way back into the chain.

While such an operator runs, consumers that have links hear it through a relay, which keeps what they are
given: the chain makes it a stream, and links go on. Consumers without links hear it as always.
"""

from typing import cast

from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.kernels.links import SMALL_STEP
from kpg.runtime.records import dataclass
from kpg.runtime.trace.updates import Updates


class Heard:
    """A consumer that only keeps what it is given."""

    def __init__(self) -> None:
        self.updates: list[Updates] = []

    def push(self, port: int, updates: Updates) -> None:
        """Keep updates."""
        self.updates.append(updates)

    def absorb(self) -> None:
        """There is nothing to do with them yet."""


@dataclass(slots=True, eq=False)
class Relay:
    """An operator that runs, its consumers as they are, and what those with links are to read."""

    operator: Operator
    consumers: list[tuple[Operator, int]]
    linked: list[tuple[Operator, int]]
    heard: Heard

    def end(self) -> None:
        """Let the operator have its consumers again."""
        self.operator.consumers = self.consumers

    def stream(self, time: int) -> Updates | None:
        """What was heard, as one stream; None if it is nothing, or pushed because links cannot read it."""
        heard = self.heard.updates
        rows = sum(updates.data.shape[1] for updates in heard)
        fits = rows <= SMALL_STEP and all(one.constant_time and one.time[0, 0] == time for one in heard)
        if fits:
            return Updates.concat(heard) if rows else None
        for updates in heard:
            for consumer, port in self.linked:
                consumer.push(port, updates)
        return None


def relay(operator: Operator, linked: list[tuple[Operator, int]]) -> Relay:
    """Have the consumers that are ``linked`` hear an operator through a relay."""
    heard = Heard()
    found = Relay(operator, operator.consumers, linked, heard)
    others = [one for one in operator.consumers if one not in linked]
    operator.consumers = [*others, (cast(Operator, heard), 0)]
    return found
