"""The epochs that transactions see, kept for as long as one of them needs them."""

from collections import Counter
from itertools import count

from kpg.engine.engine import Engine


class Snapshots:
    """What is kept of the past of tables for transactions that see an epoch to their ends."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._held: Counter[int] = Counter()
        self._kept: int | None = None
        self._numbers = count(1)
        self.exported: dict[str, int] = {}
        """Epochs that transactions which still run let others see, by the names they gave."""

    def hold(self) -> int:
        """Keep the present epoch; nothing may be pending."""
        engine = self._engine
        epoch = engine.executor.epoch
        self._held[epoch] += 1
        if engine.past is not None:
            engine.past.held = self._held
        elif self._kept is None:
            engine.executor.keep_past()
            self._kept = epoch
        return epoch

    def hold_again(self, epoch: int) -> int:
        """Keep an epoch that another transaction holds."""
        self._held[epoch] += 1
        return epoch

    def named(self, epoch: int) -> str:
        """A new name for an epoch that a transaction holds."""
        name = f"{epoch:08X}-{next(self._numbers):08X}-1"
        self.exported[name] = epoch
        return name

    def release(self, epoch: int) -> None:
        """One transaction less needs an epoch."""
        self._held[epoch] -= 1
        if not self._held[epoch]:
            del self._held[epoch]

    def tidy(self) -> None:
        """Forget what nobody needs, if nothing is pending."""
        if self._kept is None:
            return
        first = min(self._held, default=None)
        if (first is not None and first <= self._kept) or self._engine.executor.has_pending:
            return
        if first is None:
            self._engine.executor.drop_past()
        else:
            self._engine.executor.forget_past(first)
        self._kept = first
