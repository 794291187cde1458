"""A loop with exchanges in its body: all workers run its rounds together, and end them by agreement."""

from heapq import heappop

from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.dataflow.step import Step
from kpg.runtime.operators.loop import Loop
from kpg.runtime.records import dataclass
from kpg.runtime.sharing.company import LEVEL, Company, Phase


@dataclass(slots=True, eq=False, kw_only=True)
class LoopTogether(Loop):
    """``last`` is the last level at which the body has workers meet; ``sharing/company.py`` says how they do.

    The round right after this one may be begun without asking: nobody can have work for an earlier one.
    """

    company: Company
    last: int

    def flush(self) -> None:
        scope, company, outer = self.within, self.company, self.step
        company.deep += 1
        depth = len(outer.rounds)
        rounds: tuple[int, ...] = (*outer.rounds, 0)
        level, step = 0, None
        scope.active = True
        while True:
            if step is None and scope.order and scope.order[0] == rounds:
                step = scope.begin(outer, rounds)
            if step is not None:
                self._run(step, level)
            if level == self.last:
                rounds, level, step = (*outer.rounds, rounds[-1] + 1), 0, None
                continue
            met = company.meet(step.queue if step is not None else [], self._next(step, rounds, depth))
            if met.phase is None:
                break
            if met.phase[:-1] != rounds:
                rounds, step = met.phase[:-1], None
            level = met.phase[-1]
            if level and step is None:
                step = scope.begin(outer, rounds)
            company.deliver(met)
        scope.active = False
        company.deep -= 1

    def _next(self, step: Step | None, rounds: tuple[int, ...], depth: int) -> Phase | None:
        """What this worker has work for next."""
        if step is not None and step.queue:
            return (*rounds, step.queue[0][0] >> LEVEL)
        order = self.within.order
        if order and order[0][:depth] == rounds[:depth]:
            return (*order[0], 0)
        return None

    def _run(self, step: Step, level: int) -> None:
        queue, interrupt = step.queue, self.within.interrupt
        while queue and queue[0][0] >> LEVEL <= level:
            position, operator = heappop(queue)
            self.touched[operator] = None
            if interrupt.pending or interrupt.watch is not None:
                interrupt.check()
            self.company.failing = position & ((1 << LEVEL) - 1)
            operator.flush()


def levels(operators: tuple[Operator, ...], company: Company) -> int:
    """The last level at which operators of one scope have workers meet; 0 if they never do."""
    found = (one.place.position >> LEVEL for one in operators if one.place.position in company.meeting)
    return max(found, default=0)
