"""Many workers, as the database has them: how tables are distributed, and plans placed."""

import time
from typing import TYPE_CHECKING, Any, Final

from kpg.compiler.catalog import TableEntry
from kpg.runtime.errors import NotSupportedError
from kpg.runtime.handles import Work
from kpg.runtime.local import shared_executor
from kpg.runtime.plan import Plan

if TYPE_CHECKING:
    from kpg.compiler.physical.placement import Placement
    from kpg.engine import Engine
    from kpg.runtime.executor import SharedExecutor
    from kpg.runtime.interrupts import DeferredInterrupt

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


class Workers:
    """A crew, and where the rows of each view are among its members."""

    def __init__(self, crew: Any, small: int = SMALL) -> None:
        """Tables of at most ``small`` rows are kept by all members, if they have any.

        ``crew`` is what ``runtime.local.processes`` gives.
        """
        self.crew = crew
        self.small = small
        self._views: dict[str, Placement] = {}
        self.declared: dict[int, int | None] = {}
        """By tables' numbers what DISTRIBUTED BY and REPLICATED say."""
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
        number = executor.table_number(table)
        if number in self.declared:
            return self.declared[number]
        if 0 < executor.count(table) <= self.small:
            return None
        return executor.leading_key(table)

    def declare(self, table: str, distribution: str) -> None:
        """Have a table's rows be by a column, or with ``*`` all at each worker, in plans from now on."""
        executor = self._executor
        assert executor is not None
        column = None if distribution == "*" else executor.column(table, distribution)
        self.declared[executor.table_number(table)] = column

    def view(self, name: str) -> "Placement":
        """Where the rows of a view are."""
        return self._views[name]
