"""Many workers, as the database has them: how tables are distributed, and plans placed."""

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kpg.compiler.catalog import TableEntry
from kpg.runtime.errors import NotSupportedError, ProgrammingError
from kpg.runtime.handles import Work
from kpg.runtime.local import shared_executor
from kpg.runtime.plan import Plan

if TYPE_CHECKING:
    from kpg.compiler.physical.placement import Placement
    from kpg.engine import Engine
    from kpg.runtime.executor import SharedExecutor
    from kpg.runtime.interrupts import DeferredInterrupt

DISTRIBUTION: Final = "distribution"
"""In the engine's extras: by tables' numbers what DISTRIBUTED BY and REPLICATED say."""
EVERYWHERE: Final = "*"
SMALL: Final = 1000
"""A table of so few rows, when something is installed over it, is kept by all workers alike."""


def refuse(what: str) -> None:
    """NotSupportedError: several workers do not run something yet."""
    raise NotSupportedError(
        f"{what} with several workers is not supported", hint="open the database without workers="
    )


def work(engine: "Engine") -> list[Work]:
    """What each worker of an engine keeps and has done."""
    executor = engine.executor
    if engine.workers is not None:
        return engine.workers.work()
    operators = executor.operators()
    rows, size = sum(one.rows for one in operators), sum(one.bytes for one in operators)
    size += sum(executor.table_bytes(entry.name) for entry in engine.catalog if isinstance(entry, TableEntry))
    return [Work(rows, size, time.process_time())]


def declare(engine: "Engine", table: str, distribution: str) -> None:
    """Have a table's rows be by a column, or with ``*`` all at each worker, in plans from now on."""
    before: tuple[tuple[int, str], ...] = engine.extras.get(DISTRIBUTION, ())  # type: ignore[assignment]
    number = engine.executor.table_number(table)
    engine.extras[DISTRIBUTION] = (*before, (number, distribution))


class Workers:
    """A crew, and where the rows of each view are among its members."""

    def __init__(self, crew: Any, small: int = SMALL) -> None:
        """Tables of at most ``small`` rows are kept by all members, if they have any.

        ``crew`` is what ``runtime.local.processes`` gives.
        """
        self.crew = crew
        self.small = small
        self._views: dict[str, Placement] = {}
        self.extras: dict[str, Any] = {}
        """Those of the engine."""
        self._executor: SharedExecutor | None = None

    def executor(self, merge_effort: str, interrupt: "DeferredInterrupt") -> "SharedExecutor":
        """What runs plans."""
        self._executor = shared_executor(self.crew, self._place, merge_effort, interrupt)
        return self._executor

    def work(self) -> list[Work]:
        """What each member keeps and has done."""
        assert self._executor is not None
        return self._executor.work()

    def _place(self, name: str, plan: Plan) -> tuple[Plan, bool]:
        """The plan for many workers, and whether all of them have all rows of its output."""
        from kpg.compiler.physical.placement import place

        made = place(plan, self)
        self._views[name] = made.output
        return made.plan, made.output.held

    def home(self, table: str) -> int | None:
        """The column by which a table is distributed; None if all workers keep all of it."""
        executor = self._executor
        assert executor is not None
        declared = dict(self.extras.get(DISTRIBUTION, ())).get(executor.table_number(table))
        if declared == EVERYWHERE:
            return None
        if declared is not None:
            with suppress(ProgrammingError):  # the column has gone, or has another name
                return executor.column(table, declared)
        if 0 < executor.count(table) <= self.small:
            return None
        return executor.leading_key(table)

    def view(self, name: str) -> "Placement":
        """Where the rows of a view are."""
        return self._views[name]
