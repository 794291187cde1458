"""One step: the operators that have work, in dependency order, and the times that the step closes."""

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kpg.runtime.dataflow.operator import Operator


@dataclass(slots=True)
class Step:
    """The step in progress: epochs ``lower <= t < upper`` become final, in one physical batch.

    ``hydrating`` marks the step that fills newly installed operators with the history of the shared
    ones they read, all of it at the last closed epoch.
    """

    lower: int
    upper: int
    hydrating: bool = False
    queue: "list[tuple[int, Operator]]" = field(default_factory=list)
    visited: "list[Operator]" = field(default_factory=list)

    @property
    def single_time(self) -> bool:
        """Whether every update of this step bears the same time."""
        return self.hydrating or self.upper - self.lower == 1

    @property
    def time(self) -> int:
        """The last epoch that the step closes."""
        return self.upper - 1

    def schedule(self, operator: "Operator") -> None:
        """Have the operator flushed in this step."""
        heapq.heappush(self.queue, (operator.position, operator))

    def next(self) -> "Operator | None":
        """The next operator to flush; each once, inputs before readers."""
        if not self.queue:
            return None
        _, operator = heapq.heappop(self.queue)
        self.visited.append(operator)
        return operator
