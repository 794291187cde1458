"""Distribution over workers: the partitioning of tables, and the placement of plans."""

import time
from collections.abc import Mapping, Set
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from kpg.compiler.catalog.entries import Catalog, TableEntry
from kpg.compiler.physical.placement_rules import place
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.executor import Executor
from kpg.runtime.executor_factory import shared_executor
from kpg.runtime.handles import Work
from kpg.runtime.plan import Plan, Source
from kpg.runtime.records import dataclass
from kpg.session.memory_limit import used_bytes
from kpg.session.undo import Journal

if TYPE_CHECKING:
    from kpg.compiler.physical.placement import Placement
    from kpg.runtime.executor import SharedExecutor
    from kpg.runtime.interrupts import DeferredInterrupt

DISTRIBUTION: Final = "distribution"
"""In the engine's extras: by tables' numbers what DISTRIBUTED BY and REPLICATED say."""
EVERYWHERE: Final = "*"
SMALL: Final = 1000
"""A table of so few rows, when something is installed over it, is kept by all workers alike."""
BESIDE: Final = 64
"""So is one with a fraction of the rows of the largest that it is read with: keeping it costs each worker
less than sending rows of the large one to where it is."""
GROWN: Final = 4
"""A table that has become so many times too large for that is parted after all."""
SOON: Final = 8
"""While the tables of a plan have so many times the rows of one step, it is placed again for one that was
empty: that costs about as much as those steps."""


class Distributed(Protocol):
    """The members of the engine that the distribution of tables uses."""

    @property
    def executor(self) -> Executor:
        """Runs the plans of this process."""

    @property
    def catalog(self) -> Catalog:
        """Names the tables."""

    @property
    def journal(self) -> Journal:
        """Undo entries of definitions."""

    @property
    def workers(self) -> "Workers | None":
        """The worker processes, if there are any."""

    @property
    def extras(self) -> dict[str, object]:
        """Other values that the log keeps, by name."""


def work(engine: Distributed) -> list[Work]:
    """What each worker of an engine keeps and has done."""
    executor = engine.executor
    if engine.workers is not None:
        return engine.workers.work()
    operators = executor.operators()
    rows, size = sum(one.rows for one in operators), sum(one.bytes for one in operators)
    size += sum(executor.table_bytes(entry.name) for entry in engine.catalog if isinstance(entry, TableEntry))
    return [Work(rows, size, time.process_time())]


def declare(engine: Distributed, table: str, distribution: str) -> None:
    """Have a table's rows be by a column, or with ``*`` all at each worker, in plans from now on."""
    before: tuple[tuple[int, str], ...] = engine.extras.get(DISTRIBUTION, ())  # type: ignore[assignment]
    number = engine.executor.table_number(table)
    engine.extras[DISTRIBUTION] = (*before, (number, distribution))
    engine.journal.note(undo=lambda: _forget(engine, number))


def _forget(engine: Distributed, number: int) -> None:
    """Take back what :func:`declare` has said of a table, by its number."""
    declared: tuple[tuple[int, str], ...] = engine.extras[DISTRIBUTION]  # type: ignore[assignment]
    others = tuple(one for one in declared if one[0] != number)
    if others:
        engine.extras[DISTRIBUTION] = others
    else:
        del engine.extras[DISTRIBUTION]


@dataclass(frozen=True, slots=True)
class Sizes:
    """The tables that a plan reads: ``placement.Tables``, for this plan."""

    workers: "Workers"
    counts: Mapping[str, int]

    def home(self, table: str) -> int | None:
        """The column by which a table is distributed; None if all workers keep all of it."""
        found = self.workers.declared(table)
        if found is not None:
            return None if found < 0 else found
        if 0 < self.counts.get(table, 0) <= self.few:
            return None
        return self.workers.leading_key(table)

    def owner(self, table: str) -> int | None:
        """The column whose words tell which worker has a table's rows; None: all workers have them."""
        return self.workers.owner(table)

    def view(self, name: str) -> "Placement":
        """Where the rows of a view are."""
        return self.workers.views[name].output

    @property
    def few(self) -> int:
        """So many rows all workers keep."""
        small = self.workers.small
        return max(small, max(self.counts.values(), default=0) // BESIDE) if small else 0


class Standing(NamedTuple):
    """What has been placed: its plan, the sizes of its tables then, and where its rows are."""

    plan: Plan
    sizes: Sizes
    output: "Placement"

    def would_move(self, now: Sizes, rows: int) -> bool:
        """Whether to place it again, for a step of so many rows."""
        soon = sum(now.counts.values()) <= SOON * rows
        return any(self._moves(table, now, soon=soon) for table in now.counts)

    def _moves(self, table: str, now: Sizes, *, soon: bool) -> bool:
        then, count = self.sizes.counts[table], now.counts[table]
        if now.workers.declared(table) is not None:
            return False
        if 0 < then <= self.sizes.few:
            return count > GROWN * now.few
        return soon and not then and 0 < count * BESIDE <= max(now.counts.values()) and count <= now.few


class Workers:
    """A crew, and where the rows of each view are among its members."""

    def __init__(self, crew: Any, small: int = SMALL) -> None:
        """Tables of at most ``small`` rows are kept by all members, if they have any; with 0 none are.

        ``crew`` is what ``runtime.local.processes`` gives.
        """
        self.crew = crew
        self.small = small
        self.views: dict[str, Standing] = {}
        self.extras: dict[str, Any] = {}
        """Those of the engine."""
        self._executor: SharedExecutor | None = None

    def executor(self, merge_effort: str, interrupt: "DeferredInterrupt") -> "SharedExecutor":
        """What runs plans."""
        self._executor = shared_executor(self.crew, self, merge_effort, interrupt)
        return self._executor

    def work(self) -> list[Work]:
        """What each member keeps and has done."""
        return self._there.work()

    def used_bytes(self) -> int:
        """Memory of this process, of the members on this machine, and what they have in common."""
        members = sum(used_bytes(process) for process in self.crew.processes)
        return used_bytes() + members + self.crew.memory.allocated

    @property
    def _there(self) -> "SharedExecutor":
        assert self._executor is not None
        return self._executor

    def place(self, name: str, plan: Plan) -> tuple[Plan, bool]:
        """The plan for many workers, and whether all of them have all rows of its output."""
        sizes = self.sizes(plan)
        made = place(plan, sizes)
        self.views[name] = Standing(plan, sizes, made.output)
        return made.plan, made.output.held

    def moving(self, rows: int, tables: Set[str]) -> set[str]:
        """What is to be placed again for a step of so many rows, after which tables have other sizes."""
        return {
            name
            for name, standing in self.views.items()
            if standing.sizes.counts.keys() <= tables and standing.would_move(self.sizes(standing.plan), rows)
        }

    def forget(self, name: str) -> None:
        """Something is not installed any more."""
        self.views.pop(name, None)

    def sizes(self, query: Plan) -> Sizes:
        """The sizes that the tables of a plan have."""
        count = self._there.count
        tables = (node.table for node in query.nodes if isinstance(node, Source))
        return Sizes(self, {table: count(table) for table in tables})

    def declared(self, table: str) -> int | None:
        """The column by which a table is said to be distributed, or -1 for REPLICATED."""
        executor = self._there
        found = dict(self.extras.get(DISTRIBUTION, ())).get(executor.table_number(table))
        if found == EVERYWHERE:
            return -1
        if found is not None:
            with suppress(ProgrammingError):  # the column has gone, or has another name
                return executor.column(table, found)
        return None

    @property
    def apart(self) -> bool:
        """Whether nobody but its owner has a row: workers have no memory in common."""
        return self.crew.memory is None

    def owner(self, table: str) -> int | None:
        """The column whose words tell which worker has a table's rows; None: all workers have them."""
        return self._there.home(table) if self.apart else None

    def home(self, table: str) -> int:
        """The column by which a table is distributed, whether or not it is small."""
        declared = self.declared(table)
        return self.leading_key(table) if declared is None or declared < 0 else declared

    def leading_key(self, table: str) -> int:
        """The column by which a table is distributed of which nothing is said."""
        return self._there.leading_key(table)
