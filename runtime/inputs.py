"""The inputs of a worker and what they mean for its clock.

There is one clock: epochs close in order, and an input's time is the first at which it may still bring
something. A step closes what is before the least of these times. A commit of tables closes the next epoch,
which no input with updates at that time may still be in the middle of; idle ones are moved on.
"""

from weakref import WeakSet, WeakValueDictionary

from kpg.runtime.dataflow.operator import Operator, Place
from kpg.runtime.errors import InterfaceError, InternalError
from kpg.runtime.executor import MAX_TIME
from kpg.runtime.operators.custom import Custom
from kpg.runtime.operators.input import Input


class Inputs:
    """Inputs by identity, open ones in order of making, and users' operators, which wait for times too."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[str, Input] = WeakValueDictionary()
        self._open: list[Input] = []
        self.idle = True
        """Whether there has been none, nor who waits for times."""
        self.ended = False
        """Whether inputs, or operators that make times, may have come to an end since this was last reset."""
        self._customs: WeakSet[Custom] = WeakSet()
        self._noticed = False
        """Whether there was one of them."""

    def __len__(self) -> int:
        """The number of inputs that may still bring something."""
        return len(self._open)

    def create(self, name: str, place: Place, time: int) -> Input:
        """A new input at ``time``."""
        operator = Input(place, name=name, time=time, asked=time)
        operator.hydrated = True
        self._known[place.fingerprint] = operator
        self._open.append(operator)
        self.idle = False
        return operator

    def get(self, identity: str) -> Input:
        """The input of that identity, open or closed."""
        operator = self._known.get(identity)
        if operator is None:
            raise InternalError(f"input {identity} is gone")
        return operator

    def forget(self, operator: Input) -> None:
        """Nobody steps it any more."""
        operator.open = False
        operator.clear()
        if operator in self._open:
            self._open.remove(operator)

    def notice(self, operator: Operator) -> None:
        """Take account of a new operator that waits for times."""
        if isinstance(operator, Custom):
            self._customs.add(operator)
            self._noticed = True
            self.idle = False

    @property
    def waiting(self) -> bool:
        """Whether there are operators that make times of their own."""
        return bool(self._customs)

    def upper(self, lower: int) -> int:
        """The first time, from ``lower``, that a step must leave open."""
        times = [operator.time for operator in self._open if operator.open]
        if times:
            return max(lower, min(times))
        latest = [
            piece.last(MAX_TIME)
            for operator in self._open
            if operator.earliest is not None
            for piece in operator.buffer
        ]
        latest += [time[0] for custom in self._customs for time in custom.wishes.times()]
        return max([lower, *(time + 1 for time in latest)])

    def span(self, upper: int) -> tuple[int, int] | None:
        """The first time buffered before ``upper``, and the one after the last; None if there is none."""
        spans = [span for operator in self._open if (span := operator.span(upper)) is not None]
        return (min(first for first, _ in spans), max(last for _, last in spans) + 1) if spans else None

    def release(self, upper: int) -> None:
        """Put what is buffered before ``upper``, and who waits for such times, into the step in progress."""
        for operator in self._open:
            operator.release(upper)
        if self._noticed:  # a look into a weak set takes a microsecond, which is a twentieth of a tiny step
            for custom in self._customs:
                custom.awaken(upper)

    def leave_all(self, first: int, count: int) -> None:
        """Have commits close so many epochs, from a first one on; as :meth:`leave`."""
        for epoch in range(first, first + count if self._open else first):
            self.leave(epoch)

    def leave(self, epoch: int) -> None:
        """Have a commit close ``epoch``; InterfaceError if an input with updates at it stands there."""
        for operator in self._open:
            earliest = operator.earliest
            if operator.open and operator.time <= epoch and earliest is not None and earliest <= epoch:
                raise InterfaceError(
                    f"epoch {epoch} cannot be committed: input {operator.name} holds updates at it",
                    hint=f"complete it with advance_to({epoch + 1}), or take it back with discard()",
                )
        for operator in self._open:
            operator.time = max(operator.time, epoch + 1)

    def retire(self) -> None:
        """Forget closed inputs that have brought everything."""
        left = [operator for operator in self._open if operator.open or operator.earliest is not None]
        self.ended |= len(left) < len(self._open) or (not left and self.waiting)
        self._open = left
