"""How far the first step of a view, or of a query, has come: in operators, and in a loop in rounds."""

from collections.abc import Iterator
from contextlib import contextmanager

from kpg.runtime.dataflow.step import Step
from kpg.runtime.interrupts import DeferredInterrupt, Watch
from kpg.runtime.operators.loop import Loop
from kpg.runtime.records import dataclass
from kpg.runtime.underway import Tell, looked_at, work


@dataclass(slots=True)
class _Told:
    """A watch that tells of a step at its safe points, where the watch before is asked, too."""

    tell: Tell
    step: Step
    operators: int
    before: Watch | None

    def begin(self) -> None:
        """See ``Watch``."""
        if self.before is not None:
            self.before.begin()

    def room(self, wanted: int) -> None:
        """See ``Watch``."""
        if self.before is not None:
            self.before.room(wanted)

    def __call__(self) -> None:
        """See ``Watch``."""
        if self.before is not None:
            self.before()
        visited = self.step.visited
        note = ""
        if visited and isinstance(visited[-1], Loop):
            note = f"round {sum(visited[-1].within.step.rounds)}"
        self.tell(len(visited), self.operators, note)


@contextmanager
def filling(name: str, step: Step, operators: int, interrupt: DeferredInterrupt) -> Iterator[None]:
    """While within, ``step`` fills so many new operators, of which who looks is told."""
    if not looked_at():
        yield
        return
    with work(name, "operators") as tell:
        before = interrupt.watch
        interrupt.watch = _Told(tell, step, operators, before)
        try:
            yield
        finally:
            interrupt.watch = before
